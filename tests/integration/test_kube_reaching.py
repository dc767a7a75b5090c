"""Access of an engine outside the cluster to a driver's loopback servers and published files."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.clusters.backend import Handle
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.home import Home
from penstock.processes import wait_until
from tests.unit.clusters.kubernetes.kubernetes_fake import FakeKubernetes
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET, container, launch

ID = "app-20261122-abc"
POD = f"/api/v1/namespaces/lake/pods/{ID}"


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    return FakeKubernetes()


@pytest.fixture
def backend(kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesBackend]:
    backend = KubernetesBackend(Home(tmp_path), TARGET)
    monkeypatch.setattr(backend, "_opened", kubernetes)
    yield backend
    backend.release(backend.handle(ID))


@pytest.fixture
def running(backend: KubernetesBackend, kubernetes: FakeKubernetes, tmp_path: Path) -> Handle:
    script = tmp_path / "a.py"
    script.touch()
    backend.launch(launch(spec=replace(launch().spec, application=str(script))))
    states = [container("driver", running={}), container("keeper", running={})]
    kubernetes.become(POD, phase="Running", podIP="10.1.2.3", containerStatuses=states)
    return backend.handle(ID)


def test_pages_are_none_until_the_driver_has_opened_them_and_then_on_a_port_of_this_machine(
    backend: KubernetesBackend, kubernetes: FakeKubernetes, running: Handle
) -> None:
    assert backend.web_interface(running) is None
    kubernetes.answers["/pages"] = json.dumps({"port": None, "key": None}).encode()
    assert backend.web_interface(running) is None
    kubernetes.answers["/pages"] = json.dumps({"port": 4041, "key": "k3y"}).encode()
    pages = backend.web_interface(running)
    assert pages is not None
    assert (pages.host, pages.key) == ("127.0.0.1", "k3y")
    # Each part of a page requests the forwarded port, which stays the same.
    assert backend.web_interface(running) == pages
    socket.create_connection((pages.host, pages.port), timeout=10).close()
    backend.release(running)
    with pytest.raises(OSError):
        socket.create_connection((pages.host, pages.port), timeout=10).close()


def test_a_private_file_is_the_secret_s_or_what_the_driver_published(
    backend: KubernetesBackend, kubernetes: FakeKubernetes, running: Handle
) -> None:
    kubernetes.answers["/published/session.json"] = b"{}"
    kubernetes.answers["/published/keys"] = b"not this one"
    assert wait_until(lambda: backend.private_file(running, "session.json") == "{}", 20)
    assert backend.private_file(running, "keys") == "open sesame"
    assert backend.private_file(running, "none") is None


def test_a_way_is_closed_when_it_is_left(backend: KubernetesBackend, running: Handle) -> None:
    with backend.forward_port(running, 4711) as here:
        socket.create_connection(("127.0.0.1", here), timeout=10).close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", here), timeout=10).close()
