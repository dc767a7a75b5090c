"""A cluster for tests is started, handed on and removed, whatever the outcome of the command that uses it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import with_kubernetes

UP = "printf \"KUBECONFIG='%s/kube config'\\nHOST_ADDRESS=10.0.0.254\\nKUBECTL=/k\\n\""
PRINTS = "import os, sys; print([os.environ[name] for name in sys.argv[2:]]); sys.exit(int(sys.argv[1]))"
NAMES = (with_kubernetes.HOST, with_kubernetes.KUBECONFIG)


def command(code: int, *names: str) -> list[str]:
    return [sys.executable, "-c", PRINTS, str(code), *names]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the environment's cluster, tools on the PATH and installers; fake the image build and the API server."""
    for name in (with_kubernetes.CLUSTER, with_kubernetes.KUBECONFIG, with_kubernetes.UP, "CI", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(with_kubernetes.shutil, "which", lambda _: None)
    monkeypatch.setattr(with_kubernetes.signal, "signal", lambda *_: None)
    monkeypatch.setattr(with_kubernetes, "install_image_tools", lambda: None)
    monkeypatch.setattr(with_kubernetes, "built_image", lambda: tmp_path / "image.tar")
    monkeypatch.setattr(with_kubernetes, "find_access", str)
    monkeypatch.setattr(with_kubernetes, "Api", str)
    monkeypatch.setattr(with_kubernetes, "prepare", lambda _: None)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file to which the commands that start, fill and remove a cluster write one line each."""
    written = tmp_path / "steps"
    up = tmp_path / "up"
    up.write_text(f"#!/bin/sh\necho up >>{written}\n{UP} {tmp_path}\n")
    up.chmod(0o755)
    monkeypatch.setenv(with_kubernetes.UP, str(up))
    monkeypatch.setenv(with_kubernetes.LOAD, f"sh -c 'echo load $(basename $0) >>{written}'")
    monkeypatch.setenv(with_kubernetes.DOWN, f"sh -c 'echo down >>{written}'")
    return written


@pytest.mark.parametrize("code", [0, 3])
def test_a_cluster_of_commands_is_used_and_removed(
    steps: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    assert with_kubernetes.main(command(code, *NAMES)) == code
    assert capfd.readouterr().out == f"['10.0.0.254', '{tmp_path}/kube config']\n"
    assert steps.read_text().splitlines() == ["up", "load image.tar", "down"]


def test_a_cluster_that_cannot_be_prepared_is_removed(steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise TimeoutError("not ready")

    monkeypatch.setattr(with_kubernetes, "prepare", refuse)
    with pytest.raises(TimeoutError):
        with_kubernetes.main(command(0))
    assert steps.read_text().splitlines()[-1] == "down"


def test_a_cluster_file_of_the_environment_is_used_as_it_is(
    steps: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("kind: kubernetes\nnamespace: n\nimage: i:1\nkubeconfig: /the/one\n")
    monkeypatch.setenv(with_kubernetes.CLUSTER, str(file))
    assert with_kubernetes.main(command(0, with_kubernetes.KUBECONFIG)) == 0
    assert capfd.readouterr().out == "['/the/one']\n"
    assert not steps.exists()


@pytest.mark.parametrize(("environment", "code"), [({}, 0), ({"CI": "true"}, 1)])
def test_without_a_cluster_nothing_runs_which_is_a_failure_in_ci(
    environment: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert with_kubernetes.main(command(7)) == code
    said = capfd.readouterr()
    assert said.out == ""
    assert "kind" in said.err


@pytest.mark.parametrize(
    "network",
    [
        {"IPAM": {"Config": [{"Subnet": "fc00::/64", "Gateway": "fc00::1"}, {"Gateway": "172.18.0.1"}]}},
        {"subnets": [{"subnet": "fc00::/64", "gateway": "fc00::1"}, {"gateway": "172.18.0.1"}]},
    ],
    ids=["docker", "podman"],
)
def test_pods_of_kind_reach_this_machine_at_the_gateway_of_its_network(network: dict[str, object]) -> None:
    assert with_kubernetes.gateway_of(network) == "172.18.0.1"
