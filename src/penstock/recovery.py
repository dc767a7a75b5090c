"""The retry policy: which failures are retried, how often, after which pauses, and the final error for the user.

Every loop that must survive a failure uses it: the supervisor of an application, the code that starts supervisors, the
background threads of a service, the watches of pods and the sidecar of a driver. The module is pure policy: nothing
here sleeps, reads a clock or performs I/O, except `keep_going`, which runs a thread's work with a clock and a wait that
tests replace.

Failures are counted per operation, and forgotten when the same operation succeeds: in a cycle whose first step succeeds
and whose second always fails, the second is given up after the number of failures that its policy allows.
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
    """The kind of a failure, by the chance that a retry succeeds."""

    SUPERSEDED = "superseded"
    """Another process does the work, so there is nothing to retry or report."""
    REFUSED = "refused"
    """The same request fails until a user changes something."""
    REPORTED = "reported"
    """A lake, a catalog, a cluster or this machine fails and reports a reason."""
    TRANSIENT = "transient"
    """The operating system or a connection failed: no free process, memory or disk space, or a restarting server."""
    DEFECT = "defect"
    """An unexpected exception."""


def kind_of(error: BaseException, transient: Kinds = ()) -> Kind:
    """Classify an error. `transient` are a library's classes for lost connections, besides `OSError`."""
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
    """A retry policy.

    It has the number of consecutive failures of each kind that are retried (None: any number), and the pauses between
    tries in seconds: the first, doubled each time, up to the longest.
    """

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
        """Return whether a retry follows the consecutive failure of that number (from 1)."""
        if kind is Kind.SUPERSEDED:
            return False
        most = getattr(self, kind.value)
        return most is None or failures <= most


ONCE = Policy(refused=0, reported=3, transient=3, defect=3)
"""For claims, and for reading or writing records: hardly any failure but a lost connection is temporary."""

LAUNCH = Policy(refused=0, reported=0, transient=3, defect=1)
"""For launches: a reported problem is final here, since the application's own retries decide about another attempt."""

HOUR = Policy(refused=3, reported=120, transient=120, defect=5)
"""For work on a cluster or in the queue: after the first six failures one try each 30 s, for an hour. An API server or
a disk that recovers within it costs the application nothing."""

DATABASE = Policy(refused=0, reported=6, transient=6, defect=0)
"""For a database that does not answer: a minute, within which a server restarts or fails over."""

SERVICE = Policy(refused=None, reported=None, transient=None, defect=None, longest_seconds=5.0)
"""For the background threads that a service depends on: retries for as long as the service runs."""

PODS = Policy(refused=None, reported=None, transient=None, defect=None, first_seconds=0.5, longest_seconds=15.0)
"""For a watch: retries for as long as it has readers."""

SIDECAR = Policy(refused=3, reported=3, transient=3, defect=3, first_seconds=2.0)
"""For the logs of an ended driver, while its pod waits for their upload."""

Work = TypeVar("Work", bound=Hashable)


class Failures(Generic[Work]):
    """The consecutive failures of each operation. Not thread-safe."""

    def __init__(self, policies: Mapping[Work, Policy], transient: Kinds = ()) -> None:
        self._policies = policies
        self._transient = transient
        self._counts: Counter[Work] = Counter()

    def failed(self, work: Work, error: BaseException) -> float | None:
        """Count a failure; return the seconds before the next try, or None where the operation is given up."""
        self._counts[work] += 1
        policy, count = self._policies[work], self._counts[work]
        return policy.pause(count) if policy.tries_again(kind_of(error, self._transient), count) else None

    def succeeded(self, work: Work) -> None:
        self._counts.pop(work, None)

    def count(self, work: Work) -> int:
        """Failures since the operation last succeeded."""
        return self._counts[work]

    def forget(self) -> None:
        self._counts.clear()


def as_problem(error: BaseException, activity: str, transient: Kinds = ()) -> PenstockError:
    """The error for the user.

    That is `error` itself if it is a `PenstockError`, else one that names the failed `activity` (“start the
    cluster”). It omits the text of an unexpected exception, which may contain a secret.
    """
    if isinstance(error, PenstockError):
        return error
    problem = f"Penstock could not {activity}"
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__
        named = f": {error.filename}" if isinstance(error.filename, str) else ""
        return ClusterError(
            problem, why=why + named, fix="check disk, memory and processes with penstock doctor, and try again"
        )
    if kind_of(error, transient) is Kind.TRANSIENT:
        return CatalogError(
            problem,
            why="the connection to the database was lost repeatedly",
            fix="check the database with penstock status, then submit the application again",
        )
    return InternalError(
        problem,
        why=f"this is a defect of Penstock, not of the application ({type(error).__name__})",
        fix="report it with the last lines of supervisors.log in the state directory",
    )


SUPERVISOR_LOST = "supervisor_lost"
"""The code of the reason for ending an application whose supervisors do not stay alive."""

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
    """The restart policy for supervisors that end before their application. Times in seconds, on any clock.

    A supervisor that was seen alive is replaced at once, three times; one that was never seen alive, after 30 s. From
    then on the pause doubles up to 10 minutes. After ten restarts the application is `hopeless` and should be ended,
    since something in it ends each of its supervisors. Ten minutes of a living supervisor reset the count.
    """

    def __init__(self) -> None:
        self._starts: dict[str, _Start] = {}

    def started(self, application_id: str, at: float) -> None:
        before = self._starts.get(application_id)
        self._starts[application_id] = _Start(at, before.number + 1 if before else 0)

    def forget(self, application_id: str) -> None:
        """Reset the count for the application's next attempt, whose supervisors start with a clean record."""
        self._starts.pop(application_id, None)

    def due(self, orphans: Collection[str], at: float) -> list[str]:
        """Return the `orphans` (applications without a supervisor) whose supervisor must be started now."""
        for one, start in list(self._starts.items()):
            if one not in orphans:
                if at - start.at >= _LONGEST_RESTART_SECONDS:
                    del self._starts[one]
                else:
                    self._starts[one] = replace(start, seen_alive=True)
        return [one for one in orphans if at >= self._due_at(one)]

    def unseen(self, at: float) -> bool:
        """Return whether a supervisor of the last 30 s has not been seen alive yet.

        An early look at it distinguishes a process that is killed from one that never started.
        """
        return any(not one.seen_alive and at - one.at < _SUPERVISOR_STARTS_SECONDS for one in self._starts.values())

    def exhausted(self, application_id: str) -> bool:
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
    """Run a thread's `work`, which returns when `stop` is set, and rerun it after a pause whatever it raises.

    `failed` is called with each exception, before the pause, and may itself raise. A defect is logged with its trace,
    any other failure in one line. Work that ran for longer than the longest pause counts as a success.
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
        log.error("restarting %s after a defect", name, exc_info=error)
    else:
        log.warning("restarting %s: %s", name, error)
