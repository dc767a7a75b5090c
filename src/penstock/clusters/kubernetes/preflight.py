"""The check of a cluster's permissions before its first pod, and the commands that grant missing ones."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.clusters.backend import Launch
from penstock.clusters.kubernetes import resources
from penstock.clusters.kubernetes.client import Api
from penstock.clusters.kubernetes.target import Target
from penstock.errors import ClusterError, Forbidden, InvalidInput, NotFound, PenstockError
from penstock.model import ClusterSize

_REVIEWS = "/apis/authorization.k8s.io/v1"


@dataclass(frozen=True)
class Permission:
    """Verbs on a resource of the core API, in one namespace."""

    resource: str
    verbs: tuple[str, ...]


ENGINE = (
    Permission("pods", ("get", "list", "watch", "create", "delete", "deletecollection")),
    Permission("secrets", ("get", "create", "patch", "delete")),
    Permission("events", ("list",)),
)
ENGINE_OUTSIDE = Permission("pods/proxy", ("get", "create"))
"""Needed by an engine outside the cluster, which reaches the drivers' sidecars through the API server."""

DRIVER = (
    Permission("pods", ("get", "list", "watch", "create", "delete", "deletecollection", "patch")),
    Permission("configmaps", ("get", "list", "watch", "create", "delete", "deletecollection")),
    Permission("persistentvolumeclaims", ("list", "deletecollection")),
    Permission("services", ("get", "create", "delete", "deletecollection")),
)


def missing_engine_permissions(api: Api, target: Target) -> Iterator[Permission]:
    """Yield the permissions that the engine lacks, with the missing verbs only. Raises the errors of `Api`."""
    required = ENGINE if api.access.in_cluster else (*ENGINE, ENGINE_OUTSIDE)
    yield from _missing(api, target.namespace, required, user=None)


def missing_driver_permissions(api: Api, target: Target) -> Iterator[Permission]:
    """Yield the permissions that the drivers' service account lacks; none where the engine may not review others."""
    user = f"system:serviceaccount:{target.namespace}:{target.service_account}"
    try:
        yield from list(_missing(api, target.namespace, DRIVER, user=user))
    except PenstockError:
        return


def current_user(api: Api) -> str:
    """Return the user's name as the API server knows it; empty where the server is too old to report it."""
    try:
        answer = api.create(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
    except PenstockError:
        return ""
    return str(answer["status"]["userInfo"].get("username", ""))


def grant_commands(missing: Iterable[Permission], namespace: str, subject: str) -> str:
    """Return the commands with which an administrator grants the permissions.

    `subject` is an option of kubectl: `--user=…` or `--serviceaccount=…`.
    """
    commands = []
    for lacked in missing:
        name = "penstock-" + lacked.resource.replace("/", "-")
        verbs = ",".join(lacked.verbs)
        commands += [
            f"kubectl --namespace {namespace} create role {name} --verb={verbs} --resource={lacked.resource}",
            f"kubectl --namespace {namespace} create rolebinding {name} --role={name} {subject}",
        ]
    return "\n".join(commands)


def _missing(api: Api, namespace: str, required: Iterable[Permission], *, user: str | None) -> Iterator[Permission]:
    for permission in required:
        lacked = tuple(
            verb for verb in permission.verbs if not _allowed(api, namespace, permission.resource, verb, user)
        )
        if lacked:
            yield Permission(permission.resource, lacked)


def _allowed(api: Api, namespace: str, resource: str, verb: str, user: str | None) -> bool:
    name, _, part = resource.partition("/")
    attributes: dict[str, Any] = {"namespace": namespace, "verb": verb, "resource": name, "version": "v1"}
    if part:
        attributes["subresource"] = part
    kind, plural = ("SelfSubjectAccessReview", "selfsubjectaccessreviews")
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    if user is not None:
        kind, plural = ("SubjectAccessReview", "subjectaccessreviews")
        spec["user"] = user
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(api.create(f"{_REVIEWS}/{plural}", body)["status"].get("allowed"))


_NO_NODE = (
    "where an autoscaler adds nodes, declare capacity: in the cluster's file; otherwise no node is ready, or "
    "node_selector: and tolerations: exclude every one: kubectl get nodes --show-labels; kubectl describe nodes"
)
_DATABASE = re.compile(r"jdbc:postgresql://(\[[0-9a-f:]+\]|[^:/?<]+)")


@dataclass(frozen=True)
class Finding:
    """One result of the check. `fix` is empty where there is no problem.

    A problem that `stops` prevents the creation of pods; with any other, pods wait.
    """

    subject: str
    text: str
    fix: str = ""
    blocking: bool = True

    @property
    def ok(self) -> bool:
        return not self.fix


def findings(api: Api, target: Target) -> Iterator[Finding]:
    """Yield the results of the check.

    Raises `ClusterError` where the API server does not answer, and `Forbidden` where it rejects the credentials.
    """
    namespace = target.namespace
    version = api.get("/version")
    yield Finding("server", f"{api.access.server}, Kubernetes {version.get('gitVersion', '?')}")
    if not _exists(api, f"/api/v1/namespaces/{namespace}"):
        yield Finding("namespace", f"{namespace} does not exist", f"kubectl create namespace {namespace}")
        return
    yield Finding("namespace", namespace)
    yield _permissions(api, target)
    yield from _named(api, target)
    try:
        found = resources.list_nodes(api)
    except ClusterError as error:
        yield Finding("nodes", error.why, "" if target.capacity else error.fix)
        return
    has = resources.current_capacity(found, target)
    for quota in resources.list_quotas(api, namespace):
        yield Finding("quota", resources.format_quota(quota))
    if has.cores or target.capacity:
        yield Finding("nodes", f"{len(found)}, {has.memory_bytes >> 30} GiB of memory for pods")
    else:
        yield Finding("nodes", f"{len(found)}, none of which accepts pods: applications wait for one", _NO_NODE, False)


def require_allowed(api: Api, target: Target, size: ClusterSize) -> None:
    """Raise `ClusterError` where a limit range of the namespace does not allow one of the pods."""
    problem = resources.limit_range_violation(size, resources.list_limit_ranges(api, target.namespace), target)
    if problem is not None:
        raise ClusterError("The cluster exceeds a limit range", why=problem.message, fix=problem.fix)


def require_usable(api: Api, target: Target) -> None:
    """Raise `ClusterError` with the first finding that prevents the creation of pods."""
    for finding in findings(api, target):
        if finding.blocking and not finding.ok:
            raise ClusterError(
                f"Kubernetes cannot run the application: {finding.subject}", why=finding.text, fix=finding.fix
            )


def require_reachable(launch: Launch) -> None:
    """Raise `InvalidInput` where lake or catalog have a loopback address, which in a pod is the pod itself."""
    for content in launch.private_files.values():
        if (found := _DATABASE.search(content)) and is_loopback(found[1].strip("[]")):
            raise InvalidInput(
                "Pods cannot reach the catalog's database",
                why=f"{found[1]} is a loopback address: in a pod it is the pod itself",
                fix="use a PostgreSQL that pods can reach: PENSTOCK_DATABASE_URL=postgresql://USER:PASSWORD@HOST/",
            )
    for endpoint in launch.lake.endpoints if launch.lake else ():
        if is_loopback(urlsplit(endpoint).hostname or ""):
            name = launch.lake.name if launch.lake else ""
            raise InvalidInput(
                f"Pods cannot reach the lake “{name}”",
                why=f"{endpoint} is a loopback address: in a pod it is the pod itself",
                fix=f"use an address that pods can reach: penstock lake add {name} --endpoint http://HOST:PORT …",
            )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _permissions(api: Api, target: Target) -> Finding:
    if missing := list(missing_engine_permissions(api, target)):
        lacked = "; ".join(f"{', '.join(one.verbs)} {one.resource}" for one in missing)
        me = current_user(api) or "NAME"
        fix = grant_commands(missing, target.namespace, f"--user={me}")
        return Finding("permissions", f"{me} may not {lacked}", fix)
    if missing := list(missing_driver_permissions(api, target)):
        lacked = "; ".join(f"{', '.join(one.verbs)} {one.resource}" for one in missing)
        subject = f"--serviceaccount={target.namespace}:{target.service_account}"
        fix = grant_commands(missing, target.namespace, subject)
        return Finding("permissions", f"drivers (service account {target.service_account}) may not {lacked}", fix)
    return Finding("permissions", "complete")


def _named(api: Api, target: Target) -> Iterator[Finding]:
    base = f"/api/v1/namespaces/{target.namespace}"
    accounts = [target.service_account, *filter(None, [target.executor_service_account])]
    for account in accounts:
        if not _exists(api, f"{base}/serviceaccounts/{account}"):
            fix = f"kubectl --namespace {target.namespace} create serviceaccount {account}"
            yield Finding("service account", f"{account} does not exist", fix)
    for secret in (*target.pull_secrets, *target.environment_from):
        if not _exists(api, f"{base}/secrets/{secret}"):
            fix = f"kubectl --namespace {target.namespace} create secret generic {secret} …"
            yield Finding("secret", f"{secret} does not exist", fix)
    if target.priority_class and not _exists(
        api, f"/apis/scheduling.k8s.io/v1/priorityclasses/{target.priority_class}"
    ):
        fix = f"kubectl create priorityclass {target.priority_class} --value=…"
        yield Finding("priority class", f"{target.priority_class} does not exist", fix)


def _exists(api: Api, path: str) -> bool:
    """Return whether an object exists; True where reading it is forbidden, since only its absence is a finding."""
    try:
        api.get(path)
    except NotFound:
        return False
    except Forbidden:
        return True
    return True
