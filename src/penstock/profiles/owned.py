"""Settings the engine decides itself, and the option of `penstock run` that says the same."""

from __future__ import annotations

import re
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
_ONE_CLUSTER = "driver and executors of one cluster share a secret made for it"
_REDACTION = "it hides passwords and keys in logs, the event log and Spark's pages, which others read"
_ENGINE = {
    "spark.master": _PER_APPLICATION,
    "spark.remote": _PER_APPLICATION,
    "spark.submit.deployMode": "the driver always runs inside the application's own cluster",
    "spark.app.id": _PER_APPLICATION,
    "spark.local.dir": "scratch is private to the cluster and removed with it",
    "spark.eventLog.dir": "the event log is kept in the lake: penstock logs ID",
    "spark.authenticate": _ONE_CLUSTER,
    "spark.redaction.regex": _REDACTION,
    "spark.redaction.string.regex": _REDACTION,
    "spark.driver.host": _PER_APPLICATION,
    "spark.driver.port": _PER_APPLICATION,
    "spark.driver.bindAddress": _PER_APPLICATION,
}


_AUTHENTICATION = "spark.authenticate.secret"
"""The secret itself is refused by `secrets`; its files are beside it."""

KUBERNETES = "spark.kubernetes."
USERS_OF_KUBERNETES = (
    "spark.kubernetes.allocation.batch.delay",
    "spark.kubernetes.allocation.batch.size",
    "spark.kubernetes.allocation.driver.readinessTimeout",
    "spark.kubernetes.allocation.executor.timeout",
    "spark.kubernetes.executor.apiPollingInterval",
    "spark.kubernetes.executor.checkAllContainers",
    "spark.kubernetes.executor.eventProcessingInterval",
    "spark.kubernetes.executor.missingPodDetectDelta",
)
"""The settings of Kubernetes that users may set: when Spark asks for executors, and when it gives one up for lost.

The rest decides what a pod is, whose it is and what it can read. Pods of all queues share one namespace, where a pod
may mount every secret and volume; an annotation or a label can give it a role at the cloud's provider, or a neighbour's
traffic. An administrator sets these for everybody in the cluster's file.
"""

_SHARED = "pods of all queues share one namespace, and this can give a pod what belongs to another queue"
_CLUSTER_FILE = "have an administrator put it into executor_template: of the cluster's file, where it holds for all"
_KUBERNETES_FIXES = (
    (
        r"(driver|executor)\.(secrets|secretKeyRef)\.",
        f"leave it out for the lake's credentials, which pods have already; for another secret {_CLUSTER_FILE}",
    ),
    (r"(driver|executor)\.podTemplate|(.*\.)?(volumes|label|annotation|node\.selector)\.", _CLUSTER_FILE),
    (r"(executor\.)?(request|limit)\.cores", "use --executor-cores"),
    (r"memoryOverheadFactor", "use spark.driver.memoryOverheadFactor and spark.executor.memoryOverheadFactor"),
    (r"namespace|(driver\.|executor\.)?container\.image|authenticate\.", "leave it out: the cluster's file names it"),
)


def find(settings: Mapping[str, str], size: ClusterSize | None) -> Iterator[Problem]:
    for key, value in settings.items():
        if option := _OPTIONS.get(key):
            yield error(key, problem=f"{key} cannot be set", why="Penstock sets it itself", fix=f"use {option} instead")
        elif key in _ENGINE or (key.startswith(PREFIX) and not _users(key)):
            why = _ENGINE.get(key, "these are between Penstock's engine and its cluster")
            yield error(key, problem=f"{key} cannot be set", why=why, fix=f"leave out --conf {key}=…")
        elif key.startswith(_AUTHENTICATION):
            yield error(key, problem=f"{key} cannot be set", why=_ONE_CLUSTER, fix=f"leave out --conf {key}=…")
        elif key.startswith(KUBERNETES) and key not in USERS_OF_KUBERNETES:
            yield error(key, problem=f"{key} cannot be set", why=_SHARED, fix=_kubernetes_fix(key))
        elif key in _SIZES:
            yield _size_given_twice(key, value, size)


def _users(key: str) -> bool:
    return key in (scratch.MEMORY, scratch.DISK) or key.startswith(skipping.PREFIX)


def _kubernetes_fix(key: str) -> str:
    part = key.removeprefix(KUBERNETES)
    names = ", ".join(name.removeprefix(KUBERNETES) for name in USERS_OF_KUBERNETES)
    usual = f"leave it out; of {KUBERNETES}* users set {names}"
    return next((fix for pattern, fix in _KUBERNETES_FIXES if re.match(pattern, part)), usual)


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
