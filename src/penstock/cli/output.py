"""Output for people: amounts, times, states, progress steps, tables of findings, and SQL results."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from penstock import units
from penstock.model import Application, State
from penstock.summary import IoMetrics, SkippingMetrics

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from penstock.lake.checks.verdicts import Row


STYLES = {
    State.FINISHED: "green",
    State.FAILED: "red",
    State.STOPPED: "yellow",
    State.AUTO_TERMINATED: "yellow",
    State.RUNNING: "cyan",
}

# Rich measures a table against a console, and never returns more than that console's width.
_WIDEST = 1_000_000
_PIPE = 500
"""Columns of what is no terminal."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def colours(stream: IO[str]) -> tuple[str, str, str]:
    """Escape codes for red, bold and plain; empty if the stream is not a terminal or NO_COLOR is set."""
    if stream.isatty() and not os.environ.get("NO_COLOR"):
        return "\033[31m", "\033[1m", "\033[0m"
    return "", "", ""


def plain_console(stream: IO[str] | None = None, *, width: int | None = None) -> Console:
    r"""The console of every command, by default on standard output.

    Names, comments, values and errors are of many users, so that it prints them as they are: brackets are no markup,
    and control characters are shown, as `\x1b`, not sent to the terminal. On a pipe no line is folded.
    """
    stream = stream or sys.stdout
    fallback = None if stream.isatty() else _PIPE
    return _console_class()(file=stream, width=width or fallback, markup=False, highlight=False)


@functools.cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **options):
                yield Segment(text if control else visible(text), style, control)

    return VisibleConsole


def visible(text: str) -> str:
    r"""Return the text with its control characters, but for tabs and ends of lines, as `\x1b`."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def whole_width(table: Table) -> int:
    """The width in columns at which nothing of the table is folded or cut off."""
    return plain_console(width=_WIDEST).measure(table).maximum


def size(count: float | None) -> str:
    return units.size(count or 0)


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


def counted(number: int, what: str) -> str:
    """`1 file`, `1 200 files`."""
    return f"{count(number)} {what}" if number == 1 else f"{count(number)} {what}s"


def share(fraction: float) -> str:
    """A percentage, rounded down so that only the whole is “100 %”."""
    return f"{int(fraction * 100)} %"


def moment(at: datetime | None) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at else "-"


def took(application: Application) -> float | None:
    """Seconds from submission to the end; None for an application that has not ended."""
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
    if skipped := SkippingMetrics.of(summary):
        parts.append(f"skipped {count(skipped.files_skipped)} of {count(skipped.files)} files")
    if use := IoMetrics.of(summary):
        parts.append(f"{count(sum(use.requests.values()))} S3 requests")
        if use.hit_rate is not None:
            parts.append(f"{share(use.hit_rate)} of the lake's bytes from cache")
    return ", ".join(parts)


def skipped_line(skipped: SkippingMetrics) -> str:
    """Summarize skipping: `124 of 144 files, 1.2 GiB of 1.4 GiB, in 3 scans of indexed tables; …`."""
    scans = "1 scan" if skipped.scans == 1 else f"{count(skipped.scans)} scans"
    return (
        f"{count(skipped.files_skipped)} of {count(skipped.files)} files, "
        f"{size(skipped.bytes_skipped)} of {size(skipped.bytes)}, in {scans} of indexed tables; "
        f"index look-ups took {skipped.select_us / 1000:.0f} ms"
    )


def lake_line(use: IoMetrics) -> str:
    """Summarize I/O: `1 234 requests (GET 1 200, PUT 34), 12.0 ms each, 210.0 MiB read, 96 % from cache, …`."""
    sent = sum(use.requests.values())
    kinds = ", ".join(f"{kind} {count(number)}" for kind, number in use.requests.items() if number)
    parts = [f"{count(sent)} requests" + (f" ({kinds})" if kinds else "")]
    if use.milliseconds_per_request is not None:
        parts.append(f"{use.milliseconds_per_request:.1f} ms each")
    parts.append(f"{size(use.read)} read")
    if use.hit_rate is not None:
        places = ((place, use.count(f"bytes_from_{place}")) for place in ("memory", "disk"))
        by_tier = ", ".join(f"{place} {size(amount)}" for place, amount in places)
        parts.append(f"{share(use.hit_rate)} from cache ({by_tier})")
    if use.count("bytes_sent"):
        parts.append(f"{size(use.count('bytes_sent'))} sent")
    parts.append(f"{count(use.retries)} retries")
    for name, label in (
        ("answers_throttled", "“SlowDown” responses"),
        ("answers_failed", "store errors"),
        ("gateway_failovers", "fail-overs to another gateway"),
        ("pages_damaged", "damaged pages read again"),
        ("objects_changed", "objects changed while read"),
    ):
        if use.count(name):
            parts.append(f"{count(use.count(name))} {label}")
    return ", ".join(parts)


@contextlib.contextmanager
def step(title: str) -> Iterator[list[str]]:
    """Print a step of long work, then its result and duration. The block appends the result to the list."""
    outcome: list[str] = []
    began = time.monotonic()
    live = sys.stdout.isatty()
    if live:
        print(f"{title} …", end="", flush=True)
    try:
        yield outcome
    except BaseException:
        if live:
            print()
        raise
    result = f"{title}: {' '.join(outcome)}" if outcome else title
    print(f"{chr(13) if live else ''}{result} ({duration(time.monotonic() - began)})", flush=True)


def print_rows(title: str, rows: Iterable[Row], conclusion: str, *, columns: tuple[str, str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.lake.checks.verdicts import Outcome

    colours = {Outcome.OK: "green", Outcome.LIMITED: "yellow", Outcome.FAILED: "red", Outcome.SKIPPED: "dim"}
    what, seen, therefore = columns
    table = Table(what, "", seen, therefore, title=title)
    for row in rows:
        found = row.verdict
        outcome = Text(found.outcome.value, style=colours[found.outcome])
        table.add_row(Text(row.feature), outcome, Text(found.measured), Text(found.consequence))
    console = plain_console()
    console.print(table)
    console.print(conclusion)


FORMATS = ("table", "csv", "json")

Result = Mapping[str, Any]


def write(results: Sequence[Result], output_format: str, stream: IO[str], *, limit: int) -> None:
    """Write the successful results in order. CSV and tables omit those without columns; empty lines separate them."""
    answered = [result for result in results if "error" not in result]
    if output_format == "json":
        json.dump(answered, stream, ensure_ascii=False, indent=2)
        stream.write("\n")
        return
    with_rows = [result for result in answered if result["columns"]]
    for number, result in enumerate(with_rows):
        if number:
            stream.write("\n")
        if output_format == "csv":
            _write_csv(result, stream)
        else:
            _write_table(result, stream, limit)


def _write_csv(result: Result, stream: IO[str]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(column["name"] for column in result["columns"])
    writer.writerows([_text(value, null="") for value in row] for row in result["rows"])


def _write_table(result: Result, stream: IO[str], limit: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    numeric = ("int", "long", "short", "byte", "float", "double", "decimal", "bigint", "smallint", "tinyint")
    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    for column in result["columns"]:
        right = str(column["type"]).lower().startswith(numeric)
        table.add_column(Text(column["name"]), justify="right" if right else "left", overflow="fold")
    for row in result["rows"]:
        table.add_row(
            *(Text(visible(_text(value, null="NULL")), style="dim" if value is None else "") for value in row)
        )
    console = plain_console(stream)
    if stream.isatty():
        console.print(table)
    else:
        # On a pipe each row is one line of any length, without padding to the longest.
        console.width = whole_width(table)
        with console.capture() as printed:
            console.print(table)
        stream.writelines(line.rstrip(" ") + "\n" for line in printed.get().removesuffix("\n").split("\n"))
    count = len(result["rows"])
    more = f" (the first {limit}; --limit shows more)" if result.get("truncated") else ""
    seconds = result.get("elapsed_ms", 0) / 1000
    closing = f"{count} row{'' if count == 1 else 's'}{more}, {seconds:.2f} s"
    console.print(closing, style="dim", soft_wrap=True)


def _text(value: Any, *, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
