"""A lost driver pod is reported with its true reason; a requested retry has a pod and secrets of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.clusters.backend import Observation
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.engine.repository.applications import ApplicationRepository
from penstock.engine.supervision.supervisor import Supervisor
from penstock.home import Home
from penstock.model import Application, ApplicationSpec, State
from penstock.processes import wait_until
from tests.unit.clusters.kubernetes.kubernetes_fake import FakeKubernetes
from tests.unit.clusters.kubernetes.kubernetes_making import SIZE, TARGET, container, launch
from tests.unit.engine.engine_making import Memory

ID = "app-20261122-abc"
POD = f"/api/v1/namespaces/lake/pods/{ID}"
RUNS = {
    "phase": "Running",
    "podIP": "10.1.2.3",
    "containerStatuses": [container("driver", running={}), container("keeper", running={})],
}
ENDED = {
    **RUNS,
    "containerStatuses": [container("driver", terminated={"exitCode": 0}), container("keeper", running={})],
}
STATUS: dict[str, Any] = {
    "ended": None,
    "finished": True,
    "progress": {"application_id": "spark-1"},
    "summary": {},
    "processes": {},
    "artefacts": {},
    "in_lake": [],
}


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    return FakeKubernetes()


@pytest.fixture
def run(kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Application]:
    backend = KubernetesBackend(Home(tmp_path), TARGET)
    monkeypatch.setattr(backend, "_opened", kubernetes)
    script = tmp_path / "a.py"
    script.touch()

    def run(happens: Callable[[int], None], *, retries: int) -> Application:
        """Run an application; call `happens` with the number of each attempt when its pod exists."""
        spec = ApplicationSpec(application=str(script), size=SIZE, name="n", retries=retries)
        fresh = Application(ID, spec, State.ACCEPTED, submitted_at=datetime.now(timezone.utc))
        seen: set[int] = set()

        def on_change(application: Application, observed: Observation | None) -> None:
            if observed is not None and application.attempt not in seen and POD in kubernetes.objects:
                seen.add(application.attempt)
                happens(application.attempt)

        return Supervisor(
            cast(ApplicationRepository, Memory(fresh)),
            backend,
            prepare=lambda _: launch(spec=spec),
            store_artifacts=lambda *_: {},
            grace_seconds=0.1,
        ).run(ID, on_change)

    return run


def test_it_is_said_and_nothing_of_it_stays(kubernetes: FakeKubernetes, run: Callable[..., Application]) -> None:
    ended = run(lambda _: kubernetes.delete(POD), retries=0)
    assert ended.state is State.FAILED
    assert ended.reason is not None
    assert ended.reason.code == "driver_lost"
    assert ended.attempts == ()
    assert kubernetes.objects == {}


def test_it_is_retried_where_that_was_asked_for(kubernetes: FakeKubernetes, run: Callable[..., Application]) -> None:
    secrets = []

    def happens(attempt: int) -> None:
        secrets.append(kubernetes.objects[POD.replace("/pods/", "/secrets/")]["data"]["token"])
        if attempt == 1:
            kubernetes.delete(POD)
        else:
            kubernetes.status = STATUS
            kubernetes.become(POD, **ENDED)

    ended = run(happens, retries=2)
    assert ended.state is State.FINISHED
    assert [(one.number, one.reason.code) for one in ended.attempts] == [(1, "driver_lost")]
    assert kubernetes.made == ["Pod", "Secret", "Pod", "Secret"]
    assert secrets[0] != secrets[1]
    assert kubernetes.objects == {}


def test_a_node_that_is_gone_is_no_fault_of_the_application(
    kubernetes: FakeKubernetes, run: Callable[..., Application]
) -> None:
    gone = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    ended = run(lambda _: kubernetes.become(POD, phase="Failed", conditions=[gone]), retries=1)
    assert ended.state is State.FAILED
    assert [one.reason.code for one in ended.attempts] == ["node_lost"]
    assert ended.reason is not None
    assert ended.reason.code == "node_lost"


def test_a_new_supervisor_leaves_a_running_application_alone_whose_sidecar_ended_before(
    kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = KubernetesBackend(Home(tmp_path), TARGET)
    monkeypatch.setattr(backend, "_opened", kubernetes)
    script = tmp_path / "a.py"
    script.touch()
    spec = ApplicationSpec(application=str(script), size=SIZE, name="n")
    backend.launch(launch(spec=spec))
    killed = container("keeper", terminated={"exitCode": 137, "reason": "OOMKilled"})
    kubernetes.become(POD, **{**RUNS, "containerStatuses": [container("driver", running={}), killed]})
    at = datetime.now(timezone.utc)
    running = Application(ID, spec, State.RUNNING, submitted_at=at, admitted_at=at, cluster=backend.handle(ID))
    reasons = []

    def on_change(application: Application, observed: Observation | None) -> None:
        if observed is not None:
            reasons.append(application.reason and application.reason.code)
            end = container("driver", terminated={"exitCode": 0})
            kubernetes.become(POD, **{**RUNS, "containerStatuses": [end, killed]})

    ended = Supervisor(
        cast(ApplicationRepository, Memory(running)),
        backend,
        prepare=lambda _: launch(spec=spec),
        store_artifacts=lambda *_: {},
        grace_seconds=0.1,
    ).run(ID, on_change)
    assert reasons[:1] == ["keeper_lost"]
    assert ended.state is State.FINISHED


def test_who_looks_on_asks_the_next_attempt_with_its_own_token(
    kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = KubernetesBackend(Home(tmp_path), TARGET)
    monkeypatch.setattr(other, "_opened", kubernetes)
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=ApplicationSpec(application=str(script), size=SIZE, name="n"))
    handle, kubernetes.status = other.handle(ID), {**STATUS, "artefacts": {"driver.out": 3}}
    for attempt in (1, 2):
        other.launch(wanted)
        kubernetes.become(POD, **RUNS)
        # The watch lags by a moment.
        assert wait_until(lambda: bool(other.sizes(handle)) and len(set(kubernetes.tokens)) >= attempt, 20)  # noqa: B023
        kubernetes.delete(POD)
    other.release(handle)


def test_a_new_supervisor_does_not_start_an_application_again_whose_pod_is_gone(
    kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod's program may have begun, and on a node that is cut off it may still run."""
    script = tmp_path / "a.py"
    script.touch()
    spec = ApplicationSpec(application=str(script), size=SIZE, name="n")
    records = Memory(Application(ID, spec, State.ACCEPTED, submitted_at=datetime.now(timezone.utc)))

    def supervise(on_change: Callable[[Application, Observation | None], None]) -> Application:
        backend = KubernetesBackend(Home(tmp_path), TARGET)
        monkeypatch.setattr(backend, "_opened", kubernetes)
        return Supervisor(
            cast(ApplicationRepository, records),
            backend,
            prepare=lambda _: launch(spec=spec),
            store_artifacts=lambda *_: {},
            grace_seconds=0.1,
        ).run(ID, on_change)

    class Killed(Exception):
        pass

    def dies(_: Application, observed: Observation | None) -> None:
        if observed is not None:
            raise Killed

    with pytest.raises(Killed):
        supervise(dies)
    assert records.kept.state is State.STARTING
    kubernetes.delete(POD)

    def looks_on(_: Application, observed: Observation | None) -> None:
        assert observed is None, "it was started again"

    ended = supervise(looks_on)
    assert ended.reason is not None
    assert (ended.state, ended.reason.code) == (State.FAILED, "driver_lost")
    assert kubernetes.made == ["Pod", "Secret"]
