"""Looks after one application: carries the lifecycle's instructions out and feeds back what happens.

It keeps nothing that matters in memory. Killed at any line, another one resumes from the records and the backend's own
view, and comes to the same end.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.clusters import base
from penstock.clusters.base import ClusterBackend, Observation
from penstock.engine import admission, lifecycle, retrying, watching
from penstock.engine.application import Application, Cost, Reason, State
from penstock.engine.claims import Claim
from penstock.engine.lifecycle import Event, Instruction
from penstock.engine.records import CONNECTION_LOST, Records
from penstock.engine.rows import now
from penstock.errors import CatalogError, PenstockError

OnChange = Callable[[Application, "Observation | None"], None]
Beside = Callable[[Application, Callable[[PenstockError], None]], contextlib.AbstractContextManager[object]]

GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LONG_SECONDS = 60.0
_LONG_POLL_SECONDS = 0.3
_QUEUE_POLL_SECONDS = 2.0
_CLAIM_SECONDS = 5.0
_DATABASE_ATTEMPTS = 5
_DATABASE_PAUSES_SECONDS = (1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_ERROR_TAIL_BYTES = 16_384


class Supervisor:
    """`prepare` makes what the backend needs to launch; `keep` brings artefacts to the lake and returns the summary;
    `price` tells what this attempt's cluster cost until then.

    `check` is called beside the starting cluster, so that it costs no time: what it raises ends the application.
    `beside` is entered when the cluster was launched, or found running, and left when its processes are gone; what it
    is given ends the application with that reason.
    `restore` is called when the database went away; it returns when it is back. While it raises `CatalogError`, it is
    called again for a minute.

    `stop` and `insist` may be called from a signal handler or another thread.
    """

    def __init__(
        self,
        records: Records,
        backend: ClusterBackend,
        *,
        prepare: Callable[[Application], base.Launch],
        keep: Callable[[Application, Path], Mapping[str, Any]],
        price: Callable[[Application, datetime], Cost | None] = lambda *_: None,
        check: Callable[[Application], None] = lambda _: None,
        beside: Beside = lambda *_: contextlib.nullcontext(),
        restore: Callable[[], object] = lambda: None,
        grace_seconds: float = GRACE_SECONDS,
        cores_per_core: float = admission.CORES_PER_CORE,
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
        ends the supervision, not the application. Raises `StateError` where somebody else looks after it.
        """
        try:
            for _ in range(_DATABASE_ATTEMPTS):
                # The cluster goes on meanwhile, and everything that was done is done: this is a resumption like any.
                with contextlib.suppress(*CONNECTION_LOST):
                    return self._run(application_id, on_change)
                self._await_database()
            return self._run(application_id, on_change)
        finally:
            self._leave()

    def _await_database(self) -> None:
        """Raise `CatalogError` where the database does not answer within a minute: a server that is started again, or
        fails over, takes its time."""
        for pause in _DATABASE_PAUSES_SECONDS:
            time.sleep(pause)
            with contextlib.suppress(CatalogError):
                self._restore()
                return
        self._restore()

    def _run(self, application_id: str, on_change: OnChange) -> Application:
        with self._records.claim(application_id, wait_seconds=_CLAIM_SECONDS) as claim:
            application = self._records.get(application_id)
            due = deque(lifecycle.resume(application))
            self._look_for_request(application)
            on_change(application, None)
            while due or not (over(application) or _left_to_a_dispatcher(application)):
                before = application
                if due:
                    application, more = self._records.apply(application_id, self._carry_out(application, due[0]))
                    due.popleft()
                elif application.state in (State.ACCEPTED, State.WAITING):
                    application, more = self._queue(application, claim)
                else:
                    application, more = self._watch(application, claim, on_change)
                due.extend(more)
                if application.attempt != before.attempt:
                    self._forget_failure()
                if application.state is not before.state or application.state is State.WAITING:
                    on_change(application, None)
            return application

    def _carry_out(self, application: Application, instruction: Instruction) -> Event:
        handle = self._handle(application)
        if isinstance(instruction, lifecycle.Launch):
            return self._launch(application)
        if isinstance(instruction, lifecycle.Stop):
            self._stop_cluster(handle)
            self._leave()
            exit_code = self._backend.observe(handle).exit_code
            return lifecycle.Stopped(now(), exit_code)
        if isinstance(instruction, lifecycle.Keep):
            summary = self._keep(application, self._backend.collect(handle))
            at = now()
            return lifecycle.Kept(at, summary, self._price(application, at))
        self._backend.release(handle)
        return lifecycle.Released(now())

    def _launch(self, application: Application) -> Event:
        try:
            self._backend.launch(self._prepare(application))
        except PenstockError as error:
            return lifecycle.Refused(now(), _as_reason(error))
        threading.Thread(target=self._check_beside, args=[application], daemon=True).start()
        return lifecycle.Launched(now())

    def _forget_failure(self) -> None:
        """What ended one attempt is no reason to end the next; a user's stop is."""
        if self._end_request is not None and self._end_request.code in retrying.INFRASTRUCTURE:
            self._end_request = None

    def _enter(self, application: Application) -> None:
        if self._entered is None:
            self._entered = contextlib.ExitStack()
            self._entered.enter_context(self._beside(application, lambda error: self.stop(_as_reason(error))))

    def _leave(self) -> None:
        if self._entered is not None:
            self._entered.close()
            self._entered = None

    def _check_beside(self, application: Application) -> None:
        try:
            self._check(application)
        except PenstockError as error:
            self.stop(_as_reason(error))

    def _stop_cluster(self, handle: base.Handle) -> None:
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
        handle = self._handle(application)
        self._enter(application)
        seen = self._backend.observe(handle)
        event = watching.event_of(
            application,
            seen,
            at=now(),
            launched_at=application.admitted_at or application.submitted_at,
            end_request=self._end_request,
            errors=self._last_errors(handle) if seen.exit_code else "",
        )
        if event is not None:
            return self._records.apply(application.id, event)
        on_change(application, seen)
        # A short application is not kept waiting for its end, a long one costs next to nothing to watch.
        age = (now() - (application.admitted_at or application.submitted_at)).total_seconds()
        if claim.wait(_POLL_SECONDS if age < _LONG_SECONDS else _LONG_POLL_SECONDS):
            self._look_for_request(application)
        return application, ()

    def _look_for_request(self, application: Application) -> None:
        if self._end_request is None and not application.state.final:
            self._end_request = self._records.requested_end(application.id)

    def _last_errors(self, handle: base.Handle) -> str:
        text, start = b"", 0
        while more := self._backend.read(handle, "driver.err", start):
            text, start = (text + more)[-_ERROR_TAIL_BYTES:], start + len(more)
        return text.decode(errors="replace")

    def _handle(self, application: Application) -> base.Handle:
        return application.cluster if application.cluster is not None else self._backend.handle(application.id)


def _as_reason(error: PenstockError) -> Reason:
    return Reason(error.code, f"{error.problem}: {error.why}" if error.why else error.problem, error.fix)


def _left_to_a_dispatcher(application: Application) -> bool:
    return application.dispatched and application.state in (State.ACCEPTED, State.WAITING)


def over(application: Application) -> bool:
    """Ended, and nothing of its cluster is left."""
    return application.state.final and application.cluster is None
