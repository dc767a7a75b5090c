"""The supervisor of one application: it carries out the lifecycle's instructions and feeds back events.

It keeps no essential state in memory. When it is killed, at any line, the next supervisor resumes from the records and
the backend's own view and reaches the same outcome.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
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
from penstock.engine.repository.applications import CONNECTION_LOST, ApplicationRepository, now
from penstock.engine.repository.claims import Claim
from penstock.errors import CatalogError, PenstockError
from penstock.model import CORES_PER_CORE, Application, Cost, Reason, State
from penstock.recovery import Failures, Kind, as_problem, kind_of

OnChange = Callable[[Application, "Observation | None"], None]
Companions = Callable[[Application, Callable[[PenstockError], None]], contextlib.AbstractContextManager[object]]

GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LONG_SECONDS = 60.0
_LONG_POLL_SECONDS = 0.3
_QUEUE_POLL_SECONDS = 2.0
_CLAIM_SECONDS = 5.0
_VISIBLE_FAILURES = 2
"""The number of consecutive failures from which users see the reason: a single failure is over in a second."""
_ERROR_TAIL_BYTES = 16_384

_log = logging.getLogger(__name__)


class _Operation(Enum):
    """The operations of a supervisor, each with its own failure count; a value completes “Penstock could not …”."""

    CLAIM = "claim the application"
    READ = "read the application's record"
    RECORD = "record the application's new state"
    REPORT = "report the application's state"
    QUEUE = "find room for the application"
    LAUNCH = "start the cluster"
    WATCH = "observe the cluster"
    STOP = "stop the cluster"
    KEEP = "store the application's logs"
    RELEASE = "remove what is left of the cluster"
    DATABASE = "reconnect to the database"


_POLICIES = {
    _Operation.CLAIM: recovery.ONCE,
    _Operation.READ: recovery.ONCE,
    _Operation.RECORD: recovery.ONCE,
    _Operation.REPORT: recovery.HOUR,
    _Operation.QUEUE: recovery.HOUR,
    _Operation.LAUNCH: recovery.LAUNCH,
    _Operation.WATCH: recovery.HOUR,
    _Operation.STOP: recovery.HOUR,
    _Operation.KEEP: recovery.HOUR,
    _Operation.RELEASE: recovery.HOUR,
    _Operation.DATABASE: recovery.DATABASE,
}

_OPTIONAL = frozenset({_Operation.QUEUE, _Operation.LAUNCH, _Operation.WATCH, _Operation.STOP, _Operation.KEEP})
"""Without these, the application still proceeds towards its end."""

_OPERATIONS: Mapping[type[Instruction], _Operation] = {
    lifecycle.Launch: _Operation.LAUNCH,
    lifecycle.Stop: _Operation.STOP,
    lifecycle.CollectArtifacts: _Operation.KEEP,
    lifecycle.Release: _Operation.RELEASE,
}


class _ListenerFailed(Exception):
    """`on_change` raised `error`, which belongs to the caller of `run`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Supervisor:
    """Supervises one application at a time, from its claim to the release of its cluster.

    `prepare` returns the launch plan for the backend; `store_artifacts` brings artifacts to the lake and returns the
    summary; `price` returns the cost of this attempt's cluster so far.

    `servers` returns those of the lake and the catalog: a failure to reach one is not the application's. `check` runs
    while the cluster starts, so that it adds no latency; an exception from it ends the application.
    `companions` is a context manager that is entered once the cluster was launched or found running, and left when its
    processes are gone; an error that it passes to its callback ends the application with that reason.
    `restore` is called when the database connection was lost and returns once the database is back. While it raises
    `CatalogError`, it is called again for a minute.

    For every other failure `penstock.recovery` decides how often the operation is retried. An operation that is given
    up does not keep the application from ending: an application that cannot be launched or observed fails with that
    reason; one whose processes cannot be stopped, or whose logs cannot be stored, ends without that step.

    `stop` and `force_stop` may be called from a signal handler or another thread.
    """

    def __init__(
        self,
        records: ApplicationRepository,
        backend: ClusterBackend,
        *,
        prepare: Callable[[Application], backend.Launch],
        store_artifacts: Callable[[Application, Path], Mapping[str, Any]],
        price: Callable[[Application, datetime], Cost | None] = lambda *_: None,
        check: Callable[[Application], None] = lambda _: None,
        servers: Callable[[Application], Collection[observation.Server]] = lambda _: (),
        companions: Companions = lambda *_: contextlib.nullcontext(),
        restore: Callable[[], object] = lambda: None,
        grace_seconds: float = GRACE_SECONDS,
        cores_per_core: float = CORES_PER_CORE,
    ) -> None:
        self._records = records
        self._backend = backend
        self._prepare = prepare
        self._store_artifacts = store_artifacts
        self._price = price
        self._check = check
        self._servers = servers
        self._companions = companions
        self._entered: contextlib.ExitStack | None = None
        self._restore = restore
        self._grace = grace_seconds
        self._cores_per_core = cores_per_core
        self._end_request: Reason | None = None
        self._forced = threading.Event()
        self._failures = Failures(_POLICIES, transient=CONNECTION_LOST)
        self._given_up: dict[_Operation, PenstockError] = {}
        self._operation = _Operation.CLAIM
        self._reported: tuple[State, int] | None = None

    def stop(self, reason: Reason) -> None:
        """End the application at the next opportunity, at most one poll interval from now."""
        self._end_request = self._end_request or reason

    def force_stop(self) -> None:
        """Force the stop: the driver gets no more grace period."""
        self._forced.set()

    def run(self, application_id: str, on_change: OnChange) -> Application:
        """Drive the application to its end, release its cluster and return the application as it ended.

        A dispatched application is also returned when it waits for its next attempt.

        `on_change` receives every state and, while the application runs, every observation; while it waits for room,
        `on_change` is called every two seconds. The call with the final state comes while the cluster's own files still
        exist. An exception from it ends the supervision, not the application. Raises `Superseded` where another process
        supervises the application, and a `PenstockError` where a failure cannot be recorded or the cluster of an ended
        application cannot be removed.
        """
        try:
            while True:
                # The cluster keeps running meanwhile and finished steps stay recorded, so this is an ordinary resume.
                try:
                    return self._run(application_id, on_change)
                except CONNECTION_LOST as error:  # noqa: PERF203  connections are not lost in a tight loop
                    self._await_database(application_id, error)
        except _ListenerFailed as failed:
            raise failed.error from None
        finally:
            self._leave_companions()

    def _await_database(self, application_id: str, error: Exception) -> None:
        """Wait until the database is back: a server that restarts or fails over needs up to a minute.

        Raises `CatalogError` where it does not answer within that minute.
        """
        pause = self._after_failure(application_id, error)
        while True:
            time.sleep(pause)
            try:
                self._restore()
            except (CatalogError, *CONNECTION_LOST) as unavailable:
                self._operation = _Operation.DATABASE
                pause = self._after_failure(application_id, unavailable)
            else:
                self._failures.succeeded(_Operation.DATABASE)
                return

    def _run(self, application_id: str, on_change: OnChange) -> Application:
        with self._claimed(application_id) as claim:
            application: Application | None = None
            due: deque[Instruction] = deque()
            while application is None or due or not (is_released(application) or _awaits_dispatcher(application)):
                try:
                    if application is None:
                        self._operation = _Operation.READ
                        application = self._records.get(application_id)
                        due = deque(lifecycle.resume(application))
                        self._look_for_request(application)
                    else:
                        application = self._step(application, due, claim, on_change)
                    self._failures.succeeded(self._operation)
                except (*CONNECTION_LOST, _ListenerFailed):
                    raise
                except Exception as error:
                    pause = self._after_failure(application_id, error)
                    self._record_obstacle(application, error)
                    self._pause(application, claim, pause)
                    application = None  # read again: the records may have changed before the failure
                    continue
                self._report(on_change, application)
            return application

    @contextlib.contextmanager
    def _claimed(self, application_id: str) -> Iterator[Claim]:
        with contextlib.ExitStack() as held:
            claim = None
            while claim is None:
                self._operation = _Operation.CLAIM
                try:
                    claim = held.enter_context(self._records.claim(application_id, wait_seconds=_CLAIM_SECONDS))
                except CONNECTION_LOST:
                    raise
                except Exception as error:
                    time.sleep(self._after_failure(application_id, error))
            self._failures.succeeded(_Operation.CLAIM)
            yield claim

    def _step(
        self, application: Application, due: deque[Instruction], claim: Claim, on_change: OnChange
    ) -> Application:
        if due:
            self._operation = _OPERATIONS[type(due[0])]
            event = self._carry_out(application, due[0])
            self._failures.succeeded(self._operation)
            self._operation = _Operation.RECORD
            after, more = self._records.apply(application.id, event)
            due.popleft()
        elif application.state in (State.ACCEPTED, State.WAITING):
            self._operation = _Operation.QUEUE
            after, more = self._queue(application, claim)
        else:
            self._operation = _Operation.WATCH
            after, more = self._watch(application, claim, on_change)
        due.extend(more)
        if after.attempt != application.attempt:
            self._forget_failure()
        return after

    def _after_failure(self, application_id: str, error: Exception) -> float:
        """Return the pause in seconds before the failed operation is retried or skipped.

        Raises the error, as a `PenstockError`, where the operation can be neither.
        """
        work = self._operation
        pause = self._failures.failed(work, error)
        if kind_of(error, CONNECTION_LOST) is Kind.SUPERSEDED:
            raise error
        problem = as_problem(error, work.value, CONNECTION_LOST)
        _log.debug("%s: could not %s", application_id, work.value, exc_info=error)
        if pause is not None:
            _log.warning("%s: %s; retrying in %g s", application_id, _one_line(problem), pause)
            return pause
        if work in self._given_up or work not in _OPTIONAL:
            if problem is error:
                raise error
            raise problem from error
        self._given_up[work] = problem
        return 0.0

    def _record_obstacle(self, application: Application | None, error: Exception) -> None:
        """Record the reason, so that users see why nothing happens; a failure to record it is ignored."""
        if application is None or self._failures.count(self._operation) < _VISIBLE_FAILURES:
            return
        reason = _as_reason(as_problem(error, self._operation.value, CONNECTION_LOST))
        obstacle: Event | None = None
        if self._operation is _Operation.QUEUE:
            obstacle = lifecycle.Queued(now(), reason)
        elif self._operation is _Operation.WATCH:
            obstacle = lifecycle.Blocked(now(), reason)
        if obstacle is not None and application.reason != reason:
            with contextlib.suppress(Exception):
                self._records.apply(application.id, obstacle)

    def _pause(self, application: Application | None, claim: Claim, seconds: float) -> None:
        """Wait for the next try with the claim held, so that no other process tries; a request to end cuts it short."""
        request = self._end_request
        while seconds > 0 and self._end_request is request:
            piece = min(seconds, _LONG_POLL_SECONDS)
            seconds -= piece
            if claim.wait(piece) and application is not None:
                with contextlib.suppress(PenstockError):
                    self._look_for_request(application)

    def _report(self, on_change: OnChange, application: Application, seen: Observation | None = None) -> None:
        """Call `on_change` for each state, observation and look at the queue, but not twice for one state."""
        state_now = application.state, application.attempt
        if seen is None and state_now == self._reported and application.state is not State.WAITING:
            return
        before, self._operation = self._operation, _Operation.REPORT
        try:
            on_change(application, seen)
        except CONNECTION_LOST:
            raise
        except Exception as error:
            raise _ListenerFailed(error) from error
        self._reported = state_now
        self._failures.succeeded(_Operation.REPORT)
        self._operation = before

    def _carry_out(self, application: Application, instruction: Instruction) -> Event:
        if (given_up := self._given_up.get(self._operation)) is not None:
            if isinstance(instruction, lifecycle.CollectArtifacts):
                return lifecycle.ArtifactsCollected(now(), self._store_collected(application, given_up))
            return _substitute_event(self._operation, given_up)
        if isinstance(instruction, lifecycle.Launch):
            return self._launch(application)
        handle = self._handle(application)
        if isinstance(instruction, lifecycle.Stop):
            self._stop_cluster(handle)
            self._leave_companions()
            exit_code = None if _Operation.WATCH in self._given_up else self._backend.observe(handle).exit_code
            return lifecycle.Stopped(now(), exit_code)
        if isinstance(instruction, lifecycle.CollectArtifacts):
            summary = self._store_artifacts(application, self._backend.collect(handle))
            at = now()
            return lifecycle.ArtifactsCollected(at, summary, self._cost(application, at))
        self._backend.release(handle)
        return lifecycle.Released(now())

    def _launch(self, application: Application) -> Event:
        if self._end_request is not None:
            # The request may also say that each supervisor before this one died in the launch.
            return lifecycle.EndRequested(now(), self._end_request)
        self._backend.launch(self._prepare(application))
        threading.Thread(target=self._check_lake, args=[application], daemon=True).start()
        return lifecycle.Launched(now())

    def _store_collected(self, application: Application, given_up: PenstockError) -> Mapping[str, Any]:
        """Store what was collected before the engine gave up; return the summary, which names the problem."""
        summary: Mapping[str, Any] = {}
        try:
            directory = self._backend.collect(self._handle(application), incomplete=True)
            summary = self._store_artifacts(application, directory)
        except Exception as error:
            _log.warning("%s: its artifacts are lost: %s", application.id, _one_line(as_problem(error, "store them")))
        return {**summary, "artefacts_problem": str(given_up)}

    def _cost(self, application: Application, at: datetime) -> Cost | None:
        """Return None where the price cannot be computed: that is no reason to lose the summary."""
        try:
            return self._price(application, at)
        except Exception as error:
            problem = as_problem(error, "compute the cost")
            _log.warning("%s: its cost is unknown: %s", application.id, _one_line(problem))
            return None

    def _forget_failure(self) -> None:
        """Forget the failures of the last attempt; only a user's stop carries over to the next one."""
        self._failures.forget()
        self._given_up.clear()
        if self._end_request is not None and self._end_request.code in lifecycle.INFRASTRUCTURE:
            self._end_request = None

    def _enter_companions(self, application: Application) -> None:
        if self._entered is None:
            entered = contextlib.ExitStack()
            entered.enter_context(self._companions(application, lambda error: self.stop(_as_reason(error))))
            self._entered = entered

    def _leave_companions(self) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.close()

    def _check_lake(self, application: Application) -> None:
        try:
            self._check(application)
        except PenstockError as error:
            self.stop(_as_reason(error))
        except Exception as error:
            # If the lake is really broken, the application itself will fail.
            problem = as_problem(error, "check the lake while the cluster starts", CONNECTION_LOST)
            _log.warning("%s: %s", application.id, _one_line(problem))

    def _stop_cluster(self, handle: backend.Handle) -> None:
        with ThreadPoolExecutor(1) as pool:
            grace = 0.0 if self._forced.is_set() else self._grace
            stopping = pool.submit(self._backend.stop, handle, grace_seconds=grace)
            while wait([stopping], timeout=_POLL_SECONDS).not_done:
                if self._forced.is_set():
                    self._backend.stop(handle, grace_seconds=0)
            stopping.result()

    def _queue(self, application: Application, claim: Claim) -> tuple[Application, tuple[Instruction, ...]]:
        if self._end_request is not None:
            return self._records.apply(application.id, lifecycle.EndRequested(now(), self._end_request))
        if (given_up := self._given_up.get(_Operation.QUEUE)) is not None:
            return self._records.apply(application.id, lifecycle.Refused(now(), _as_reason(given_up)))
        application, more = self._records.admit(
            application.id,
            lifecycle.Admitted(now(), self._backend.handle(application.id)),
            capacity=self._backend.capacity(),
            cores_per_core=self._cores_per_core,
        )
        if application.state is State.WAITING and claim.wait_for_any(_QUEUE_POLL_SECONDS):
            self._look_for_request(application)
            # One look at the queue serves many simultaneous changes.
            time.sleep(_POLL_SECONDS)
        return application, more

    def _watch(
        self, application: Application, claim: Claim, on_change: OnChange
    ) -> tuple[Application, tuple[Instruction, ...]]:
        unseen = self._given_up.get(_Operation.WATCH)
        reason = self._end_request or (None if unseen is None else _as_reason(unseen))
        if reason is not None and self._failures.count(_Operation.WATCH):
            # A cluster that cannot be observed can still be stopped.
            return self._records.apply(application.id, lifecycle.EndRequested(now(), reason))
        handle = self._handle(application)
        self._enter_companions(application)
        seen = self._backend.observe(handle)
        event = observation.event_of(
            application,
            seen,
            at=now(),
            launched_at=application.admitted_at or application.submitted_at,
            end_request=self._end_request,
            errors=self._last_errors(handle) if seen.exit_code else "",
            servers=self._servers(application) if seen.exit_code else (),
        )
        if event is not None:
            return self._records.apply(application.id, event)
        self._report(on_change, application, seen)
        # Short polls let a short application end at once; long polls make a long one cheap to watch.
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
    return Reason(error.code, _one_line(error), error.fix)


def _one_line(problem: PenstockError) -> str:
    return f"{problem.problem}: {problem.why}" if problem.why else problem.problem


def _substitute_event(work: _Operation, given_up: PenstockError) -> Event:
    """Return the event that replaces the outcome of an operation that was given up."""
    if work is _Operation.LAUNCH:
        return lifecycle.Refused(now(), _as_reason(given_up))
    if work is _Operation.STOP:
        return lifecycle.Stopped(now(), None)
    raise given_up


def _awaits_dispatcher(application: Application) -> bool:
    return application.dispatched and application.state in (State.ACCEPTED, State.WAITING)


def is_released(application: Application) -> bool:
    """Return whether the application has ended and its cluster has been released."""
    return application.state.final and application.cluster is None
