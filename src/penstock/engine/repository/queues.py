"""Instances and the fair queue in the records: the input of the scheduling policy, and the changes it decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from penstock.catalog.connection import autocommit_engine
from penstock.engine.policy import scheduling
from penstock.engine.policy.scheduling import (
    DecayedUsage,
    Instance,
    InstanceUsage,
    QueuedApplication,
    QueueSnapshot,
    Quota,
    RunningCluster,
    Schedule,
)
from penstock.engine.repository import schema
from penstock.engine.repository.claims import SUPERVISED, has_dispatcher
from penstock.errors import Conflict, NotFound, QuotaExceeded
from penstock.model import (
    CORES_PER_CORE,
    DEFAULT_INSTANCE,
    Application,
    ApplicationSpec,
    Capacity,
    ClusterSize,
    Reason,
    State,
)

_ADMISSION_LOCK = 7031_0002
_LIMIT_IDLE_TIME = sa.select(sa.func.set_config("idle_in_transaction_session_timeout", "30s", True))
_MOST_LISTED = 5
_table, _instances, _tokens = schema.applications, schema.instances, schema.tokens
_SIZE = _table.c.spec["size"]

_HELD = (
    _instances.select()
    .where(_instances.c.engine == sa.bindparam("engine"), _instances.c.name == sa.bindparam("name"))
    .with_for_update(read=True, key_share=True)
)

BEFORE_LAUNCH = _table.c.state.in_([State.ACCEPTED.value, State.WAITING.value])
ON_CLUSTER = _table.c.cluster.is_not(None)


class QueueRepository:
    """The queue and the instances of one engine; `owner` names the engine."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = autocommit_engine(engine)
        self._owner = owner

    def instances(self) -> list[Instance]:
        """All instances by name, always including the default one."""
        with self._reading.connect() as connection:
            found = {row.name: _instance(row) for row in connection.execute(self._rows())}
        found.setdefault(DEFAULT_INSTANCE, Instance())
        return [found[name] for name in sorted(found)]

    def instance(self, name: str) -> Instance:
        """Raises `NotFound`."""
        with self._reading.connect() as connection:
            return self._found(connection, self._row(name), name)

    def locked_for_share(self, connection: sa.Connection, name: str) -> Instance:
        """The instance under a shared lock, which prevents its deletion until the end of the transaction.

        Raises `NotFound`.
        """
        return self._found(connection, _HELD, name, {"engine": self._owner, "name": name})

    def put(self, instance: Instance) -> Instance:
        """Create the instance, or set its weight and quota; its recorded use and attributes stay (see `change`).

        Running applications keep running under a smaller quota. Raises `InvalidInput`.
        """
        instance = scheduling.validate(instance)
        statement = (
            insert(_instances)
            .values(engine=self._owner, name=instance.name, **_values(instance))
            .on_conflict_do_update(index_elements=["engine", "name"], set_=_bounds(instance))
            .returning(_instances.c.attributes)
        )
        with self._engine.begin() as connection:
            return replace(instance, attributes=connection.execute(statement).scalar_one())

    def change(self, name: str, change: Callable[[Instance], Instance]) -> Instance:
        """Apply `change` to the instance as it is now; concurrent changes are serialized and none is lost.

        Raises `NotFound`, and `InvalidInput` where the result is invalid.
        """
        with self._engine.begin() as connection:
            if name == DEFAULT_INSTANCE:
                made = insert(_instances).values(engine=self._owner, name=name)
                connection.execute(made.on_conflict_do_nothing())
            changed = scheduling.validate(change(self._locked(connection, name)))
            mine = sa.and_(_instances.c.engine == self._owner, _instances.c.name == name)
            connection.execute(_instances.update().where(mine).values(**_values(changed)))
        return changed

    def delete(self, name: str) -> None:
        """Delete the instance; its applications stay listed.

        Raises `NotFound`, and `Conflict` for the default instance, while an application of it has not ended, and while
        valid tokens name it, since they would open a later instance of the same name. Their grants are not removed
        here: tokens are shared by all engines of a database, and another engine may have an instance of that name.
        """
        if name == DEFAULT_INSTANCE:
            raise Conflict(
                "The default instance cannot be deleted",
                why="submissions that name no instance use it",
                fix="limit it with quotas",
            )
        with self._engine.begin() as connection:
            self._locked(connection, name)
            alive = connection.execute(
                sa.select(sa.func.count()).where(
                    _table.c.engine == self._owner,
                    _table.c.instance == name,
                    sa.or_(_table.c.ended_at.is_(None), ON_CLUSTER),
                )
            ).scalar_one()
            if alive:
                raise Conflict(
                    f"The instance {name} is in use",
                    why=f"{alive} of its applications have not ended",
                    fix="stop them, or wait until they end",
                )
            if named := self._tokens_naming(connection, name):
                raise Conflict(
                    f"The instance {name} is named by tokens",
                    why=f"they would open a later instance of that name: {_listed(named)}",
                    fix="penstock token list shows them; revoke them with penstock token revoke ID",
                )
            connection.execute(_instances.delete().where(_instances.c.engine == self._owner, _instances.c.name == name))

    def usage(self) -> dict[str, InstanceUsage]:
        """The present usage of each instance, from one query; instances without any are left out."""
        with self._reading.connect() as connection:
            holding = self._holding(connection)
            rows = connection.execute(
                sa.select(_table.c.instance, sa.func.count().label("waiting"))
                .where(_table.c.engine == self._owner, BEFORE_LAUNCH)
                .group_by(_table.c.instance)
            )
            waiting = {row.instance: row.waiting for row in rows}
        names = {one.instance for one in holding} | waiting.keys()
        return {name: scheduling.use(name, holding=holding, waiting=waiting.get(name, 0)) for name in names}

    def require_room(self, connection: sa.Connection, instance: Instance, spec: ApplicationSpec) -> None:
        """Raise `QuotaExceeded` where the cluster exceeds the instance's quota, or its queue is full.

        The caller's transaction has already inserted the application.
        """
        if reason := scheduling.exceeds_quota(instance, spec.size):
            raise QuotaExceeded(
                f"The cluster exceeds the quota of the instance {instance.name}", why=reason.message, fix=reason.fix
            )
        if (most := instance.quota.waiting) is None:
            return
        # Serialized, since concurrent submissions would each see the last free place.
        queue = sa.func.hashtextextended(f"queue of {self._owner} {instance.name}", 0)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(queue)))
        if self._waiting_in(connection, instance.name) > most:
            raise QuotaExceeded(
                f"The queue of the instance {instance.name} is full",
                why=f"{most} applications may wait in it",
                fix="submit again when some have started; penstock queue lists them",
            )

    def usage_of(self, name: str) -> InstanceUsage:
        """The instance's present usage."""
        return self.usage().get(name, InstanceUsage())

    def schedule(self, *, at: datetime, capacity: Capacity) -> Schedule:
        """The schedule of the queue as it is; nothing is changed."""
        with self._engine.connect() as connection:
            return scheduling.schedule(self.snapshot(connection, at=at, capacity=capacity, all_waiting=True))

    def take_turn(self, connection: sa.Connection) -> None:
        """Serialize decisions over all engines in the database, so that no memory is promised twice."""
        # A process that is suspended in the middle of its decision would stop all others.
        connection.execute(_LIMIT_IDLE_TIME)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADMISSION_LOCK)))

    def claim_turn(self, connection: sa.Connection, application_id: str) -> None:
        """Record that the application's own command decides about it now."""
        connection.execute(
            _table.update()
            .where(_table.c.id == application_id, _table.c.turn_since.is_not(None))
            .values(turn_since=None)
        )

    def offer_turn(self, connection: sa.Connection, application_id: str, at: datetime) -> None:
        """Record that the application may start as soon as its command claims the turn; only the first offer counts."""
        free = sa.select(_table.c.id).where(_table.c.id == application_id, _table.c.turn_since.is_(None), BEFORE_LAUNCH)
        # Its own process may be suspended with a lock on the row.
        query = _table.update().where(_table.c.id.in_(free.with_for_update(skip_locked=True).scalar_subquery()))
        connection.execute(query.values(turn_since=at))

    def snapshot(
        self,
        connection: sa.Connection,
        *,
        at: datetime,
        capacity: Capacity,
        all_waiting: bool,
        cores_per_core: float = CORES_PER_CORE,
        also: str | None = None,
    ) -> QueueSnapshot:
        """A snapshot of the queue, with all waiting applications or only the first of each instance.

        The first ones suffice to decide which application starts. Applications that no process would start are left
        out, so that they block no others, except `also`: the application of the caller.
        """
        attended = sa.or_(
            SUPERVISED, sa.and_(_table.c.dispatched, has_dispatcher(self._owner)), _table.c.id == (also or "")
        )
        query = sa.select(
            _table.c.id,
            _table.c.instance,
            _table.c.priority,
            _table.c.submitted_at,
            _table.c.not_before,
            _table.c.dispatched,
            _table.c.turn_since,
            _table.c.reason,
            _SIZE.label("size"),
        ).where(_table.c.engine == self._owner, BEFORE_LAUNCH, _table.c.cluster.is_(None), attended)
        if not all_waiting:
            query = (
                query.where(sa.or_(_table.c.not_before.is_(None), _table.c.not_before <= at))
                .distinct(_table.c.instance)
                .order_by(_table.c.instance, _table.c.priority.desc(), _table.c.submitted_at, _table.c.id)
            )
        rows = connection.execute(self._rows()).all()
        return QueueSnapshot(
            at=at,
            capacity=capacity,
            waiting=[_waiter(row) for row in connection.execute(query)],
            holding=self._holding(connection),
            instances={row.name: _instance(row) for row in rows},
            used={row.name: DecayedUsage(row.core_seconds, row.byte_seconds, row.used_at) for row in rows},
            cores_per_core=cores_per_core,
        )

    def charge(self, connection: sa.Connection, application: Application, at: datetime) -> None:
        """Charge the cluster to its instance until `at`; called in the transaction that releases the promise."""
        name = application.spec.instance
        mine = sa.and_(_instances.c.engine == self._owner, _instances.c.name == name)
        query = _instances.select().where(mine).with_for_update()
        if (row := connection.execute(query).one_or_none()) is None:
            connection.execute(insert(_instances).values(engine=self._owner, name=name).on_conflict_do_nothing())
            row = connection.execute(query).one()
        used = DecayedUsage(row.core_seconds, row.byte_seconds, row.used_at).plus(
            application.spec.size, since=application.admitted_at or at, at=at
        )
        connection.execute(
            _instances.update()
            .where(mine)
            .values(core_seconds=used.core_seconds, byte_seconds=used.byte_seconds, used_at=used.at)
        )

    def _locked(self, connection: sa.Connection, name: str) -> Instance:
        """The instance under an exclusive lock, which blocks changes and submissions until the transaction ends."""
        return self._found(connection, self._row(name).with_for_update(), name)

    def _found(
        self, connection: sa.Connection, query: sa.Select[Any], name: str, given: Mapping[str, str] | None = None
    ) -> Instance:
        row = connection.execute(query, given).one_or_none()
        if row is not None:
            return _instance(row)
        if name == DEFAULT_INSTANCE:
            return Instance()
        raise NotFound(
            f"There is no instance “{name}”", fix="ask an administrator to create it, or name none for the default one"
        )

    def _tokens_naming(self, connection: sa.Connection, name: str) -> list[str]:
        valid = sa.or_(_tokens.c.expires_at.is_(None), _tokens.c.expires_at > sa.func.now())
        query = sa.select(_tokens.c.id).where(_tokens.c.grants.has_key(name), valid).order_by(_tokens.c.created_at)
        return list(connection.execute(query).scalars())

    def _waiting_in(self, connection: sa.Connection, name: str) -> int:
        return connection.execute(
            sa.select(sa.func.count()).where(_table.c.engine == self._owner, _table.c.instance == name, BEFORE_LAUNCH)
        ).scalar_one()

    def _row(self, name: str) -> sa.Select[Any]:
        return self._rows().where(_instances.c.name == name)

    def _rows(self) -> sa.Select[Any]:
        return _instances.select().where(_instances.c.engine == self._owner)

    def _holding(self, connection: sa.Connection) -> list[RunningCluster]:
        query = sa.select(_table.c.instance, _SIZE, _table.c.admitted_at, _table.c.submitted_at).where(
            _table.c.engine == self._owner, ON_CLUSTER
        )
        return [
            RunningCluster(instance, ClusterSize.from_json(size), admitted_at or submitted_at)
            for instance, size, admitted_at, submitted_at in connection.execute(query)
        ]


def _listed(ids: list[str]) -> str:
    more = len(ids) - _MOST_LISTED
    return ", ".join(ids[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _values(instance: Instance) -> dict[str, Any]:
    """The columns that callers decide."""
    return {**_bounds(instance), "attributes": dict(instance.attributes)}


def _bounds(instance: Instance) -> dict[str, Any]:
    """The columns that an administrator decides."""
    return {"weight": instance.weight, "quota": asdict(instance.quota)}


def _instance(row: sa.Row[Any]) -> Instance:
    return Instance(row.name, row.weight, Quota(**row.quota), row.attributes)


def _waiter(row: sa.Row[Any]) -> QueuedApplication:
    return QueuedApplication(
        row.id,
        row.instance,
        ClusterSize.from_json(row.size),
        row.submitted_at,
        row.priority,
        row.not_before,
        dispatched=row.dispatched,
        turn_since=row.turn_since,
        recorded=Reason(**row.reason) if row.reason else None,
    )
