"""A server that forks a supervisor for each application named on its input: `… -m penstock.engine.prefork_server HOME`.

It loads the supervisors' modules once and in advance, which saves half a second of each start and most of each
process's memory. The server ends with its input; the forked processes go on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

from penstock.engine import supervisor_main
from penstock.home import Home

_LOADED_LATE = (
    "boto3",
    "penstock.lake.check",
    "penstock.lake.embedded",
    "penstock.lake.s3",
    "penstock.prices",
    "penstock.profiles.workloads",
    "penstock.profiles.known",
    "sqlalchemy.dialects.postgresql.psycopg",
)
"""The modules that other code imports on first use, so that commands without them start sooner."""


def main(home: Home) -> None:
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
                _run_supervisor(home, line.strip())


def _run_supervisor(home: Home, application_id: str) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        code = supervisor_main.supervise(home, application_id)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # never return into the server's loop


if __name__ == "__main__":
    main(Home(Path(sys.argv[1])))
