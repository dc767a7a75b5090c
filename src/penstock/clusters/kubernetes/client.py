"""A client of the Kubernetes API: kubeconfig, authentication, and the few requests that a backend makes, as plain JSON.

The official client would do, but takes 0.7 s to load (httpx 0.07), in each process that supervises an application.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import yaml

from penstock.errors import ClusterError, Forbidden, InvalidInput, MissingRequirement, NotFound
from penstock.formats import in_url

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLUGIN_SECONDS = 60

Token = Callable[[], "str | None"]
"""Asked before each request: tokens are short-lived, and are replaced where they came from."""


@dataclass(frozen=True)
class Access:
    """`namespace` is the one that is meant where none is named."""

    server: str
    tls: ssl.SSLContext | None
    token: Token
    namespace: str = "default"
    in_cluster: bool = False

    def __repr__(self) -> str:
        return f"Access({self.server})"


def find_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
) -> Access:
    """By the kubeconfig where one is named or there (`$KUBECONFIG`, `~/.kube/config`), else as the pod one is.

    Several files, separated as in `$PATH`, are merged as kubectl merges them: the first that names a context, cluster,
    user or current context decides, and paths are relative to the file that has them. Raises
    `NotFound` (no file, no such context) and `InvalidInput` (not a kubeconfig, a certificate that is none).
    """
    named = kubeconfig or environment.get("KUBECONFIG")
    if named is None and context is None and (account / "token").exists():
        return _of_pod(environment, account)
    candidates = named.split(os.pathsep) if named else ["~/.kube/config"]
    paths = [Path(candidate).expanduser() for candidate in candidates if candidate]
    if found := [path for path in paths if path.is_file()]:
        return _of_kubeconfigs(found, context)
    raise NotFound(
        "There is no kubeconfig",
        why=f"{' and '.join(candidates)} is not there, and this is no pod with a service account",
        fix="name one: kubeconfig: in the cluster's file, or KUBECONFIG=/path",
    )


def _of_pod(environment: Mapping[str, str], account: Path) -> Access:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    token = account / "token"
    return Access(
        server=f"https://{in_url(host)}:{port}",
        tls=ssl.create_default_context(cafile=str(account / "ca.crt")),
        token=lambda: _read(token),
        namespace=(account / "namespace").read_text(encoding="ascii").strip(),
        in_cluster=True,
    )


@dataclass(frozen=True)
class _Entry:
    """`beside` is the directory that relative paths in `content` begin at."""

    content: Mapping[str, Any]
    beside: Path


def _of_kubeconfigs(paths: Sequence[Path], context: str | None) -> Access:
    shown = os.pathsep.join(map(str, paths))
    contexts: dict[object, _Entry] = {}
    clusters: dict[object, _Entry] = {}
    users: dict[object, _Entry] = {}
    current = None
    for path in paths:
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
            if content is None and len(paths) > 1:
                continue
            current = current or content.get("current-context")
            # The first file that has an entry of that name decides.
            contexts = {**_entries(content, "contexts", "context", path), **contexts}
            clusters = {**_entries(content, "clusters", "cluster", path), **clusters}
            users = {**_entries(content, "users", "user", path), **users}
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise _no_kubeconfig(str(path), type(error).__name__) from None
    chosen = context or current
    if not chosen:
        raise _no_kubeconfig(shown, "it names none")
    if (found := contexts.get(chosen)) is None:
        raise NotFound(
            f"{shown} has no context “{chosen}”",
            why=f"it has: {', '.join(map(str, contexts)) or 'none'}",
            fix=f"{_kubectl(shown)} config get-contexts; then name one: context: NAME",
        )
    nothing = _Entry({}, Path())
    cluster = clusters.get(found.content.get("cluster"), nothing)
    user = users.get(found.content.get("user"), nothing)
    server = str(cluster.content.get("server", "")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise InvalidInput(
            f"{shown} names no server for the context “{chosen}”", fix=f"kubectl config view --context {chosen}"
        )
    try:
        tls = _tls(cluster, user) if server.startswith("https://") else None
    except (OSError, ssl.SSLError, binascii.Error) as error:
        raise InvalidInput(
            f"The certificates in {shown} cannot be used",
            why=str(error),
            fix="get the kubeconfig again from its cluster",
        ) from None
    return Access(server, tls, _token(user), str(found.content.get("namespace") or "default"))


def _entries(content: Mapping[str, Any], kind: str, key: str, path: Path) -> dict[object, _Entry]:
    found: dict[object, _Entry] = {}
    for entry in content.get(kind) or []:
        found.setdefault(entry["name"], _Entry(dict(entry[key] or {}), path.parent))
    return found


def _no_kubeconfig(shown: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{shown} is not a kubeconfig with a current context",
        why=why,
        fix=f"{_kubectl(shown)} config get-contexts; then name one: context: NAME",
    )


def _kubectl(shown: str) -> str:
    return f"KUBECONFIG='{shown}' kubectl"


def _tls(cluster: _Entry, user: _Entry) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.content.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if certificate and key:
        load_client_certificate(context, certificate, key)
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python's TLS takes them from a file only: one that is private, and gone at once."""
    with tempfile.NamedTemporaryFile(prefix="penstock-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _content(entry: _Entry, name: str) -> bytes | None:
    if data := entry.content.get(f"{name}-data"):
        return base64.b64decode(data, validate=True)
    return (entry.beside / str(entry.content[name])).read_bytes() if entry.content.get(name) else None


def _token(user: _Entry) -> Token:
    if file := user.content.get("tokenFile"):
        return lambda: _read(user.beside / str(file))
    if plugin := user.content.get("exec"):
        return Plugin(plugin).token
    return lambda: user.content.get("token")


def _read(token: Path) -> str:
    try:
        return token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MissingRequirement(
            "The token for Kubernetes cannot be read",
            why=f"{token}: {type(error).__name__}",
            fix="sign in again; kubectl get pods shows whether it works",
        ) from None


class Plugin:
    """A credential plug-in (client.authentication.k8s.io): a program that prints a token, asked again near its end."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = said
        self._token: str | None = None
        self._expires = ""

    def token(self) -> str | None:
        soon = (datetime.now(timezone.utc) + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        # ISO 8601 in UTC is ordered as text is.
        if self._token is None or (self._expires and self._expires <= soon):
            status = self._ask()
            self._token, self._expires = status.get("token"), str(status.get("expirationTimestamp") or "")
        return self._token

    def _ask(self) -> Mapping[str, Any]:
        command = [str(self._said["command"]), *map(str, self._said.get("args") or [])]
        added = {entry["name"]: str(entry["value"]) for entry in self._said.get("env") or []}
        request = {"apiVersion": self._said.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
        try:
            answer = subprocess.run(
                command,
                env={**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(request)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PLUGIN_SECONDS,
                check=True,
            )
            status = json.loads(answer.stdout)["status"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            # What it printed may hold a token.
            why = f"{command[0]}: {type(error).__name__}"
            raise MissingRequirement(
                "The kubeconfig's credential plug-in gave no token",
                why=why,
                fix=str(self._said.get("installHint") or "sign in again; kubectl get pods shows whether it works"),
            ) from None
        return status if isinstance(status, dict) else {}


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
