"""Instances and the fair queue in the records: what the policy is asked about, and what its answers change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from penstock.catalog.connection import reading
from penstock.engine.policy import fairness
from penstock.engine.policy.fairness import Holder, Instance, Plan, Quota, Scene, Use, Used, Waiter
from penstock.engine.repository import schema
from penstock.engine.repository.claims import SUPERVISED, dispatched_by_somebody
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
_table, _instances = schema.applications, schema.instances
_SIZE = _table.c.spec["size"]

_HELD = (
    _instances.select()
    .where(_instances.c.engine == sa.bindparam("engine"), _instances.c.name == sa.bindparam("name"))
    .with_for_update(read=True, key_share=True)
)

BEFORE_LAUNCH = _table.c.state.in_([State.ACCEPTED.value, State.WAITING.value])
ON_CLUSTER = _table.c.cluster.is_not(None)


class Sharing:
    """Of one engine; see `Records` for `owner`."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = reading(engine)
        self._owner = owner

    def instances(self) -> list[Instance]:
        """By name; the default one always."""
        with self._reading.connect() as connection:
            found = {row.name: _instance(row) for row in connection.execute(self._rows())}
        found.setdefault(DEFAULT_INSTANCE, Instance())
        return [found[name] for name in sorted(found)]

    def instance(self, name: str) -> Instance:
        """Raises `NotFound`."""
        with self._reading.connect() as connection:
            return self._found(connection, self._row(name), name)

    def held(self, connection: sa.Connection, name: str) -> Instance:
        """The instance, which stays until the end of the transaction; any number may hold it at once.

        Raises `NotFound`.
        """
        return self._found(connection, _HELD, name, {"engine": self._owner, "name": name})

    def put(self, instance: Instance) -> Instance:
        """Make it, or change its weight and quota to these; what it used stays, and the attributes it has."""
        statement = (
            insert(_instances)
            .values(engine=self._owner, name=instance.name, **_values(instance))
            .on_conflict_do_update(index_elements=["engine", "name"], set_=_bounds(instance))
            .returning(_instances.c.attributes)
        )
        with self._engine.begin() as connection:
            return replace(instance, attributes=connection.execute(statement).scalar_one())

    def change(self, name: str, change: Callable[[Instance], Instance]) -> Instance:
        """What `change` makes of it as it is; nobody else's change comes between. Raises `NotFound`."""
        with self._engine.begin() as connection:
            if name == DEFAULT_INSTANCE:
                made = insert(_instances).values(engine=self._owner, name=name)
                connection.execute(made.on_conflict_do_nothing())
            changed = change(self._locked(connection, name))
            mine = sa.and_(_instances.c.engine == self._owner, _instances.c.name == name)
            connection.execute(_instances.update().where(mine).values(**_values(changed)))
        return changed

    def delete(self, name: str) -> None:
        """Its applications stay listed. Raises `NotFound`, and `Conflict` while any of them is not over."""
        if name == DEFAULT_INSTANCE:
            raise Conflict("The default instance stays", why="who names no instance has it", fix="put quotas on it")
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
                    fix="stop them, or wait for their end",
                )
            connection.execute(_instances.delete().where(_instances.c.engine == self._owner, _instances.c.name == name))

    def use(self) -> dict[str, Use]:
        """What each instance has now; those without anything are left out."""
        with self._reading.connect() as connection:
            holding = self._holding(connection)
            rows = connection.execute(
                sa.select(_table.c.instance, sa.func.count().label("waiting"))
                .where(_table.c.engine == self._owner, BEFORE_LAUNCH)
                .group_by(_table.c.instance)
            )
            waiting = {row.instance: row.waiting for row in rows}
        names = {one.instance for one in holding} | waiting.keys()
        return {name: fairness.use(name, holding=holding, waiting=waiting.get(name, 0)) for name in names}

    def require_place(self, connection: sa.Connection, instance: Instance, spec: ApplicationSpec) -> None:
        """Raise `QuotaExceeded` where the cluster is larger than its instance may ever hold, or its queue too long.

        Called in the transaction that records it, when it is there.
        """
        if reason := fairness.beyond_quota(instance, Use(), spec.size):
            raise QuotaExceeded(
                f"The cluster is larger than the instance {instance.name} may be",
                why=reason.message,
                fix="ask for less, or have the instance's quota raised",
            )
        if (most := instance.quota.waiting) is None:
            return
        # One after the other, or many at once would each see the last free place.
        queue = sa.func.hashtextextended(f"queue of {self._owner} {instance.name}", 0)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(queue)))
        if self._waiting_in(connection, instance.name) > most:
            raise QuotaExceeded(
                f"The queue of the instance {instance.name} is full",
                why=f"{most} applications may wait in it",
                fix="submit again when some have started; penstock queue shows them",
            )

    def plan(self, *, at: datetime, capacity: Capacity) -> Plan:
        """The queue as it is; nothing is decided."""
        with self._engine.connect() as connection:
            return fairness.plan(self.scene(connection, at=at, capacity=capacity, everybody=True))

    def take_turn(self, connection: sa.Connection) -> None:
        """One decision at a time over all engines on the database, so the same memory is never promised twice."""
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADMISSION_LOCK)))

    def scene(
        self,
        connection: sa.Connection,
        *,
        at: datetime,
        capacity: Capacity,
        everybody: bool,
        cores_per_core: float = CORES_PER_CORE,
        also: str | None = None,
    ) -> Scene:
        """`everybody` who waits, or only the first of each instance, which is all it takes to see who starts.

        Who waits without anybody who would start it blocks nobody, unless it is `also`: the one that asks.
        """
        attended = sa.or_(
            SUPERVISED, sa.and_(_table.c.dispatched, dispatched_by_somebody(self._owner)), _table.c.id == (also or "")
        )
        query = sa.select(
            _table.c.id,
            _table.c.instance,
            _table.c.priority,
            _table.c.submitted_at,
            _table.c.not_before,
            _table.c.dispatched,
            _table.c.reason,
            _SIZE.label("size"),
        ).where(_table.c.engine == self._owner, BEFORE_LAUNCH, _table.c.cluster.is_(None), attended)
        if not everybody:
            query = (
                query.where(sa.or_(_table.c.not_before.is_(None), _table.c.not_before <= at))
                .distinct(_table.c.instance)
                .order_by(_table.c.instance, _table.c.priority.desc(), _table.c.submitted_at, _table.c.id)
            )
        rows = connection.execute(self._rows()).all()
        return Scene(
            at=at,
            capacity=capacity,
            waiting=[_waiter(row) for row in connection.execute(query)],
            holding=self._holding(connection),
            instances={row.name: _instance(row) for row in rows},
            used={row.name: Used(row.core_seconds, row.byte_seconds, row.used_at) for row in rows},
            cores_per_core=cores_per_core,
        )

    def charge(self, connection: sa.Connection, application: Application, at: datetime) -> None:
        """Its instance has used the cluster until now; called in the transaction that gives the promise back."""
        name = application.spec.instance
        mine = sa.and_(_instances.c.engine == self._owner, _instances.c.name == name)
        query = _instances.select().where(mine).with_for_update()
        if (row := connection.execute(query).one_or_none()) is None:
            connection.execute(insert(_instances).values(engine=self._owner, name=name).on_conflict_do_nothing())
            row = connection.execute(query).one()
        used = Used(row.core_seconds, row.byte_seconds, row.used_at).plus(
            application.spec.size, since=application.admitted_at or at, at=at
        )
        connection.execute(
            _instances.update()
            .where(mine)
            .values(core_seconds=used.core_seconds, byte_seconds=used.byte_seconds, used_at=used.at)
        )

    def _locked(self, connection: sa.Connection, name: str) -> Instance:
        """Nobody else changes it, or submits to it, until the end of the transaction."""
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
            f"There is no instance “{name}”", fix="an administrator makes one; the default one needs no name"
        )

    def _waiting_in(self, connection: sa.Connection, name: str) -> int:
        return connection.execute(
            sa.select(sa.func.count()).where(_table.c.engine == self._owner, _table.c.instance == name, BEFORE_LAUNCH)
        ).scalar_one()

    def _row(self, name: str) -> sa.Select[Any]:
        return self._rows().where(_instances.c.name == name)

    def _rows(self) -> sa.Select[Any]:
        return _instances.select().where(_instances.c.engine == self._owner)

    def _holding(self, connection: sa.Connection) -> list[Holder]:
        query = sa.select(_table.c.instance, _SIZE, _table.c.admitted_at, _table.c.submitted_at).where(
            _table.c.engine == self._owner, ON_CLUSTER
        )
        return [
            Holder(instance, ClusterSize.from_json(size), admitted_at or submitted_at)
            for instance, size, admitted_at, submitted_at in connection.execute(query)
        ]


def _values(instance: Instance) -> dict[str, Any]:
    """The columns that others decide than this class."""
    return {**_bounds(instance), "attributes": dict(instance.attributes)}


def _bounds(instance: Instance) -> dict[str, Any]:
    """The columns an administrator decides."""
    return {"weight": instance.weight, "quota": asdict(instance.quota)}


def _instance(row: sa.Row[Any]) -> Instance:
    return Instance(row.name, row.weight, Quota(**row.quota), row.attributes)


def _waiter(row: sa.Row[Any]) -> Waiter:
    return Waiter(
        row.id,
        row.instance,
        ClusterSize.from_json(row.size),
        row.submitted_at,
        row.priority,
        row.not_before,
        dispatched=row.dispatched,
        recorded=Reason(**row.reason) if row.reason else None,
    )
