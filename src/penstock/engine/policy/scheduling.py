"""The scheduling of the queue: which application starts next, and why the others wait. Pure: no I/O, no clock.

Between instances the present holdings decide: the instance whose dominant share (of cores or memory, whichever is
larger) is smallest for its weight goes first, as in dominant resource fairness (Ghodsi and others, NSDI 2011). Among
equal holdings, as on a machine with room for one cluster at a time, recent use decides, with older use counting less.
So no instance gets the machine by submitting early, or much. Within an instance: priority, then order of submission.

The first application is never overtaken because it is large: free room is reserved until it fits, since small clusters
would otherwise starve it for ever. Only an instance at its quota, a cluster beyond today's capacity or beyond its
instance's whole quota (which may be reduced while it waits), and an application whose command does not claim its turn
are passed over, since the waiting of others does not help them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from penstock.codec import JsonRecord
from penstock.engine.policy import admission
from penstock.errors import InvalidInput
from penstock.model import CORES_PER_CORE, DEFAULT_INSTANCE, Capacity, ClusterSize, Reason, promised
from penstock.units import gibibytes

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HEAVIEST = 1000.0
_MOST_ATTRIBUTE_BYTES = 64 << 10
_ENGINE = "sql_engine"


@dataclass(frozen=True)
class Quota:
    """The limits of an instance; None is unlimited.

    `cores` and `memory_bytes` limit promises as admission counts them, including driver and overheads. `waiting` limits
    the queue: a submission beyond it is refused.
    """

    cores: int | None = None
    memory_bytes: int | None = None
    running: int | None = None
    waiting: int | None = None


@dataclass(frozen=True)
class Instance:
    """A share of the capacity. An instance with twice the `weight` of another gets twice as much while both want more.

    `attributes` are stored for clients (an API's defaults of the instance); the engine does not read them.
    """

    name: str = DEFAULT_INSTANCE
    weight: float = 1.0
    quota: Quota = Quota()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def engine(self) -> str | None:
        """The engine of SQL statements that name none, as `with_engine` set it."""
        return self.attributes.get(_ENGINE)

    def with_engine(self, name: str) -> Instance:
        return replace(self, attributes={**self.attributes, _ENGINE: name})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Instance:
        """The inverse of `to_json`. Raises `InvalidInput` for what `validate` refuses, and for unknown fields."""
        _known(value, Instance, "an instance")
        quota = value.get("quota") or {}
        if not isinstance(quota, Mapping):
            raise InvalidInput("quota is not an object", fix='write "quota": {"running": 2}')
        _known(quota, Quota, "a quota")
        return validate(Instance(**{**value, "quota": Quota(**quota)}))


@dataclass(frozen=True)
class InstanceUsage(JsonRecord):
    """The present use of an instance. `cores` and `memory_bytes` are promised to its clusters."""

    running: int = 0
    waiting: int = 0
    cores: int = 0
    memory_bytes: int = 0


def validate(instance: Instance) -> Instance:
    """Return the instance. Raises `InvalidInput` where a part of it is invalid."""
    if not isinstance(instance.name, str) or not _NAME.fullmatch(instance.name):
        raise InvalidInput(
            "The name of the instance is invalid",
            why="it must have 1 to 63 letters, digits, dots, dashes or underscores, and begin with a letter or digit",
            fix="choose another name, such as team-a",
        )
    if not _is_number(instance.weight) or not 0 < instance.weight <= _HEAVIEST:
        raise InvalidInput("weight must be above 0 and at most 1000", fix="the default is 1; 2 gives twice the share")
    for part in fields(Quota):
        most = getattr(instance.quota, part.name)
        least = 0 if part.name == "waiting" else 1
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not least <= most < 1 << 60):
            raise InvalidInput(
                f"quota.{part.name} must be a whole number of at least {least}", fix="leave it out for no limit"
            )
    if not isinstance(instance.attributes, Mapping) or len(repr(instance.attributes)) > _MOST_ATTRIBUTE_BYTES:
        raise InvalidInput("attributes must be an object of at most 64 KiB", fix="store less with the instance")
    return instance


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _known(value: Mapping[str, Any], kind: type, what: str) -> None:
    names = {part.name for part in fields(kind)}
    if unknown := sorted(value.keys() - names):
        raise InvalidInput(f"{what} has no “{unknown[0]}”", why=f"it has {', '.join(sorted(names))}")


HALF_LIFE = timedelta(hours=1)
"""The time after which use counts half."""

LEAST_CHARGE = timedelta(seconds=10)
"""The least time that a cluster is charged for, since starting and ending it is work, too."""

NOT_YET = "queue"

CLAIM_TIME = timedelta(seconds=10)
"""The time in which the command of the first application must claim its turn. Usually it does so within two seconds. A
command that is suspended (Ctrl-Z) keeps its application's place, but others start meanwhile."""

_UNCLAIMED = Reason(
    "turn",
    "its turn came, but its command, which may be suspended, did not start it",
    "continue the command: fg in its terminal, or kill -CONT and its process number",
)


@dataclass(frozen=True)
class QueuedApplication:
    id: str
    instance: str
    size: ClusterSize
    submitted_at: datetime
    priority: int = 0
    not_before: datetime | None = None
    dispatched: bool = False
    """True if a dispatcher starts it; the order does not depend on it."""
    turn_since: datetime | None = None
    """The time since which it may start, as others have seen, without an attempt of its command."""
    recorded: Reason | None = None
    """The recorded reason of its waiting."""


@dataclass(frozen=True)
class RunningCluster:
    """A running cluster, whose promise began at `since`."""

    instance: str
    size: ClusterSize
    since: datetime


@dataclass(frozen=True)
class DecayedUsage:
    """The past use of an instance until `at`, with older use counting less, without its running clusters."""

    core_seconds: float = 0.0
    byte_seconds: float = 0.0
    at: datetime | None = None

    def decayed(self, at: datetime) -> DecayedUsage:
        if self.at is None:
            return DecayedUsage(at=at)
        left = 0.5 ** max((at - self.at) / HALF_LIFE, 0.0)
        return DecayedUsage(self.core_seconds * left, self.byte_seconds * left, at)

    def plus(self, size: ClusterSize, *, since: datetime, at: datetime) -> DecayedUsage:
        """Add a cluster of that size, held from `since` to `at`."""
        before, held = self.decayed(at), promised(size)
        seconds = max(at - since, LEAST_CHARGE).total_seconds()
        return DecayedUsage(
            before.core_seconds + held.cores * seconds, before.byte_seconds + held.memory_bytes * seconds, at
        )


@dataclass(frozen=True)
class QueueSnapshot:
    """The input of a decision. An instance that is missing in `instances` has weight 1 and no quota."""

    at: datetime
    capacity: Capacity
    waiting: Sequence[QueuedApplication]
    holding: Sequence[RunningCluster] = ()
    instances: Mapping[str, Instance] = field(default_factory=dict)
    used: Mapping[str, DecayedUsage] = field(default_factory=dict)
    cores_per_core: float = CORES_PER_CORE


@dataclass(frozen=True)
class QueuePosition:
    """A position in the queue, from 1; `reason` says why the application waits, None for the one that starts now."""

    id: str
    instance: str
    position: int
    reason: Reason | None


@dataclass(frozen=True)
class Schedule:
    places: tuple[QueuePosition, ...]
    """All waiting applications, in the order in which they would start if nothing changed."""
    refused: Mapping[str, Reason]
    """The applications that exceed the largest possible capacity."""
    set_aside: Mapping[str, Reason] = field(default_factory=dict)
    """The applications among `places` that are passed over: they exceed all of today's capacity or their instance's
    whole quota, or do not claim their turn."""

    @property
    def start(self) -> str | None:
        return self.places[0].id if self.places and self.places[0].reason is None else None

    def place(self, application_id: str) -> QueuePosition | None:
        return next((place for place in self.places if place.id == application_id), None)


def schedule(snapshot: QueueSnapshot) -> Schedule:
    # Once per size, since a thousand applications that were submitted together have the same size.
    sizes = {one.size for one in snapshot.waiting}
    never = {size: reason for size in sizes if (reason := admission.too_large(size, snapshot.capacity))}
    not_today = {
        size: reason for size in sizes - never.keys() if (reason := admission.waits_for(size, snapshot.capacity))
    }
    refused = {one.id: never[one.size] for one in snapshot.waiting if one.size in never}
    over_quota = {
        kind: reason
        for kind in {(one.instance, one.size) for one in snapshot.waiting if one.instance in snapshot.instances}
        if (reason := exceeds_quota(snapshot.instances[kind[0]], kind[1]))
    }
    set_aside = {
        one.id: reason
        for one in snapshot.waiting
        if one.id not in refused
        and (
            reason := over_quota.get((one.instance, one.size))
            or not_today.get(one.size)
            or _unclaimed(one, snapshot.at)
        )
    }
    able = [one for one in snapshot.waiting if one.id not in refused and one.id not in set_aside]
    ready = [one for one in able if not _too_early(one, snapshot.at)]
    shares = _Shares(snapshot)
    places: list[tuple[QueuedApplication, Reason | None]] = []
    queues = _queues(ready)
    held_back: list[tuple[QueuedApplication, Reason | None]] = []
    for name in list(queues):
        if reason := _beyond_quota(snapshot, name, queues[name][0].size):
            held_back += [(one, reason) for one in queues.pop(name)]
    while queues:
        name = min(queues, key=lambda name: (*shares.key(name), queues[name][0].submitted_at, name))
        first = queues[name].pop(0)
        if not queues[name]:
            del queues[name]
        places.append((first, _ahead(len(places)) if places else _no_room(snapshot, first)))
        shares.take(name, first.size)
    later = [(one, reason) for one in sorted(able, key=_order) if (reason := _too_early(one, snapshot.at))]
    aside = [(one, set_aside[one.id]) for one in sorted(snapshot.waiting, key=_order) if one.id in set_aside]
    everyone = [*places, *held_back, *aside, *later]
    return Schedule(
        tuple(QueuePosition(one.id, one.instance, number, reason) for number, (one, reason) in enumerate(everyone, 1)),
        refused,
        set_aside,
    )


def use(instance: str, *, holding: Iterable[RunningCluster], waiting: int) -> InstanceUsage:
    """The present use of `instance` by its clusters in `holding`."""
    held = [promised(one.size) for one in holding if one.instance == instance]
    return InstanceUsage(len(held), waiting, sum(one.cores for one in held), sum(one.memory_bytes for one in held))


class _Shares:
    """The weighted dominant shares of instances, present and past; each chosen application adds to the present ones."""

    def __init__(self, snapshot: QueueSnapshot) -> None:
        self._snapshot = snapshot
        self._cores = snapshot.capacity.cores * snapshot.cores_per_core
        self._memory = snapshot.capacity.memory_bytes
        self._held: dict[str, tuple[int, int]] = {}
        self._used = dict(snapshot.used)
        for one in snapshot.holding:
            self.take(one.instance, one.size)
            used = self._used.get(one.instance, DecayedUsage())
            self._used[one.instance] = used.plus(one.size, since=one.since, at=snapshot.at)

    def take(self, name: str, size: ClusterSize) -> None:
        cores, memory = self._held.get(name, (0, 0))
        more = promised(size)
        self._held[name] = (cores + more.cores, memory + more.memory_bytes)

    def key(self, name: str) -> tuple[float, float]:
        weight = self._snapshot.instances.get(name, Instance(name)).weight
        cores, memory = self._held.get(name, (0, 0))
        used = self._used.get(name, DecayedUsage()).decayed(self._snapshot.at)
        return self._dominant(cores, memory) / weight, self._dominant(used.core_seconds, used.byte_seconds) / weight

    def _dominant(self, cores: float, memory: float) -> float:
        return max(cores / max(self._cores, 1), memory / max(self._memory, 1))


def _order(one: QueuedApplication) -> tuple[int, datetime, str]:
    return -one.priority, one.submitted_at, one.id


def _queues(waiting: Iterable[QueuedApplication]) -> dict[str, list[QueuedApplication]]:
    queues: dict[str, list[QueuedApplication]] = {}
    for one in sorted(waiting, key=_order):
        queues.setdefault(one.instance, []).append(one)
    return queues


def _no_room(snapshot: QueueSnapshot, one: QueuedApplication) -> Reason | None:
    return admission.room(
        one.size, [other.size for other in snapshot.holding], snapshot.capacity, snapshot.cores_per_core
    )


def _ahead(count: int) -> Reason:
    return Reason(NOT_YET, f"{count} {'applications are' if count > 1 else 'application is'} ahead of it")


def _too_early(one: QueuedApplication, at: datetime) -> Reason | None:
    if one.not_before is None or one.not_before <= at:
        return None
    return Reason("retry", f"its next attempt may begin at {one.not_before:%H:%M:%S} UTC")


def _unclaimed(one: QueuedApplication, at: datetime) -> Reason | None:
    # A dispatcher takes what is first without a claim, and a lost one is replaced.
    if one.dispatched or one.turn_since is None:
        return None
    return _UNCLAIMED if at - one.turn_since >= CLAIM_TIME else None


def _beyond_quota(snapshot: QueueSnapshot, name: str, size: ClusterSize) -> Reason | None:
    instance = snapshot.instances.get(name)
    if instance is None:
        return None
    return beyond_quota(instance, use(name, holding=snapshot.holding, waiting=0), size)


def exceeds_quota(instance: Instance, size: ClusterSize) -> Reason | None:
    """The reason why a cluster of `size` exceeds the quota of an instance in which nothing runs; None where it fits."""
    quota, wanted = instance.quota, promised(size)
    if quota.cores is not None and wanted.cores > quota.cores:
        needs, limit = f"{wanted.cores} cores", str(quota.cores)
    elif quota.memory_bytes is not None and wanted.memory_bytes > quota.memory_bytes:
        needs, limit = gibibytes(wanted.memory_bytes), gibibytes(quota.memory_bytes)
    else:
        return None
    return Reason(
        "quota",
        f"it needs {needs}, which exceeds the quota of the instance {instance.name}, {limit}",
        "request less, or ask an administrator to raise the quota",
    )


def beyond_quota(instance: Instance, has: InstanceUsage, size: ClusterSize) -> Reason | None:
    """The reason why an instance that uses `has` may not add a cluster of `size`; None where it may."""
    quota, more = instance.quota, promised(size)
    if quota.running is not None and has.running >= quota.running:
        return Reason("quota", f"the instance {instance.name} may run {quota.running} at once and already does")
    if quota.cores is not None and has.cores + more.cores > quota.cores:
        left = max(quota.cores - has.cores, 0)
        return Reason("quota", f"it needs {more.cores} cores, {left} of the {quota.cores} of {instance.name} are free")
    if quota.memory_bytes is not None and has.memory_bytes + more.memory_bytes > quota.memory_bytes:
        left = max(quota.memory_bytes - has.memory_bytes, 0)
        return Reason(
            "quota",
            f"it needs {gibibytes(more.memory_bytes)}, {gibibytes(left)} of the {gibibytes(quota.memory_bytes)}"
            f" of {instance.name} are free",
        )
    return None
