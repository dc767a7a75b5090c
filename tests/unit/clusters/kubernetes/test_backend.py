"""Checks before the first pod: their failures refuse the launch, and their success is remembered for a while."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.clusters.kubernetes import backend as backends
from penstock.clusters.kubernetes import layout, preflight
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.errors import ClusterError, Conflict, InvalidInput
from penstock.home import Home
from penstock.processes import wait_until
from tests.unit.clusters.kubernetes.kubernetes_fake import FakeKubernetes
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET, container, launch
from tests.unit.test_home import LEADS_ELSEWHERE

ELSEWHERE = Path("/tmp/penstock-thief")  # noqa: S108  never made


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    return FakeKubernetes()


@pytest.fixture
def backend(tmp_path: Path, kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> KubernetesBackend:
    backend = KubernetesBackend(Home(tmp_path / "home"), TARGET)
    monkeypatch.setattr(backend, "_opened", kubernetes)
    return backend


def test_local_files_that_no_secret_can_carry_are_refused_before_there_is_a_pod(
    backend: KubernetesBackend, kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    spec = launch().spec
    large = tmp_path / "large.py"
    large.write_bytes(b"#" * (1 << 20))
    with pytest.raises(InvalidInput) as refused:
        backend.launch(launch(spec=replace(spec, application=str(large))))
    assert "penstock lake put" in refused.value.fix
    with pytest.raises(InvalidInput) as refused:
        backend.launch(launch(spec=replace(spec, application=str(tmp_path / "gone.py"))))
    assert (refused.value.why, str(tmp_path / "gone.py") in refused.value.fix) == ("No such file or directory", True)
    assert kubernetes.made == []


def test_a_cluster_that_was_seen_to_be_usable_is_not_asked_about_by_every_submission(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(preflight, "require_usable", lambda *_: asked.append(1))
    for _ in range(3):
        backend.check(launch().spec)
    assert len(asked) == 1
    monkeypatch.setattr(backends, "_USABLE_SECONDS", -1.0)
    backend.check(launch().spec)
    assert len(asked) == 2


def test_one_that_was_not_is_asked_about_again(backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise ClusterError("Kubernetes cannot run the application: namespace")

    monkeypatch.setattr(preflight, "require_usable", refuse)
    for _ in range(2):
        with pytest.raises(ClusterError):
            backend.check(launch().spec)
    assert len(asked) == 2


def test_the_secret_of_an_earlier_pod_is_replaced_and_that_of_this_one_stays(
    backend: KubernetesBackend, kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=replace(launch().spec, application=str(script)))
    name = wanted.application_id
    secret, pod = f"/api/v1/namespaces/lake/secrets/{name}", f"/api/v1/namespaces/lake/pods/{name}"

    def owner() -> str:
        return str(kubernetes.objects[secret]["metadata"]["ownerReferences"][0]["uid"])

    backend.launch(wanted)
    token = kubernetes.objects[secret]["data"]["token"]
    backend.launch(wanted)
    assert kubernetes.objects[secret]["data"]["token"] == token
    # The pod is gone, and Kubernetes has not collected its secret yet.
    del kubernetes.objects[pod]
    backend.launch(wanted)
    assert owner() == kubernetes.objects[pod]["metadata"]["uid"]
    assert kubernetes.objects[secret]["data"]["token"] != token


def test_a_secret_of_somebody_else_is_left_alone(
    backend: KubernetesBackend, kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=replace(launch().spec, application=str(script)))
    metadata = {"name": wanted.application_id}
    kubernetes.create("/api/v1/namespaces/lake/secrets", {"kind": "Secret", "metadata": metadata, "data": {}})
    with pytest.raises(Conflict) as refused:
        backend.launch(wanted)
    assert "delete secret" in refused.value.fix


class Ended:
    """A cluster whose driver has ended, with the sidecar's status and the answers to requests for its artifacts."""

    name = "app"

    def __init__(self, status: Any, read: Callable[[str, int, int], bytes | None]) -> None:
        self.state: dict[str, Any] = {"running": {}}
        self.conditions: list[dict[str, Any]] = []
        self.sidecar = SimpleNamespace(
            status=lambda _address: status,
            artifact=lambda _address, name, start, at_most: read(name, start, at_most),
        )

    def address(self) -> str:
        return "10.0.0.1"

    def driver(self) -> dict[str, Any]:
        statuses = [{"name": layout.SIDECAR, "state": self.state}]
        return {"status": {"containerStatuses": statuses, "conditions": self.conditions}}


@pytest.mark.parametrize(
    "name",
    [*(name for name in LEADS_ELSEWHERE if "etc" not in name), "driver.log/below", "events", ELSEWHERE.as_posix()],
)
def test_no_name_that_a_pod_gives_leads_out_of_its_applications_directory(
    backend: KubernetesBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    status = {"finished": True, "artefacts": {"driver.log": 3, name: 3}, "in_lake": []}
    monkeypatch.setattr(backend, "_cluster", lambda _: Ended(status, lambda _name, start, at_most: b"log"[start:]))
    directory = backend.collect({"application_id": "app"})
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    kept = directory.relative_to(tmp_path).as_posix()
    assert not ELSEWHERE.exists()
    assert found == [f"{kept}/driver.log", f"{kept}/summary.json"]


HANDLE = {"application_id": "app"}
LOG = bytes(range(256)) * 40


def test_a_request_that_failed_is_not_the_end_of_a_log(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "MAX_READ_BYTES", 4096)
    failing = {8192}
    asked = []

    def read(name: str, start: int, at_most: int) -> bytes | None:
        asked.append((name, start))
        return None if name == "driver.log" and start in failing else LOG[start : start + at_most]

    status = {"finished": True, "artefacts": {"driver.err": 10, "driver.log": len(LOG)}, "in_lake": []}
    monkeypatch.setattr(backend, "_cluster", lambda _: Ended(status, read))
    with pytest.raises(ClusterError) as refused:
        backend.collect(HANDLE)
    assert "8192 of its 10240 bytes" in refused.value.why
    failing.clear()
    asked.clear()
    directory = backend.collect(HANDLE)
    assert (directory / "driver.log").read_bytes() == LOG
    assert (directory / "driver.err").read_bytes() == LOG[:10]
    assert ("driver.err", 0) not in asked


def test_files_that_no_volume_could_hold_are_left_out_and_it_is_said(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"driver.log": 10, "hole": 1 << 50, "larger": 1 << 51}
    status = {"finished": True, "artefacts": sizes, "in_lake": []}

    def read(name: str, _start: int, at_most: int) -> bytes:
        assert name == "driver.log"
        return b"x" * at_most

    monkeypatch.setattr(backend, "_cluster", lambda _: Ended(status, read))
    directory = backend.collect(HANDLE)
    assert sorted(path.name for path in directory.iterdir()) == ["driver.log", "events", "summary.json"]
    assert json.loads((directory / "summary.json").read_text())["artefacts_left_out"] == 2


def test_the_port_of_a_sidecar_that_has_ended_is_not_asked(
    backend: KubernetesBackend, kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=replace(launch().spec, application=str(script)))
    backend.launch(wanted)
    handle, pod = backend.handle(wanted.application_id), f"/api/v1/namespaces/lake/pods/{wanted.application_id}"
    # A program that listens on the port instead.
    kubernetes.status = {"finished": True, "artefacts": {"x": 1}, "in_lake": [], "progress": {"application_id": "x"}}
    kubernetes.answers = {"/pages": b'{"port": 1, "key": null}', "/artefacts/x": b"x"}
    states = [container("driver", running={}), container("keeper", terminated={"exitCode": 137})]
    kubernetes.become(pod, phase="Running", podIP="10.1.2.3", containerStatuses=states)
    assert wait_until(lambda: backend.observe(handle).reason is not None, 20)
    assert backend.observe(handle).progress is None
    assert (backend.sizes(handle), backend.read(handle, "x", 0)) == ({}, b"")
    assert backend.web_interface(handle) is None
    assert kubernetes.tokens == []
    backend.release(handle)


@pytest.mark.parametrize("status", [None, {"finished": False, "artefacts": {"driver.log": 3}, "in_lake": []}])
def test_logs_are_not_given_up_while_the_sidecar_that_has_them_runs(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any] | None
) -> None:
    monkeypatch.setattr(backends, "_ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(backends, "_FINISH_SECONDS", 0.0)
    ended = Ended(status, lambda *_: b"log")
    monkeypatch.setattr(backend, "_cluster", lambda _: ended)
    with pytest.raises(ClusterError) as refused:
        backend.collect(HANDLE)
    assert "kubectl" in refused.value.fix
    # What is here is collected when the engine gives up.
    assert (backend.collect(HANDLE, incomplete=True) / "summary.json").exists()
    # Nobody can ask a sidecar that has ended.
    ended.state = {"terminated": {"exitCode": 0}}
    assert (backend.collect(HANDLE) / "summary.json").exists()


def test_a_sidecar_on_a_lost_node_is_asked_and_not_awaited(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "_ANSWER_SECONDS", 0.0)
    ended = Ended(None, lambda *_: b"log")
    # The state of its containers stays as the node last reported it.
    ended.conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    monkeypatch.setattr(backend, "_cluster", lambda _: ended)
    summary = json.loads((backend.collect(HANDLE) / "summary.json").read_text())
    assert "was lost with the logs" in summary["artefacts_problem"]
    # The sidecar of an evicted pod still works.
    ended.conditions[0]["reason"] = "EvictionByEvictionAPI"
    with pytest.raises(ClusterError):
        backend.collect(HANDLE)
