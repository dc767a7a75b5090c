"""Looking after an application from a terminal: its output, Ctrl-C, and the exit code that tells how it ended."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from penstock.cli.console import closing_line
from penstock.cli.progress import Display, Output
from penstock.cli.target import Attendant, Target
from penstock.clusters.backend import Observation
from penstock.engine.policy.lifecycle import STOPPED_BY_USER
from penstock.model import Application, Reason, State
from penstock.processes import handled, not_ignored

TIMED_OUT = 124
INTERRUPTED = 130
_FAILED = 1


def drive(engine: Target, application: Application, display: Display, output: Output) -> Application:
    """Supervise to the end. Ctrl-C (or a hang-up, or a termination) stops it; once more does so without patience."""
    supervisor = engine.supervisor(application.id)
    others_looked_after = False

    def on_change(now: Application, seen: Observation | None) -> None:
        nonlocal others_looked_after
        output.copy(now, display.clear)
        display.show(now, seen)
        # What a killed engine left may hold the memory this one waits for.
        if not others_looked_after and now.state in (State.WAITING, State.RUNNING):
            others_looked_after = True
            engine.reconcile()

    try:
        with _interruptible(supervisor, display):
            return supervisor.run(application.id, on_change)
    finally:
        display.clear()


@contextlib.contextmanager
def _interruptible(supervisor: Attendant, display: Display) -> Iterator[None]:
    asked = False

    def on_signal(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            supervisor.insist()
            return
        asked = True
        display.clear()
        print(" stopping; once more to insist", file=sys.stderr)
        supervisor.stop(Reason(STOPPED_BY_USER, f"it was interrupted ({signal.Signals(number).name})"))

    # Shells have SIGINT ignored for whatever runs in the background; it is heard there all the same.
    with handled(on_signal, signal.SIGINT, signal.SIGTERM, *not_ignored(signal.SIGHUP)):
        yield


def conclude(application: Application, *, quiet: bool = False) -> int:
    """Say how it ended, on standard error; returns the exit code for the shell."""
    if not quiet:
        print(closing_line(application), file=sys.stderr)
        summary = application.summary or {}
        if application.reason and application.state is not State.FINISHED:
            print(f"  why  {application.reason.message}", file=sys.stderr)
            fix = application.reason.fix or f"read its log: penstock logs {application.id}"
            print(f"  fix  {fix}", file=sys.stderr)
        if problem := summary.get("artefacts_problem"):
            where = f" and are in {summary['artefacts']}" if "artefacts" in summary else ""
            print(f"  The logs could not be kept in the lake{where}", file=sys.stderr)
            print("  why  " + str(problem).replace("\n", "\n       "), file=sys.stderr)
    return exit_code(application)


def exit_code(application: Application) -> int:
    """The application's own (128 + n for signal n), 124 for its time limit, 130 where it was stopped."""
    if application.state is State.AUTO_TERMINATED:
        return TIMED_OUT
    if application.state is State.STOPPED:
        return INTERRUPTED
    if application.state is State.FAILED:
        return application.exit_code or _FAILED
    return 0
