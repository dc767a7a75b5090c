"""A process that looks after one application: `python -m penstock.engine.background HOME APPLICATION`.

With `-` for the application it loads all it needs and waits for an id on its standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.engine.attendants import FROM_INPUT
from penstock.engine.engine import Engine
from penstock.errors import PenstockError, StateError
from penstock.home import Home


def main(home: Path, application_id: str) -> int:
    engine = Engine(Home(home))
    if application_id == FROM_INPUT:
        application_id = sys.stdin.readline().strip()
        if not application_id:
            return 0  # Whoever kept it ready is gone, or needs it no more.
    try:
        engine.supervise(application_id)
    except StateError:
        return 0  # Somebody else was quicker; the application is looked after.
    except PenstockError as error:
        print(f"{application_id}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2]))
