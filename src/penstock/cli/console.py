"""How amounts, times and states are written for people."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from penstock.model import Application, State
from penstock.summary import LakeUse, Skipped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {
    State.FINISHED: "green",
    State.FAILED: "red",
    State.STOPPED: "yellow",
    State.AUTO_TERMINATED: "yellow",
    State.RUNNING: "cyan",
}

# A table is measured against the console it is for, and is never said to be wider than that.
_WIDEST = 1_000_000


def colours(stream: IO[str]) -> tuple[str, str, str]:
    """Red, bold and plain, or nothing where the stream is no terminal or the user wants none (NO_COLOR)."""
    if stream.isatty() and not os.environ.get("NO_COLOR"):
        return "\033[31m", "\033[1m", "\033[0m"
    return "", "", ""


def plain_console() -> Console:
    """For tables that hold names: on a pipe nothing is folded to fit a screen, and brackets are no markup."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 500, markup=False, highlight=False)


def whole_width(table: Table) -> int:
    """The columns of a screen that shows the table with nothing folded or cut off."""
    from rich.console import Console

    return Console(width=_WIDEST).measure(table).maximum


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


def share(fraction: float) -> str:
    """Rounded down, so that only all is “100 %”."""
    return f"{int(fraction * 100)} %"


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
        parts += [
            f"task time {duration(summary['task_ms'] / 1000)}",
            f"read {size(summary['bytes_read'])}",
            f"wrote {size(summary['bytes_written'])}",
        ]
    if skipped := Skipped.of(summary):
        parts.append(f"skipped {count(skipped.files_skipped)} of {count(skipped.files)} files")
    if use := LakeUse.of(summary):
        parts.append(f"{count(sum(use.requests.values()))} S3 requests")
        if use.hit_rate is not None:
            parts.append(f"{share(use.hit_rate)} of the lake's bytes from cache")
    return ", ".join(parts)


def skipped_line(skipped: Skipped) -> str:
    """`124 of 144 files, 1.2 GiB of 1.4 GiB, in 3 scans of indexed tables; the index was asked for 4 ms`"""
    scans = "1 scan" if skipped.scans == 1 else f"{count(skipped.scans)} scans"
    return (
        f"{count(skipped.files_skipped)} of {count(skipped.files)} files, "
        f"{size(skipped.bytes_skipped)} of {size(skipped.bytes)}, in {scans} of indexed tables; "
        f"the index was asked for {skipped.select_us / 1000:.0f} ms"
    )


def lake_line(use: LakeUse) -> str:
    """`1 234 requests (GET 1 200, PUT 34), 12.0 ms each, 210.0 MiB read, 96 % from cache (memory …, disk …), …`"""
    sent = sum(use.requests.values())
    kinds = ", ".join(f"{kind} {count(number)}" for kind, number in use.requests.items() if number)
    parts = [f"{count(sent)} requests" + (f" ({kinds})" if kinds else "")]
    if use.milliseconds_per_request is not None:
        parts.append(f"{use.milliseconds_per_request:.1f} ms each")
    parts.append(f"{size(use.read)} read")
    if use.hit_rate is not None:
        places = ((place, use.count(f"bytes_from_{place}")) for place in ("memory", "disk"))
        told = ", ".join(f"{place} {size(amount)}" for place, amount in places)
        parts.append(f"{share(use.hit_rate)} from cache ({told})")
    if use.count("bytes_sent"):
        parts.append(f"{size(use.count('bytes_sent'))} sent")
    parts.append(f"{count(use.retries)} retries")
    for name, told in (
        ("answers_throttled", "answers “slow down”"),
        ("answers_failed", "errors of the store"),
        ("gateway_failovers", "fail-overs to another gateway"),
        ("pages_damaged", "damaged pages read again"),
        ("objects_changed", "objects changed while read"),
    ):
        if use.count(name):
            parts.append(f"{count(use.count(name))} {told}")
    return ", ".join(parts)
