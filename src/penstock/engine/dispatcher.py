"""The background work of a service: starting applications whose turn it is, and housekeeping. A thread each.

Any number of dispatchers may work on one database: each decision is a transaction under one lock, and what it decides
is recorded before it is carried out. A dispatcher killed in between leaves an application that starts without a
supervisor, which the next patrol, or the next `reconcile` of any process, finds.

Housekeeping removes old rows, unused uploads and credential-scoped lakes, and brings logs to a lake that was away when
their applications ended. A store that is slow delays nobody; several services may do it at once, and again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone

from penstock.engine import artifacts
from penstock.engine.engine import NO_SUPERVISOR_LIVES, Engine
from penstock.engine.repository.applications import CONNECTION_LOST, now
from penstock.engine.retention import Pruned, Retention
from penstock.errors import PenstockError
from penstock.lake import stores
from penstock.lake.registry import Lakes
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


_FIRST_SECONDS = 300.0
"""After the start, which has enough to do."""

_EVERY_SECONDS = 3600.0

_PENDING_SECONDS = 60.0
"""Between two looks for logs that wait for their lake: one query, of a table that is empty but after an outage."""

_EVER = datetime.min.replace(tzinfo=timezone.utc)


class Housekeeping:
    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self._retention = retention
        self._seen_unused: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set."""
        left = _FIRST_SECONDS
        while not stop.wait(_PENDING_SECONDS):
            _done_if_possible(self.bring_pending)
            left -= _PENDING_SECONDS
            if left > 0:
                continue
            left = _EVERY_SECONDS
            for work in (self.prune, self.sweep_uploads, self.sweep_lakes):
                _done_if_possible(work)

    def bring_pending(self) -> list[str]:
        """Bring to their lakes the logs that these did not take; returns the applications whose logs are there now."""
        brought = list(self._engine.bring_pending())
        if brought:
            _log.info("logs that waited for their lake are in it: %s", ", ".join(brought))
        return brought

    def prune(self) -> Pruned:
        pruned = self._engine.prune(self._retention)
        if pruned != Pruned():
            _log.info("old records were removed: %s", pruned)
        return pruned

    def sweep_uploads(self) -> list[str]:
        """Remove the uploads of this engine that no application names; tells their keys. A lake that does not answer is
        left for the next time."""
        named = self._engine.mentioned(artifacts.upload_pattern(self._engine.uploads))
        self._engine.copies.sweep(named, at=now(), kept=self._retention.unused)
        swept = []
        # A credential-scoped lake has the same objects as its original.
        for lake in Lakes(self._engine.home).shared():
            store = stores.store_of(self._engine.home, lake)
            if store is not None and not store.ready():  # none is started for it
                continue
            try:
                swept += self._sweep(lake.name, named)
            except PenstockError as error:
                _log.warning("the uploads in %s, until the next time: %s", lake.name, error)
        return swept

    def _sweep(self, lake: str, named: set[str]) -> list[str]:
        store = self._engine.store(lake)
        unused = artifacts.unused(store.list(self._engine.uploads), named, at=now(), kept=self._retention.unused)
        if unused:
            store.delete(*unused)
            _log.info("%d uploads that no application uses were removed from %s", len(unused), lake)
        return unused

    def sweep_lakes(self) -> list[str]:
        """Forget lakes that were made from submitted keys, and the keys, once the applications that use them have ended
        and no queue has them as its home; returns their names. Their objects stay, open to the original lake's keys.

        Only those unused already at the last look: somebody may be about to submit with these keys.
        """
        used = self._engine.lakes_in_use(now())
        homes = json.dumps([dict(attributes) for attributes in self._engine.attributes()])
        lakes = Lakes(self._engine.home)
        unused = {name for name in lakes.scoped() if name not in used and f'"{name}"' not in homes}
        swept = []
        for name in sorted(unused & self._seen_unused):
            if name in self._engine.lakes_in_use(now()):
                continue  # since the first look just now
            lakes.remove(name)
            swept.append(name)
            _log.info("the lake %s and its keys were forgotten: nobody used it", name)
        self._seen_unused = unused
        lakes.forget_originals(but=self._engine.lakes_in_use(_EVER))
        return swept


def _done_if_possible(work: Callable[[], object]) -> None:
    try:
        work()
    except (*CONNECTION_LOST, PenstockError, OSError) as error:
        _log.warning("housekeeping, until the next time: %s", error)
    except Exception:
        _log.exception("housekeeping, until the next time")  # a defect; the rest is still to be done
