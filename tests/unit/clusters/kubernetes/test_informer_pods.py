"""Watches end when they have not been used for a while."""

from __future__ import annotations

from penstock.clusters.kubernetes.informer import WatchCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class One:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_what_nobody_asked_for_in_a_while_is_closed_and_what_somebody_did_is_kept() -> None:
    clock = Clock()
    followed: WatchCache[One] = WatchCache(clock)
    first, second = followed.get("first", One), followed.get("second", One)
    clock.now = 299
    assert followed.get("first", One) is first
    clock.now = 500
    assert followed.get("third", One) is not second
    assert (first.closed, second.closed) == (False, True)
    assert followed.get("second", One) is not second


def test_what_is_forgotten_is_closed_and_made_anew() -> None:
    followed: WatchCache[One] = WatchCache(Clock())
    first = followed.get("first", One)
    followed.forget("first")
    followed.forget("first")
    assert first.closed
    assert followed.get("first", One) is not first
