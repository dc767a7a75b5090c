#!/usr/bin/env python3
"""Run a command with a test cluster of Kubernetes.

    with_kubernetes.py COMMAND…

The command gets these environment variables:

    PENSTOCK_TEST_CLUSTER      a cluster file (`penstock cluster example`)
    PENSTOCK_TEST_HOST         an address of this machine that pods reach
    PENSTOCK_TEST_KUBECONFIG   the kubeconfig of its API server

The cluster is the first of these that is available:

- the one that PENSTOCK_TEST_CLUSTER and PENSTOCK_TEST_HOST already name; it has its own namespace and image
- one that the command in PENSTOCK_TEST_KUBERNETES_UP starts. The command prints KUBECONFIG=… and HOST_ADDRESS=…, in a
  shell's quoting. PENSTOCK_TEST_KUBERNETES_LOAD is a command that loads into every node the OCI archive whose path is
  appended to it, PENSTOCK_TEST_KUBERNETES_DOWN a command that removes the cluster
- a cluster of `kind`, where kind is installed and docker or podman is running

The image is built from this checkout while the cluster starts. A cluster that was started is removed at the end, also
after Ctrl-C or SIGTERM. Without a cluster the command does not run: a failure where CI is set, a message elsewhere.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from penstock.clusters.kubernetes.client import Api, find_access
from penstock.clusters.kubernetes.preflight import DRIVER
from penstock.clusters.kubernetes.target import read_target
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "kubernetes"
CLUSTER, HOST, KUBECONFIG = "PENSTOCK_TEST_CLUSTER", "PENSTOCK_TEST_HOST", "PENSTOCK_TEST_KUBECONFIG"
UP, LOAD, DOWN = (f"PENSTOCK_TEST_KUBERNETES_{part}" for part in ("UP", "LOAD", "DOWN"))
IMAGE = "penstock.test/penstock:1"
NAMESPACE = "penstock-test"
ACCOUNT = "penstock-driver"
PAGES = "/var/lib/kubelet/penstock-test-pages"
"""A directory that nodes of one machine do not share: each kubelet has its own /var/lib/kubelet."""
KIND_NAME = "penstock-test"
KIND_NODES = """kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
"""
# These requests leave room for a driver, its sidecar and an executor on a node of two cores.
CLUSTER_FILE = """kind: kubernetes
namespace: {namespace}
image: {image}
kubeconfig: {kubeconfig}
pull_policy: Never
service_account: {account}
cpu_request: 0.25
scratch: {{medium: disk, size: 2Gi}}
page_cache:
  disk: {{path: {pages}, size: 1Gi}}
"""
_READY_SECONDS = 180.0

MISSING = f"""There is no Kubernetes cluster for tests. Any of these provides one:
  - {CLUSTER}=FILE and {HOST}=ADDRESS:
    a cluster file (penstock cluster example), and an address of this machine that pods reach
  - kind (https://kind.sigs.k8s.io) on PATH, and docker or podman running
  - {UP}, …_LOAD and …_DOWN:
    commands that start a cluster, load an image and remove the cluster: see scripts/with_kubernetes.py"""


class Provider(Protocol):
    """A source of clusters: it starts one, loads images into its nodes, and removes it."""

    def up(self) -> tuple[Path, str]:
        """Start the cluster; returns its kubeconfig, and the address of this machine that pods reach."""

    def load(self, archive: Path) -> None: ...

    def down(self) -> None: ...


class Commands:
    """A cluster that the commands in the environment start and remove."""

    def up(self) -> tuple[Path, str]:
        ran = subprocess.run(shlex.split(os.environ[UP]), check=True, stdout=subprocess.PIPE, text=True)
        printed = dict(word.partition("=")[::2] for word in shlex.split(ran.stdout))
        return Path(printed["KUBECONFIG"]), printed["HOST_ADDRESS"]

    def load(self, archive: Path) -> None:
        subprocess.run([*shlex.split(os.environ[LOAD]), str(archive)], check=True, stdout=subprocess.DEVNULL)

    def down(self) -> None:
        subprocess.run(shlex.split(os.environ[DOWN]), check=False, stdout=subprocess.DEVNULL)


class Kind:
    """A cluster of kind: a control plane and two workers, each a container of `engine`."""

    def __init__(self, engine: str, directory: Path) -> None:
        self._engine = engine
        self._kubeconfig = directory / "kubeconfig"
        self._environment = {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": engine}

    def up(self) -> tuple[Path, str]:
        self._kind("create", "cluster", "--kubeconfig", str(self._kubeconfig), "--config", "-", given=KIND_NODES)
        inspect = [self._engine, "network", "inspect", "kind"]
        (network,) = json.loads(subprocess.run(inspect, check=True, stdout=subprocess.PIPE).stdout)
        return self._kubeconfig, gateway_of(network)

    def load(self, archive: Path) -> None:
        self._kind("load", "image-archive", str(archive))

    def down(self) -> None:
        self._kind("delete", "cluster", "--kubeconfig", str(self._kubeconfig))

    def _kind(self, *arguments: str, given: str | None = None) -> None:
        command = ["kind", *arguments, "--name", KIND_NAME]
        subprocess.run(command, check=True, input=given, text=True, env=self._environment)


def gateway_of(network: Mapping[str, Any]) -> str:
    """The IPv4 gateway of a container network, as docker or podman describes the network."""
    subnets = network.get("subnets") or network.get("IPAM", {}).get("Config") or ()
    gateways = [str(subnet.get("gateway") or subnet.get("Gateway") or "") for subnet in subnets]
    return next(gateway for gateway in gateways if "." in gateway)


def provider(directory: Path) -> Provider | None:
    if os.environ.get(UP):
        return Commands()
    if shutil.which("kind"):
        for engine in ("docker", "podman"):
            if (
                shutil.which(engine)
                and not subprocess.run([engine, "info"], check=False, capture_output=True).returncode
            ):
                return Kind(engine, directory)
    return None


def built_image() -> Path:
    """Build the OCI archive of this checkout, on a base that is built once and kept."""
    BUILD.mkdir(parents=True, exist_ok=True)
    base, archive = BUILD / "base.tar", BUILD / "image.tar"
    image = [sys.executable, "-m", "penstock.cli.main", "image"]
    if not base.exists():
        made = BUILD / "base.part.tar"
        subprocess.run([*image, "base", "-o", made], check=True, stdout=sys.stderr)
        made.replace(base)
    subprocess.run([*image, "build", "--base", base, "-o", archive, "--name", IMAGE], check=True, stdout=sys.stderr)
    return archive


def prepare(api: Api) -> None:
    """Make the namespace, the drivers' account and its permissions, and the directory for pages on each node."""
    created = {"metadata": {"name": NAMESPACE}}
    path = f"/api/v1/namespaces/{NAMESPACE}"
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **created})
    named = {"metadata": {"name": ACCOUNT}}
    api.create(f"{path}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", **named})
    rights = {"apiVersion": "rbac.authorization.k8s.io/v1", **named}
    rules = [{"apiGroups": [""], "resources": [it.resource], "verbs": list(it.verbs)} for it in DRIVER]
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    api.create(f"{roles}/roles", {**rights, "kind": "Role", "rules": rules})
    api.create(f"{roles}/rolebindings", {**rights, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference})

    sets = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    api.create(sets, directories_set())
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        status = api.get(f"{sets}/directories")["status"]
        if 0 < status.get("desiredNumberScheduled", 0) == status.get("numberReady", 0):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the nodes' directories are not ready after {_READY_SECONDS:.0f} s: {status}")
        time.sleep(0.2)


def directories_set() -> dict[str, Any]:
    """A DaemonSet that opens the hostPath directories to applications.

    Kubernetes creates them for root alone, while pods of applications run as arbitrary users of group 0.
    """
    container = {
        "name": "permissions",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "chmod 0770 /pages && touch /run/done && exec sleep infinity"],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/run/done"]}, "periodSeconds": 1},
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "pages", "mountPath": "/pages"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "pages", "hostPath": {"path": PAGES, "type": "DirectoryOrCreate"}}],
    }
    labels = {"app": "directories"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "directories"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def install_image_tools() -> None:
    """Install the builder of the image's base, unless it is installed."""
    subprocess.run([ROOT / "scripts" / "install_packages.sh", "mmdebstrap:mmdebstrap"], check=True)


@contextmanager
def started(cluster: Provider, directory: Path) -> Iterator[dict[str, str]]:
    """Start and prepare a cluster; yields the command's environment, and removes the cluster at the end."""
    began = time.monotonic()
    # This comes first: the start of the cluster may install packages, too, and only one installation can run at a time.
    install_image_tools()
    try:
        with ThreadPoolExecutor(1) as background:
            image = background.submit(built_image)
            kubeconfig, host = cluster.up()
            archive = image.result()
        cluster.load(archive)
        prepare(Api(find_access(str(kubeconfig))))
        file = directory / "cluster.yaml"
        file.write_text(
            CLUSTER_FILE.format(namespace=NAMESPACE, image=IMAGE, kubeconfig=kubeconfig, account=ACCOUNT, pages=PAGES),
            encoding="utf-8",
        )
        say(f"cluster and image are ready after {time.monotonic() - began:.0f} s; {CLUSTER}={file} {HOST}={host}")
        yield {CLUSTER: str(file), HOST: host, KUBECONFIG: str(kubeconfig)}
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cluster.down()


def given(environment: Mapping[str, str]) -> dict[str, str]:
    """The kubeconfig of the cluster file that the environment names, where the environment does not name it itself."""
    target = read_target(Path(environment[CLUSTER]))
    usual = environment.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return {KUBECONFIG: environment.get(KUBECONFIG) or target.kubeconfig or usual}


def run(command: Sequence[str], more: Mapping[str, str]) -> int:
    """Run the command; returns its exit code.

    When this program is interrupted, the command is terminated and waited for.
    """
    process = subprocess.Popen(command, env={**os.environ, **more})
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def say(text: str) -> None:
    print(f"with_kubernetes: {text}", file=sys.stderr, flush=True)


def ended(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main(command: Sequence[str]) -> int:
    if not command or command[0] in ("-h", "--help"):
        print(__doc__)
        return 2 if not command else 0
    signal.signal(signal.SIGTERM, ended)
    if os.environ.get(CLUSTER):
        return run(command, given(os.environ))
    with tempfile.TemporaryDirectory(prefix="penstock-kubernetes-") as directory:
        cluster = provider(Path(directory))
        if cluster is None:
            print(MISSING, file=sys.stderr)
            return 1 if os.environ.get("CI") else 0
        with started(cluster, Path(directory)) as more:
            return run(command, more)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (PenstockError, subprocess.CalledProcessError) as problem:
        sys.exit(f"with_kubernetes: {problem}")
