"""The driver's output is copied as it comes, each attempt's from its beginning."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timezone

from penstock.cli.foreground import Output
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
RUNNING = Application(
    "app-1", ApplicationSpec("a.py", SIZE, "a"), State.RUNNING, submitted_at=datetime(2026, 11, 22, tzinfo=timezone.utc)
)


def test_the_next_attempts_output_is_copied_from_its_beginning() -> None:
    written, out = {1: b"first attempt\n", 2: b"second\n"}, io.BytesIO()

    def read(application: Application, name: str, start: int) -> bytes:
        return written[application.attempt][start:] if name == "driver.out" else b""

    output = Output(read, out=out, err=io.BytesIO())
    for application in (RUNNING, RUNNING, replace(RUNNING, attempt=2), replace(RUNNING, attempt=2)):
        output.copy(application, lambda: None)
    assert out.getvalue() == b"first attempt\nsecond\n"
