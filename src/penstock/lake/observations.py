"""What is seen of an object store when it is probed, as numbers. What they mean is decided in `judgements.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """One endpoint's answer to a request without credentials."""

    seconds: float
    clock_skew_seconds: float | None
    """The store's clock minus this machine's, exact to about a second; None where it sent no date."""


@dataclass(frozen=True)
class RoundTrip:
    median_seconds: float
    p99_seconds: float
    requests: int


@dataclass(frozen=True)
class Multipart:
    intact: bool
    abort_leaves_nothing: bool
    seconds: float


@dataclass(frozen=True)
class Conditional:
    """How a request that must not replace an existing object went."""

    status: int
    """What the store answered; 200 where it ignored the condition."""
    kept: bool
    """Whether the object is still the first one."""


@dataclass(frozen=True)
class Race:
    rivals: int
    winners: int
    winner_kept: bool


@dataclass(frozen=True)
class Staleness:
    tries: int
    stale: int


@dataclass(frozen=True)
class Temporary:
    """Credentials for a time: whether the lake's record asks for them, and whether the store issues them."""

    asked_for: bool
    issued: bool
    seconds: float = 0.0
    confined: bool = False
    """Whether they were asked for with a policy that allows the lake's bucket alone."""
    deletes_many: bool = False
    """Whether many objects can be deleted at once with them."""
    refusal: str = ""
