"""Waits for a condition, and the processes of an application as the kernel lists them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 120.0


def within(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS, *, pause_seconds: float = 0.05) -> None:
    """Wait until the condition holds; fail when it does not within this many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(pause_seconds)


def processes_of(application_id: str) -> list[int]:
    """Return processes by their environment as the kernel reports it, independently of Penstock."""
    mark = f"PENSTOCK_APPLICATION={application_id}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
    return found
