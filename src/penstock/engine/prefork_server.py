"""Forks a process for each application that is named on its input: `python -m penstock.engine.prefork_server HOME`.

What all of them need is loaded here once, before anybody waits for it: half a second of every start, and most of each
one's memory. It ends with its input; what it has forked goes on.
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
"""By others when first needed, so that commands that do not need them start sooner."""


def main(home: Home) -> None:
    # Nothing here may open a connection or start a thread: the forked would have half of it.
    for module in _LOADED_LATE:
        importlib.import_module(module)
    # What is there now is never freed, so the collector need not touch, and copy, the pages it is in.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: the records tell
    for line in sys.stdin:
        # Where there is no process to be had, whoever looks for applications nobody looks after finds this one.
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                _be_attendant(home, line.strip())


def _be_attendant(home: Home, application_id: str) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        code = supervisor_main.look_after(home, application_id)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # never back into the loop of the one that forked it


if __name__ == "__main__":
    main(Home(Path(sys.argv[1])))
