"""Which failures are tried again, how often, with which pauses, and what the user reads at the end.

Every loop that has to outlive a failure asks here: the supervisor of an application, whoever starts supervisors, the
background threads of a service, the watches of pods and the sidecar of a driver. Policy alone: nothing here sleeps,
reads a clock or performs I/O, except `keep_going`, which runs a thread's work with a clock and a wait that tests
replace.

A failure is counted for the work that failed, and forgotten when that same work succeeds: of a cycle whose first step
succeeds and whose second fails each time, the second is given up after as many failures as its policy has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from penstock.errors import (
    CatalogError,
    ClusterError,
    Conflict,
    InternalError,
    InvalidInput,
    NotFound,
    PenstockError,
    QuotaExceeded,
    Superseded,
    ValidationFailed,
)

Kinds = tuple[type[BaseException], ...]


class Kind(Enum):
    """How likely another try is to succeed."""

    SUPERSEDED = "superseded"
    """Another process does the work: there is nothing to try, and nothing to report."""
    REFUSED = "refused"
    """The same question gets the same answer until somebody changes something."""
    REPORTED = "reported"
    """A lake, a catalog, a cluster or this machine does not do its part, and says why."""
    TRANSIENT = "transient"
    """The operating system or a connection failed: out of processes, memory, disk space, a server that restarts."""
    DEFECT = "defect"
    """An exception that nobody expected."""


def kind_of(error: BaseException, transient: Kinds = ()) -> Kind:
    """`transient` are the classes by which a library reports a lost connection, besides `OSError`."""
    if isinstance(error, Superseded):
        return Kind.SUPERSEDED
    if isinstance(error, (InvalidInput, NotFound, Conflict, QuotaExceeded, ValidationFailed)):
        return Kind.REFUSED
    if isinstance(error, InternalError):
        return Kind.DEFECT
    if isinstance(error, PenstockError):
        return Kind.REPORTED
    return Kind.TRANSIENT if isinstance(error, (OSError, *transient)) else Kind.DEFECT


@dataclass(frozen=True)
class Policy:
    """How many failures in a row, of each kind, are followed by another try (None: any number), and the pauses between
    tries in seconds: the first, doubled each time, up to the longest."""

    refused: int | None
    reported: int | None
    transient: int | None
    defect: int | None
    first_seconds: float = 1.0
    longest_seconds: float = 30.0

    def pause(self, failures: int) -> float:
        """Seconds from the failure of that number (from 1) to the next try."""
        return float(min(self.first_seconds * (1 << min(failures - 1, 16)), self.longest_seconds))

    def tries_again(self, kind: Kind, failures: int) -> bool:
        """Whether the failure of that number (from 1) in a row is followed by another try."""
        if kind is Kind.SUPERSEDED:
            return False
        most = getattr(self, kind.value)
        return most is None or failures <= most


ONCE = Policy(refused=0, reported=3, transient=3, defect=3)
"""A claim, or a record that is read or written: beside lost connections hardly anything that passes."""

LAUNCH = Policy(refused=0, reported=0, transient=3, defect=1)
"""A launch that reports a problem has been answered: the retries that the application asks for decide about another."""

HOUR = Policy(refused=3, reported=120, transient=120, defect=5)
"""The work on a cluster that is there, or in a queue: after the first six failures one try each 30 s, for an hour. An
API server or a disk that comes back within it costs the application nothing."""

DATABASE = Policy(refused=0, reported=6, transient=6, defect=0)
"""A database that does not answer: a minute, within which a server restarts or fails over."""

SERVICE = Policy(refused=None, reported=None, transient=None, defect=None, longest_seconds=5.0)
"""A background thread, without which a service would be of no use: for as long as the service runs."""

PODS = Policy(refused=None, reported=None, transient=None, defect=None, first_seconds=0.5, longest_seconds=15.0)
"""A watch, for as long as somebody asks for what it sees."""

SIDECAR = Policy(refused=3, reported=3, transient=3, defect=3, first_seconds=2.0)
"""The logs of a driver that has ended, while its pod waits for them."""

Work = TypeVar("Work", bound=Hashable)


class Failures(Generic[Work]):
    """How often each work failed in a row. Not for several threads at once."""

    def __init__(self, policies: Mapping[Work, Policy], transient: Kinds = ()) -> None:
        self._policies = policies
        self._transient = transient
        self._counts: Counter[Work] = Counter()

    def failed(self, work: Work, error: BaseException) -> float | None:
        """Seconds to wait before the next try; None where the work is given up."""
        self._counts[work] += 1
        policy, count = self._policies[work], self._counts[work]
        return policy.pause(count) if policy.tries_again(kind_of(error, self._transient), count) else None

    def succeeded(self, work: Work) -> None:
        self._counts.pop(work, None)

    def count(self, work: Work) -> int:
        """Failures since the work last succeeded."""
        return self._counts[work]

    def forget(self) -> None:
        self._counts.clear()


def as_problem(error: BaseException, doing: str, transient: Kinds = ()) -> PenstockError:
    """What the user reads: the error itself where it is written for users, else one that says what Penstock was `doing`
    (“start the cluster”). The text of an unexpected exception is not in it, since it may hold a secret."""
    if isinstance(error, PenstockError):
        return error
    problem = f"Penstock could not {doing}"
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__
        named = f": {error.filename}" if isinstance(error.filename, str) else ""
        return ClusterError(
            problem, why=why + named, fix="penstock doctor looks at disk, memory and processes; try again"
        )
    if kind_of(error, transient) is Kind.TRANSIENT:
        return CatalogError(
            problem,
            why="the connection to the database was lost again and again",
            fix="penstock status says whether it answers; then submit the application again",
        )
    return InternalError(
        problem,
        why=f"this is a defect of Penstock, not of the application ({type(error).__name__})",
        fix="report it with the last lines of supervisors.log in the state directory",
    )


SUPERVISOR_LOST = "supervisor_lost"
"""The code of the reason by which an application ends whose supervisors do not stay alive."""

_SUPERVISOR_STARTS_SECONDS = 30.0
_QUICK_RESTARTS = 3
_MOST_RESTARTS = 10
_LONGEST_RESTART_SECONDS = 600.0


@dataclass(frozen=True)
class _Start:
    at: float
    number: int
    seen_alive: bool = False


class Restarts:
    """When a supervising process that ended before its application is started again. Times in seconds, on any clock.

    A process that was seen alive is followed by another at once, three times; one that never got so far, after 30 s.
    From then on the pause doubles up to 10 minutes. After ten restarts the application is `hopeless`: something in it
    ends each of its supervisors, and it is to be ended. Ten minutes of a living supervisor clear the count.
    """

    def __init__(self) -> None:
        self._starts: dict[str, _Start] = {}

    def started(self, application_id: str, at: float) -> None:
        before = self._starts.get(application_id)
        self._starts[application_id] = _Start(at, before.number + 1 if before else 0)

    def forget(self, application_id: str) -> None:
        """Another attempt of the application begins: what ended supervisors of the one before says nothing about it."""
        self._starts.pop(application_id, None)

    def due(self, orphans: Collection[str], at: float) -> list[str]:
        """Returns the `orphans`, applications that nobody supervises now, whose supervisor is to be started now."""
        for one, start in list(self._starts.items()):
            if one not in orphans:
                if at - start.at >= _LONGEST_RESTART_SECONDS:
                    del self._starts[one]
                else:
                    self._starts[one] = replace(start, seen_alive=True)
        return [one for one in orphans if at >= self._due_at(one)]

    def unseen(self, at: float) -> bool:
        """Whether a process that was started in the last 30 s has not been seen alive yet. A look at it soon tells one
        that is killed from one that never got so far."""
        return any(not one.seen_alive and at - one.at < _SUPERVISOR_STARTS_SECONDS for one in self._starts.values())

    def hopeless(self, application_id: str) -> bool:
        return application_id in self._starts and self._starts[application_id].number >= _MOST_RESTARTS

    def _due_at(self, application_id: str) -> float:
        if (start := self._starts.get(application_id)) is None:
            return float("-inf")
        if start.number < _QUICK_RESTARTS:
            return start.at + (0.0 if start.seen_alive else _SUPERVISOR_STARTS_SECONDS)
        doubled = _SUPERVISOR_STARTS_SECONDS * (1 << min(start.number - _QUICK_RESTARTS, 16))
        return start.at + min(doubled, _LONGEST_RESTART_SECONDS)


def keep_going(
    name: str,
    work: Callable[[], object],
    stop: threading.Event,
    *,
    log: logging.Logger,
    transient: Kinds = (),
    policy: Policy = SERVICE,
    failed: Callable[[BaseException], object] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[threading.Event, float], object] = threading.Event.wait,
) -> None:
    """Run a thread's `work`, which returns when `stop` is set, and run it again after a pause whatever it raises.

    `failed` is called with each exception, before the pause, and may raise as well. A defect is logged with its trace,
    any other failure in a line. Work that went on for longer than the longest pause counts as having succeeded.
    """
    failures = Failures({name: policy}, transient)
    while not stop.is_set():
        began = clock()
        try:
            work()
        except Exception as error:
            if clock() - began > policy.longest_seconds:
                failures.succeeded(name)
            pause = failures.failed(name, error)
            _log_failure(log, name, error, transient)
            try:
                failed(error)
            except Exception as another:
                _log_failure(log, name, another, transient)
            wait(stop, policy.longest_seconds if pause is None else pause)


def _log_failure(log: logging.Logger, name: str, error: BaseException, transient: Kinds) -> None:
    if kind_of(error, transient) is Kind.DEFECT:
        log.error("%s begins again after a defect", name, exc_info=error)
    else:
        log.warning("%s begins again: %s", name, error)
