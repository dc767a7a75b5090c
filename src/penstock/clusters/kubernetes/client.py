"""A client of the Kubernetes API: kubeconfig, authentication, and the few requests that a backend makes, as plain JSON.

The official client takes 0.7 s to load (httpx: 0.07 s), in each process that supervises an application.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import yaml

from penstock.errors import ClusterError, Forbidden, InvalidInput, MissingRequirement, NotFound
from penstock.formats import url_host

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLUGIN_SECONDS = 60

TokenSource = Callable[[], "str | None"]
"""Called before each request: tokens are short-lived, and their source replaces them."""


@dataclass(frozen=True)
class Access:
    """The address of an API server, and the credentials for it. `namespace` is the default namespace."""

    server: str
    tls: ssl.SSLContext | None
    token: TokenSource
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
    """Return the access of a kubeconfig that is named, of the pod this process runs in, or of `~/.kube/config`.

    `kubeconfig` takes precedence over `$KUBECONFIG`; the pod's service account is used where neither of them and no
    `context` is given. Several files, separated as in `$PATH`, are merged as kubectl merges them: the first file that
    has a context, cluster, user or current context decides, and paths are relative to their file.

    Raises `NotFound` (no file, no such context) and `InvalidInput` (not a kubeconfig, an invalid certificate).
    """
    named = kubeconfig or environment.get("KUBECONFIG")
    if named is None and context is None and (account / "token").exists():
        return _pod_access(environment, account)
    candidates = named.split(os.pathsep) if named else ["~/.kube/config"]
    paths = [Path(candidate).expanduser() for candidate in candidates if candidate]
    if found := [path for path in paths if path.is_file()]:
        return _kubeconfig_access(found, context)
    raise NotFound(
        "There is no kubeconfig",
        why=f"{' and '.join(candidates)} does not exist, and this process is not in a pod with a service account",
        fix="name one: kubeconfig: in the cluster's file, or KUBECONFIG=/path",
    )


def _pod_access(environment: Mapping[str, str], account: Path) -> Access:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    token = account / "token"
    return Access(
        server=f"https://{url_host(host)}:{port}",
        tls=ssl.create_default_context(cafile=str(account / "ca.crt")),
        token=lambda: _read(token),
        namespace=(account / "namespace").read_text(encoding="ascii").strip(),
        in_cluster=True,
    )


@dataclass(frozen=True)
class _Entry:
    """A named entry of a kubeconfig. Relative paths in `content` start at `directory`."""

    content: Mapping[str, Any]
    directory: Path


def _kubeconfig_access(paths: Sequence[Path], context: str | None) -> Access:
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
            # The first file with an entry of a name decides.
            contexts = {**_entries(content, "contexts", "context", path), **contexts}
            clusters = {**_entries(content, "clusters", "cluster", path), **clusters}
            users = {**_entries(content, "users", "user", path), **users}
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise _no_kubeconfig(str(path), type(error).__name__) from None
    chosen = context or current
    if not chosen:
        raise _no_kubeconfig(shown, "it has no current context")
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
            f"{shown} has no server for the context “{chosen}”", fix=f"kubectl config view --context {chosen}"
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
    """Load a client certificate and its key into `context`.

    Python's TLS reads them from a file only: this one is private and removed at once.
    """
    with tempfile.NamedTemporaryFile(prefix="penstock-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _content(entry: _Entry, name: str) -> bytes | None:
    if data := entry.content.get(f"{name}-data"):
        return base64.b64decode(data, validate=True)
    return (entry.directory / str(entry.content[name])).read_bytes() if entry.content.get(name) else None


def _token(user: _Entry) -> TokenSource:
    if file := user.content.get("tokenFile"):
        return lambda: _read(user.directory / str(file))
    if plugin := user.content.get("exec"):
        return CredentialPlugin(plugin).token
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


class CredentialPlugin:
    """A credential plug-in (client.authentication.k8s.io): a program that prints a token.

    It runs again a minute before the token expires. Raises `MissingRequirement` where it fails.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._token: str | None = None
        self._expires = ""

    def token(self) -> str | None:
        soon = (datetime.now(timezone.utc) + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        # ISO 8601 times in UTC sort as text.
        if self._token is None or (self._expires and self._expires <= soon):
            status = self._run()
            self._token, self._expires = status.get("token"), str(status.get("expirationTimestamp") or "")
        return self._token

    def _run(self) -> Mapping[str, Any]:
        config = self._config
        command = [str(config["command"]), *map(str, config.get("args") or [])]
        added = {entry["name"]: str(entry["value"]) for entry in config.get("env") or []}
        request = {"apiVersion": config.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
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
            # The program's output may contain a token, so the error does not quote it.
            why = f"{command[0]}: {type(error).__name__}"
            raise MissingRequirement(
                "The kubeconfig's credential plug-in returned no token",
                why=why,
                fix=str(config.get("installHint") or "sign in again; kubectl get pods shows whether it works"),
            ) from None
        return status if isinstance(status, dict) else {}


Json = dict[str, Any]

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_MERGE = {"Content-Type": "application/merge-patch+json"}
_WATCH_SECONDS = 300
_MOST_ERROR_BYTES = 1 << 16
_MOST_BODY_SECONDS = 60.0
_CHECK = "penstock cluster check lists the missing permissions"
QUOTA_FIX = "wait until other applications end, or have the quota raised: kubectl describe resourcequota"
_ALREADY_EXISTS = "AlreadyExists"
_FIXES = {
    403: "a policy or a limit of the namespace does not allow such a pod: kubectl describe namespace, limitrange",
    422: "correct the invalid value in the cluster's file: penstock cluster show",
}


class RequestRejected(ClusterError):
    """The API server rejected the request.

    `status` is the HTTP status code, `reason` the machine-readable one of the API (`AlreadyExists`), empty if unknown.
    """

    def __init__(self, status: int, problem: str, *, why: str = "", fix: str = "", reason: str = "") -> None:
        super().__init__(problem, why=why, fix=fix)
        self.status = status
        self.reason = reason

    @property
    def already_exists(self) -> bool:
        """Whether an object of that name exists. Admission by a quota also answers a creation with status 409."""
        return self.reason == _ALREADY_EXISTS


class NamespaceQuotaExceeded(RequestRejected):
    """A resource quota of the namespace admits no more for now: it is used up, or other requests changed it."""


class Api:
    """Requests to the API server. Safe to use from several threads.

    Every method raises `RequestRejected`, `NotFound` or `Forbidden`, and `ClusterError` where the API server does not
    answer.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client = httpx.Client(
            base_url=access.server,
            verify=access.tls if access.tls is not None else True,
            timeout=_TIMEOUT,
            # A pod reaches the API server directly; its HTTP_PROXY is for addresses outside the cluster.
            trust_env=not access.in_cluster,
            # Each watch occupies a connection of its own.
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
        """Delete one object, or all objects of a kind that `params` select. That there are none is not an error."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._json("DELETE", path, body=options, params=params)
        except NotFound:
            return

    def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str],
        at_most: int,
        seconds: float = 30.0,
    ) -> bytes:
        """Return the response body of a server behind the API (`…/proxy/…`).

        `seconds` is the timeout of each read. Raises `RequestRejected` where the body is longer than `at_most` bytes.
        """
        all_headers = {**self._headers(), **headers}
        try:
            with self._client.stream(method, path, headers=all_headers, params=params, timeout=seconds) as answer:
                body = read_limited(answer, _MOST_ERROR_BYTES if answer.is_error else at_most)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if body is None:
            raise RequestRejected(answer.status_code, "The answer of a server behind the API is too long", why=path)
        if answer.is_error:
            raise _refused(path, httpx.Response(answer.status_code, content=body))
        return body

    def watch(self, path: str, version: str, **params: str) -> Iterator[Json]:
        """Yield the changes after that resource version, until the server ends the watch.

        Raises `RequestRejected` with status 410 where the server no longer has that version: list again.
        """
        query = {**params, "watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        timeout = httpx.Timeout(30.0, read=_WATCH_SECONDS + 30.0)
        try:
            with self._client.stream("GET", path, params=query, headers=self._headers(), timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refused(path, answer)
                for line in answer.iter_lines():
                    change: Json = json.loads(line)
                    if change["type"] == "ERROR":
                        code = int(change["object"].get("code", 500))
                        raise RequestRejected(code, "A watch ended", why=str(change["object"].get("message", "")))
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
            fix="kubectl cluster-info shows whether the cluster or the connection to it is at fault",
        )


def read_limited(answer: httpx.Response, at_most: int) -> bytes | None:
    """Read the body of a streamed response; None where it is longer than `at_most` bytes or takes over a minute.

    Submitted code may have written the body. It is read as sent, since a small compressed one may expand to any size.
    """
    body, deadline = bytearray(), time.monotonic() + _MOST_BODY_SECONDS
    for piece in answer.iter_raw():
        body += piece
        if len(body) > at_most or time.monotonic() > deadline:
            return None
    return bytes(body)


def list_if_permitted(api: Api, path: str) -> list[Json]:
    """Return the objects of that list; none where listing them is forbidden or the namespace does not exist."""
    try:
        found: list[Json] = api.get(path).get("items") or []
    except (Forbidden, NotFound):
        return []
    return found


def _refused(path: str, answer: httpx.Response) -> ClusterError | NotFound | Forbidden:
    try:
        status = answer.json()
        message, reason = str(status["message"]), str(status.get("reason") or "")
    except (ValueError, KeyError, TypeError):
        message, reason = f"HTTP {answer.status_code}", ""
    if answer.status_code == 404:
        return NotFound("Kubernetes has no such object", why=f"{message} ({path})")
    if answer.status_code == 401:
        return Forbidden("Kubernetes rejected the credentials", why=message, fix="sign in again: kubectl get pods")
    if answer.status_code == 403 and "exceeded quota" in message:
        return NamespaceQuotaExceeded(403, "The namespace's quota is used up", why=message, fix=QUOTA_FIX)
    if answer.status_code == 409 and reason != _ALREADY_EXISTS and "resourcequotas" in message:
        # API servers that admit objects at the same time compete for the quota; the loser creates nothing.
        problem = "Other requests changed the namespace's quota at the same time"
        fix = "wait: the request is repeated every few seconds"
        return NamespaceQuotaExceeded(409, problem, why=message, fix=fix, reason=reason)
    if answer.status_code == 403 and " cannot " in message:
        return Forbidden("Kubernetes does not permit it", why=message, fix=_CHECK)
    fix = _FIXES.get(answer.status_code, "")
    return RequestRejected(answer.status_code, "Kubernetes rejected the request", why=message, fix=fix, reason=reason)
