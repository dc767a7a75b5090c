"""What the records tell and what is administered in them. Nothing here starts anything but the database."""

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
from penstock.engine.artifacts import PendingArtefacts
from penstock.engine.policy import fairness, lifecycle
from penstock.engine.policy.fairness import Instance, Place, Use
from penstock.engine.repository.applications import Records, now
from penstock.engine.repository.audit import Audit, AuditLog, AuditPage, Outbox
from penstock.engine.repository.claims import Changes
from penstock.engine.repository.listing import Listing, Page, Query
from penstock.engine.retention import Pruned, Retention, Upkeep
from penstock.engine.webhooks import NETWORKS_VARIABLE, Reach
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
class Opened:
    """The parts of the records, over one pool of connections."""

    database: sa.Engine
    records: Records
    listing: Listing
    outbox: Outbox
    audit: AuditLog
    upkeep: Upkeep
    pending: PendingArtefacts

    @staticmethod
    def over(engine: sa.Engine, owner: str) -> Opened:
        return Opened(
            engine,
            Records(engine, owner),
            Listing(engine, owner),
            Outbox(engine, owner),
            AuditLog(engine, owner),
            Upkeep(engine, owner),
            PendingArtefacts(engine, owner),
        )


class Ledger:
    """Every method may be called by several threads at once. Ids may be the beginning of one, or `last`."""

    def __init__(self, home: Home, backend: ClusterBackend | None = None) -> None:
        self.home = home
        self._database = Database(home)
        self._backend = backend or backend_of(home)
        self._pricing = Pricing(home)
        self._opening = threading.Lock()
        self._opened_records: Opened | None = None

    @property
    def _opened(self) -> Opened:
        with self._opening:
            if self._opened_records is None:
                self._opened_records = Opened.over(self._database.engine("penstock"), self._owner)
            return self._opened_records

    @property
    def _owner(self) -> str:
        return f"{socket.gethostname()}:{self.home.root}"

    @property
    def uploads(self) -> str:
        """Where in its lakes this engine keeps what was brought for applications."""
        return artifacts.uploads_of(self._owner)

    @property
    def _records(self) -> Records:
        return self._opened.records

    def get(self, application_id: str) -> Application:
        """Raises `NotFound`, and `InvalidInput` where several ids begin so."""
        return self._records.find(application_id)

    def list(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> builtins.list[Application]:
        """Newest first. Of every instance where none is named."""
        return self._opened.listing.search(states=states, tags=tags, instances=instances, limit=limit)

    def page(self, query: Query) -> Page:
        """Raises `InvalidInput` where the query, or the page it names, cannot be."""
        return self._opened.listing.page(query)

    def counts(self) -> Mapping[str, Mapping[State, int]]:
        """How many applications each instance has in each state it has any in."""
        return self._opened.listing.counts()

    def events(self, application_id: str) -> Iterable[Mapping[str, Any]]:
        return self._records.events(application_id)

    def deliveries(self, application_id: str) -> Iterable[Mapping[str, Any]]:
        """What its webhooks were told, and what they are still to be told."""
        return self._opened.outbox.of(application_id)

    def request_stop(self, application_id: str, reason: Reason = BY_USER) -> Application:
        """Have the application ended, and return at once; one that waits has ended then, one that had stays as it is.

        Asked twice it is the same as once.
        """
        return self._records.request_end(self.get(application_id).id, reason)

    def changes(self) -> AbstractContextManager[Changes]:
        """Hear of every application that changes, within; one connection, for any number of those who want to know."""
        return self._records.changes()

    def dispatching(self) -> AbstractContextManager[Changes]:
        """As `changes`, and within every process of the database counts on this one to start what waits."""
        return self._records.changes(dispatching=True)

    def dispatched(self) -> bool:
        """Whether some process starts what waits."""
        return self._records.dispatched()

    def admit_next(self) -> Application | None:
        """Promise a cluster to the application whose turn it is, where a dispatcher has to start it and there is room.

        Returns it, to be looked after at once, or ended where it can never run; None where there is nobody to start.
        """
        return self._records.admit_next(
            lambda application_id: lifecycle.Admitted(now(), self._backend.handle(application_id)),
            at=now(),
            capacity=self.capacity(),
        )

    def revive_database(self) -> bool:
        """Start the embedded database again where it died; True where it had. Raises `CatalogError`."""
        return self._database.revive()

    def unsupervised(self) -> Iterable[str]:
        """Those who are not over, or not cleaned up after, and have nobody who looks after them, oldest first."""
        return self._records.unsupervised()

    def cost(self, application: Application) -> Cost | None:
        """What its clusters cost until now; None where it had none."""
        return self._pricing.so_far(application, now())

    def webhooks(self) -> Webhooks:
        """To be run by a service. Raises `InvalidInput` where `$PENSTOCK_WEBHOOK_NETWORKS` is not understood."""
        from penstock.engine.webhooks import Webhooks

        return Webhooks(self._opened.outbox, self.home, Reach.parse(os.environ.get(NETWORKS_VARIABLE, "")))

    def capacity(self) -> Capacity:
        """What may be promised to applications in all."""
        return self._backend.capacity()

    @property
    def shares_files(self) -> bool:
        """Whether its clusters find this machine's files under their own paths."""
        return self._backend.shares_files

    def instances(self) -> builtins.list[Instance]:
        """By name; the default one always."""
        return self._records.sharing.instances()

    def instance(self, name: str) -> Instance:
        """Raises `NotFound`."""
        return self._records.sharing.instance(name)

    def put_instance(self, instance: Instance) -> Instance:
        """Make it, or change its weight and quota to these; the attributes it has stay (`change_instance`).

        What runs goes on under a smaller quota too. Raises `InvalidInput`.
        """
        return self._records.sharing.put(fairness.checked(instance))

    def change_instance(self, name: str, change: Callable[[Instance], Instance]) -> Instance:
        """What `change` makes of the instance as it is now; of two changes at once none is lost.

        Raises `NotFound`, and `InvalidInput` where it cannot be so.
        """
        return self._records.sharing.change(name, lambda found: fairness.checked(change(found)))

    def delete_instance(self, name: str) -> None:
        """Raises `NotFound`, and `Conflict` for the default one and while an application of it has not ended."""
        self._records.sharing.delete(name)

    def use(self, instance: str) -> Use:
        """What the instance has now."""
        return self._records.sharing.use().get(instance, Use())

    def uses(self) -> Mapping[str, Use]:
        """What each instance has now, in one look; those that have nothing are left out."""
        return self._records.sharing.use()

    def queue(self, instance: str | None = None) -> builtins.list[Place]:
        """Who waits, in the order in which they would start if nothing changed, and why each waits.

        Positions are those in the whole queue, also where only one instance is asked for.
        """
        places = self._records.sharing.plan(at=now(), capacity=self.capacity()).places
        return [place for place in places if instance in (None, place.instance)]

    def audit(self, entries: Iterable[Audit]) -> None:
        """Record for good that somebody did, or tried to do, something."""
        self._opened.audit.add(entries)

    def audit_page(self, *, limit: int = 100, before: int | None = None) -> AuditPage:
        """The newest first; `before` is the `next` of the page before."""
        if not 1 <= limit <= _MOST_AUDIT:
            raise InvalidInput(f"limit must be from 1 to {_MOST_AUDIT}", fix="limit=100")
        return self._opened.audit.page(limit=limit, before=before)

    def prune(self, kept: Retention) -> Pruned:
        """Remove what of the records is older than it has to be. Raises `InvalidInput`; see `Upkeep.prune`."""
        return self._opened.upkeep.prune(retention.checked(kept), now())

    def mentioned(self, pattern: str) -> set[str]:
        """What in the specifications of all applications matches a PostgreSQL regular expression."""
        return self._opened.upkeep.mentioned(pattern)

    def lakes_in_use(self, since: datetime) -> set[str]:
        """The names of those whose applications, of any engine, have not ended, or not before `since`."""
        return self._opened.upkeep.lakes_in_use(since)

    def attributes(self) -> builtins.list[Mapping[str, Any]]:
        """What faces keep with the instances, of every engine of the database."""
        return self._opened.upkeep.attributes()

    def backup(self, path: Path) -> Contents:
        """Write all records of the database to a file, as they are at one moment. Raises `InvalidInput`."""
        from penstock.engine.repository import backup

        return backup.write(self._opened.database, self._records.owner, path)

    def restore(self, path: Path, *, replace: bool = False) -> Restored:
        """Make the records what they were when the file was written. See `backup.read` for what it raises."""
        from penstock.engine.repository import backup

        return backup.read(self._opened.database, self._records.owner, path, replace=replace)
