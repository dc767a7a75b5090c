"""A process that looks after one application: `python -m penstock.engine.background HOME APPLICATION`."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.engine.engine import Engine
from penstock.errors import PenstockError, StateError
from penstock.home import Home


def look_after(home: Home, application_id: str) -> int:
    """To its end, or until it waits for another attempt; returns the process's exit code."""
    try:
        Engine(home).supervise(application_id)
    except StateError:
        return 0  # Somebody else was quicker; the application is looked after.
    except PenstockError as error:
        print(f"{application_id}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(look_after(Home(Path(sys.argv[1])), sys.argv[2]))
