"""What an engine, and a driver in its pod, must be permitted on Kubernetes, and how to permit it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.clusters.kubernetes.api import Api
from penstock.clusters.kubernetes.target import Target
from penstock.errors import PenstockError

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
