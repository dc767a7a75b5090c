"""What load is generated: stages one after another, works side by side, workers that each repeat a mix of operations.

Plain data, as COSBench has it. A container is a key prefix in the lake's bucket, not a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from penstock.lab.objects.distributions import Numbers, Sizes, named_size


class Kind(str, Enum):
    PUT = "put"
    GET = "get"
    RANGE = "range"
    LIST = "list"
    DELETE = "delete"


class Division(str, Enum):
    """What the workers of a work have each a part of their own of."""

    NONE = "none"
    CONTAINER = "container"
    OBJECT = "object"


@dataclass(frozen=True)
class Targets:
    """The objects an operation is about: `<container prefix><n><suffix>/<object prefix><m><suffix>`."""

    containers: Numbers
    objects: Numbers
    container_prefix: str = "c"
    container_suffix: str = ""
    object_prefix: str = "o"
    object_suffix: str = ""
    division: Division = Division.NONE

    def container(self, number: int) -> str:
        return f"{self.container_prefix}{number}{self.container_suffix}"

    def name(self, container: int, number: int) -> str:
        return f"{self.container(container)}/{self.object_prefix}{number}{self.object_suffix}"

    @property
    def count(self) -> int:
        return len(self.containers) * len(self.objects)

    def share(self, index: int, of: int) -> Targets:
        """What worker `index` of `of` may choose from."""
        if self.division is Division.OBJECT:
            return replace(self, objects=self.objects.share(index, of))
        if self.division is Division.CONTAINER:
            return replace(self, containers=self.containers.share(index, of))
        return self


@dataclass(frozen=True)
class Operation:
    """One kind of request of a mix.

    `sizes` is what the objects are written with; of a GET it may be unknown (None), then the store is asked.
    With `churn`, PUT and DELETE of one work share their targets, which all exist at its start: a DELETE removes the
    oldest object of the worker's own part, and a PUT first writes those again that are gone.
    A work that meets each object once meets these `names` where there are any, and not those of the targets.
    """

    kind: Kind
    ratio: float
    targets: Targets
    sizes: Sizes | None = None
    range_bytes: int = 0
    churn: bool = False
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind is Kind.RANGE:
            return f"range get {named_size(self.range_bytes)} of {self.sizes}"
        if self.kind in (Kind.PUT, Kind.GET) and self.sizes:
            return f"{self.kind.value} {self.sizes}"
        return str(self.kind.value)


@dataclass(frozen=True)
class Limit:
    """When a work ends: the first of these that is reached. Each of the work's objects once, where all are None."""

    seconds: float | None = None
    operations: int | None = None
    bytes: int | None = None

    @property
    def each_once(self) -> bool:
        return self.seconds is None and self.operations is None and self.bytes is None


@dataclass(frozen=True)
class Work:
    """`workers` that each have one request in flight at most.

    What is started in the first `rampup_seconds` and after the time limit (for `rampdown_seconds`) is load that is not
    counted. With `rate` (operations per second of all workers), requests are due on a schedule and their latency counts
    from when they were due, so a store that stalls is charged with the requests it kept from being made.
    """

    name: str
    workers: int
    operations: tuple[Operation, ...]
    limit: Limit = Limit()
    rampup_seconds: float = 0.0
    rampdown_seconds: float = 0.0
    rate: float | None = None


@dataclass(frozen=True)
class Stage:
    """Works that run at the same time. `measured` is off where the stage only puts objects there or takes them away."""

    name: str
    works: tuple[Work, ...]
    pause_seconds: float = 0.0
    measured: bool = True

    @property
    def workers(self) -> int:
        return sum(work.workers for work in self.works)


@dataclass(frozen=True)
class Workload:
    name: str
    stages: tuple[Stage, ...]

    @property
    def workers(self) -> int:
        """The most requests that are in flight at once."""
        return max((stage.workers for stage in self.stages), default=0)

    @property
    def written_bytes(self) -> int:
        """Bytes that the objects take when each that may be written has been, as far as they are known beforehand."""
        largest: dict[tuple[str, str, str, str, int, int, int, int], float] = {}
        for operation in (op for stage in self.stages for work in stage.works for op in work.operations):
            if operation.kind is Kind.PUT and operation.sizes:
                t = operation.targets
                key = (
                    *(t.container_prefix, t.container_suffix, t.object_prefix, t.object_suffix),
                    *(t.containers.low, t.containers.high, t.objects.low, t.objects.high),
                )
                largest[key] = max(largest.get(key, 0.0), t.count * operation.sizes.mean)
        return round(sum(largest.values()))
