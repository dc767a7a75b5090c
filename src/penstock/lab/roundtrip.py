"""A store as far away as one with a real round trip: each request waits a set time before it is sent.

A store on the same machine answers in microseconds; most of what a cache saves shows only with distance. The wait is in
the client's SDK, so it is the same for every client of every arm, and it uses no processor.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock import units
from penstock.errors import InvalidInput
from penstock.profiles.s3a import S3A

_LONGEST_SECONDS = 10
_INTERCEPTOR = "io.penstock.workloads.RoundTrip"
_WAIT = "-Dpenstock.lab.round.trip="


def settings(time: str) -> Mapping[str, str]:
    """What an application is told to wait `time` (`5ms`) for each request. Raises `InvalidInput`."""
    seconds = units.parse_seconds(time) if time[-1:].isalpha() else None
    if seconds is None or not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidInput(
            f"A round trip cannot be {time}",
            why=f"it is a time of at most {_LONGEST_SECONDS} s",
            fix="--round-trip 5ms",
        )
    waits = f"{_WAIT}{round(seconds * 1e6)}"
    return {
        S3A + "audit.execution.interceptors": _INTERCEPTOR,
        "spark.driver.extraJavaOptions": waits,
        "spark.executor.extraJavaOptions": waits,
    }


def added(to: Mapping[str, str], time: str | None) -> dict[str, str]:
    """An arm's own settings and the wait; where both say something of one list, it has both."""
    if time is None:
        return dict(to)
    found = dict(to)
    for key, value in settings(time).items():
        found[key] = _separator(key).join(filter(None, (to.get(key, ""), value)))
    return found


def removed(of: Mapping[str, str]) -> dict[str, str]:
    """The settings that `added` was given: what is made before anything is measured need not wait."""
    found = {}
    for key, value in of.items():
        parts = value.split(_separator(key))
        own = [part for part in parts if part != _INTERCEPTOR and not part.startswith(_WAIT)]
        if len(own) == len(parts):
            found[key] = value
        elif own:
            found[key] = _separator(key).join(own)
    return found


def _separator(key: str) -> str:
    return "," if key.endswith("interceptors") else " "
