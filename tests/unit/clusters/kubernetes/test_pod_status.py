"""The status of pods becomes a phase and a reason: the obstacle, whether waiting helps, and the remedy."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.clusters.backend import Phase
from penstock.clusters.kubernetes.pod_status import DriverState, driver_state, executor_failure, pending_reason, summary
from tests.unit.clusters.kubernetes.kubernetes_making import container, pod

BORN = datetime(2026, 11, 22, 5, 0, tzinfo=timezone.utc)


def seen(found: dict[str, Any] | None, *, after_seconds: float = 10, **more: Any) -> DriverState:
    return driver_state(found, at=BORN + timedelta(seconds=after_seconds), timeout_seconds=600, **more)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return pod(phase="Pending", containerStatuses=[container("driver", waiting={"reason": reason, "message": message})])


def unschedulable(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(phase="Pending", conditions=[condition])


def ended(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    state = {"exitCode": code, "reason": reason}
    return pod(phase="Failed", containerStatuses=[container("driver", terminated=state)], **more)


def test_a_pod_that_has_just_been_made_is_starting_and_nothing_is_wrong() -> None:
    assert seen(pod(phase="Pending")) == DriverState(Phase.STARTING)


def test_a_pod_whose_driver_runs_is_running() -> None:
    assert seen(pod(phase="Running", containerStatuses=[container("driver", running={})])).phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("found", "code", "fix"),
    [
        (unschedulable("0/3 nodes are available: 3 Insufficient memory."), "unschedulable", "--executor-memory"),
        (unschedulable("0/3 nodes are available: 3 node(s) had untolerated taint."), "unschedulable", "tolerations:"),
        (waiting("ImagePullBackOff", "Back-off pulling image"), "image_pull_failed", "pull_secrets:"),
        (waiting("CreateContainerError", "no such path"), "pod_refused", "kubectl describe"),
    ],
)
def test_a_temporary_obstacle_is_reported_and_waited_for_up_to_its_time_limit(
    found: dict[str, Any], code: str, fix: str
) -> None:
    early, late = seen(found), seen(found, after_seconds=601)
    assert early.reason is not None
    assert (early.phase, early.reason.code, early.permanent) == (Phase.STARTING, code, False)
    assert fix in early.reason.fix
    assert late.permanent


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_an_image_that_can_never_be_had_is_not_waited_for(reason: str) -> None:
    found = seen(waiting(reason))
    assert found.permanent
    assert found.reason is not None
    assert "registry.example/penstock:1" in found.reason.message


def test_a_volume_that_cannot_be_mounted_is_found_in_the_events() -> None:
    event = {"type": "Warning", "reason": "FailedMount", "message": "hostPath type check failed: /mnt/nvme"}
    found = seen(pod(phase="Pending"), events=[event])
    assert found.reason is not None
    assert "/mnt/nvme" in found.reason.message


def event(reason: str, second: int, kind: str = "Normal", **more: str) -> dict[str, str]:
    return {"type": kind, "reason": reason, "lastTimestamp": f"2026-11-22T05:09:{second:02}Z", **more}


SECRET_MISSING = event("FailedMount", 10, "Warning", message='secret "app-1" not found')


@pytest.mark.parametrize(
    "later",
    [
        event("Pulling", 11),
        event("Pulling", 10),
        event("Created", 40),
        {"type": "Normal", "reason": "Pulled", "eventTime": "2026-11-22T05:09:10.250000Z", "lastTimestamp": ""},
    ],
)
def test_a_warning_that_the_pods_progress_has_overtaken_is_none(later: dict[str, str]) -> None:
    for events in ([SECRET_MISSING, later], [later, SECRET_MISSING]):
        assert seen(pod(phase="Pending"), after_seconds=900, events=events) == DriverState(Phase.STARTING)


def test_a_warning_after_other_events_still_counts() -> None:
    events = [event("FailedCreatePodSandBox", 30, "Warning", message="no network"), event("Scheduled", 5)]
    for found in (events, [*events, event("SomethingElse", 50)]):
        late = seen(pod(phase="Pending"), after_seconds=900, events=found)
        assert late.permanent
        assert late.reason is not None
        assert "no network" in late.reason.message


def test_an_end_keeps_its_exit_code_and_leaves_the_reason_to_what_the_driver_said() -> None:
    assert seen(ended(3)) == DriverState(Phase.ENDED, 3)
    assert seen(ended(0, "Completed")) == DriverState(Phase.ENDED, 0)


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (ended(137, "OOMKilled"), "out_of_memory", "896 MiB"),
        (ended(11), "executors_failed", "executors kept dying"),
        (ended(128, "StartError"), "image_unfit", "does not contain this release of Penstock"),
    ],
)
def test_an_end_that_only_kubernetes_can_explain_is_explained(found: dict[str, Any], code: str, words: str) -> None:
    reason = seen(found).reason
    assert reason is not None
    assert reason.code == code
    assert words in reason.message
    assert reason.fix


def test_a_driver_that_ended_because_its_pod_was_taken_away_is_no_failure_of_its_own() -> None:
    deleted = ended(143)
    deleted["metadata"]["deletionTimestamp"] = "2026-11-22T05:01:00Z"
    drained = ended(143, conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}])
    for found, code in ((deleted, "driver_lost"), (drained, "evicted")):
        reason = seen(found).reason
        assert reason is not None
        assert reason.code == code


def test_a_driver_without_its_sidecar_is_not_waited_for_and_reported_with_the_reason() -> None:
    for end, words in (({"exitCode": 1}, "exit code 1"), ({"exitCode": 137, "reason": "OOMKilled"}, "more memory")):
        alone = [container("driver", running={}), container("keeper", terminated=end)]
        found = seen(pod(containerStatuses=alone))
        assert (found.phase, found.permanent) == (Phase.RUNNING, True)
        assert found.reason is not None
        assert words in found.reason.message
    both = [container("driver", running={}), container("keeper", running={})]
    assert seen(pod(containerStatuses=both)) == DriverState(Phase.RUNNING)


def test_a_sidecar_that_failed_means_an_image_without_penstock() -> None:
    states = [container("driver", terminated={"exitCode": 1}), container("keeper", terminated={"exitCode": 1})]
    reason = seen(pod(phase="Failed", containerStatuses=states)).reason
    assert reason is not None
    assert reason.code == "image_unfit"


KILLED = {"terminated": {"exitCode": 137, "reason": "Error"}}
UNOBSERVED = {"terminated": {"exitCode": 255, "reason": "Unknown"}}
DEAD_SHIM = {"terminated": {"exitCode": 255, "reason": "Error"}}
NOT_BEGUN = {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize("driver", [KILLED, UNOBSERVED, DEAD_SHIM])
@pytest.mark.parametrize("keeper", [KILLED, UNOBSERVED, DEAD_SHIM, NOT_BEGUN])
def test_a_node_that_was_restarted_is_no_fault_of_the_image_nor_of_the_program(
    driver: dict[str, Any], keeper: dict[str, Any]
) -> None:
    states = [container("driver", **driver), container("keeper", **keeper)]
    found = seen(pod(phase="Failed", containerStatuses=states)).reason
    assert found is not None
    assert found.code == "node_lost"
    assert "--retries" in found.fix


@pytest.mark.parametrize("keeper", [{"running": {}}, {"terminated": {"exitCode": 0}}, {}])
def test_a_driver_killed_beside_a_living_sidecar_is_explained_by_its_own_exit_code(
    keeper: dict[str, Any],
) -> None:
    states = [container("driver", **KILLED), container("keeper", **keeper)]
    assert seen(pod(phase="Failed", containerStatuses=states)) == DriverState(Phase.ENDED, 137)


def test_a_driver_that_failed_before_its_sidecar_was_killed_has_failed_by_itself() -> None:
    states = [container("driver", terminated={"exitCode": 3, "reason": "Error"}), container("keeper", **KILLED)]
    assert seen(pod(phase="Failed", containerStatuses=states)) == DriverState(Phase.ENDED, 3)


@pytest.mark.parametrize(
    ("found", "code", "fix"),
    [
        (pod(phase="Failed", reason="Evicted", message="Usage of EmptyDir exceeds the limit"), "evicted", "scratch:"),
        (pod(phase="Failed", reason="Evicted", message="low on resource: memory"), "evicted", "--retries"),
        (pod(phase="Failed", reason="NodeLost"), "node_lost", "--retries"),
        (pod(phase="Failed", message="Pod was rejected"), "driver_lost", "--retries"),
        (None, "driver_lost", "--retries"),
    ],
)
def test_a_driver_that_is_gone_is_lost_with_its_true_reason(found: dict[str, Any] | None, code: str, fix: str) -> None:
    lost = seen(found)
    assert lost.reason is not None
    assert (lost.phase, lost.reason.code) == (Phase.LOST, code)
    assert fix in lost.reason.fix


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("DeletionByTaintManager", "node_lost"),
        ("PreemptionByScheduler", "preempted"),
        ("EvictionByEvictionAPI", "evicted"),
    ],
)
def test_a_disruption_names_who_took_the_pod_away(why: str, code: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": why, "message": "told"}
    running = [container("driver", running={})]
    lost = seen(pod(phase="Running", conditions=[condition], containerStatuses=running))
    assert lost.phase is Phase.LOST
    assert lost.reason is not None
    assert lost.reason.code == code


def executor(number: int, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e-{number}", "creationTimestamp": "2026-11-22T05:00:00Z"},
        "spec": {"containers": [{"name": "executor", "image": "i"}]},
        "status": status,
    }


def test_executors_that_find_no_room_are_counted_with_their_reason() -> None:
    none = {"type": "PodScheduled", "status": "False", "message": "3 Insufficient cpu"}
    there = executor(1, phase="Running", containerStatuses=[container("executor", running={})])
    absent = [executor(number, phase="Pending", conditions=[none]) for number in (2, 3)]
    reason = pending_reason([there, *absent])
    assert reason is not None
    assert "2 executors wait" in reason.message
    assert "Insufficient cpu" in reason.message
    assert pending_reason([there]) is None


def test_a_lost_executor_is_distinguished_from_a_released_one() -> None:
    killed = {"exitCode": 137, "reason": "OOMKilled"}
    assert "memory" in str(executor_failure(executor(1, containerStatuses=[container("executor", terminated=killed)])))
    done = {"exitCode": 0, "reason": "Completed"}
    assert executor_failure(executor(1, containerStatuses=[container("executor", terminated=done)])) is None
    assert executor_failure(executor(1, phase="Running")) is None


def test_a_summary_has_numbers_whatever_the_records_of_processes_hold() -> None:
    odd = {"ended": "text", "processes": {"executor-1": [1], "executor-2": {"cpu_seconds": "much"}, "x": {}}}
    found = summary({**odd, "summary": None}, None)
    assert list(found["processes"]) == ["driver", "executor-1", "executor-2"]
    assert found["cpu_seconds"] is None
    assert summary({"ended": None, "processes": "text"}, None)["cpu_seconds"] is None
    known = summary(
        {"ended": {"cpu_seconds": 2, "exit_code": 0}, "processes": {"executor-1": {"cpu_seconds": 1}}}, None
    )
    assert known["cpu_seconds"] == 3
