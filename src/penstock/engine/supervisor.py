"""Looks after one application: carries the lifecycle's instructions out and feeds back what happens.

It keeps nothing that matters in memory. Killed at any line, another one resumes from the records and the backend's own
view, and comes to the same end.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from penstock import recovery
from penstock.clusters import backend
from penstock.clusters.backend import ClusterBackend, Observation
from penstock.engine.policy import lifecycle, observation
from penstock.engine.policy.lifecycle import Event, Instruction
from penstock.engine.repository.applications import CONNECTION_LOST, Records, now
from penstock.engine.repository.claims import Claim
from penstock.errors import CatalogError, PenstockError
from penstock.model import CORES_PER_CORE, Application, Cost, Reason, State
from penstock.recovery import Failures, Kind, as_problem, kind_of

OnChange = Callable[[Application, "Observation | None"], None]
Beside = Callable[[Application, Callable[[PenstockError], None]], contextlib.AbstractContextManager[object]]

GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LONG_SECONDS = 60.0
_LONG_POLL_SECONDS = 0.3
_QUEUE_POLL_SECONDS = 2.0
_CLAIM_SECONDS = 5.0
_SHOWN_FROM = 2
"""Failures in a row from which on users are shown why nothing happens: one alone is over in a second."""
_ERROR_TAIL_BYTES = 16_384

_log = logging.getLogger(__name__)


class _Work(Enum):
    """What a supervisor does, and what its failures are counted for; the value completes “Penstock could not …”."""

    CLAIM = "begin to look after the application"
    READ = "read the application's record"
    RECORD = "record what became of the application"
    TELL = "show what became of the application"
    QUEUE = "find room for the application"
    LAUNCH = "start the cluster"
    WATCH = "see what the cluster does"
    STOP = "stop the cluster"
    KEEP = "keep the logs of the application"
    RELEASE = "remove what is left of the cluster"
    DATABASE = "reach the database again"


_POLICIES = {
    _Work.CLAIM: recovery.ONCE,
    _Work.READ: recovery.ONCE,
    _Work.RECORD: recovery.ONCE,
    _Work.TELL: recovery.HOUR,
    _Work.QUEUE: recovery.HOUR,
    _Work.LAUNCH: recovery.LAUNCH,
    _Work.WATCH: recovery.HOUR,
    _Work.STOP: recovery.HOUR,
    _Work.KEEP: recovery.HOUR,
    _Work.RELEASE: recovery.HOUR,
    _Work.DATABASE: recovery.DATABASE,
}

_CAN_BE_GIVEN_UP = frozenset({_Work.QUEUE, _Work.LAUNCH, _Work.WATCH, _Work.STOP, _Work.KEEP})
"""The life of the application goes on without it, towards its end."""

_OF_INSTRUCTION: Mapping[type[Instruction], _Work] = {
    lifecycle.Launch: _Work.LAUNCH,
    lifecycle.Stop: _Work.STOP,
    lifecycle.Keep: _Work.KEEP,
    lifecycle.Release: _Work.RELEASE,
}


class _ListenerFailed(Exception):
    """`on_change` raised `error`, which is its caller's."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Supervisor:
    """`prepare` makes what the backend needs to launch; `keep` brings artefacts to the lake and returns the summary;
    `price` tells what this attempt's cluster cost until then.

    `check` is called beside the starting cluster, so that it costs no time: what it raises ends the application.
    `beside` is entered when the cluster was launched, or found running, and left when its processes are gone; what it
    is given ends the application with that reason.
    `restore` is called when the database went away; it returns when it is back. While it raises `CatalogError`, it is
    called again for a minute.

    Whatever else fails, `penstock.recovery` decides how often it is tried again. Work that is given up does not stop
    the application from ending: one that cannot be launched or seen fails with that reason, one whose processes cannot
    be stopped or whose logs cannot be kept ends without that.

    `stop` and `insist` may be called from a signal handler or another thread.
    """

    def __init__(
        self,
        records: Records,
        backend: ClusterBackend,
        *,
        prepare: Callable[[Application], backend.Launch],
        keep: Callable[[Application, Path], Mapping[str, Any]],
        price: Callable[[Application, datetime], Cost | None] = lambda *_: None,
        check: Callable[[Application], None] = lambda _: None,
        beside: Beside = lambda *_: contextlib.nullcontext(),
        restore: Callable[[], object] = lambda: None,
        grace_seconds: float = GRACE_SECONDS,
        cores_per_core: float = CORES_PER_CORE,
    ) -> None:
        self._records = records
        self._backend = backend
        self._prepare = prepare
        self._keep = keep
        self._price = price
        self._check = check
        self._beside = beside
        self._entered: contextlib.ExitStack | None = None
        self._restore = restore
        self._grace = grace_seconds
        self._cores_per_core = cores_per_core
        self._end_request: Reason | None = None
        self._insisted = threading.Event()
        self._failures = Failures(_POLICIES, transient=CONNECTION_LOST)
        self._given_up: dict[_Work, PenstockError] = {}
        self._work = _Work.CLAIM
        self._told: tuple[State, int] | None = None

    def stop(self, reason: Reason) -> None:
        """End the application at the next opportunity, at most a poll from now."""
        self._end_request = self._end_request or reason

    def insist(self) -> None:
        """Give the driver no more time to end by itself."""
        self._insisted.set()

    def run(self, application_id: str, on_change: OnChange) -> Application:
        """Drive the application to its end and release its cluster; returns it as it ended. One that a dispatcher
        starts is returned, too, when it waits for its next attempt.

        `on_change` sees every state and, while it runs, every observation; while it waits for room it is called every
        other second. With the final state it is called while the cluster's own files are still there. What it raises
        ends the supervision, not the application. Raises `Superseded` where another process looks after it, and a
        `PenstockError` where a failure cannot be recorded, or a cluster whose application has ended not be removed.
        """
        try:
            while True:
                # The cluster goes on meanwhile, and everything that was done is done: this is a resumption like any.
                try:
                    return self._run(application_id, on_change)
                except CONNECTION_LOST as error:  # noqa: PERF203  they are not lost in a tight loop
                    self._await_database(application_id, error)
        except _ListenerFailed as failed:
            raise failed.error from None
        finally:
            self._leave()

    def _await_database(self, application_id: str, error: Exception) -> None:
        """Raise `CatalogError` where the database does not answer within a minute: a server that is started again, or
        fails over, takes its time."""
        pause = self._bear(application_id, error)
        while True:
            time.sleep(pause)
            try:
                self._restore()
            except (CatalogError, *CONNECTION_LOST) as away:
                self._work = _Work.DATABASE
                pause = self._bear(application_id, away)
            else:
                self._failures.succeeded(_Work.DATABASE)
                return

    def _run(self, application_id: str, on_change: OnChange) -> Application:
        with self._claimed(application_id) as claim:
            application: Application | None = None
            due: deque[Instruction] = deque()
            while application is None or due or not (over(application) or _left_to_a_dispatcher(application)):
                try:
                    if application is None:
                        self._work = _Work.READ
                        application = self._records.get(application_id)
                        due = deque(lifecycle.resume(application))
                        self._look_for_request(application)
                    else:
                        application = self._step(application, due, claim, on_change)
                    self._failures.succeeded(self._work)
                except (*CONNECTION_LOST, _ListenerFailed):
                    raise
                except Exception as error:
                    pause = self._bear(application_id, error)
                    self._show(application, error)
                    self._pause(application, claim, pause)
                    application = None  # as it is in the records: they may have been changed before the failure
                    continue
                self._tell(on_change, application)
            return application

    @contextlib.contextmanager
    def _claimed(self, application_id: str) -> Iterator[Claim]:
        with contextlib.ExitStack() as held:
            claim = None
            while claim is None:
                self._work = _Work.CLAIM
                try:
                    claim = held.enter_context(self._records.claim(application_id, wait_seconds=_CLAIM_SECONDS))
                except CONNECTION_LOST:
                    raise
                except Exception as error:
                    time.sleep(self._bear(application_id, error))
            self._failures.succeeded(_Work.CLAIM)
            yield claim

    def _step(
        self, application: Application, due: deque[Instruction], claim: Claim, on_change: OnChange
    ) -> Application:
        if due:
            self._work = _OF_INSTRUCTION[type(due[0])]
            event = self._carry_out(application, due[0])
            self._failures.succeeded(self._work)
            self._work = _Work.RECORD
            after, more = self._records.apply(application.id, event)
            due.popleft()
        elif application.state in (State.ACCEPTED, State.WAITING):
            self._work = _Work.QUEUE
            after, more = self._queue(application, claim)
        else:
            self._work = _Work.WATCH
            after, more = self._watch(application, claim, on_change)
        due.extend(more)
        if after.attempt != application.attempt:
            self._forget_failure()
        return after

    def _bear(self, application_id: str, error: Exception) -> float:
        """The pause in seconds before the failed work is tried again, or the life goes on without it; raises where
        neither can be."""
        work = self._work
        pause = self._failures.failed(work, error)
        if kind_of(error, CONNECTION_LOST) is Kind.SUPERSEDED:
            raise error
        problem = as_problem(error, work.value, CONNECTION_LOST)
        _log.debug("%s: while it tried to %s", application_id, work.value, exc_info=error)
        if pause is not None:
            _log.warning("%s: %s; tried again in %g s", application_id, _in_a_line(problem), pause)
            return pause
        if work in self._given_up or work not in _CAN_BE_GIVEN_UP:
            if problem is error:
                raise error
            raise problem from error
        self._given_up[work] = problem
        return 0.0

    def _show(self, application: Application | None, error: Exception) -> None:
        """Have users see why nothing happens. That this fails as well is no news."""
        if application is None or self._failures.count(self._work) < _SHOWN_FROM:
            return
        reason = _as_reason(as_problem(error, self._work.value, CONNECTION_LOST))
        shown: Event | None = None
        if self._work is _Work.QUEUE:
            shown = lifecycle.Queued(now(), reason)
        elif self._work is _Work.WATCH:
            shown = lifecycle.Hindered(now(), reason)
        if shown is not None and application.reason != reason:
            with contextlib.suppress(Exception):
                self._records.apply(application.id, shown)

    def _pause(self, application: Application | None, claim: Claim, seconds: float) -> None:
        """Wait before the next try, the claim held, so that nobody else tries meanwhile. A request to end cuts it."""
        asked = self._end_request
        while seconds > 0 and self._end_request is asked:
            piece = min(seconds, _LONG_POLL_SECONDS)
            seconds -= piece
            if claim.wait(piece) and application is not None:
                with contextlib.suppress(PenstockError):
                    self._look_for_request(application)

    def _tell(self, on_change: OnChange, application: Application, seen: Observation | None = None) -> None:
        """Each state, each observation and each look at the queue; not the same state twice."""
        news = application.state, application.attempt
        if seen is None and news == self._told and application.state is not State.WAITING:
            return
        before, self._work = self._work, _Work.TELL
        try:
            on_change(application, seen)
        except CONNECTION_LOST:
            raise
        except Exception as error:
            raise _ListenerFailed(error) from error
        self._told = news
        self._failures.succeeded(_Work.TELL)
        self._work = before

    def _carry_out(self, application: Application, instruction: Instruction) -> Event:
        if (given_up := self._given_up.get(self._work)) is not None:
            return _without(self._work, given_up)
        if isinstance(instruction, lifecycle.Launch):
            return self._launch(application)
        handle = self._handle(application)
        if isinstance(instruction, lifecycle.Stop):
            self._stop_cluster(handle)
            self._leave()
            exit_code = None if _Work.WATCH in self._given_up else self._backend.observe(handle).exit_code
            return lifecycle.Stopped(now(), exit_code)
        if isinstance(instruction, lifecycle.Keep):
            summary = self._keep(application, self._backend.collect(handle))
            at = now()
            return lifecycle.Kept(at, summary, self._cost(application, at))
        self._backend.release(handle)
        return lifecycle.Released(now())

    def _launch(self, application: Application) -> Event:
        if self._end_request is not None:
            # Also where it is what ended each supervisor before this one.
            return lifecycle.EndRequested(now(), self._end_request)
        self._backend.launch(self._prepare(application))
        threading.Thread(target=self._check_beside, args=[application], daemon=True).start()
        return lifecycle.Launched(now())

    def _cost(self, application: Application, at: datetime) -> Cost | None:
        """A price that cannot be computed is no reason to lose the summary."""
        try:
            return self._price(application, at)
        except Exception as error:
            _log.warning("%s: its cost is not known: %s", application.id, _in_a_line(as_problem(error, "price it")))
            return None

    def _forget_failure(self) -> None:
        """What ended one attempt is no reason to end the next; a user's stop is."""
        self._failures.forget()
        self._given_up.clear()
        if self._end_request is not None and self._end_request.code in lifecycle.INFRASTRUCTURE:
            self._end_request = None

    def _enter(self, application: Application) -> None:
        if self._entered is None:
            entered = contextlib.ExitStack()
            entered.enter_context(self._beside(application, lambda error: self.stop(_as_reason(error))))
            self._entered = entered

    def _leave(self) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.close()

    def _check_beside(self, application: Application) -> None:
        try:
            self._check(application)
        except PenstockError as error:
            self.stop(_as_reason(error))
        except Exception as error:
            # The application finds out for itself.
            problem = as_problem(error, "look at the lake beside the cluster", CONNECTION_LOST)
            _log.warning("%s: %s", application.id, _in_a_line(problem))

    def _stop_cluster(self, handle: backend.Handle) -> None:
        with ThreadPoolExecutor(1) as pool:
            grace = 0.0 if self._insisted.is_set() else self._grace
            stopping = pool.submit(self._backend.stop, handle, grace_seconds=grace)
            while wait([stopping], timeout=_POLL_SECONDS).not_done:
                if self._insisted.is_set():
                    self._backend.stop(handle, grace_seconds=0)
            stopping.result()

    def _queue(self, application: Application, claim: Claim) -> tuple[Application, tuple[Instruction, ...]]:
        if self._end_request is not None:
            return self._records.apply(application.id, lifecycle.EndRequested(now(), self._end_request))
        if (given_up := self._given_up.get(_Work.QUEUE)) is not None:
            return self._records.apply(application.id, lifecycle.Refused(now(), _as_reason(given_up)))
        application, more = self._records.admit(
            application.id,
            lifecycle.Admitted(now(), self._backend.handle(application.id)),
            capacity=self._backend.capacity(),
            cores_per_core=self._cores_per_core,
        )
        if application.state is State.WAITING and claim.wait_for_any(_QUEUE_POLL_SECONDS):
            self._look_for_request(application)
            # Of many changes at once, one look at the queue serves all.
            time.sleep(_POLL_SECONDS)
        return application, more

    def _watch(
        self, application: Application, claim: Claim, on_change: OnChange
    ) -> tuple[Application, tuple[Instruction, ...]]:
        unseen = self._given_up.get(_Work.WATCH)
        reason = self._end_request or (None if unseen is None else _as_reason(unseen))
        if reason is not None and self._failures.count(_Work.WATCH):
            # A cluster that cannot be seen can still be told to end.
            return self._records.apply(application.id, lifecycle.EndRequested(now(), reason))
        handle = self._handle(application)
        self._enter(application)
        seen = self._backend.observe(handle)
        event = observation.event_of(
            application,
            seen,
            at=now(),
            launched_at=application.admitted_at or application.submitted_at,
            end_request=self._end_request,
            errors=self._last_errors(handle) if seen.exit_code else "",
        )
        if event is not None:
            return self._records.apply(application.id, event)
        self._tell(on_change, application, seen)
        # A short application is not kept waiting for its end, a long one costs next to nothing to watch.
        age = (now() - (application.admitted_at or application.submitted_at)).total_seconds()
        if claim.wait(_POLL_SECONDS if age < _LONG_SECONDS else _LONG_POLL_SECONDS):
            self._look_for_request(application)
        return application, ()

    def _look_for_request(self, application: Application) -> None:
        if self._end_request is None and not application.state.final:
            self._end_request = self._records.requested_end(application.id)

    def _last_errors(self, handle: backend.Handle) -> str:
        text, start = b"", 0
        while more := self._backend.read(handle, "driver.err", start):
            text, start = (text + more)[-_ERROR_TAIL_BYTES:], start + len(more)
        return text.decode(errors="replace")

    def _handle(self, application: Application) -> backend.Handle:
        return application.cluster if application.cluster is not None else self._backend.handle(application.id)


def _as_reason(error: PenstockError) -> Reason:
    return Reason(error.code, _in_a_line(error), error.fix)


def _in_a_line(problem: PenstockError) -> str:
    return f"{problem.problem}: {problem.why}" if problem.why else problem.problem


def _without(work: _Work, given_up: PenstockError) -> Event:
    """What happens to the application in place of work that is given up."""
    if work is _Work.LAUNCH:
        return lifecycle.Refused(now(), _as_reason(given_up))
    if work is _Work.STOP:
        return lifecycle.Stopped(now(), None)
    if work is _Work.KEEP:
        return lifecycle.Kept(now(), {"artefacts_problem": str(given_up)})
    raise given_up


def _left_to_a_dispatcher(application: Application) -> bool:
    return application.dispatched and application.state in (State.ACCEPTED, State.WAITING)


def over(application: Application) -> bool:
    """Ended, and nothing of its cluster is left."""
    return application.state.final and application.cluster is None
