"""The background work of a service, in one thread each: starting applications in turn, and housekeeping.

Any number of dispatchers may work on one database: each decision is a transaction under one lock and is recorded before
it is carried out. A dispatcher killed in between leaves a starting application without a supervisor, which the next
patrol, or the next `reconcile` of any process, finds.

Housekeeping removes old rows, unused uploads and credential-scoped lakes, and moves logs to a lake that was unavailable
when their applications ended. A slow store delays no application; several services may do the same work concurrently
and repeatedly.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone

from penstock.engine import uploads
from penstock.engine.engine import NO_SUPERVISOR_LIVES, Engine
from penstock.engine.repository.applications import CONNECTION_LOST, now
from penstock.engine.repository.retention import Pruned, Retention
from penstock.errors import PenstockError
from penstock.lake import stores
from penstock.lake.registry import Lakes
from penstock.recovery import Restarts, keep_going

_PATROL_SECONDS = 5.0
"""The interval between patrols for orphaned applications and due retries."""

_PATROL_AFTER_START_SECONDS = 1.0
"""The interval between patrols while a new supervisor has not been seen alive yet."""

_LEAST_BREATH_SECONDS, _MOST_BREATH_SECONDS = 0.05, 0.2
"""Bounds of the pause between two looks at the queue, which is twice the duration of the last look: one decision serves
many simultaneous submissions, and a long queue leaves the database free most of the time."""

_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._restarts = Restarts()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set, at most a second longer; a temporary loss of the database does not end it."""
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
            self._engine.supervisors.close()

    def _revive_database(self, error: BaseException) -> None:
        """Restart a crashed embedded database, which no other process may do; one that was stopped stays stopped."""
        if isinstance(error, CONNECTION_LOST) and self._engine.database.restart_if_dead():
            _log.warning("the embedded database had died and was restarted")

    def _run(self, stop: threading.Event) -> None:
        with self._engine.applications.changes(dispatching=True) as changes:
            self._engine.supervisors.keep_ready()
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
                self._supervise(application.id)

    def _adopt(self) -> None:
        orphans = list(self._engine.applications.unsupervised())
        for application_id in self._restarts.due(orphans, time.monotonic()):
            if self._restarts.exhausted(application_id):
                _log.error("ending %s: none of its supervisors stayed alive", application_id)
                self._engine.request_stop(application_id, NO_SUPERVISOR_LIVES)
            self._supervise(application_id)

    def _supervise(self, application_id: str) -> None:
        self._restarts.started(application_id, time.monotonic())
        # An application that cannot be started now (no free process) is found by the next patrol.
        with contextlib.suppress(OSError):
            self._engine.detach(application_id)


_FIRST_SECONDS = 300.0
"""The delay of the first housekeeping, which keeps the start of a service light."""

_EVERY_SECONDS = 3600.0

_PENDING_SECONDS = 60.0
"""The interval between two looks for pending logs: one query of a table that is empty except after an outage."""

_EVER = datetime.min.replace(tzinfo=timezone.utc)


class Housekeeping:
    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self._retention = retention
        self._seen_unused: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        left = _FIRST_SECONDS
        while not stop.wait(_PENDING_SECONDS):
            _done_if_possible(self.upload_pending)
            left -= _PENDING_SECONDS
            if left > 0:
                continue
            left = _EVERY_SECONDS
            for work in (self.prune, self.sweep_uploads, self.sweep_lakes):
                _done_if_possible(work)

    def upload_pending(self) -> list[str]:
        """Move pending logs to their lakes; return the ids of the applications whose logs were moved."""
        brought = list(self._engine.artifacts.upload_pending())
        if brought:
            _log.info("pending logs were moved to their lake: %s", ", ".join(brought))
        return brought

    def prune(self) -> Pruned:
        pruned = self._engine.pruner.prune(self._retention, now())
        if pruned != Pruned():
            _log.info("removed old records: %s", pruned)
        return pruned

    def sweep_uploads(self) -> list[str]:
        """Remove the uploads of this engine that no application names; return their keys.

        A lake that does not answer is skipped until the next housekeeping.
        """
        named = self._engine.pruner.referenced_uploads(uploads.upload_pattern(self._engine.uploads))
        self._engine.upload_copies.sweep(named, at=now(), kept=self._retention.unused)
        swept = []
        # A credential-scoped lake has the same objects as its original.
        for lake in Lakes(self._engine.home).shared():
            store = stores.store_of(self._engine.home, lake)
            if store is not None and not store.ready():  # housekeeping starts no lake
                continue
            try:
                swept += self._sweep(lake.name, named)
            except PenstockError as error:
                _log.warning("the uploads in %s were not swept, retrying later: %s", lake.name, error)
        return swept

    def _sweep(self, lake: str, named: set[str]) -> list[str]:
        store = self._engine.store(lake)
        unused = uploads.unused(store.list(self._engine.uploads), named, at=now(), kept=self._retention.unused)
        if unused:
            store.delete(*unused)
            _log.info("removed %d unused uploads from %s", len(unused), lake)
        return unused

    def sweep_lakes(self) -> list[str]:
        """Forget unused credential-scoped lakes with their keys; return their names.

        Their objects stay in the original lake. A lake is unused when its applications have ended and it is no queue's
        home. It is forgotten at the second look that finds it unused, since a client may be about to submit with its
        keys.
        """
        used = self._engine.pruner.lakes_in_use(now())
        homes = json.dumps([dict(attributes) for attributes in self._engine.pruner.attributes()])
        lakes = Lakes(self._engine.home)
        unused = {name for name in lakes.scoped() if name not in used and f'"{name}"' not in homes}
        swept = []
        for name in sorted(unused & self._seen_unused):
            if name in self._engine.pruner.lakes_in_use(now()):
                continue  # used since the first look above
            lakes.remove(name)
            swept.append(name)
            _log.info("forgot the unused lake %s and its keys", name)
        self._seen_unused = unused
        lakes.forget_originals(except_for=self._engine.pruner.lakes_in_use(_EVER))
        return swept


def _done_if_possible(work: Callable[[], object]) -> None:
    try:
        work()
    except (*CONNECTION_LOST, PenstockError, OSError) as error:
        _log.warning("housekeeping failed, retrying later: %s", error)
    except Exception:
        _log.exception("housekeeping failed, retrying later")  # a defect, which must not stop the other tasks
