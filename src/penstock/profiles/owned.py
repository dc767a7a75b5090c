"""Settings the engine decides itself, and the option of `penstock run` that says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.engine.application import ClusterSize
from penstock.profiles import scratch, skipping, values
from penstock.profiles.problems import Problem, error, warning

_OPTIONS = {
    "spark.app.name": "--name",
    "spark.jars": "--jars",
    "spark.files": "--files",
    "spark.submit.pyFiles": "--py-files",
}

_SIZES: dict[str, tuple[str, Callable[[ClusterSize], int]]] = {
    "spark.driver.cores": ("--driver-cores", lambda size: size.driver.cores),
    "spark.driver.memory": ("--driver-memory", lambda size: size.driver.memory_bytes),
    "spark.executor.instances": ("--executors", lambda size: size.executors),
    "spark.executor.cores": ("--executor-cores", lambda size: size.executor.cores),
    "spark.executor.memory": ("--executor-memory", lambda size: size.executor.memory_bytes),
    "spark.cores.max": ("--executors and --executor-cores", lambda size: size.executor_cores),
}

PREFIX = "spark.penstock."
"""Between the engine and its cluster, but for what `_users` names."""

_PER_APPLICATION = "each application gets a cluster of its own, and this ties the two together"
_ENGINE = {
    "spark.master": _PER_APPLICATION,
    "spark.remote": _PER_APPLICATION,
    "spark.submit.deployMode": "the driver always runs inside the application's own cluster",
    "spark.app.id": _PER_APPLICATION,
    "spark.local.dir": "scratch is private to the cluster and removed with it",
    "spark.eventLog.dir": "the event log is kept in the lake: penstock logs ID",
    "spark.authenticate": "driver and executors of one cluster share a secret made for it",
    "spark.driver.host": _PER_APPLICATION,
    "spark.driver.port": _PER_APPLICATION,
    "spark.driver.bindAddress": _PER_APPLICATION,
}


def find(settings: Mapping[str, str], size: ClusterSize | None) -> Iterator[Problem]:
    for key, value in settings.items():
        if option := _OPTIONS.get(key):
            yield error(key, problem=f"{key} cannot be set", why="Penstock sets it itself", fix=f"use {option} instead")
        elif key in _ENGINE or (key.startswith(PREFIX) and not _users(key)):
            why = _ENGINE.get(key, "these are between Penstock's engine and its cluster")
            yield error(key, problem=f"{key} cannot be set", why=why, fix=f"leave out --conf {key}=…")
        elif key in _SIZES:
            yield _size_given_twice(key, value, size)


def _users(key: str) -> bool:
    return key in (scratch.MEMORY, scratch.DISK) or key.startswith(skipping.PREFIX)


def _size_given_twice(key: str, value: str, size: ClusterSize | None) -> Problem:
    option, read = _SIZES[key]
    fix = f"use {option} alone"
    if size is None:
        return error(key, problem=f"{key} cannot be set", why="the size of a cluster is asked for by options", fix=fix)
    # Spark counts a bare memory size in MiB.
    given = values.size_in_bytes(value, unit="m" if key.endswith("memory") else "b")
    if given == read(size):
        return warning(key, problem=f"{key} says again what {option} says", fix=fix)
    return error(
        key,
        problem=f"{key}={value} contradicts {option}",
        why=f"the cluster has {_shown(key, read(size))}",
        fix=fix,
    )


def _shown(key: str, amount: int) -> str:
    return f"{amount >> 20} MiB" if key.endswith("memory") else str(amount)
