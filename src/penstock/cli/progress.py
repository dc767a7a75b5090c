"""Showing an application while it runs: live on a terminal, plain lines elsewhere; its output between them.

All of Penstock's own words go to standard error; standard output belongs to the application.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any, Protocol

from penstock.cli.console import count, duration, size
from penstock.clusters.backend import Observation
from penstock.model import Application, State

_LINE_EVERY_SECONDS = 10.0


class Display(Protocol):
    def show(self, application: Application, seen: Observation | None) -> None: ...

    def clear(self) -> None:
        """Make room for other output; the next `show` draws again."""


class Output:
    """Copies what the driver writes, as it comes, to this process's standard output and error."""

    def __init__(
        self, read: Callable[[Application, str, int], bytes], *, out: IO[bytes] | None, err: IO[bytes] | None
    ) -> None:
        self._read = read
        self._streams = {name: stream for name, stream in (("driver.out", out), ("driver.err", err)) if stream}
        self._positions = dict.fromkeys(self._streams, 0)
        self._attempt = 1

    def copy(self, application: Application, before_writing: Callable[[], None]) -> None:
        if application.attempt != self._attempt:
            # Each attempt writes from its beginning.
            self._attempt, self._positions = application.attempt, dict.fromkeys(self._streams, 0)
        for name, stream in self._streams.items():
            while piece := self._read(application, name, self._positions[name]):
                before_writing()
                self._positions[name] += len(piece)
                stream.write(piece)
                stream.flush()


class Lines:
    """For logs and pipes: a line for each state, and one now and then while it runs."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._state: State | None = None
        self._said = ""
        self._said_at = 0.0

    def show(self, application: Application, seen: Observation | None) -> None:
        if application.state is not self._state:
            self._state = application.state
            if not application.state.final:
                reason = f": {application.reason.message}" if application.reason else ""
                self._say(f"{application.id} {application.state.value}{reason}")
        elif seen is not None and seen.progress and time.monotonic() - self._said_at >= _LINE_EVERY_SECONDS:
            text = f"{application.id} {in_words(seen.progress)}"
            if text != self._said:
                self._say(text)

    def clear(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self._said, self._said_at = text, time.monotonic()
        print(text, file=self._stream, flush=True)


class Live:
    """For a terminal: what runs now, redrawn in place."""

    def __init__(self) -> None:
        # A tenth of a second to load, spent while the cluster starts.
        from rich.console import Console, Group
        from rich.live import Live as RichLive
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        self._group, self._table, self._bar, self._text = Group, Table, ProgressBar, Text
        self._spinner = Spinner("dots")
        self._console = Console(stderr=True)
        self._new_live = partial(RichLive, console=self._console, transient=True, refresh_per_second=8)
        self._live: Any = None

    def show(self, application: Application, seen: Observation | None) -> None:
        if application.state.final:
            self.clear()
            return
        if self._live is None:
            self._live = self._new_live()
            self._live.start()
        self._live.update(self._drawn(application, seen.progress if seen else None))

    def clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _drawn(self, application: Application, progress: Mapping[str, Any] | None) -> Any:
        age = time.time() - application.submitted_at.timestamp()
        words = in_words(progress) if progress else (application.reason.message if application.reason else "")
        self._spinner.update(
            text=self._text.assemble(
                (application.id, "bold"), f" {application.state.value} {duration(age)}  ", (words, "dim")
            )
        )
        stages = self._table.grid(padding=(0, 1))
        for stage in (progress or {}).get("stages", [])[:6]:
            stages.add_row(
                f"  stage {stage['id']}",
                self._bar(total=max(stage["tasks"], 1), completed=stage["done"], width=30),
                f"{stage['done']}/{stage['tasks']} tasks",
                self._text(str(stage["name"])[:50], style="dim"),
            )
        return self._group(self._spinner, stages)


def in_words(progress: Mapping[str, Any]) -> str:
    running = sum(stage["running"] for stage in progress["stages"])
    parts = [f"{count(progress['tasks_done'])} tasks done, {running} running"]
    if progress["rows_read"] or progress["bytes_read"]:
        parts.append(f"{count(progress['rows_read'])} rows, {size(progress['bytes_read'])} read")
    if progress["bytes_written"]:
        parts.append(f"{size(progress['bytes_written'])} written")
    if progress["tasks_failed"]:
        parts.append(f"{progress['tasks_failed']} tasks failed")
    description = progress.get("description")
    return (f"{description}: " if description else "") + ", ".join(parts)


def display(*, quiet: bool = False) -> Display:
    if quiet:
        return Silent()
    return Live() if sys.stderr.isatty() else Lines(sys.stderr)


class Silent:
    def show(self, application: Application, seen: Observation | None) -> None:
        pass

    def clear(self) -> None:
        pass
