"""How amounts, times and states are written for people."""

from __future__ import annotations

import os
from datetime import datetime
from typing import IO, Any

from penstock.engine.application import Application, State

STYLES = {
    State.FINISHED: "green",
    State.FAILED: "red",
    State.STOPPED: "yellow",
    State.AUTO_TERMINATED: "yellow",
    State.RUNNING: "cyan",
}


def colours(stream: IO[str]) -> tuple[str, str, str]:
    """Red, bold and plain, or nothing where the stream is no terminal or the user wants none (NO_COLOR)."""
    if stream.isatty() and not os.environ.get("NO_COLOR"):
        return "\033[31m", "\033[1m", "\033[0m"
    return "", "", ""


def size(count: float | None) -> str:
    """Bytes in the largest unit that leaves a number above one."""
    value = float(count or 0)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def count(number: int | None) -> str:
    return f"{number or 0:,}".replace(",", " ")


def moment(at: datetime | None) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at else "-"


def took(application: Application) -> float | None:
    """Seconds from submission to the end; None while it goes on."""
    if application.ended_at is None:
        return None
    return (application.ended_at - application.submitted_at).total_seconds()


def closing_line(application: Application) -> str:
    summary: Any = application.summary or {}
    parts = [f"{application.id} {application.state.value} in {duration(took(application))}"]
    if "task_ms" in summary:
        requests = sum((summary.get("s3_requests") or {}).values())
        parts += [
            f"task time {duration(summary['task_ms'] / 1000)}",
            f"read {size(summary['bytes_read'])}",
            f"wrote {size(summary['bytes_written'])}",
            f"{count(requests)} S3 requests",
        ]
    return ", ".join(parts)
