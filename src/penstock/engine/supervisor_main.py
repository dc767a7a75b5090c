"""A process that looks after one application: `python -m penstock.engine.supervisor_main HOME APPLICATION`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from penstock.engine import supervisor
from penstock.engine.engine import Engine
from penstock.errors import PenstockError, Superseded
from penstock.home import Home


def look_after(home: Home, application_id: str) -> int:
    """To its end, or until it waits for another attempt; returns the process's exit code.

    Standard error is a log that nobody watches: it has what was tried again, and the traces of defects.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger(supervisor.__name__).setLevel(logging.DEBUG)
    try:
        Engine(home).supervise(application_id)
    except Superseded:
        return 0  # Somebody else was quicker; the application is looked after.
    except PenstockError as error:
        print(f"{application_id}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(look_after(Home(Path(sys.argv[1])), sys.argv[2]))
