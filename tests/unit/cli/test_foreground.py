"""Signals to a command that looks after an application: they stop it, twice insists, and ignored ones do nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime, timezone
from io import BytesIO
from typing import cast

import pytest

from penstock.cli.applications import submit_and_follow
from penstock.cli.foreground import Display, Output, follow, report_result
from penstock.cli.target import Target
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, Reason, State


class Signalled:
    """A target, its follower and a display in one: while it supervises, these signals come."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.numbers = numbers
        self.asked: list[str] = []

    def supervisor(self, _: str) -> Signalled:
        return self

    def run(self, *_: object) -> None:
        for number in self.numbers:
            signal.raise_signal(number)

    def stop(self, reason: Reason) -> None:
        self.asked.append(reason.message)

    def force_stop(self) -> None:
        self.asked.append("at once")

    def clear(self) -> None:
        pass


def signalled(*numbers: signal.Signals) -> list[str]:
    target = Signalled(*numbers)
    spec = ApplicationSpec("x.py", ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1), "x")
    application = Application("app-1", spec, State.ACCEPTED, submitted_at=datetime.now(timezone.utc))
    follow(cast(Target, target), application, cast(Display, target), Output(lambda *_: b"", out=BytesIO(), err=None))
    return target.asked


class Read:
    """A target whose application has output, until nobody reads it."""

    def __init__(self) -> None:
        self.detached: list[str] = []
        self.artifacts = self

    def submit(self, spec: ApplicationSpec, _: object) -> Application:
        return Application("app-1", spec, State.ACCEPTED, submitted_at=datetime.now(timezone.utc))

    def supervisor(self, _: str) -> Read:
        return self

    def run(self, *_: object) -> None:
        raise BrokenPipeError

    def read(self, *_: object) -> bytes:
        return b""

    def detach(self, application_id: str) -> None:
        self.detached.append(application_id)


def test_an_application_whose_output_nobody_reads_any_more_goes_on_under_supervision(
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = Read()
    size = ProcessSize(1, 1 << 30)
    spec = ApplicationSpec("x.py", ClusterSize(size, size, 1), "x")
    with pytest.raises(BrokenPipeError):
        submit_and_follow(cast(Target, target), spec, detach=False, as_json=True)
    assert target.detached == ["app-1"]
    assert "app-1 goes on" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """As in a terminal, however the tests were started: whoever runs in the background has signals ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    outside = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    inside = [signal.getsignal(number) for number in numbers]
    for number, handler in outside.items():
        signal.signal(number, handler)
    assert inside == [signal.SIG_DFL] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_application_and_once_more_insists(number: signal.Signals) -> None:
    assert signalled(number) == [f"it was interrupted ({number.name})"]
    assert signalled(number, number)[1:] == ["at once"]


def test_under_nohup_the_application_outlives_the_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signalled(signal.SIGHUP) == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_a_shell_runs_in_the_background_can_be_interrupted_all_the_same() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert signalled(signal.SIGINT) == ["it was interrupted (SIGINT)"]
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"artefacts": "s3a://lake/a"}, []),
        (
            {"artefacts": "file:/state/a", "artefacts_problem": "The lake is away"},
            ["The logs could not be saved in the lake and are in file:/state/a", "why  The lake is away"],
        ),
        (
            {"artefacts": "s3a://lake/a", "artefacts_problem": "The sidecar is away"},
            ["Not all logs could be saved in s3a://lake/a", "why  The sidecar is away"],
        ),
        ({"artefacts_problem": "Both are"}, ["The logs could not be saved", "why  Both are"]),
        ({"artefacts": "s3a://lake/a", "artefacts_left_out": 2}, ["2 of its artifacts were too large to be kept"]),
    ],
)
def test_the_result_says_which_logs_are_missing_and_where_the_others_are(
    capsys: pytest.CaptureFixture[str], summary: dict[str, object], said: list[str]
) -> None:
    spec = ApplicationSpec("x.py", ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1), "x")
    at = datetime.now(timezone.utc)
    report_result(Application("app-1", spec, State.FINISHED, submitted_at=at, ended_at=at, summary=summary))
    assert [line.strip() for line in capsys.readouterr().err.splitlines()[1:]] == said
