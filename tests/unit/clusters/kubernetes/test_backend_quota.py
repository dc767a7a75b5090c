"""A pod that a quota rejects is retried without end, and its application is reported to wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.clusters.backend import Phase
from penstock.clusters.kubernetes import backend as postponing
from penstock.clusters.kubernetes.backend import KubernetesBackend, PostponedLaunch
from penstock.clusters.kubernetes.client import Access, NamespaceQuotaExceeded, RequestRejected, _refused
from penstock.errors import Forbidden, NotFound, PenstockError
from penstock.home import Home
from tests.unit.clusters.kubernetes.kubernetes_fake import FakeKubernetes
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET, launch

QUOTA = NamespaceQuotaExceeded(403, "The namespace's quota is used up", why="exceeded quota: small", fix="wait")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_is_asked_for_every_few_seconds_and_never_given_up() -> None:
    clock = Clock()
    postponed = PostponedLaunch(launch(), QUOTA, clock)
    assert not postponed.due()
    seen = postponed.observation()
    assert seen.reason is not None
    assert (seen.phase, seen.reason.code, seen.permanent) == (Phase.STARTING, "quota_exceeded", False)
    clock.now += 5
    assert postponed.due()
    postponed.refused_again(QUOTA)
    assert not postponed.due()
    clock.now += 86400
    assert not postponed.observation().permanent


class Server:
    """A server whose quota rejects the first pod."""

    def __init__(self) -> None:
        self.access = Access("https://there", None, lambda: None)
        self.asked: list[str] = []

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body["kind"])
        if self.asked == ["Pod"]:
            raise QUOTA
        return {**body, "metadata": {**body["metadata"], "uid": "u"}}

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if path.endswith("/pods"):
            return {"items": [], "metadata": {"resourceVersion": "1"}}
        raise NotFound("there is none")

    def watch(self, *_: str, **__: str) -> list[dict[str, Any]]:
        raise RequestRejected(503, "no watch here")


def test_a_launch_without_room_waits_and_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponing, "_EVERY_SECONDS", 0.0)
    backend, server = KubernetesBackend(Home(tmp_path), TARGET), Server()
    monkeypatch.setattr(backend, "_opened", server)
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=replace(launch().spec, application=str(script)))
    handle = backend.handle(wanted.application_id)
    backend.launch(wanted)
    assert server.asked == ["Pod"]
    backend.observe(handle)
    backend.observe(handle)
    assert server.asked == ["Pod", "Pod", "Secret"]
    backend._clusters.forget(wanted.application_id)


OTHERS_CHANGED_IT = (
    'Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes'
)


def conflict(message: str, reason: str) -> PenstockError:
    return _refused("/pods", httpx.Response(409, json={"message": message, "reason": reason}))


def test_a_quota_that_others_changed_at_the_same_time_is_tried_again_and_is_no_existing_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postponing, "_EVERY_SECONDS", 0.0)
    kubernetes = FakeKubernetes()
    refusals = [conflict(OTHERS_CHANGED_IT, "Conflict"), None, conflict(OTHERS_CHANGED_IT, "Conflict")]
    create = kubernetes.create

    def compete(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if refusals and (refused := refusals.pop(0)):
            raise refused
        return create(path, body)

    monkeypatch.setattr(kubernetes, "create", compete)
    backend = KubernetesBackend(Home(tmp_path), TARGET)
    monkeypatch.setattr(backend, "_opened", kubernetes)
    script = tmp_path / "a.py"
    script.touch()
    wanted = launch(spec=replace(launch().spec, application=str(script)))
    handle = backend.handle(wanted.application_id)
    backend.launch(wanted)
    assert kubernetes.made == []
    # The pod is admitted, its secret is not: the next look makes the rest.
    waits = backend.observe(handle)
    assert waits.reason is not None
    assert "at the same time" in waits.reason.message
    assert kubernetes.made == ["Pod"]
    assert backend.observe(handle).phase is Phase.STARTING
    assert kubernetes.made == ["Pod", "Secret"]
    backend.release(handle)


def test_only_an_existing_object_is_one() -> None:
    exists = conflict('pods "a" already exists', "AlreadyExists")
    assert isinstance(exists, RequestRejected)
    assert exists.already_exists
    # A pod may have the name of a quota's kind.
    named = conflict('pods "resourcequotas" already exists', "AlreadyExists")
    assert type(named) is RequestRejected
    other = conflict("the object is being changed", "Conflict")
    assert isinstance(other, RequestRejected)
    assert not other.already_exists


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, 'pods "a" is forbidden: exceeded quota: small, requested: cpu=1', NamespaceQuotaExceeded),
        (403, 'pods is forbidden: User "me" cannot create resource "pods"', Forbidden),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest"', RequestRejected),
        (409, "already exists", RequestRejected),
        (401, "Unauthorized", Forbidden),
        (404, "not found", NotFound),
    ],
)
def test_refusals_of_the_server_are_distinguished(status: int, message: str, kind: type[PenstockError]) -> None:
    error = _refused("/pods", httpx.Response(status, json={"message": message}))
    assert type(error) is kind
    assert error.why.startswith(message)
