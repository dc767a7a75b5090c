"""The facade's part that reads and administers the repository. It starts nothing but the database."""

from __future__ import annotations

import builtins
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from penstock.catalog.database import Database
from penstock.clusters.backend import ClusterBackend
from penstock.clusters.choice import backend_of
from penstock.engine import artifacts, retention
from penstock.engine.artifacts import PendingArtifacts
from penstock.engine.policy import fairness, lifecycle
from penstock.engine.policy.fairness import Instance, InstanceUsage, QueuePosition
from penstock.engine.repository.applications import ApplicationRepository, now
from penstock.engine.repository.audit import Audit, AuditLog, AuditPage, Outbox
from penstock.engine.repository.claims import Changes
from penstock.engine.repository.listing import Listing, Page, Query
from penstock.engine.retention import Pruned, Pruner, Retention
from penstock.engine.webhooks import NETWORKS_VARIABLE, AllowedNetworks
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.model import Application, Capacity, Cost, Reason, State
from penstock.prices import Pricing

if TYPE_CHECKING:
    from penstock.engine.repository.backup import Contents, Restored
    from penstock.engine.webhooks import Webhooks

BY_USER = Reason(lifecycle.STOPPED_BY_USER, "it was stopped on request")
_MOST_AUDIT = 1000


@dataclass(frozen=True)
class Repositories:
    """The repositories, over one connection pool."""

    database: sa.Engine
    records: ApplicationRepository
    listing: Listing
    outbox: Outbox
    audit: AuditLog
    upkeep: Pruner
    pending: PendingArtifacts

    @staticmethod
    def over(engine: sa.Engine, owner: str) -> Repositories:
        return Repositories(
            engine,
            ApplicationRepository(engine, owner),
            Listing(engine, owner),
            Outbox(engine, owner),
            AuditLog(engine, owner),
            Pruner(engine, owner),
            PendingArtifacts(engine, owner),
        )


class Ledger:
    """The repository of one home. Thread-safe. An id may be abbreviated to a unique prefix, or be `last`."""

    def __init__(self, home: Home, backend: ClusterBackend | None = None) -> None:
        self.home = home
        self._database = Database(home)
        self._backend = backend or backend_of(home)
        self._pricing = Pricing(home)
        self._opening = threading.Lock()
        self._repositories_or_none: Repositories | None = None

    @property
    def _opened(self) -> Repositories:
        with self._opening:
            if self._repositories_or_none is None:
                self._repositories_or_none = Repositories.over(self._database.engine("penstock"), self._owner)
            return self._repositories_or_none

    @property
    def _owner(self) -> str:
        return f"{socket.gethostname()}:{self.home.root}"

    @property
    def uploads(self) -> str:
        """The prefix of this engine's uploads in its lakes."""
        return artifacts.uploads_of(self._owner)

    @property
    def _records(self) -> ApplicationRepository:
        return self._opened.records

    def get(self, application_id: str) -> Application:
        """Raises `NotFound`, and `InvalidInput` where the prefix is ambiguous."""
        return self._records.find(application_id)

    def list(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> builtins.list[Application]:
        """Applications, newest first, of all instances unless some are named."""
        return self._opened.listing.search(states=states, tags=tags, instances=instances, limit=limit)

    def page(self, query: Query) -> Page:
        """Raises `InvalidInput` where the query, or the page that it names, is invalid."""
        return self._opened.listing.page(query)

    def counts(self) -> Mapping[str, Mapping[State, int]]:
        """Numbers of applications by instance and state; zeros are left out."""
        return self._opened.listing.counts()

    def events(self, application_id: str) -> Iterable[Mapping[str, Any]]:
        return self._records.events(application_id)

    def deliveries(self, application_id: str) -> Iterable[Mapping[str, Any]]:
        """The application's webhook deliveries, finished and due."""
        return self._opened.outbox.of(application_id)

    def request_stop(self, application_id: str, reason: Reason = BY_USER) -> Application:
        """Request the application's end and return at once; a waiting application has ended by then.

        The call is idempotent and does not change an application that has ended.
        """
        return self._records.request_end(self.get(application_id).id, reason)

    def changes(self) -> AbstractContextManager[Changes]:
        """Receive the ids of changing applications within the block; one connection serves any number of readers."""
        return self._records.changes()

    def dispatching(self) -> AbstractContextManager[Changes]:
        """As `changes`; within the block, other processes also rely on this one to start waiting applications."""
        return self._records.changes(dispatching=True)

    def dispatched(self) -> bool:
        """Return whether a process starts waiting applications."""
        return self._records.dispatched()

    def admit_next(self) -> Application | None:
        """Promise a cluster to the application whose turn it is, if a dispatcher has to start it and there is room.

        Returns the application, which needs a supervisor at once, or has ended because it can never run; None where
        there is none to start.
        """
        return self._records.admit_next(
            lambda application_id: lifecycle.Admitted(now(), self._backend.handle(application_id)),
            at=now(),
            capacity=self.capacity(),
        )

    def revive_database(self) -> bool:
        """Restart the embedded database if it died; return whether it had. Raises `CatalogError`."""
        return self._database.revive()

    def unsupervised(self) -> Iterable[str]:
        """Ids of the applications without a supervisor that have not ended or still hold a cluster, oldest first."""
        return self._records.unsupervised()

    def cost(self, application: Application) -> Cost | None:
        """The cost of its clusters so far; None where it had none."""
        return self._pricing.so_far(application, now())

    def webhooks(self) -> Webhooks:
        """The deliveries, for a service to run. Raises `InvalidInput` where `$PENSTOCK_WEBHOOK_NETWORKS` is invalid."""
        from penstock.engine.webhooks import Webhooks

        return Webhooks(self._opened.outbox, self.home, AllowedNetworks.parse(os.environ.get(NETWORKS_VARIABLE, "")))

    def capacity(self) -> Capacity:
        """The total that may be promised to applications."""
        return self._backend.capacity()

    @property
    def shares_files(self) -> bool:
        """True if clusters see this machine's files under the same paths."""
        return self._backend.shares_files

    def instances(self) -> builtins.list[Instance]:
        """All instances by name, always including the default one."""
        return self._records.sharing.instances()

    def instance(self, name: str) -> Instance:
        """Raises `NotFound`."""
        return self._records.sharing.instance(name)

    def put_instance(self, instance: Instance) -> Instance:
        """Create the instance, or set its weight and quota; its attributes stay (see `change_instance`).

        Running applications keep running under a smaller quota. Raises `InvalidInput`.
        """
        return self._records.sharing.put(fairness.checked(instance))

    def change_instance(self, name: str, change: Callable[[Instance], Instance]) -> Instance:
        """Apply `change` to the instance as it is now; concurrent changes are serialized and none is lost.

        Raises `NotFound`, and `InvalidInput` where the result is invalid.
        """
        return self._records.sharing.change(name, lambda found: fairness.checked(change(found)))

    def delete_instance(self, name: str) -> None:
        """Raises `NotFound`, and `Conflict` for the default instance or while an application of it has not ended."""
        self._records.sharing.delete(name)

    def use(self, instance: str) -> InstanceUsage:
        """The instance's present use."""
        return self._records.sharing.use().get(instance, InstanceUsage())

    def uses(self) -> Mapping[str, InstanceUsage]:
        """The present use of all instances, from one query; instances without any are left out."""
        return self._records.sharing.use()

    def queue(self, instance: str | None = None) -> builtins.list[QueuePosition]:
        """Waiting applications in the order in which they would start if nothing changed, with the reason of each.

        Positions refer to the whole queue, even if `instance` selects a part of it.
        """
        places = self._records.sharing.plan(at=now(), capacity=self.capacity()).places
        return [place for place in places if instance in (None, place.instance)]

    def audit(self, entries: Iterable[Audit]) -> None:
        """Append entries to the audit log; they cannot be changed afterwards."""
        self._opened.audit.add(entries)

    def audit_page(self, *, limit: int = 100, before: int | None = None) -> AuditPage:
        """A page of the audit log, newest first; `before` is the `next` of the preceding page."""
        if not 1 <= limit <= _MOST_AUDIT:
            raise InvalidInput(f"limit must be from 1 to {_MOST_AUDIT}", fix="limit=100")
        return self._opened.audit.page(limit=limit, before=before)

    def prune(self, kept: Retention) -> Pruned:
        """Remove rows past their retention period. Raises `InvalidInput`; see `Upkeep.prune`."""
        return self._opened.upkeep.prune(retention.checked(kept), now())

    def mentioned(self, pattern: str) -> set[str]:
        """All matches of a PostgreSQL regular expression in the specifications of all applications."""
        return self._opened.upkeep.mentioned(pattern)

    def lakes_in_use(self, since: datetime) -> set[str]:
        """Names of the lakes of applications, of any engine, that have not ended or ended since `since`."""
        return self._opened.upkeep.lakes_in_use(since)

    def attributes(self) -> builtins.list[Mapping[str, Any]]:
        """The attributes of all instances of every engine in the database."""
        return self._opened.upkeep.attributes()

    def backup(self, path: Path) -> Contents:
        """Write a consistent snapshot of all records of the database to a file. Raises `InvalidInput`."""
        from penstock.engine.repository import backup

        return backup.write(self._opened.database, self._records.owner, path)

    def restore(self, path: Path, *, replace: bool = False) -> Restored:
        """Restore the records from a backup file. Raises the errors of `backup.read`."""
        from penstock.engine.repository import backup

        return backup.read(self._opened.database, self._records.owner, path, replace=replace)
