"""A service whose application writes a log at a set rate.

python -m benchmarks.service.followed_process HOME PORT SPARK_UI_PORT
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from penstock.clusters.backend import MAX_READ_BYTES, Handle
from penstock.home import Home
from penstock.service import server
from penstock.service.listening import Listening
from tests.support.fake_engine import FakeBackend, FakeEngine

BYTES_PER_SECOND = int(os.environ.get("LOG_BYTES_PER_SECOND", "50000"))
SECONDS = float(os.environ.get("LOG_SECONDS", "20"))
LENGTH = int(BYTES_PER_SECOND * SECONDS)
_LINE = b"26/11/21 12:00:00.000 INFO TaskSetManager: Finished task 0.0 in stage 0.0 (TID 0) in 12 ms on host (1/1)\n"


def content(start: int, end: int) -> bytes:
    """Bytes of the log: one line repeated, so that any range of it can be computed."""
    first = start // len(_LINE)
    lines = (end - 1) // len(_LINE) - first + 1 if end > start else 0
    return (_LINE * lines)[start - first * len(_LINE) :][: end - start]


class Writing(FakeBackend):
    def read(self, handle: Handle, name: str, start: int, *, at_most: int = MAX_READ_BYTES) -> bytes:
        try:
            age = time.time() - self._directory(handle).stat().st_mtime
        except FileNotFoundError:
            return b""
        return content(start, max(start, min(int(age * BYTES_PER_SECOND), start + at_most, LENGTH)))


class Followed(FakeEngine):
    def __init__(self, home: Home) -> None:
        super().__init__(home, Writing(home, seconds=SECONDS))

    def _kept(self, *_: Any, start: int = 0, length: int | None = None) -> bytes:
        return content(start, max(start, min(LENGTH, LENGTH if length is None else start + length)))


if __name__ == "__main__":
    server.Engine = Followed  # type: ignore[misc]
    port, spark_ui_port = int(sys.argv[2]), int(sys.argv[3])
    server.serve(Home(Path(sys.argv[1])), Listening(port=port), log_level="warning", spark_ui_port=spark_ui_port)
