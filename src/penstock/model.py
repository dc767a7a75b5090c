"""The engine's vocabulary: specifications, sizes, capacities, states, reasons and ids. Plain data: no I/O, no clock."""

from __future__ import annotations

import enum
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from penstock.codec import JsonRecord


class State(str, enum.Enum):
    ACCEPTED = "accepted"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    AUTO_TERMINATED = "auto_terminated"

    @property
    def final(self) -> bool:
        return self in _FINAL


_FINAL = frozenset({State.FINISHED, State.FAILED, State.STOPPED, State.AUTO_TERMINATED})


DEFAULT_INSTANCE = "default"
"""The instance of submissions that name none. It always exists."""


@dataclass(frozen=True)
class ProcessSize:
    """One JVM's share of the machine. `memory_bytes` is its heap (`spark.*.memory`), without the overhead."""

    cores: int
    memory_bytes: int


@dataclass(frozen=True)
class Overhead(JsonRecord):
    """The memory that a process needs beside its heap, by Spark's rule (`ResourceProfile.calculateOverHeadMemory`)."""

    factor: float = 0.10
    """The share of the heap."""
    least_bytes: int = 384 << 20
    fixed_bytes: int | None = None
    """The overhead that the user set, which replaces factor and least."""
    more_bytes: int = 0
    """Memory added in any case: off-heap memory, Python's own."""

    def of(self, heap_bytes: int) -> int:
        """The overhead in bytes. The share of the heap is in whole MiB, as Spark counts it."""
        share = max(int(self.factor * (heap_bytes >> 20)) << 20, self.least_bytes)
        return (share if self.fixed_bytes is None else self.fixed_bytes) + self.more_bytes

    def largest_heap(self, room_bytes: int) -> int:
        """The largest heap, in bytes of whole MiB, that fits with its overhead into `room_bytes`; at least 1 MiB."""
        room = room_bytes - self.more_bytes
        if self.fixed_bytes is not None:
            heap = room - self.fixed_bytes
        else:
            heap = min(room - self.least_bytes, int(room / (1 + self.factor)))
        return max(heap >> 20, 1) << 20


_USUAL_OVERHEAD = Overhead()


@dataclass(frozen=True)
class ClusterSize(JsonRecord):
    """The size of a cluster. A submission's check derives `scratch_memory_bytes` and overheads from the settings."""

    driver: ProcessSize
    executor: ProcessSize
    executors: int
    scratch_memory_bytes: int = 0
    """The memory for shuffle and spill of all executors together (`profiles/base.py`)."""
    driver_overhead: Overhead = _USUAL_OVERHEAD
    executor_overhead: Overhead = _USUAL_OVERHEAD

    @property
    def executor_cores(self) -> int:
        """Task slots of the whole cluster."""
        return self.executor.cores * self.executors

    @property
    def working_cores(self) -> int:
        """The cores that work on the data: those of the executors, or of the driver without any."""
        return self.executor_cores or self.driver.cores

    @property
    def scratch_memory_of_executor(self) -> int:
        """One executor's share of the scratch memory, in bytes."""
        return self.scratch_memory_bytes // self.executors

    @property
    def driver_bytes(self) -> int:
        """The driver's memory, heap and overhead."""
        return self.driver.memory_bytes + self.driver_overhead.of(self.driver.memory_bytes)

    @property
    def executor_bytes(self) -> int:
        """The memory of each executor, heap and overhead, without its share of scratch."""
        return self.executor.memory_bytes + self.executor_overhead.of(self.executor.memory_bytes)


SPARK_ENGINE = "spark"
"""The name of the usual engine."""
SPARK_INTERNAL = "spark-internal"
"""The `application` whose main class is on every cluster's class path already (a term of Spark's own)."""
DUCKDB_INTERNAL = "duckdb-internal"
"""The `application` that runs SQL statements in DuckDB, in one process."""
SAIL_INTERNAL = "sail-internal"
"""The `application` that runs SQL statements in Sail, in one process."""
TRINO_INTERNAL = "trino-internal"
"""The `application` that runs SQL statements in Trino, whose server is a process of the driver's."""
OWN_PROGRAMS = frozenset({SPARK_INTERNAL, DUCKDB_INTERNAL, SAIL_INTERNAL, TRINO_INTERNAL})
"""The values of `application` that name no file."""


@dataclass(frozen=True)
class ApplicationSpec(JsonRecord):
    """A user's submission. Paths are local absolute paths or lake addresses (`s3a://…`).

    `main_class` is required for a jar and refused for a Python file. `profile` names the workload profile
    (`penstock profile list`); `settings` are the user's own and win over it. `environment` reaches driver and
    executors. `time_limit_seconds` counts from the start of the cluster, for each attempt anew. `engine` names that of
    a file; a program of Penstock's own has its engine's.

    `priority` (−100 to 100, the highest first) orders the applications of one `instance`; between instances weights and
    quotas decide. `retries` are of infrastructure failures only (`engine.policy.lifecycle`). `webhooks` are addresses
    that receive every change of state (`engine.webhooks`).
    """

    application: str
    size: ClusterSize
    name: str
    arguments: tuple[str, ...] = ()
    main_class: str | None = None
    profile: str = "default"
    lake: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    python_files: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    time_limit_seconds: float | None = None
    idempotency_key: str | None = None
    instance: str = DEFAULT_INSTANCE
    priority: int = 0
    retries: int = 0
    webhooks: tuple[str, ...] = ()
    engine: str = SPARK_ENGINE

    @property
    def is_python(self) -> bool:
        return self.application.lower().endswith(".py")

    def with_paths(self, changed: Callable[[str], str]) -> ApplicationSpec:
        """Return the specification with `changed` applied to each of its paths and addresses."""
        return replace(
            self,
            application=changed(self.application),
            jars=tuple(map(changed, self.jars)),
            files=tuple(map(changed, self.files)),
            python_files=tuple(map(changed, self.python_files)),
        )

    def submitted_json(self) -> dict[str, Any]:
        """As `to_json`, in the form of earlier releases: without overheads, which a submission's check computes."""
        shown = self.to_json()
        del shown["size"]["driver_overhead"], shown["size"]["executor_overhead"]
        if self.engine == SPARK_ENGINE:
            del shown["engine"]
        return shown

    def fingerprint(self) -> str:
        """A hash that is equal for equal submissions."""
        return hashlib.sha256(json.dumps(self.submitted_json(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Reason:
    """The reason of an application's state: a stable code, a sentence, and a fix."""

    code: str
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Cost:
    """The cost of an application's clusters, at the prices of the day when they ended."""

    amount: float
    currency: str


@dataclass(frozen=True)
class Attempt(JsonRecord):
    """A failed attempt that another one followed. Its artifacts are stored below `attempts/<number>/`."""

    number: int
    admitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime
    exit_code: int | None
    reason: Reason
    spark_application_id: str | None = None
    cost: Cost | None = None


@dataclass(frozen=True)
class Application(JsonRecord):
    """A submission and its state. Times are UTC."""

    id: str
    spec: ApplicationSpec
    state: State
    submitted_at: datetime
    reason: Reason | None = None
    started_at: datetime | None = None
    """The start of its Spark context; None before."""
    ended_at: datetime | None = None
    spark_application_id: str | None = None
    exit_code: int | None = None
    cluster: Mapping[str, Any] | None = None
    """The backend's handle; opaque to all other code."""
    summary: Mapping[str, Any] | None = None
    dispatched: bool = False
    """True if a dispatcher starts the application, which has no process while it waits."""
    attempt: int = 1
    attempts: tuple[Attempt, ...] = ()
    """The earlier attempts."""
    admitted_at: datetime | None = None
    """The time when this attempt was promised its cluster; while waiting for a retry, that of the last attempt."""
    not_before: datetime | None = None
    """The earliest admission of the next attempt."""
    cost: Cost | None = None
    """The cost of all ended attempts; None where none was priced."""

    @property
    def can_be_watched(self) -> bool:
        """Return whether Spark's own pages are available now; `spark.ui.enabled=false` turns them off."""
        is_spark = self.spec.engine == SPARK_ENGINE and self.spec.application not in OWN_PROGRAMS - {SPARK_INTERNAL}
        has_pages = is_spark and self.spec.settings.get("spark.ui.enabled") != "false"
        return self.state is State.RUNNING and has_pages

    def to_json(self) -> dict[str, Any]:
        """The form for clients, without the engine's own fields."""
        shown = super().to_json()
        del shown["cluster"], shown["dispatched"]
        spec = shown.pop("spec")
        return {"id": self.id, "name": self.spec.name, "instance": self.spec.instance, **shown, "spec": spec}


@dataclass(frozen=True)
class ResourceLimit:
    """An additional limit on all clusters of a backend together, in its own unit.

    `asked` returns the part of `most` that a cluster of that size takes.
    """

    name: str
    maximum: float
    demand: Callable[[ClusterSize], float]
    fix: str
    """The remedy where the limit is too small."""
    format: Callable[[float], str] = "{:g}".format
    """Formats an amount for people."""


@dataclass(frozen=True)
class Node:
    """The part of a machine that clusters may use."""

    cores: float
    memory_bytes: int


@dataclass(frozen=True)
class Capacity:
    """The capacity of one backend. `memory_bytes` is the memory that may be promised to JVMs, including overhead."""

    cores: int
    memory_bytes: int
    bounds: tuple[ResourceLimit, ...] = ()
    node: Node | None = None
    """The largest machine, where the capacity is the sum of several and each process has to fit on one of them."""
    obstacle: Callable[[ClusterSize], Reason | None] | None = None
    """Returns the reason why no machine could hold one of the processes of a cluster, even if empty; None where one
    could. The field is None where the backend has only one machine."""
    elastic: bool = False
    """True if machines and quotas may be added; then a larger cluster waits, unless `most` excludes it."""
    most: Capacity | None = None
    """The declared maximum of an elastic backend; None if undeclared."""

    @property
    def limit(self) -> Capacity | None:
        """The capacity beyond which a cluster is too large; None where every cluster may fit one day."""
        return self.most if self.elastic else self


CORES_PER_CORE = 2.0


def promised(size: ClusterSize) -> Capacity:
    return Capacity(
        cores=size.driver.cores + size.executor_cores,
        # Scratch files in memory take memory just as heaps do.
        memory_bytes=size.driver_bytes + size.executors * size.executor_bytes + size.scratch_memory_bytes,
    )


_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: unambiguous letters, in the order of their codes."""

_RANDOM_LETTERS = 5


def new_id(at: datetime) -> str:
    """`app-20261121-` and nine letters: four for the tenth of a second of the day, five at random (25 bits)."""
    tenths = (at.hour * 3600 + at.minute * 60 + at.second) * 10 + at.microsecond // 100_000
    time = "".join(_LETTERS[tenths >> shift & 31] for shift in (15, 10, 5, 0))
    random = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM_LETTERS))
    return f"app-{at:%Y%m%d}-{time}{random}"


CAPACITY = "capacity"
"""The code of a reason to wait that persists when other applications end."""


MORE_NODES = "add nodes, or ask for less; for an autoscaler that adds them, declare capacity: in the cluster's file"
