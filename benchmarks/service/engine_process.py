"""A whole service, a victim for kills: `python -m benchmarks.service.engine_process HOME PORT SPARK_UI_PORT`."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.home import Home
from penstock.service import server
from penstock.service.listening import Listening
from tests.support.fake_engine import FakeEngine

if __name__ == "__main__":
    server.Engine = FakeEngine  # type: ignore[misc]
    port, spark_ui_port = int(sys.argv[2]), int(sys.argv[3])
    server.serve(Home(Path(sys.argv[1])), Listening(port=port), log_level="warning", spark_ui_port=spark_ui_port)
