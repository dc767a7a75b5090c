"""The check of a Kubernetes before there is any pod: permissions, and the commands that grant what is missing."""

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
    """Of the core API, in one namespace."""

    resource: str
    verbs: tuple[str, ...]


ENGINE = (
    Permission("pods", ("get", "list", "watch", "create", "delete", "deletecollection")),
    Permission("secrets", ("get", "create", "patch", "delete")),
    Permission("events", ("list",)),
)
ENGINE_OUTSIDE = Permission("pods/proxy", ("get", "create"))
"""Of an engine that is no pod of the cluster: its way to the drivers' keepers."""

DRIVER = (
    Permission("pods", ("get", "list", "watch", "create", "delete", "deletecollection", "patch")),
    Permission("configmaps", ("get", "list", "watch", "create", "delete", "deletecollection")),
    Permission("persistentvolumeclaims", ("list", "deletecollection")),
    Permission("services", ("get", "create", "delete", "deletecollection")),
)


def missing_to_engine(api: Api, target: Target) -> Iterator[Permission]:
    """What the engine itself lacks, each resource with the verbs that are missing. Raises as `Api` does."""
    wanted = ENGINE if api.access.in_cluster else (*ENGINE, ENGINE_OUTSIDE)
    yield from _missing(api, target.namespace, wanted, user=None)


def missing_to_driver(api: Api, target: Target) -> Iterator[Permission]:
    """What the drivers' service account lacks; nothing where the engine may not ask about others."""
    user = f"system:serviceaccount:{target.namespace}:{target.service_account}"
    try:
        yield from list(_missing(api, target.namespace, DRIVER, user=user))
    except PenstockError:
        return


def who(api: Api) -> str:
    """The user's name as the API server knows it; empty where it is too old to say."""
    try:
        answer = api.create(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
    except PenstockError:
        return ""
    return str(answer["status"]["userInfo"].get("username", ""))


def permitting(missing: Iterable[Permission], namespace: str, subject: str) -> str:
    """The commands that permit it, for somebody who may. `subject` as kubectl takes it: `--user=…`."""
    commands = []
    for lacked in missing:
        name = "penstock-" + lacked.resource.replace("/", "-")
        verbs = ",".join(lacked.verbs)
        commands += [
            f"kubectl --namespace {namespace} create role {name} --verb={verbs} --resource={lacked.resource}",
            f"kubectl --namespace {namespace} create rolebinding {name} --role={name} {subject}",
        ]
    return "\n".join(commands)


def _missing(api: Api, namespace: str, wanted: Iterable[Permission], *, user: str | None) -> Iterator[Permission]:
    for permission in wanted:
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
    "where an autoscaler adds nodes, declare capacity: in the cluster's file; else node_selector: there excludes them "
    "all: kubectl get nodes --show-labels"
)
_DATABASE = re.compile(r"jdbc:postgresql://(\[[0-9a-f:]+\]|[^:/?<]+)")


@dataclass(frozen=True)
class Finding:
    """`fix` is empty where all is well. `stops` where no pod can be made as long as it is not; else pods wait."""

    about: str
    said: str
    fix: str = ""
    stops: bool = True

    @property
    def good(self) -> bool:
        return not self.fix


def findings(api: Api, target: Target) -> Iterator[Finding]:
    """Raises `ClusterError` where the API server does not answer, `Forbidden` where it does not know who asks."""
    namespace = target.namespace
    version = api.get("/version")
    yield Finding("server", f"{api.access.server}, Kubernetes {version.get('gitVersion', '?')}")
    if not _exists(api, f"/api/v1/namespaces/{namespace}"):
        yield Finding("namespace", f"there is no {namespace}", f"kubectl create namespace {namespace}")
        return
    yield Finding("namespace", namespace)
    yield _permissions(api, target)
    yield from _named(api, target)
    try:
        found = resources.nodes(api)
    except ClusterError as error:
        yield Finding("nodes", error.why, "" if target.capacity else error.fix)
        return
    has = resources.today(found, target)
    for quota in resources.quotas_of(api, namespace):
        yield Finding("quota", resources.told(quota))
    if has.cores or target.capacity:
        yield Finding("nodes", f"{len(found)}, {has.memory_bytes >> 30} GiB of memory for pods")
    else:
        yield Finding("nodes", f"{len(found)}, of which none takes pods: applications wait for one", _NO_NODE, False)


def require_allowed(api: Api, target: Target, size: ClusterSize) -> None:
    """Raise `ClusterError` where a limit range of the namespace refuses one of the pods."""
    problem = resources.beyond(size, resources.limit_ranges_of(api, target.namespace), target)
    if problem is not None:
        raise ClusterError("The cluster does not fit there", why=problem.message, fix=problem.fix)


def require_usable(api: Api, target: Target) -> None:
    """Raise what the first bad finding of those that stop a pod from being made says."""
    for finding in findings(api, target):
        if finding.stops and not finding.good:
            raise ClusterError(f"Kubernetes cannot run it: {finding.about}", why=finding.said, fix=finding.fix)


def require_within_reach(launch: Launch) -> None:
    """Raise `InvalidInput` where lake or catalog are at an address that means the pod itself to a pod."""
    for content in launch.private_files.values():
        if (found := _DATABASE.search(content)) and is_loopback(found[1].strip("[]")):
            raise InvalidInput(
                "Pods cannot reach the catalog's database",
                why=f"{found[1]} is this machine's own, and each pod's own",
                fix="use a PostgreSQL that pods reach: PENSTOCK_DATABASE_URL=postgresql://USER:PASSWORD@HOST/",
            )
    for endpoint in launch.lake.endpoints if launch.lake else ():
        if is_loopback(urlsplit(endpoint).hostname or ""):
            name = launch.lake.name if launch.lake else ""
            raise InvalidInput(
                f"Pods cannot reach the lake “{name}”",
                why=f"{endpoint} is this machine's own, and each pod's own",
                fix=f"name it by an address that pods reach: penstock lake add {name} --endpoint http://HOST:PORT …",
            )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _permissions(api: Api, target: Target) -> Finding:
    if missing := list(missing_to_engine(api, target)):
        lacked = "; ".join(f"{', '.join(one.verbs)} {one.resource}" for one in missing)
        me = who(api) or "NAME"
        fix = permitting(missing, target.namespace, f"--user={me}")
        return Finding("permissions", f"{me} may not {lacked}", fix)
    if missing := list(missing_to_driver(api, target)):
        lacked = "; ".join(f"{', '.join(one.verbs)} {one.resource}" for one in missing)
        subject = f"--serviceaccount={target.namespace}:{target.service_account}"
        fix = permitting(missing, target.namespace, subject)
        return Finding("permissions", f"drivers (service account {target.service_account}) may not {lacked}", fix)
    return Finding("permissions", "all that it takes")


def _named(api: Api, target: Target) -> Iterator[Finding]:
    base = f"/api/v1/namespaces/{target.namespace}"
    accounts = [target.service_account, *filter(None, [target.executor_service_account])]
    for account in accounts:
        if not _exists(api, f"{base}/serviceaccounts/{account}"):
            fix = f"kubectl --namespace {target.namespace} create serviceaccount {account}"
            yield Finding("service account", f"there is no {account}", fix)
    for secret in (*target.pull_secrets, *target.environment_from):
        if not _exists(api, f"{base}/secrets/{secret}"):
            fix = f"kubectl --namespace {target.namespace} create secret generic {secret} …"
            yield Finding("secret", f"there is no {secret}", fix)
    if target.priority_class and not _exists(
        api, f"/apis/scheduling.k8s.io/v1/priorityclasses/{target.priority_class}"
    ):
        fix = f"kubectl create priorityclass {target.priority_class} --value=…"
        yield Finding("priority class", f"there is no {target.priority_class}", fix)


def _exists(api: Api, path: str) -> bool:
    """What may not be looked at is taken to be there: only its absence is a finding."""
    try:
        api.get(path)
    except NotFound:
        return False
    except Forbidden:
        return True
    return True
