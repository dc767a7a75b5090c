"""Starts what waits when it is its turn, and has somebody look after what nobody does. One thread of a service.

Any number of dispatchers may work on one database: each decision is a transaction under one lock, and what it decides
is recorded before it is carried out. A dispatcher killed in between leaves an application that starts and that nobody
looks after, which the next patrol, or the next `reconcile` of any process, finds.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from penstock.engine.engine import NO_SUPERVISOR_LIVES, Engine
from penstock.engine.records import CONNECTION_LOST
from penstock.recovery import Restarts, keep_going

_PATROL_SECONDS = 5.0
"""How often it looks for what was left behind, and for retries whose time has come."""

_PATROL_AFTER_START_SECONDS = 1.0
"""So often while a supervisor that was just started has not been seen alive."""

_LEAST_BREATH_SECONDS, _MOST_BREATH_SECONDS = 0.05, 0.2
"""Between two looks at the queue, twice what the last one took within these bounds: of many submissions at once, one
decision serves all, and a long queue leaves others most of the time."""

_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._restarts = Restarts()

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set, at most a second longer. It outlives a database that is away for a while."""
        try:
            keep_going(
                "the dispatcher",
                lambda: self._run(stop),
                stop,
                log=_log,
                transient=CONNECTION_LOST,
                failed=self._revive_database,
            )
        finally:
            self._engine.attendants.close()

    def _revive_database(self, error: BaseException) -> None:
        """Nobody else would where only this service uses it. One that was stopped in order stays so."""
        if isinstance(error, CONNECTION_LOST) and self._engine.revive_database():
            _log.warning("the embedded database had died, and was started again")

    def _run(self, stop: threading.Event) -> None:
        with self._engine.dispatching() as changes:
            self._engine.attendants.keep_ready()
            patrolled = float("-inf")
            while not stop.is_set():
                pause = _PATROL_AFTER_START_SECONDS if self._restarts.unseen(time.monotonic()) else _PATROL_SECONDS
                if time.monotonic() - patrolled >= pause:
                    patrolled = time.monotonic()
                    self._adopt()
                began = time.monotonic()
                self._admit(stop)
                stop.wait(min(max(2 * (time.monotonic() - began), _LEAST_BREATH_SECONDS), _MOST_BREATH_SECONDS))
                changes.wait(_PAUSE_SECONDS)

    def _admit(self, stop: threading.Event) -> None:
        while not stop.is_set() and (application := self._engine.admit_next()) is not None:
            if not application.state.final:
                self._restarts.forget(application.id)
                self._have_looked_after(application.id)

    def _adopt(self) -> None:
        orphans = list(self._engine.unsupervised())
        for application_id in self._restarts.due(orphans, time.monotonic()):
            if self._restarts.hopeless(application_id):
                _log.error("%s ends: none of its supervisors stayed alive", application_id)
                self._engine.request_stop(application_id, NO_SUPERVISOR_LIVES)
            self._have_looked_after(application_id)

    def _have_looked_after(self, application_id: str) -> None:
        self._restarts.started(application_id, time.monotonic())
        # What cannot be started now (no process to be had) is found again by the next patrol.
        with contextlib.suppress(OSError):
            self._engine.detach(application_id)
