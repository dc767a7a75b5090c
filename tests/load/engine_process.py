"""One engine at work, to be killed: `python -m tests.load.engine_process HOME`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.load.pretended import PretendingEngine

from penstock.engine.dispatcher import Dispatcher
from penstock.home import Home

if __name__ == "__main__":
    Dispatcher(PretendingEngine(Home(Path(sys.argv[1])))).run(threading.Event())
