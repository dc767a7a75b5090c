"""Temporary credentials of running applications: asked for at the launch, renewed while the cluster lives.

What was issued, and until when, stands in the cluster's private file alone: whoever looks after the application next
reads it there and goes on.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from penstock.clusters.base import ClusterBackend
from penstock.engine.application import Application
from penstock.errors import LakeError, PenstockError
from penstock.home import Home
from penstock.lake.base import Credentials, Lake
from penstock.lake.leases import Lease, is_lost, renewal_at
from penstock.lake.registry import Lakes
from penstock.lake.settings import CREDENTIALS_FILE, lease_in, private_credentials_file
from penstock.recovery import Kind, as_problem, kind_of

_log = logging.getLogger(__name__)

GiveUp = Callable[[PenstockError], None]

_LONGEST_SLEEP_SECONDS = 30.0
"""The clock may be set, and a machine may sleep."""


def credentials_for(lake: Lake, own: Credentials, application_id: str) -> Credentials | Lease:
    """What the application is given: credentials of its own where the lake's record says so, else the lake's.

    Raises `LakeError` where the store should issue some and does not: never the lake's own instead.
    """
    if lake.sts is None:
        return own
    # boto3 takes half a second to load, which only lakes that issue credentials need.
    from penstock.lake.sts import issue

    return issue(lake, lake.sts, own, application_id)


class Leasing:
    """The renewal of one application's credentials, in a thread of its own until `close`."""

    def __init__(
        self,
        application_id: str,
        held: Lease,
        *,
        issue: Callable[[], Credentials | Lease],
        write: Callable[[str], None],
        give_up: GiveUp,
        clock: Callable[[], float] = time.time,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """`clock` and `wait` are replaced by tests: `wait(closed, seconds)` returns after so long, or once `closed`."""
        self._id = application_id
        self._held = held
        self._issue = issue
        self._write = write
        self._give_up = give_up
        self._clock = clock
        self._wait = wait
        self._closed = threading.Event()
        self._writing = threading.Lock()
        threading.Thread(target=self._run, name=f"leasing-{application_id}", daemon=True).start()

    def close(self) -> None:
        """Write nothing from now on; a request under way is left to itself."""
        with self._writing:
            self._closed.set()

    def _run(self) -> None:
        held, failures, failed_at = self._held, 0, 0.0
        while self._sleep_until(renewal_at(held, failures, failed_at=failed_at)):
            given = self._ask()
            if isinstance(given, PenstockError):
                failures, failed_at = failures + 1, self._clock()
                if is_lost(held, at=failed_at):
                    self._give_up(_lost(self._id, given))
                    return
            elif isinstance(given, Lease):
                held, failures = given, 0
            else:
                return  # The lake's own, which do not end: it was changed meanwhile.

    def _ask(self) -> Credentials | Lease | PenstockError:
        try:
            given = self._issue()
            with self._writing:
                if not self._closed.is_set():
                    self._write(private_credentials_file(given))
        except Exception as error:
            if kind_of(error) is Kind.DEFECT:
                _log.exception("%s: its lake credentials are asked for again", self._id)
            return as_problem(error, "renew the lake's credentials")
        return given

    def _sleep_until(self, at: float) -> bool:
        """False where there is nothing more to do then."""
        while (left := at - self._clock()) > 0 and not self._closed.is_set():
            self._wait(self._closed, min(left, _LONGEST_SLEEP_SECONDS))
        return not self._closed.is_set()


def leasing(
    home: Home, backend: ClusterBackend
) -> Callable[[Application, GiveUp], contextlib.AbstractContextManager[None]]:
    """For a supervisor: what goes on beside a cluster as long as it lives."""

    @contextlib.contextmanager
    def beside(application: Application, give_up: GiveUp) -> Iterator[None]:
        handle = application.cluster or backend.handle(application.id)

        def issue() -> Credentials | Lease:
            lakes = Lakes(home)
            lake = lakes.get(application.spec.lake)
            return credentials_for(lake, lakes.credentials_of(lake), application.id)

        def write(content: str) -> None:
            backend.replace_private_file(handle, CREDENTIALS_FILE, content)

        held = lease_in(backend.private_file(handle, CREDENTIALS_FILE) or "")
        with contextlib.ExitStack() as stack:
            if held is not None:
                stack.callback(Leasing(application.id, held, issue=issue, write=write, give_up=give_up).close)
            yield

    return beside


def _lost(application_id: str, error: PenstockError) -> LakeError:
    return LakeError(
        f"The lake credentials of {application_id} ended and could not be renewed",
        why=f"{error.problem}: {error.why}" if error.why else error.problem,
        fix=error.fix,
    )
