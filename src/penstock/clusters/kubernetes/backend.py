"""Dedicated clusters on Kubernetes: one driver pod per application, whose executors Spark's own scheduler creates.

A cluster consists of a pod and a secret, both named after the application, and of the objects that Spark creates for
it. The pod owns all others, so deleting it removes them. The backend holds no state of a cluster but the quota
back-off: any engine that may use the namespace can take over where another one stopped.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.clusters.backend import MAX_READ_BYTES, ClusterBackend, Handle, Launch, Observation, Phase, WebInterface
from penstock.clusters.kubernetes import layout, manifest, plan, pod_status, preflight, resources
from penstock.clusters.kubernetes.client import Access, Api, NamespaceQuotaExceeded, RequestRejected, find_access
from penstock.clusters.kubernetes.cluster import Cluster
from penstock.clusters.kubernetes.informer import WatchCache
from penstock.clusters.kubernetes.target import Target
from penstock.errors import ClusterError, Conflict, InvalidInput, NotFound
from penstock.home import Home, open_below, sizes_below, write_json
from penstock.model import ApplicationSpec, Capacity, Reason
from penstock.processes import wait_until
from penstock.profiles import layers

_EVERY_SECONDS = 5.0


class PostponedLaunch:
    """A launch that a resource quota rejected, retried every few seconds."""

    def __init__(
        self, launch: Launch, refused: NamespaceQuotaExceeded, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.launch = launch
        self._refused = refused
        self._clock = clock
        self._tried_at = clock()

    def due(self) -> bool:
        return self._clock() - self._tried_at >= _EVERY_SECONDS

    def refused_again(self, refused: NamespaceQuotaExceeded) -> None:
        self._refused, self._tried_at = refused, self._clock()

    def observation(self) -> Observation:
        return Observation(
            Phase.STARTING,
            reason=Reason("quota_exceeded", f"{self._refused.problem}: {self._refused.why}", self._refused.fix),
            postponed=True,
        )


_MOST_IN_A_SECRET = 900 << 10
"""Kubernetes allows 1 MiB, encoding included."""
_ANSWER_SECONDS = 30.0
_FINISH_SECONDS = 180.0
_EXECUTOR_GRACE_SECONDS = 5
_DEATH_SECONDS = 60.0
_POLL_SECONDS = 0.2
_CAPACITY_SECONDS = 5.0
_USABLE_SECONDS = 30.0


class KubernetesBackend(ClusterBackend):
    """The backend `kubernetes`. Its constructor makes no request.

    Every method may be called by several threads at once.
    """

    name = "kubernetes"
    shares_files = False

    def __init__(self, home: Home, target: Target, access: Callable[[], Access] | None = None) -> None:
        self._home = home
        self._target = target
        self._access = access or (lambda: find_access(target.kubeconfig, target.context))
        self._opening = threading.Lock()
        self._opened: Api | None = None
        self._asking = threading.Lock()
        self._capacity: tuple[Capacity, float] | None = None
        self._checking = threading.Lock()
        self._usable_at: float | None = None
        self._clusters: WatchCache[Cluster] = WatchCache()
        self._postponed: dict[str, PostponedLaunch] = {}

    @property
    def api(self) -> Api:
        with self._opening:
            if self._opened is None:
                self._opened = Api(self._access())
            return self._opened

    @property
    def target(self) -> Target:
        return self._target

    def capacity(self) -> Capacity:
        """Return the capacity of today's nodes, or the declared one, within the namespace's quotas.

        The answer is cached for some seconds. Nodes and quotas may be added; only the declared capacity is a permanent
        maximum.
        """
        with self._asking:
            if self._capacity is None or time.monotonic() - self._capacity[1] > _CAPACITY_SECONDS:
                declared = resources.declared_capacity(self._target)
                has = (
                    self._with_node(declared)
                    if declared
                    else resources.current_capacity(resources.list_nodes(self.api), self._target)
                )
                found = resources.list_quotas(self.api, self._target.namespace)
                now = replace(resources.limit_by_quotas(has, found, self._target), elastic=True, most=declared)
                self._capacity = now, time.monotonic()
            return self._capacity[0]

    def _with_node(self, declared: Capacity) -> Capacity:
        """Add today's largest node where the target declares none and the nodes are visible."""
        if declared.node is not None:
            return declared
        with contextlib.suppress(ClusterError):
            return replace(declared, node=resources.current_capacity(resources.list_nodes(self.api), self._target).node)
        return declared

    def overhead_factor(self, spec: ApplicationSpec) -> float:
        if self._target.overhead is not None:
            return self._target.overhead
        return layers.PYTHON_IN_PODS if spec.is_python else layers.DEFAULT_OVERHEAD_FACTOR

    def check(self, spec: ApplicationSpec) -> None:
        """Check the namespace and the sizes of the pods.

        The check of the namespace takes some forty requests, so its success is remembered for a while.
        """
        with self._checking:
            if self._usable_at is None or time.monotonic() - self._usable_at > _USABLE_SECONDS:
                preflight.require_usable(self.api, self._target)
                self._usable_at = time.monotonic()
        preflight.require_allowed(self.api, self._target, spec.size)

    def handle(self, application_id: str) -> Handle:
        return {"backend": self.name, "application_id": application_id, "namespace": self._target.namespace}

    def launch(self, launch: Launch) -> None:
        """Create the cluster. Where a quota of the namespace leaves no room, `observe` reports that and retries."""
        preflight.require_reachable(launch)
        try:
            self._create(launch)
        except NamespaceQuotaExceeded as refused:
            self._postponed[launch.application_id] = PostponedLaunch(launch, refused)

    def _create(self, launch: Launch) -> None:
        """Create the pod, then its secret: the pod owns the secret and waits for it."""
        content = self._content(launch)
        try:
            pod = self._create_or_get("pod", manifest.driver_pod(self._target, launch), launch.application_id)
        except NotFound as missing:
            raise NotFound(
                f"There is no namespace {self._target.namespace}",
                why=missing.why,
                fix=f"kubectl create namespace {self._target.namespace}",
            ) from missing
        body = manifest.secret(self._target, launch, pod, content)
        secret = self._create_or_get("secret", body, launch.application_id)
        if pod["metadata"]["uid"] not in {owner["uid"] for owner in secret["metadata"].get("ownerReferences") or []}:
            # The secret is an earlier pod's, and Kubernetes would soon delete it as that pod's property.
            secrets_path = f"/api/v1/namespaces/{self._target.namespace}/secrets"
            self.api.delete(f"{secrets_path}/{body['metadata']['name']}")
            self.api.create(secrets_path, body)

    def _create_or_get(self, kind: str, body: dict[str, Any], application_id: str) -> dict[str, Any]:
        """Create the object and return it, or the application's existing object of that kind and name.

        Raises `Conflict` where the existing one is not the application's.
        """
        path, name = f"/api/v1/namespaces/{self._target.namespace}/{kind}s", body["metadata"]["name"]
        try:
            return self.api.create(path, body)
        except RequestRejected as refused:
            if not refused.already_exists:
                raise
        try:
            found = self.api.get(f"{path}/{name}")
        except NotFound:  # deleted between the two requests
            return self.api.create(path, body)
        if found["metadata"].get("labels", {}).get(layout.APPLICATION_LABEL) != application_id:
            raise Conflict(
                f"The {kind} {name} exists already and does not belong to this application",
                fix=f"kubectl --namespace {self._target.namespace} delete {kind} {name}",
            )
        return found

    def observe(self, handle: Handle) -> Observation:
        if postponed := self._postponed.get(str(handle["application_id"])):
            if not postponed.due():
                return postponed.observation()
            try:
                self._create(postponed.launch)
            except NamespaceQuotaExceeded as refused:
                postponed.refused_again(refused)
                return postponed.observation()
            self._postponed.pop(postponed.launch.application_id, None)
        return self._cluster(handle).observe()

    def read(self, handle: Handle, name: str, start: int, *, at_most: int = MAX_READ_BYTES) -> bytes:
        cluster = self._cluster(handle)
        return cluster.sidecar.artifact(cluster.address(), name, start, at_most) or b""

    def sizes(self, handle: Handle) -> Mapping[str, int]:
        cluster = self._cluster(handle)
        status = cluster.sidecar.status(cluster.address())
        return {} if status is None else {str(name): int(size) for name, size in status["artefacts"].items()}

    def web_interface(self, handle: Handle) -> WebInterface | None:
        return self._cluster(handle).pages()

    @contextlib.contextmanager
    def forward_port(self, handle: Handle, port: int) -> Iterator[int]:
        with contextlib.closing(self._cluster(handle).relay_to(port)) as relay:
            yield relay.port

    def private_file(self, handle: Handle, name: str) -> str | None:
        cluster = self._cluster(handle)
        content = cluster.secret().get(name)
        if content is None and cluster.running():
            content = cluster.sidecar.published(cluster.address(), name)
        return None if content is None else content.decode()

    def replace_private_file(self, handle: Handle, name: str, content: str) -> None:
        """Replace a key of the secret. The kubelets update the file in the pods atomically, within a minute or two."""
        body = {"data": {name: manifest.encode(content.encode())}}
        with contextlib.suppress(NotFound):
            self.api.merge(self._cluster(handle).secret_path, body)

    def stop(self, handle: Handle, *, grace_seconds: float) -> None:
        """Stop the driver and its executors. The driver's files stay with the sidecar, for `collect`."""
        self._postponed.pop(str(handle["application_id"]), None)
        cluster = self._cluster(handle)
        if cluster.driver() is None:
            self._end_executors(cluster)
            return
        sent = cluster.running() and cluster.sidecar.send(cluster.address(), "stop" if grace_seconds else "kill")
        if sent and not wait_until(lambda: not cluster.running(), grace_seconds, pause_seconds=_POLL_SECONDS):
            cluster.sidecar.send(cluster.address(), "kill")
            wait_until(lambda: not cluster.running(), _DEATH_SECONDS, pause_seconds=_POLL_SECONDS)
        if cluster.running() or cluster.observe().phase is not Phase.ENDED:
            # The driver never started, or it hangs, or its node does.
            self._delete(cluster, round(grace_seconds))
        self._end_executors(cluster)

    def collect(self, handle: Handle, *, incomplete: bool = False) -> Path:
        cluster = self._cluster(handle)
        directory = self._home.application(str(handle["application_id"])) / "artefacts"
        (directory / "events").mkdir(parents=True, exist_ok=True, mode=0o700)
        pod = cluster.driver()
        status = cluster.sidecar.status(cluster.address()) if incomplete else self._final_status(cluster)
        left_out = 0 if status is None or incomplete else _fetch_all(cluster, status, directory)
        pod = cluster.driver() or pod
        said: dict[str, object] = {"artefacts_left_out": left_out} if left_out else {}
        if status is None and pod is not None and pod_status.sidecar_runs(pod) and not incomplete:
            said["artefacts_problem"] = "the node of its driver was lost with the logs that were not in the lake yet"
        write_json(directory / "summary.json", {**pod_status.summary(status, pod), **said})
        return directory

    def _final_status(self, cluster: Cluster) -> Mapping[str, Any] | None:
        """Return the sidecar's status once no artifact changes any more; None where the sidecar does not run.

        A lost node does not say that its containers have ended, so a sidecar there that does not answer does not run.
        Raises `ClusterError` where the sidecar does not answer or does not finish in time: until it does, its pod may
        hold the only copy of the logs.
        """
        status: Mapping[str, Any] | None = None
        runs = True

        def answered() -> bool:
            nonlocal status, runs
            pod = cluster.driver()
            runs = pod is not None and pod_status.sidecar_runs(pod)
            status = (cluster.sidecar.status(cluster.address()) or status) if runs else None
            return not runs or status is not None

        def finished() -> bool:
            return answered() and (status is None or bool(status["finished"]))

        problem, sidecar = "The logs cannot be collected", f"the sidecar in the pod {cluster.name}"
        fix = f"kubectl --namespace {self._target.namespace} logs {cluster.name} -c {layout.SIDECAR} shows its obstacle"
        if not wait_until(answered, _ANSWER_SECONDS, pause_seconds=_POLL_SECONDS):
            if pod_status.is_lost(cluster.driver()):
                return None
            raise ClusterError(problem, why=f"{sidecar} does not answer", fix=fix)
        if not wait_until(finished, _FINISH_SECONDS, pause_seconds=_POLL_SECONDS):
            raise ClusterError(problem, why=f"{sidecar} has not finished the upload", fix=fix)
        return status

    def release(self, handle: Handle) -> None:
        cluster = self._cluster(handle)
        if cluster.driver() is not None:
            self._delete(cluster, 0)
        self._end_executors(cluster)
        self.api.delete(cluster.secret_path)
        shutil.rmtree(self._home.application(str(handle["application_id"])), ignore_errors=True)
        self._clusters.forget(str(handle["application_id"]))

    def _content(self, launch: Launch) -> Mapping[str, bytes]:
        """Return the secret's content. Raises `InvalidInput` where a file is unreadable or the content is too large."""
        try:
            content = {
                **plan.content(self._target, launch, token=secrets.token_hex(32), authentication=secrets.token_hex(32)),
                **layout.local_files_content(launch),
            }
        except OSError as error:
            raise InvalidInput(
                f"{error.filename} cannot be read", why=str(error.strerror), fix=f"ls -l '{error.filename}'"
            ) from error
        if sum(map(len, content.values())) > _MOST_IN_A_SECRET:
            raise InvalidInput(
                "The application's local files are too large for the secret of its pod",
                why=f"Kubernetes allows 1 MiB; {', '.join(layout.local_paths(launch))}",
                fix="penstock lake put FILE KEY, then name it as s3a://BUCKET/KEY",
            )
        return content

    def _delete(self, cluster: Cluster, grace_seconds: int) -> None:
        self.api.delete(cluster.pod_path, grace_seconds=grace_seconds)
        if not wait_until(
            lambda: cluster.driver() is None, grace_seconds + _DEATH_SECONDS, pause_seconds=_POLL_SECONDS
        ):
            # An unreachable node cannot confirm that the pod has ended.
            self.api.delete(cluster.pod_path, grace_seconds=0)
            if not wait_until(lambda: cluster.driver() is None, _DEATH_SECONDS, pause_seconds=_POLL_SECONDS):
                raise ClusterError(
                    f"The pod {cluster.name} is still there after its deletion",
                    fix=f"kubectl delete pod {cluster.name} --force --grace-period 0",
                )

    def _end_executors(self, cluster: Cluster) -> None:
        if cluster.executors():
            selector = f"{layout.APPLICATION_LABEL}={cluster.name},{layout.ROLE_LABEL}={layout.EXECUTOR}"
            path = f"/api/v1/namespaces/{self._target.namespace}/pods"
            self.api.delete(path, grace_seconds=_EXECUTOR_GRACE_SECONDS, labelSelector=selector)
            wait_until(lambda: not cluster.executors(), _DEATH_SECONDS, pause_seconds=_POLL_SECONDS)

    def _cluster(self, handle: Handle) -> Cluster:
        application_id = str(handle["application_id"])
        namespace = str(handle.get("namespace", self._target.namespace))
        return self._clusters.get(application_id, lambda: Cluster(self.api, namespace, application_id, self._target))


def _fetch_all(cluster: Cluster, status: Mapping[str, Any], directory: Path) -> int:
    """Copy the artifacts that are not in the lake into the directory; those of an earlier call are there already.

    The smallest come first. Return the number of the largest, which are left out where all together exceed the size of
    the pod's volume: submitted code can give its files any size, by holes in them. Raises `ClusterError` where one of
    the others is incomplete, after a try of each.
    """
    there = sizes_below(directory)
    sizes: Mapping[str, int] = status["artefacts"]
    missing = sorted(set(sizes) - set(status["in_lake"]), key=lambda name: (sizes[name], name))
    total, left_out, failures = 0, 0, []
    for name in missing:
        size = sizes[name]
        total += size
        if total > manifest.WORK_BYTES:
            left_out += 1
        elif there.get(name) != size:
            try:
                _fetch(cluster, directory, name, size)
            except ClusterError as error:
                failures.append(error)
    if failures:
        raise failures[0]
    return left_out


def _fetch(cluster: Cluster, directory: Path, name: str, size: int) -> None:
    """Copy the first `size` bytes of one artifact into the directory. Raises `ClusterError` where fewer arrive.

    A name that leads out of the directory, or that collides with another one there, is skipped: the pod reported it,
    and a program in the pod may have chosen it.
    """
    with contextlib.suppress(FileNotFoundError), open_below(directory, name, write=True) as file:
        while (start := file.tell()) < size:
            piece = cluster.sidecar.artifact(cluster.address(), name, start, min(size - start, MAX_READ_BYTES))
            if not piece:
                raise ClusterError(
                    f"The artifact {name} cannot be collected",
                    why=f"{start} of its {size} bytes came from the sidecar in the pod {cluster.name}",
                    fix="check the connection from the engine to the pods; the engine tries again for an hour or more",
                )
            file.write(piece)
