"""The process that supervises one application: `python -m penstock.engine.supervisor_process HOME APPLICATION`.

Without an application it is a server that forks such a process for each application named on its input. The server
loads the supervisors' modules once and in advance, which saves half a second of each start and most of each process's
memory. It ends with its input; the forked processes go on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import traceback
from pathlib import Path

from penstock.engine.engine import Engine
from penstock.engine.supervision import supervisor
from penstock.errors import PenstockError, Superseded
from penstock.home import Home

_LOADED_LATE = (
    "boto3",
    "penstock.lake.checks.verdicts",
    "penstock.lake.embedded",
    "penstock.lake.s3",
    "penstock.prices",
    "penstock.profiles.workloads",
    "penstock.profiles.known",
    "sqlalchemy.dialects.postgresql.psycopg",
)
"""The modules that other code imports on first use, so that commands without them start sooner."""


def supervise(home: Home, application_id: str) -> int:
    """Supervise the application to its end, or until it waits for another attempt; return the process's exit code.

    Standard error is an unattended log: it records retries and the traces of defects.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger(supervisor.__name__).setLevel(logging.DEBUG)
    try:
        Engine(home).supervise(application_id)
    except Superseded:
        return 0  # Another supervisor has claimed the application.
    except PenstockError as error:
        print(f"{application_id}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def serve(home: Home) -> None:
    """Fork a supervisor for each application named on standard input, a line each, until the input ends."""
    # No connection may be opened and no thread started here: a forked child would inherit half of it.
    for module in _LOADED_LATE:
        importlib.import_module(module)
    # These objects are never freed; frozen, the collector does not touch, and so copy, their memory pages.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # exit statuses are not needed: the records have the outcome
    for line in sys.stdin:
        # Where fork fails, the next patrol finds this application without a supervisor.
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                _run_forked(home, line.strip())


def _run_forked(home: Home, application_id: str) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        code = supervise(home, application_id)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # never return into the server's loop


def main(root: str, application_id: str | None = None) -> int:
    home = Home(Path(root))
    if application_id is not None:
        return supervise(home, application_id)
    serve(home)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
