"""The few requests of the Kubernetes API that a backend makes, as plain JSON.

The official client would do, but takes 0.7 s to load (httpx 0.07), in each process that looks after an application.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from penstock.clusters.kubernetes.access import Access
from penstock.errors import ClusterError, Forbidden, NotFound

Json = dict[str, Any]

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_MERGE = {"Content-Type": "application/merge-patch+json"}
_WATCH_SECONDS = 300
_CHECK = "penstock cluster check says what is missing"
QUOTA_FIX = "wait until others end, or have the quota raised: kubectl describe resourcequota"
_FIXES = {
    403: "a policy or a limit of the namespace does not allow such a pod: kubectl describe namespace, limitrange",
    422: "a value of the cluster's file cannot be: penstock cluster show",
}


class Refused(ClusterError):
    """The API server said no; `status` is HTTP's."""

    def __init__(self, status: int, problem: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(problem, why=why, fix=fix)
        self.status = status


class OverQuota(Refused):
    """A resource quota of the namespace leaves no room now."""


class Api:
    """Safe to use from several threads. Every method raises `Refused`, `NotFound`, `Forbidden`, or `ClusterError`
    where the API server does not answer."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client = httpx.Client(
            base_url=access.server,
            verify=access.tls if access.tls is not None else True,
            timeout=_TIMEOUT,
            # Where the cluster is, the kubeconfig says; HTTP_PROXY is for the world outside.
            trust_env=not access.in_cluster,
            # Each watch keeps one for itself.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16),
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **params: str) -> Json:
        return self._json("GET", path, params=params)

    def create(self, path: str, body: Json) -> Json:
        return self._json("POST", path, body=body)

    def merge(self, path: str, body: Json) -> Json:
        return self._json("PATCH", path, body=body, headers=_MERGE)

    def delete(self, path: str, *, grace_seconds: int | None = None, **params: str) -> None:
        """Of one object, or of all of a kind that `params` select; none there is no error."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._json("DELETE", path, body=options, params=params)
        except NotFound:
            return

    def call(
        self, method: str, path: str, *, headers: Mapping[str, str], params: Mapping[str, str], seconds: float = 30.0
    ) -> bytes:
        """What a server behind the API answers (`…/proxy/…`)."""
        return self._send(method, path, headers=headers, params=params, timeout=seconds).content

    def watch(self, path: str, version: str, **params: str) -> Iterator[Json]:
        """Changes after that resource version, until the server ends the watch. `Refused` with status 410 where it
        knows them no more: list again."""
        asked = {**params, "watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        timeout = httpx.Timeout(30.0, read=_WATCH_SECONDS + 30.0)
        try:
            with self._client.stream("GET", path, params=asked, headers=self._headers(), timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refused(path, answer)
                for line in answer.iter_lines():
                    change: Json = json.loads(line)
                    if change["type"] == "ERROR":
                        code = int(change["object"].get("code", 500))
                        raise Refused(code, "A watch ended", why=str(change["object"].get("message", "")))
                    yield change
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _json(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        content = None if body is None else json.dumps(body).encode()
        typed = {"Content-Type": "application/json", **(headers or {})}
        answer: Json = self._send(method, path, content=content, params=params, headers=typed).json()
        return answer

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {**self._headers(), **(request.pop("headers", None) or {})}
        try:
            answer = self._client.request(method, path, headers=headers, **request)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.is_error:
            raise _refused(path, answer)
        return answer

    def _headers(self) -> dict[str, str]:
        token = self.access.token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _unreachable(self, error: Exception) -> ClusterError:
        return ClusterError(
            "The Kubernetes API server does not answer",
            why=f"{self.access.server}: {error or type(error).__name__}",
            fix="kubectl cluster-info tells whether it is the cluster or the way to it",
        )


def listed_if_permitted(api: Api, path: str) -> list[Json]:
    """The objects of that list; empty where they may not be looked at, or there is no such namespace."""
    try:
        found: list[Json] = api.get(path).get("items") or []
    except (Forbidden, NotFound):
        return []
    return found


def _refused(path: str, answer: httpx.Response) -> ClusterError | NotFound | Forbidden:
    try:
        message = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {answer.status_code}"
    if answer.status_code == 404:
        return NotFound("Kubernetes has no such object", why=f"{message} ({path})")
    if answer.status_code == 401:
        return Forbidden("Kubernetes does not know who is asking", why=message, fix="sign in again: kubectl get pods")
    if answer.status_code == 403 and "exceeded quota" in message:
        return OverQuota(403, "The namespace's quota is used up", why=message, fix=QUOTA_FIX)
    if answer.status_code == 403 and " cannot " in message:
        return Forbidden("Kubernetes does not permit it", why=message, fix=_CHECK)
    return Refused(answer.status_code, "Kubernetes refused", why=message, fix=_FIXES.get(answer.status_code, ""))
