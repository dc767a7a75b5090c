"""The status of pods translated to an application's phase and to the reason why it does not proceed. Pure.

A reason that may pass (no node has room at present) is reported until the start timeout; one that cannot pass is final
at once. The summary of an ended cluster comes from the sidecar's record, or else from the pod's own status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from penstock.clusters import driver_reports
from penstock.clusters.backend import Phase
from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.client import QUOTA_FIX
from penstock.model import Reason
from penstock.units import parse_quantity

Json = Mapping[str, Any]

_EXECUTOR_NAME = re.compile(r"executor-[0-9]{1,9}")


def driver_runs(pod: Json) -> bool:
    return "running" in container_state(pod, layout.DRIVER)


def sidecar_runs(pod: Json) -> bool:
    return "running" in container_state(pod, layout.SIDECAR)


def is_lost(pod: Json | None) -> bool:
    """Return whether the pod is gone, or Kubernetes has given it up with its node."""
    disruption = None if pod is None else _disruption(pod["status"])
    return pod is None or (disruption is not None and _DISRUPTED[str(disruption["reason"])] == "node_lost")


def summary(status: Json | None, pod: Json | None) -> dict[str, Any]:
    """Return the summary that every backend returns: the observer's own, each process, and the sums.

    A sum is None unless the figure of every process is known: without its largest part it would look like a small one.
    """
    note = _note(pod) if status is None else status
    named: dict[str, object] = {layout.DRIVER: (status or {}).get("ended") or _end_of_container(pod)}
    if isinstance(ends := note.get("processes"), dict):
        named |= {name: end for name, end in ends.items() if _EXECUTOR_NAME.fullmatch(name)}
    processes = {name: driver_reports.process_end(end) for name, end in named.items()}

    def total(key: str) -> float | None:
        known: list[Any] = [value[key] for value in processes.values() if value[key] is not None]
        return sum(known) if len(known) == len(processes) else None

    cpu_seconds = total("cpu_seconds")
    return {
        **driver_reports.summary(note.get("summary")),
        "processes": processes,
        "cpu_seconds": None if cpu_seconds is None else round(cpu_seconds, 3),
        "peak_rss_bytes": total("peak_rss_bytes"),
    }


def _note(pod: Json | None) -> Json:
    """Return the record that the sidecar left in its pod's status when it ended."""
    text = container_state(pod or {}, layout.SIDECAR).get("terminated", {}).get("message")
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
    """Return the state of a container, `waiting`, `running` or `terminated` with its details; empty if unknown."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((entry.get("state") for entry in statuses if entry.get("name") == container), None) or {}


def _ms(time: str | None) -> int | None:
    return None if not time else int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)


_UNPULLED = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
_UNMADE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_UNPREPARED = frozenset({"FailedMount", "FailedCreatePodSandBox"})
_BEYOND_PREPARATION = frozenset({"Pulling", "Pulled", "Created", "Started"})
"""Events after those of `_UNPREPARED`: the pod has its volumes and its network now, and a pull may take any time."""
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
_UNSTARTED = frozenset({"StartError", "ContainerCannotRun"})
_UNOBSERVED = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of an end that neither the container runtime nor the kubelet observed, because they were down themselves."""
_LEAST_SIGNAL_CODE = 128
"""The lowest exit code of a process that a signal killed."""
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
class DriverState:
    """The state of a driver pod."""

    phase: Phase
    exit_code: int | None = None
    reason: Reason | None = None
    permanent: bool = False
    """Waiting does not help against `reason`."""


def driver_state(pod: Json | None, *, at: datetime, timeout_seconds: float, events: Sequence[Json] = ()) -> DriverState:
    """Return the state of the driver pod; `pod` is None where there is none.

    A pod that cannot start is hopeless after `timeout_seconds`. `events` are the pod's, in any order. RUNNING means
    that the driver's container runs. Whether Spark runs, the sidecar knows; where the sidecar has ended, the start of
    Spark will never be reported.
    """
    if pod is None:
        return DriverState(Phase.LOST, reason=_gone())
    status = pod.get("status", {})
    driver, sidecar = container_state(pod, layout.DRIVER), container_state(pod, layout.SIDECAR)
    if ended := driver.get("terminated"):
        code = int(ended.get("exitCode", 1))
        return DriverState(Phase.ENDED, code, _failure_reason(pod, ended, sidecar, code) if code else None)
    disruption = _disruption(status)
    if status.get("phase") == "Failed" or disruption:
        return DriverState(Phase.LOST, reason=_loss_reason(status, disruption))
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return DriverState(Phase.STARTING if "running" not in driver else Phase.RUNNING, reason=_gone())
    if "running" in driver:
        lost = _sidecar_loss(pod, sidecar)
        return DriverState(Phase.RUNNING, reason=lost, permanent=lost is not None)
    reason, hopeless = _start_problem(pod, (driver, sidecar), events)
    waited = (at - _created(pod)).total_seconds()
    return DriverState(
        Phase.STARTING, reason=reason, permanent=reason is not None and (hopeless or waited > timeout_seconds)
    )


def pending_reason(pods: Iterable[Json]) -> Reason | None:
    """Return why executors are pending: the reason of the first one by name. None where none is blocked."""
    waiting, first = 0, None
    for pod in sorted(pods, key=lambda found: str(found["metadata"]["name"])):
        status = pod.get("status", {})
        if status.get("phase") == "Pending":
            reason, _ = _start_problem(pod, (container_state(pod, layout.EXECUTOR),), ())
            if reason is not None:
                waiting, first = waiting + 1, first or reason
    if first is None:
        return None
    some = "1 executor waits" if waiting == 1 else f"{waiting} executors wait"
    return Reason(first.code, f"{some}: {first.message}", first.fix)


@dataclass(frozen=True)
class MissingExecutors:
    """The number of planned executors without a pod, and the requests of each (`cpu` in cores, `memory` in bytes)."""

    number: int
    each: Mapping[str, float]


def missing_executors(driver: Json, executors: Sequence[Json]) -> MissingExecutors | None:
    """Return the executors that have no pod; None where all have one, or Spark chooses their number."""
    annotation = (driver["metadata"].get("annotations") or {}).get(layout.EXECUTORS)
    if annotation is None:
        return None
    planned = json.loads(annotation)
    number = int(planned["number"]) - len(executors)
    if number <= 0:
        return None
    return MissingExecutors(number, {name: parse_quantity(str(planned[name])) for name in ("cpu", "memory")})


def quota_reason(number: int, shortage: str) -> Reason:
    some = "1 executor is" if number == 1 else f"{number} executors are"
    return Reason("quota_exceeded", f"{some} not created: no room in the namespace's quota {shortage}", QUOTA_FIX)


def executor_failure(pod: Json) -> str | None:
    """Return why an executor pod failed; None where it did not."""
    status = pod.get("status", {})
    ended = container_state(pod, layout.EXECUTOR).get("terminated")
    if status.get("reason") == "Evicted":
        return f"evicted: {status.get('message', '')}".rstrip(": ")
    if ended and ended.get("reason") == "OOMKilled":
        return "its container used more memory than its limit"
    return f"exit code {ended['exitCode']}" if ended and ended.get("exitCode") else None


def _failure_reason(pod: Json, ended: Json, sidecar: Json, code: int) -> Reason | None:
    if reason := _external_end(pod, ended, sidecar):
        return reason
    if ended.get("reason") == "OOMKilled":
        limit = _memory_limit(pod)
        return Reason(
            "out_of_memory",
            f"the driver's container used more memory than its limit{f' of {limit}' if limit else ''}",
            "give it more: --driver-memory, or --conf spark.driver.memoryOverhead=… for memory outside the heap",
        )
    if ended.get("reason") in _UNSTARTED or 0 < sidecar.get("terminated", {}).get("exitCode", 0) < _LEAST_SIGNAL_CODE:
        message = str(ended.get("message") or "its containers ended at once")
        return Reason("image_unfit", f"the image does not contain this release of Penstock: {message}", _IMAGE_FIX)
    if pod.get("status", {}).get("reason") == "Evicted":
        return _evicted(pod["status"])
    if code == _EXECUTORS_GAVE_UP:
        return Reason(
            "executors_failed",
            "executors kept dying, and Spark gave up",
            "see why: penstock logs ID --process executor-1; often they need more --executor-memory",
        )
    return None


def _sidecar_loss(pod: Json, sidecar: Json) -> Reason | None:
    """Return why the sidecar of a running driver ended; None while it runs."""
    if (gone := sidecar.get("terminated")) is None:
        return None
    how = "more memory than its limit" if gone.get("reason") == "OOMKilled" else f"exit code {gone.get('exitCode')}"
    log = f"kubectl logs {pod['metadata']['name']} -c {layout.SIDECAR}"
    return Reason(
        "keeper_lost",
        f"the sidecar of its driver ended ({how}): its progress is unknown, and its logs will not reach the lake",
        f"{log} shows why; if the image is of another release, {_IMAGE_FIX}",
    )


def _external_end(pod: Json, ended: Json, sidecar: Json) -> Reason | None:
    """Return why a driver ended with its pod or its node, which Penstock itself never causes; None otherwise."""
    if disruption := _disruption(pod["status"]):
        return _loss_reason(pod["status"], disruption)
    if ended.get("reason") in _UNOBSERVED or _killed_together(ended, sidecar):
        return Reason("node_lost", "the node of its driver was restarted, and its containers with it", _RETRY_FIX)
    return _gone() if pod["metadata"].get("deletionTimestamp") else None


def _killed_together(driver: Json, sidecar: Json) -> bool:
    """Return whether a signal killed the driver, and the sidecar was killed too or had not started.

    A sidecar outlives its driver by a minute, however that ends; a memory limit kills a single container.
    """
    ended = sidecar.get("terminated", {})
    alone = "OOMKilled" in (driver.get("reason"), ended.get("reason"))
    if alone or driver.get("exitCode", 0) < _LEAST_SIGNAL_CODE:
        return False
    return "waiting" in sidecar or ended.get("exitCode", 0) >= _LEAST_SIGNAL_CODE


def _loss_reason(status: Json, disruption: Json | None) -> Reason:
    if status.get("reason") == "Evicted":
        return _evicted(status)
    if disruption is not None:
        code = _DISRUPTED[str(disruption["reason"])]
        message = {
            "node_lost": "the node of its driver is gone, or does not answer",
            "preempted": "a pod of a higher priority preempted its driver",
            "evicted": "its driver was evicted from its node",
        }[code]
        detail = str(disruption.get("message") or "")
        fix = {
            "node_lost": _RETRY_FIX,
            "preempted": "run it again, or let it: --retries; priority_class: in the cluster's file raises it",
            "evicted": "run it again, or let it: --retries",
        }[code]
        return Reason(code, message + (f": {detail}" if detail else ""), fix)
    if status.get("reason") == "NodeLost":
        return Reason("node_lost", "the node of its driver is gone, or does not answer", "run it again: --retries")
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


def _start_problem(pod: Json, containers: Sequence[Json], events: Sequence[Json]) -> tuple[Reason | None, bool]:
    status = pod.get("status", {})
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _unschedulable(str(condition.get("message") or "the scheduler gave no reason")), False
    for container in containers:
        waiting = container.get("waiting") or {}
        why, message = str(waiting.get("reason", "")), str(waiting.get("message") or "")
        image = next((c["image"] for c in pod["spec"]["containers"]), "")
        if why in _UNPULLED:
            problem = f"the image {image} cannot be pulled: {message or why}"
            return Reason("image_pull_failed", problem, _PULL_FIX), why in _HOPELESS
        if why in _UNMADE:
            problem = f"its container cannot be created: {message or why}"
            return Reason("pod_refused", problem, _DESCRIBE), why in _HOPELESS
    for event in sorted(events, key=_event_order, reverse=True):
        if event.get("reason") in _BEYOND_PREPARATION:
            break
        if event.get("type") == "Warning" and event.get("reason") in _UNPREPARED:
            return Reason("pod_refused", f"its pod cannot be started: {event.get('message', '')}", _DESCRIBE), False
    return None, False


def _event_order(event: Json) -> tuple[str, bool]:
    """Return the sort key of an event. Most times are whole seconds; within one, a warning precedes the progress."""
    time = str(event.get("lastTimestamp") or event.get("eventTime") or "")
    return time[: len("2026-11-22T05:00:00")], event.get("type") != "Warning"


def _unschedulable(message: str) -> Reason:
    if "Insufficient" in message:
        fix = (
            "wait until other applications end, add nodes, or request less: --driver-memory, --executor-memory, "
            "--executor-cores"
        )
    elif "taint" in message or "selector" in message or "affinity" in message:
        fix = "change node_selector:, tolerations: or affinity: in the cluster's file; kubectl describe nodes"
    else:
        fix = _DESCRIBE
    return Reason("unschedulable", f"no node accepts its pod: {message}", fix)


_PULL_FIX = (
    "check image: and pull_secrets: in the cluster's file; penstock image build creates an image that can be pushed"
)
_IMAGE_FIX = "create one with penstock image build, push it, and name it as image: in the cluster's file"
_DESCRIBE = "kubectl describe pod ID shows all that Kubernetes knows"


def _gone() -> Reason:
    return Reason(
        "driver_lost", "its driver pod was deleted, but not by Penstock", "run it again, or let it: --retries"
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
    created = str(pod["metadata"]["creationTimestamp"])
    return datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
