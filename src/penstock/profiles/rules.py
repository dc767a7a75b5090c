"""Findings about settings, and the rules for settings that are valid alone and wrong together.

Each rule examines the final settings (profile and user merged) and yields its findings, each with the keys that it
concerns.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize
from penstock.profiles import layers, s3a
from penstock.profiles.s3a import S3A


class Severity(str, enum.Enum):
    ERROR = "error"
    """The application would fail, or not run as requested: it is not launched."""
    WARNING = "warning"
    """The application runs, but a setting probably does not have the intended effect."""


@dataclass(frozen=True)
class Problem:
    """One finding about `keys`, with the fields of `PenstockError`. It never contains the value of a secret."""

    severity: Severity
    keys: tuple[str, ...]
    problem: str
    why: str = ""
    fix: str = ""

    def __str__(self) -> str:
        text = self.problem
        if self.why:
            text += f": {self.why}"
        if self.fix:
            text += f" (fix: {self.fix})"
        return text


def error(*keys: str, problem: str, why: str = "", fix: str = "") -> Problem:
    return Problem(Severity.ERROR, keys, problem, why, fix)


def warning(*keys: str, problem: str, why: str = "", fix: str = "") -> Problem:
    return Problem(Severity.WARNING, keys, problem, why, fix)


Settings = Mapping[str, str]
Rule = Callable[[Settings, "ClusterSize | None"], Iterator[Problem]]

_PROTOCOL = "spark.sql.sources.commitProtocolClass"
_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"
_COMMITTER = S3A + "committer.name"
_MAGIC = S3A + "committer.magic.enabled"
_IN_MEMORY = S3A + "committer.magic.track.commits.in.memory.enabled"


def violations(settings: Settings, size: ClusterSize | None) -> Iterator[Problem]:
    for rule in _RULES:
        yield from rule(settings, size)


def _on(settings: Settings, key: str, *, default: bool = False) -> bool:
    given = units.parse_flag(settings.get(key, ""))
    return default if given is None else given


def _fixed_size(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    if _on(settings, "spark.dynamicAllocation.enabled"):
        yield error(
            "spark.dynamicAllocation.enabled",
            problem="dynamic allocation is incompatible with a fixed number of executors",
            why="a dedicated cluster starts as a whole, at the requested size",
            fix="omit it and choose the number with --executors",
        )
    if _on(settings, "spark.shuffle.service.enabled"):
        yield error(
            "spark.shuffle.service.enabled",
            problem="there is no external shuffle service",
            why="executors serve their own shuffle files, and run as long as the application",
            fix="omit --conf spark.shuffle.service.enabled=true",
        )


def _memory(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    for key, upper_included in (("spark.memory.fraction", False), ("spark.memory.storageFraction", True)):
        fraction = units.parse_number(settings.get(key, ""))
        if fraction is not None and not (0 <= fraction < 1 or (upper_included and fraction == 1)):
            yield error(key, problem=f"{key}={settings[key]} is not a fraction", fix="give a number between 0 and 1")
    fraction = units.parse_number(settings.get("spark.memory.fraction", ""))
    if fraction is not None and 0.9 < fraction < 1:
        yield warning(
            "spark.memory.fraction",
            problem="a spark.memory.fraction above 0.9 leaves too little heap outside sorting and caching",
            why="records, upload buffers and Spark's own tables need it; the usual result is an OutOfMemoryError",
            fix="give the executors more memory with --executor-memory, and keep 0.8",
        )
    for key in layers.OVERHEAD_FACTORS:
        factor = units.parse_number(settings.get(key, "1"))
        if factor is not None and not 0 < factor < math.inf:
            yield error(key, problem=f"{key}={settings[key]} is not a share of the heap", fix=f"--conf {key}=0.4")
    for key in (*layers.OVERHEADS, *layers.MINIMUM_OVERHEADS):
        size = units.parse_size(settings.get(key, "0"), unit="m")
        if size is not None and size < 0:
            yield error(key, problem=f"{key}={settings[key]} is negative", fix=f"--conf {key}=1g")
    off_heap = units.parse_size(settings.get("spark.memory.offHeap.size", "0"))
    if _on(settings, "spark.memory.offHeap.enabled") and not off_heap:
        yield error(
            "spark.memory.offHeap.enabled",
            "spark.memory.offHeap.size",
            problem="off-heap memory is enabled without a size",
            fix="add --conf spark.memory.offHeap.size=1g",
        )


def _commit(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    protocol = settings.get(_PROTOCOL, "")
    atomic = protocol.endswith(".AtomicCommitProtocol")
    through_s3a = protocol.endswith(".PathOutputCommitProtocol")
    committer = settings.get(_COMMITTER, "file")
    if through_s3a and committer != "file" and settings.get(_OVERWRITE, "").lower() == "dynamic":
        yield error(
            _OVERWRITE,
            _PROTOCOL,
            problem=f"dynamic partition overwrite is incompatible with {protocol.rsplit('.', 1)[-1]}",
            why="it renames whole partitions into place, and an object store has no rename",
            fix=f"omit --conf {_PROTOCOL}=…: Penstock's own protocol replaces the partitions that are written",
        )
    if committer == "magic" and not _on(settings, _MAGIC, default=True):
        yield error(
            _COMMITTER,
            _MAGIC,
            problem="the magic committer is selected, but the file system's support for it is disabled",
            fix=f"omit --conf {_MAGIC}=false",
        )
    if atomic and not _on(settings, _IN_MEMORY):
        yield error(
            _PROTOCOL,
            _IN_MEMORY,
            problem="Spark SQL could not write to the lake",
            why="the commit protocol reads the tasks' uploads from S3A's memory, where S3A would not track them",
            fix=f"omit --conf {_IN_MEMORY}=false",
        )
    if _PROTOCOL in settings and not (atomic or through_s3a) and committer != "file":
        yield warning(
            _PROTOCOL,
            _COMMITTER,
            problem=f"Spark SQL will not use the {committer} committer",
            why=f"{protocol} renames files into place, which copies every byte on an object store",
            fix=f"omit --conf {_PROTOCOL}=…",
        )


def _store(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    part = units.parse_size(settings.get(S3A + "multipart.size", "64M"))
    if part is not None and part < 5 << 20:
        yield error(
            S3A + "multipart.size",
            problem=f"a part of {settings[S3A + 'multipart.size']} is too small",
            why="S3 accepts no part below 5 MiB except the last",
            fix=f"--conf {S3A}multipart.size=64M",
        )
    connections = units.parse_number(settings.get(S3A + "connection.maximum", ""))
    threads = units.parse_number(settings.get(S3A + "threads.max", ""))
    if connections is not None and threads is not None and connections < threads:
        yield warning(
            S3A + "connection.maximum",
            S3A + "threads.max",
            problem=f"{threads:.0f} threads share {connections:.0f} connections to the store",
            why="the threads then wait for each other: 'Timeout waiting for connection from pool'",
            fix=f"omit both, or make {S3A}connection.maximum the larger",
        )


def _tasks(settings: Settings, size: ClusterSize | None) -> Iterator[Problem]:
    needed = units.parse_number(settings.get("spark.task.cpus", "1"))
    if size is not None and needed is not None and needed > size.executor.cores:
        yield error(
            "spark.task.cpus",
            problem=f"a task requests {needed:.0f} cores, but an executor has {size.executor.cores}",
            why="no task could ever start",
            fix=f"--executor-cores {needed:.0f}, or a smaller spark.task.cpus",
        )


def _timeouts(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    network = units.parse_seconds(settings.get("spark.network.timeout", "120s"))
    heartbeat = units.parse_seconds(settings.get("spark.executor.heartbeatInterval", "10s"), unit="ms")
    if network is not None and heartbeat is not None and network <= heartbeat:
        yield error(
            "spark.network.timeout",
            "spark.executor.heartbeatInterval",
            problem=f"spark.network.timeout ({network:g} s) is not above the heartbeat interval ({heartbeat:g} s)",
            why="every executor would be declared dead between two heartbeats; Spark refuses to start",
            fix="omit both, or set the timeout to several times the interval",
        )


def _without_effect(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    for switch, prefix, default in (
        ("spark.sql.adaptive.enabled", "spark.sql.adaptive.", True),
        ("spark.sql.cbo.enabled", "spark.sql.cbo.", False),
        ("spark.speculation", "spark.speculation.", False),
        (s3a.CACHE_ENABLED, s3a.CACHE_PREFIX, True),
    ):
        idle = sorted(key for key in settings if key.startswith(prefix) and key != switch)
        if idle and not _on(settings, switch, default=default):
            yield warning(
                *idle,
                problem=f"{idle[0]} has no effect while {switch} is false",
                fix=f"--conf {switch}=true",
            )
    kryo = sorted(key for key in settings if key.startswith(("spark.kryo.", "spark.kryoserializer.")))
    if kryo and not settings.get("spark.serializer", "").endswith("KryoSerializer"):
        yield warning(
            *kryo,
            problem=f"{kryo[0]} has no effect: Kryo is not the serializer",
            fix="--conf spark.serializer=org.apache.spark.serializer.KryoSerializer",
        )


def _cache(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    given = [key for key in s3a.CACHE_MEMORY if key in settings]
    if given:
        yield warning(
            *given,
            problem=f"no memory is reserved for the cache tier that {given[0]} sets",
            why="applications may use all memory except the reserve for this machine's own cache",
            fix="penstock cache size --memory 4g",
        )


def _java_options(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    for key in filter(layers.holds_options, settings):
        role = "driver" if ".driver." in key else "executor"
        try:
            options = layers.split_options(key, settings[key])
        except InvalidInput as unreadable:
            yield error(key, problem=unreadable.problem, why=unreadable.why, fix=unreadable.fix)
            continue
        for option in options:
            if option.startswith("-Xmx"):
                yield error(
                    key,
                    problem=f"{option} in {key} contradicts --{role}-memory",
                    why="Spark sizes its memory by that option and rejects a heap of another size",
                    fix=f"--{role}-memory {option.removeprefix('-Xmx')}",
                )
            elif option.startswith("-Dspark."):
                yield error(
                    key,
                    problem=f"{key} contains the Spark setting {option}",
                    why="Spark rejects its own settings among Java's options",
                    fix=f"--conf {option.removeprefix('-D')}",
                )
            elif option.startswith(layers.OPTION_FILES):
                yield error(
                    key,
                    problem=f"{option} in {key} makes Java read options from a file",
                    why="the content of the file cannot be checked before the application starts",
                    fix="set the options themselves",
                )


def _executors_environment(settings: Settings, _: ClusterSize | None) -> Iterator[Problem]:
    for key, value in settings.items():
        if key.startswith(_EXECUTOR_ENV) and layers.carries_settings(key.removeprefix(_EXECUTOR_ENV), value):
            yield error(
                key,
                problem=f"{key} contains a Spark setting, or names a file of options",
                why="Java would read it without any check of the settings",
                fix="--conf spark.NAME=VALUE",
            )


_EXECUTOR_ENV = "spark.executorEnv."

_RULES: tuple[Rule, ...] = (
    _fixed_size,
    _memory,
    _commit,
    _store,
    _tasks,
    _timeouts,
    _without_effect,
    _cache,
    _java_options,
    _executors_environment,
)
