"""An application in the foreground: its output, live progress, Ctrl-C, and its exit code.

Penstock's own messages go to standard error; standard output belongs to the application.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import IO, Any, Protocol

from penstock.cli.output import closing_line, count, duration, plain_console, size, visible
from penstock.cli.target import Follower, Target
from penstock.clusters.backend import Observation
from penstock.engine.policy.lifecycle import STOPPED_BY_USER
from penstock.model import Application, Reason, State
from penstock.processes import handling_signals, not_ignored

_LINE_EVERY_SECONDS = 10.0
_LONGEST_DESCRIPTION = 80


class Display(Protocol):
    def show(self, application: Application, seen: Observation | None) -> None: ...

    def clear(self) -> None:
        """Clear the display before other output; the next `show` redraws it."""


class Output:
    """Copies the driver's output to this process's standard output and error as it arrives."""

    def __init__(
        self, read: Callable[[Application, str, int], bytes], *, out: IO[bytes] | None, err: IO[bytes] | None
    ) -> None:
        self._read = read
        self._streams = {name: stream for name, stream in (("driver.out", out), ("driver.err", err)) if stream}
        self._positions = dict.fromkeys(self._streams, 0)
        self._attempt = 1

    def copy(self, application: Application, before_writing: Callable[[], None]) -> None:
        if application.attempt != self._attempt:
            # Each attempt starts its logs anew.
            self._attempt, self._positions = application.attempt, dict.fromkeys(self._streams, 0)
        for name, stream in self._streams.items():
            while piece := self._read(application, name, self._positions[name]):
                before_writing()
                self._positions[name] += len(piece)
                stream.write(piece)
                stream.flush()


class LineDisplay:
    """Display for logs and pipes: a line for each state and, while the application runs, periodic progress lines."""

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
        print(visible(text), file=self._stream, flush=True)


class LiveDisplay:
    """Display for a terminal: running stages, redrawn in place."""

    def __init__(self) -> None:
        # The import takes a tenth of a second, which passes while the cluster starts.
        from rich.console import Group
        from rich.live import Live as RichLive
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        self._group, self._table, self._bar, self._text = Group, Table, ProgressBar, Text
        self._spinner = Spinner("dots")
        self._console = plain_console(sys.stderr)
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
    description = textwrap.shorten(progress.get("description") or "", _LONGEST_DESCRIPTION, placeholder=" …")
    return (f"{description}: " if description else "") + ", ".join(parts)


def display(*, quiet: bool = False) -> Display:
    if quiet:
        return SilentDisplay()
    return LiveDisplay() if sys.stderr.isatty() else LineDisplay(sys.stderr)


class SilentDisplay:
    def show(self, application: Application, seen: Observation | None) -> None:
        pass

    def clear(self) -> None:
        pass


TIMED_OUT = 124
INTERRUPTED = 130
_FAILED = 1


def follow(engine: Target, application: Application, display: Display, output: Output) -> Application:
    """Follow an application until it ends. SIGINT, SIGHUP or SIGTERM stops it; a second one forces the stop."""
    supervisor = engine.supervisor(application.id)
    others_looked_after = False

    def on_change(now: Application, seen: Observation | None) -> None:
        nonlocal others_looked_after
        output.copy(now, display.clear)
        display.show(now, seen)
        # Clusters of a killed engine may hold the memory that this application waits for.
        if not others_looked_after and now.state in (State.WAITING, State.RUNNING):
            others_looked_after = True
            engine.reconcile()

    try:
        with _interruptible(supervisor, display):
            return supervisor.run(application.id, on_change)
    finally:
        display.clear()


@contextlib.contextmanager
def _interruptible(supervisor: Follower, display: Display) -> Iterator[None]:
    asked = False

    def on_signal(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            supervisor.force_stop()
            return
        asked = True
        display.clear()
        print(" stopping; press Ctrl-C again to force it", file=sys.stderr)
        supervisor.stop(Reason(STOPPED_BY_USER, f"it was interrupted ({signal.Signals(number).name})"))

    # Shells ignore SIGINT for background jobs; this command handles it there as well.
    with handling_signals(on_signal, signal.SIGINT, signal.SIGTERM, *not_ignored(signal.SIGHUP)):
        yield


def report_result(application: Application, *, quiet: bool = False) -> int:
    """Print the result to standard error and return the exit code for the shell."""
    if not quiet:
        print(closing_line(application), file=sys.stderr)
        summary = application.summary or {}
        if application.reason and application.state is not State.FINISHED:
            print(f"  why  {visible(application.reason.message)}", file=sys.stderr)
            fix = application.reason.fix or f"read the log: penstock logs {application.id}"
            print(f"  fix  {fix}", file=sys.stderr)
        if problem := summary.get("artefacts_problem"):
            print(f"  {_whereabouts(summary.get('artefacts'))}", file=sys.stderr)
            print("  why  " + str(problem).replace("\n", "\n       "), file=sys.stderr)
        if left_out := summary.get("artefacts_left_out"):
            print(f"  {left_out} of its artifacts were too large to be kept", file=sys.stderr)
    return exit_code(application)


def _whereabouts(place: object) -> str:
    """Say where the logs are that a problem kept from the lake, as a whole or in part."""
    if place is None:
        return "The logs could not be saved"
    if "://" in str(place) and not str(place).startswith("file:"):
        return f"Not all logs could be saved in {place}"
    return f"The logs could not be saved in the lake and are in {place}"


def exit_code(application: Application) -> int:
    """The application's own exit code (128 + n for signal n), 124 for its time limit, 130 if it was stopped."""
    if application.state is State.AUTO_TERMINATED:
        return TIMED_OUT
    if application.state is State.STOPPED:
        return INTERRUPTED
    if application.state is State.FAILED:
        return application.exit_code or _FAILED
    return 0
