"""The order of the queue: which application starts next, and why each other waits. Pure: no I/O, no clock.

Between instances, what each holds now decides: the one whose dominant share (cores or memory, whichever it has more of)
is smallest for its weight goes first, as in dominant resource fairness (Ghodsi and others, NSDI 2011). Where they hold
equally much, as on a machine with room for one cluster at a time, what each had lately decides, older use counting
less. So nobody gets the machine by submitting early, or much. Within an instance: priority, then order of submission.

What goes first is never overtaken because it is large: the room it needs is kept until it is there, or small clusters
would starve it for ever. Only an instance at its quota, and a cluster larger than all that there is today, are passed
over, since others cannot help them by waiting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from penstock.engine.policy import admission
from penstock.errors import InvalidInput
from penstock.model import CORES_PER_CORE, DEFAULT_INSTANCE, Capacity, ClusterSize, Reason, promised
from penstock.units import gibibytes

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HEAVIEST = 1000.0
_MOST_ATTRIBUTE_BYTES = 64 << 10


@dataclass(frozen=True)
class Quota:
    """The most an instance may have at once; None is without bounds.

    `cores` and `memory_bytes` are promises as admission counts them: driver and overheads included. `waiting` bounds
    its queue: a submission beyond it is refused.
    """

    cores: int | None = None
    memory_bytes: int | None = None
    running: int | None = None
    waiting: int | None = None


@dataclass(frozen=True)
class Instance:
    """`weight` is its share against the others': with twice the weight it gets twice as much where both want more.

    `attributes` are kept for clients (an API's defaults of the instance); the engine does not look at them.
    """

    name: str = DEFAULT_INSTANCE
    weight: float = 1.0
    quota: Quota = Quota()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Instance:
        """The inverse of `to_json`. Raises `InvalidInput` for what `checked` refuses, and for unknown fields."""
        _known(value, Instance, "an instance")
        quota = value.get("quota") or {}
        if not isinstance(quota, Mapping):
            raise InvalidInput("quota is not an object", fix='write "quota": {"running": 2}')
        _known(quota, Quota, "a quota")
        return checked(Instance(**{**value, "quota": Quota(**quota)}))


@dataclass(frozen=True)
class Use:
    """What an instance has now. `cores` and `memory_bytes` are promised to its clusters."""

    running: int = 0
    waiting: int = 0
    cores: int = 0
    memory_bytes: int = 0

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def checked(instance: Instance) -> Instance:
    """The same; raises `InvalidInput` where a part of it cannot be."""
    if not isinstance(instance.name, str) or not _NAME.fullmatch(instance.name):
        raise InvalidInput(
            "That cannot be an instance's name",
            why="it has 1 to 63 letters, digits, dots, dashes and underscores, and begins with a letter or digit",
            fix="choose another name, such as team-a",
        )
    if not _is_number(instance.weight) or not 0 < instance.weight <= _HEAVIEST:
        raise InvalidInput("weight must be above 0 and at most 1000", fix="1 is usual, 2 has twice the share")
    for part in fields(Quota):
        most = getattr(instance.quota, part.name)
        least = 0 if part.name == "waiting" else 1
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not least <= most < 1 << 60):
            raise InvalidInput(
                f"quota.{part.name} must be a whole number, {least} at least", fix="leave it out for no bound"
            )
    if not isinstance(instance.attributes, Mapping) or len(repr(instance.attributes)) > _MOST_ATTRIBUTE_BYTES:
        raise InvalidInput("attributes must be an object of at most 64 KiB", fix="keep less with the instance")
    return instance


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _known(value: Mapping[str, Any], kind: type, what: str) -> None:
    names = {part.name for part in fields(kind)}
    if unknown := sorted(value.keys() - names):
        raise InvalidInput(f"{what} has no “{unknown[0]}”", why=f"it has {', '.join(sorted(names))}")


HALF_LIFE = timedelta(hours=1)
"""After this time, use counts half."""

LEAST_CHARGE = timedelta(seconds=10)
"""What a cluster counts for at least: starting and ending it is work, too."""

NOT_YET = "queue"


@dataclass(frozen=True)
class Waiter:
    id: str
    instance: str
    size: ClusterSize
    submitted_at: datetime
    priority: int = 0
    not_before: datetime | None = None
    dispatched: bool = False
    """Whether a dispatcher starts it; the order does not depend on it."""
    recorded: Reason | None = None
    """Why it waits, as its record says."""


@dataclass(frozen=True)
class Holder:
    """A cluster that holds its promise since `since`."""

    instance: str
    size: ClusterSize
    since: datetime


@dataclass(frozen=True)
class Used:
    """What an instance had until `at`, older use counting less, without what it holds now."""

    core_seconds: float = 0.0
    byte_seconds: float = 0.0
    at: datetime | None = None

    def faded(self, at: datetime) -> Used:
        if self.at is None:
            return Used(at=at)
        left = 0.5 ** max((at - self.at) / HALF_LIFE, 0.0)
        return Used(self.core_seconds * left, self.byte_seconds * left, at)

    def plus(self, size: ClusterSize, *, since: datetime, at: datetime) -> Used:
        """With a cluster of that size held from `since` to `at`."""
        before, held = self.faded(at), promised(size)
        seconds = max(at - since, LEAST_CHARGE).total_seconds()
        return Used(before.core_seconds + held.cores * seconds, before.byte_seconds + held.memory_bytes * seconds, at)


@dataclass(frozen=True)
class Scene:
    """All that a decision depends on. An instance that is not named in `instances` has weight 1 and no quota."""

    at: datetime
    capacity: Capacity
    waiting: Sequence[Waiter]
    holding: Sequence[Holder] = ()
    instances: Mapping[str, Instance] = field(default_factory=dict)
    used: Mapping[str, Used] = field(default_factory=dict)
    cores_per_core: float = CORES_PER_CORE


@dataclass(frozen=True)
class Place:
    """`position` counts from 1; `reason` says what it waits for, None for the one that starts now."""

    id: str
    instance: str
    position: int
    reason: Reason | None


@dataclass(frozen=True)
class Plan:
    places: tuple[Place, ...]
    """All who wait, in the order in which they would start if nothing changed."""
    refused: Mapping[str, Reason]
    """The applications that are too large for all that there will ever be."""
    beyond: Mapping[str, Reason] = field(default_factory=dict)
    """The applications among `places` that even all of today's capacity cannot hold, and what each needs."""

    @property
    def start(self) -> str | None:
        return self.places[0].id if self.places and self.places[0].reason is None else None

    def place(self, application_id: str) -> Place | None:
        return next((place for place in self.places if place.id == application_id), None)


def plan(scene: Scene) -> Plan:
    # Once for each size: a thousand that were submitted together have the same.
    sizes = {one.size for one in scene.waiting}
    never = {size: reason for size in sizes if (reason := admission.too_large(size, scene.capacity))}
    not_today = {size: reason for size in sizes - never.keys() if (reason := admission.waits_for(size, scene.capacity))}
    refused = {one.id: never[one.size] for one in scene.waiting if one.size in never}
    beyond = {one.id: not_today[one.size] for one in scene.waiting if one.size in not_today}
    able = [one for one in scene.waiting if one.id not in refused and one.id not in beyond]
    ready = [one for one in able if not _too_early(one, scene.at)]
    shares = _Shares(scene)
    places: list[tuple[Waiter, Reason | None]] = []
    queues = _queues(ready)
    held_back: list[tuple[Waiter, Reason | None]] = []
    for name in list(queues):
        if reason := _beyond_quota(scene, name, queues[name][0].size):
            held_back += [(one, reason) for one in queues.pop(name)]
    while queues:
        name = min(queues, key=lambda name: (*shares.key(name), queues[name][0].submitted_at, name))
        first = queues[name].pop(0)
        if not queues[name]:
            del queues[name]
        places.append((first, _ahead(len(places)) if places else _no_room(scene, first)))
        shares.take(name, first.size)
    later = [(one, reason) for one in sorted(able, key=_order) if (reason := _too_early(one, scene.at))]
    set_aside = [(one, beyond[one.id]) for one in sorted(scene.waiting, key=_order) if one.id in beyond]
    everyone = [*places, *held_back, *set_aside, *later]
    return Plan(
        tuple(Place(one.id, one.instance, number, reason) for number, (one, reason) in enumerate(everyone, 1)),
        refused,
        beyond,
    )


def use(instance: str, *, holding: Iterable[Holder], waiting: int) -> Use:
    """What the clusters of `instance` among `holding` are promised."""
    held = [promised(one.size) for one in holding if one.instance == instance]
    return Use(len(held), waiting, sum(one.cores for one in held), sum(one.memory_bytes for one in held))


class _Shares:
    """What each instance holds and had, as parts of the machine by weight; who is chosen holds more from then on."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._cores = scene.capacity.cores * scene.cores_per_core
        self._memory = scene.capacity.memory_bytes
        self._held: dict[str, tuple[int, int]] = {}
        self._used = dict(scene.used)
        for one in scene.holding:
            self.take(one.instance, one.size)
            used = self._used.get(one.instance, Used())
            self._used[one.instance] = used.plus(one.size, since=one.since, at=scene.at)

    def take(self, name: str, size: ClusterSize) -> None:
        cores, memory = self._held.get(name, (0, 0))
        more = promised(size)
        self._held[name] = (cores + more.cores, memory + more.memory_bytes)

    def key(self, name: str) -> tuple[float, float]:
        weight = self._scene.instances.get(name, Instance(name)).weight
        cores, memory = self._held.get(name, (0, 0))
        used = self._used.get(name, Used()).faded(self._scene.at)
        return self._dominant(cores, memory) / weight, self._dominant(used.core_seconds, used.byte_seconds) / weight

    def _dominant(self, cores: float, memory: float) -> float:
        return max(cores / max(self._cores, 1), memory / max(self._memory, 1))


def _order(one: Waiter) -> tuple[int, datetime, str]:
    return -one.priority, one.submitted_at, one.id


def _queues(waiting: Iterable[Waiter]) -> dict[str, list[Waiter]]:
    queues: dict[str, list[Waiter]] = {}
    for one in sorted(waiting, key=_order):
        queues.setdefault(one.instance, []).append(one)
    return queues


def _no_room(scene: Scene, one: Waiter) -> Reason | None:
    return admission.room(one.size, [other.size for other in scene.holding], scene.capacity, scene.cores_per_core)


def _ahead(count: int) -> Reason:
    return Reason(NOT_YET, f"{count} {'applications are' if count > 1 else 'application is'} ahead of it")


def _too_early(one: Waiter, at: datetime) -> Reason | None:
    if one.not_before is None or one.not_before <= at:
        return None
    return Reason("retry", f"its next attempt may begin at {one.not_before:%H:%M:%S} UTC")


def _beyond_quota(scene: Scene, name: str, size: ClusterSize) -> Reason | None:
    instance = scene.instances.get(name)
    if instance is None:
        return None
    return beyond_quota(instance, use(name, holding=scene.holding, waiting=0), size)


def beyond_quota(instance: Instance, has: Use, size: ClusterSize) -> Reason | None:
    """Why an instance that has `has` may not hold a cluster of `size` as well; None where it may."""
    quota, more = instance.quota, promised(size)
    if quota.running is not None and has.running >= quota.running:
        return Reason("quota", f"the instance {instance.name} may run {quota.running} at once, and does")
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
