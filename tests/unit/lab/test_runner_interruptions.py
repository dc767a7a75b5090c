"""SIGTERM ends the lab as Ctrl-C does; signals that were ignored before stay ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from penstock.lab.runner import ignoring_signals, unwinding_on_signals


@pytest.fixture(autouse=True)
def not_ignored() -> Iterator[None]:
    """Handle signals as in a terminal, however the tests were started."""
    outside = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, outside)


def test_a_request_to_terminate_unwinds() -> None:
    ended = []
    with pytest.raises(SystemExit) as exit_, unwinding_on_signals():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            ended.append("what was started")
    assert exit_.value.code == 128 + signal.SIGTERM
    assert ended == ["what was started"]


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with unwinding_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_afterwards_signals_mean_what_they_meant() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with unwinding_on_signals(), ignoring_signals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(number) for number in numbers] == before
