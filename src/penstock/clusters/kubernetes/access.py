"""How to reach a Kubernetes API server: from a kubeconfig, or as a pod of the cluster itself.

Only what kubectl itself still supports is read: client certificates, tokens, passwords, and credential plug-ins
(`exec`), which is how managed clusters sign their users in.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import InvalidInput, MissingRequirement, NotFound
from penstock.hosts import in_url

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
