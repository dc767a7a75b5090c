"""Pod status in the words of the application: how far it is, and what stands in its way. Pure.

A reason that waiting may mend (no room on any node just now) is reported and waited out until the start's time limit;
one that it cannot mend is final at once. Of an ended cluster the sidecar's record counts, or the pod's own status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from penstock.clusters.backend import Phase
from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.client import QUOTA_FIX
from penstock.model import Reason
from penstock.units import parse_quantity

Json = Mapping[str, Any]

_KEPT = ("started_ms", "ended_ms", "exit_code", "peak_rss_bytes", "cpu_seconds")


def driver_runs(pod: Json) -> bool:
    return "running" in container_state(pod, layout.DRIVER)


def keeper_runs(pod: Json) -> bool:
    return "running" in container_state(pod, layout.KEEPER)


def summary(status: Json | None, pod: Json | None) -> dict[str, Any]:
    """As every backend's: the observer's own, each process, and the sums. A sum is null where it is not known of every
    process: one without its largest part would pass for a small one."""
    note = _note(pod) if status is None else status
    named: dict[str, Json] = {layout.DRIVER: (status or {}).get("ended") or _end_of_container(pod)}
    named.update(note.get("processes") or {})
    processes = {name: {key: (value or {}).get(key) for key in _KEPT} for name, value in named.items()}

    def total(key: str) -> float | None:
        known: list[Any] = [value[key] for value in processes.values() if value[key] is not None]
        return sum(known) if len(known) == len(processes) else None

    cpu_seconds = total("cpu_seconds")
    return {
        **(note.get("summary") or {}),
        "processes": processes,
        "cpu_seconds": None if cpu_seconds is None else round(cpu_seconds, 3),
        "peak_rss_bytes": total("peak_rss_bytes"),
    }


def _note(pod: Json | None) -> Json:
    """What a keeper left in its pod's status when it went."""
    text = container_state(pod or {}, layout.KEEPER).get("terminated", {}).get("message")
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _end_of_container(pod: Json | None) -> Json:
    ended = container_state(pod or {}, layout.DRIVER).get("terminated") or {}
    return {
        "exit_code": ended.get("exitCode"),
        "started_ms": _ms(ended.get("startedAt")),
        "ended_ms": _ms(ended.get("finishedAt")),
    }


def container_state(pod: Json, container: str) -> Json:
    """`waiting`, `running` or `terminated`, with what is told of it; empty where nothing is."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((entry.get("state") for entry in statuses if entry.get("name") == container), None) or {}


def _ms(told: str | None) -> int | None:
    return None if not told else int(datetime.fromisoformat(told.replace("Z", "+00:00")).timestamp() * 1000)


_UNPULLED = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
_UNMADE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
_UNSTARTED = frozenset({"StartError", "ContainerCannotRun"})
_UNOBSERVED = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of an end that neither the container runtime nor the kubelet observed: they did not run themselves."""
_LEAST_SIGNAL_CODE = 128
"""A process that a signal killed has this exit code or a higher one."""
_DISRUPTED = {
    "DeletionByTaintManager": "node_lost",
    "DeletionByPodGC": "node_lost",
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "evicted",
    "TerminationByKubelet": "evicted",
}
_STORAGE = re.compile(r"(?i)ephemeral|emptydir|disk")
_RETRY_FIX = "run it again, or let it: --retries; kubectl get nodes shows the nodes"
_EXECUTORS_GAVE_UP = 11
"""Spark's exit code where more executors failed than spark.executor.maxNumFailures."""


@dataclass(frozen=True)
class Seen:
    phase: Phase
    exit_code: int | None = None
    reason: Reason | None = None
    hopeless: bool = False
    """Waiting will not mend what the reason says."""


def of_driver(pod: Json | None, *, at: datetime, patience_seconds: float, events: Sequence[Json] = ()) -> Seen:
    """What the driver pod tells; None where there is none. `patience_seconds` are for a pod that cannot start.

    RUNNING here means that its containers run: whether Spark does, its keeper knows, and one that is gone will never
    tell that it started.
    """
    if pod is None:
        return Seen(Phase.LOST, reason=_gone())
    status = pod.get("status", {})
    driver, keeper = container_state(pod, layout.DRIVER), container_state(pod, layout.KEEPER)
    if ended := driver.get("terminated"):
        code = int(ended.get("exitCode", 1))
        return Seen(Phase.ENDED, code, _of_end(pod, ended, keeper, code) if code else None)
    disruption = _disruption(status)
    if status.get("phase") == "Failed" or disruption:
        return Seen(Phase.LOST, reason=_of_loss(status, disruption))
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return Seen(Phase.STARTING if "running" not in driver else Phase.RUNNING, reason=_gone())
    if "running" in driver:
        lost = _of_keeper(pod, keeper)
        return Seen(Phase.RUNNING, reason=lost, hopeless=lost is not None)
    reason, hopeless = _of_start(pod, (driver, keeper), events)
    waited = (at - _created(pod)).total_seconds()
    return Seen(Phase.STARTING, reason=reason, hopeless=reason is not None and (hopeless or waited > patience_seconds))


def of_executors(pods: Iterable[Json]) -> Reason | None:
    """Why executors are missing, where some are: the first reason in order of names."""
    waiting, first = 0, None
    for pod in sorted(pods, key=lambda found: str(found["metadata"]["name"])):
        status = pod.get("status", {})
        if status.get("phase") == "Pending":
            reason, _ = _of_start(pod, (container_state(pod, layout.EXECUTOR),), ())
            if reason is not None:
                waiting, first = waiting + 1, first or reason
    if first is None:
        return None
    some = "1 executor waits" if waiting == 1 else f"{waiting} executors wait"
    return Reason(first.code, f"{some}: {first.message}", first.fix)


@dataclass(frozen=True)
class Missing:
    """Executors that the driver is to have and nobody made, and what `each` would ask for (`cpu`, `memory`)."""

    number: int
    each: Mapping[str, float]


def executors_missing(driver: Json, executors: Sequence[Json]) -> Missing | None:
    """None where all were made, or their number is Spark's own choice."""
    said = (driver["metadata"].get("annotations") or {}).get(layout.EXECUTORS)
    if said is None:
        return None
    wanted = json.loads(said)
    number = int(wanted["number"]) - len(executors)
    return (
        Missing(number, {name: parse_quantity(str(wanted[name])) for name in ("cpu", "memory")}) if number > 0 else None
    )


def of_quota(number: int, shortage: str) -> Reason:
    some = "1 executor is" if number == 1 else f"{number} executors are"
    return Reason("quota_exceeded", f"{some} not made: no room in the namespace's quota {shortage}", QUOTA_FIX)


def loss_of_executor(pod: Json) -> str | None:
    """Why an executor pod ended otherwise than in order; None where it did not."""
    status = pod.get("status", {})
    ended = container_state(pod, layout.EXECUTOR).get("terminated")
    if status.get("reason") == "Evicted":
        return f"evicted: {status.get('message', '')}".rstrip(": ")
    if ended and ended.get("reason") == "OOMKilled":
        return "its container used more memory than its limit"
    return f"exit code {ended['exitCode']}" if ended and ended.get("exitCode") else None


def _of_end(pod: Json, ended: Json, keeper: Json, code: int) -> Reason | None:
    if taken_away := _taken_away(pod, ended, keeper):
        return taken_away
    if ended.get("reason") == "OOMKilled":
        limit = _memory_limit(pod)
        return Reason(
            "out_of_memory",
            f"the driver's container used more memory than its limit{f' of {limit}' if limit else ''}",
            "give it more: --driver-memory, or --conf spark.driver.memoryOverhead=… for what is not on the heap",
        )
    if ended.get("reason") in _UNSTARTED or 0 < keeper.get("terminated", {}).get("exitCode", 0) < _LEAST_SIGNAL_CODE:
        message = str(ended.get("message") or "its containers ended at once")
        return Reason("image_unfit", f"the image has no Penstock of this release: {message}", _IMAGE_FIX)
    if pod.get("status", {}).get("reason") == "Evicted":
        return _evicted(pod["status"])
    if code == _EXECUTORS_GAVE_UP:
        return Reason(
            "executors_failed",
            "executors kept dying, and Spark gave up",
            "see why: penstock logs ID --process executor-1; often they need more --executor-memory",
        )
    return None


def _of_keeper(pod: Json, keeper: Json) -> Reason | None:
    """Why nothing is heard of a driver that runs."""
    if (gone := keeper.get("terminated")) is None:
        return None
    how = "more memory than its limit" if gone.get("reason") == "OOMKilled" else f"exit code {gone.get('exitCode')}"
    log = f"kubectl logs {pod['metadata']['name']} -c {layout.KEEPER}"
    return Reason(
        "keeper_lost",
        f"the keeper beside its driver ended ({how}): nothing it does is seen, and its logs will not be in the lake",
        f"{log} says why; where the image is of another release: {_IMAGE_FIX}",
    )


def _taken_away(pod: Json, ended: Json, keeper: Json) -> Reason | None:
    """Why a driver ended with its pod or its node: somebody else ended them, since Penstock does it otherwise."""
    if disruption := _disruption(pod["status"]):
        return _of_loss(pod["status"], disruption)
    if ended.get("reason") in _UNOBSERVED or _killed_together(ended, keeper):
        return Reason("node_lost", "the node its driver was on was restarted, and its containers with it", _RETRY_FIX)
    return _gone() if pod["metadata"].get("deletionTimestamp") else None


def _killed_together(driver: Json, keeper: Json) -> bool:
    """Whether a driver was killed, and its keeper, which goes on for a minute after any end of its driver, was too or
    had not begun. A limit of memory kills one container alone."""
    ended = keeper.get("terminated", {})
    alone = "OOMKilled" in (driver.get("reason"), ended.get("reason"))
    if alone or driver.get("exitCode", 0) < _LEAST_SIGNAL_CODE:
        return False
    return "waiting" in keeper or ended.get("exitCode", 0) >= _LEAST_SIGNAL_CODE


def _of_loss(status: Json, disruption: Json | None) -> Reason:
    if status.get("reason") == "Evicted":
        return _evicted(status)
    if disruption is not None:
        code = _DISRUPTED[str(disruption["reason"])]
        message = {
            "node_lost": "the node its driver was on is gone, or does not answer",
            "preempted": "its driver had to make room for a pod of a higher priority",
            "evicted": "its driver was moved off its node",
        }[code]
        told = str(disruption.get("message") or "")
        fix = {
            "node_lost": _RETRY_FIX,
            "preempted": "run it again, or let it: --retries; priority_class: in the cluster's file gives it weight",
            "evicted": "run it again, or let it: --retries",
        }[code]
        return Reason(code, message + (f": {told}" if told else ""), fix)
    if status.get("reason") == "NodeLost":
        return Reason("node_lost", "the node its driver was on is gone, or does not answer", "run it again: --retries")
    message = str(status.get("message") or status.get("reason") or "its driver pod failed")
    return Reason("driver_lost", f"the driver pod failed: {message}", "run it again, or let it: --retries")


def _evicted(status: Json) -> Reason:
    message = str(status.get("message") or "the node was short of something")
    fix = (
        "give shuffle and spill more room: scratch: size: in the cluster's file"
        if _STORAGE.search(message)
        else "run it again, or let it: --retries"
    )
    return Reason("evicted", f"the node evicted its driver: {message}", fix)


def _of_start(pod: Json, containers: Sequence[Json], events: Sequence[Json]) -> tuple[Reason | None, bool]:
    status = pod.get("status", {})
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _unschedulable(str(condition.get("message") or "no node takes it")), False
    for container in containers:
        waiting = container.get("waiting") or {}
        why, message = str(waiting.get("reason", "")), str(waiting.get("message") or "")
        image = next((c["image"] for c in pod["spec"]["containers"]), "")
        if why in _UNPULLED:
            told = f"the image {image} cannot be had: {message or why}"
            return Reason("image_pull_failed", told, _PULL_FIX), why in _HOPELESS
        if why in _UNMADE:
            return Reason("pod_refused", f"its container cannot be made: {message or why}", _DESCRIBE), why in _HOPELESS
    for event in reversed(events):
        if event.get("type") == "Warning" and event.get("reason") in ("FailedMount", "FailedCreatePodSandBox"):
            return Reason("pod_refused", f"its pod cannot be started: {event.get('message', '')}", _DESCRIBE), False
    return None, False


def _unschedulable(message: str) -> Reason:
    if "Insufficient" in message:
        fix = "wait until others end, add nodes, or ask for less: --driver-memory, --executor-memory, --executor-cores"
    elif "taint" in message or "selector" in message or "affinity" in message:
        fix = "node_selector:, tolerations: and affinity: in the cluster's file choose them; kubectl describe nodes"
    else:
        fix = _DESCRIBE
    return Reason("unschedulable", f"no node takes its pod: {message}", fix)


_PULL_FIX = "image: and pull_secrets: in the cluster's file name it; penstock image build makes one to push"
_IMAGE_FIX = "make one with penstock image build, push it, and name it: image: in the cluster's file"
_DESCRIBE = "kubectl describe pod ID tells all that Kubernetes knows"


def _gone() -> Reason:
    return Reason(
        "driver_lost", "its driver pod was deleted, and not by Penstock", "run it again, or let it: --retries"
    )


def _disruption(status: Json) -> Json | None:
    return next(
        (
            condition
            for condition in status.get("conditions") or []
            if condition.get("type") == "DisruptionTarget"
            and condition.get("status") == "True"
            and condition.get("reason") in _DISRUPTED
        ),
        None,
    )


def _memory_limit(pod: Json) -> str | None:
    for container in pod.get("spec", {}).get("containers") or []:
        if container.get("name") == layout.DRIVER:
            limit = str(container.get("resources", {}).get("limits", {}).get("memory", ""))
            return f"{int(limit) >> 20} MiB" if limit.isdigit() else limit or None
    return None


def _created(pod: Json) -> datetime:
    told = str(pod["metadata"]["creationTimestamp"])
    return datetime.strptime(told, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
