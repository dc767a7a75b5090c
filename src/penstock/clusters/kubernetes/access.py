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
from collections.abc import Callable, Mapping
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

    Raises `NotFound` (no file, no such context) and `InvalidInput` (not a kubeconfig, a certificate that is none).
    """
    named = kubeconfig or environment.get("KUBECONFIG")
    if named is None and context is None and (account / "token").exists():
        return _of_pod(environment, account)
    # Of several files kubectl takes what each holds; the first one that is there is what users have.
    candidates = named.split(os.pathsep) if named else ["~/.kube/config"]
    for path in (Path(candidate).expanduser() for candidate in candidates if candidate):
        if path.is_file():
            return _of_kubeconfig(path, context)
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


def _of_kubeconfig(path: Path, context: str | None) -> Access:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        chosen = context or content["current-context"]
        found = _named(content, "contexts", "context", chosen)
        cluster = _named(content, "clusters", "cluster", (found or {}).get("cluster")) or {}
        user = _named(content, "users", "user", (found or {}).get("user")) or {}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} is not a kubeconfig with a current context",
            why=f"{type(error).__name__}",
            fix=f"kubectl --kubeconfig '{path}' config get-contexts; then name one: context: NAME",
        ) from None
    if found is None:
        known = ", ".join(str(entry.get("name")) for entry in content.get("contexts") or []) or "none"
        raise NotFound(
            f"{path} has no context “{chosen}”",
            why=f"it has: {known}",
            fix=f"kubectl --kubeconfig '{path}' config get-contexts; then name one: context: NAME",
        )
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise InvalidInput(
            f"{path} names no server for the context “{chosen}”", fix=f"kubectl config view --context {chosen}"
        )
    try:
        tls = _tls(cluster, user, path.parent) if server.startswith("https://") else None
    except (OSError, ssl.SSLError, binascii.Error) as error:
        raise InvalidInput(
            f"The certificates in {path} cannot be used",
            why=str(error),
            fix="get the kubeconfig again from its cluster",
        ) from None
    return Access(server, tls, _token(user, path.parent), str(found.get("namespace") or "default"))


def _named(content: Mapping[str, Any], kind: str, key: str, name: object) -> dict[str, Any] | None:
    return next((entry[key] or {} for entry in content.get(kind) or [] if entry["name"] == name), None)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], beside: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", beside)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate", beside), _content(user, "client-key", beside)
    if certificate and key:
        load_client_certificate(context, certificate, key)
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python's TLS takes them from a file only: one that is private, and gone at once."""
    with tempfile.NamedTemporaryFile(prefix="penstock-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _content(entry: Mapping[str, Any], name: str, beside: Path) -> bytes | None:
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data, validate=True)
    return (beside / str(entry[name])).read_bytes() if entry.get(name) else None


def _token(user: Mapping[str, Any], beside: Path) -> Token:
    if file := user.get("tokenFile"):
        return lambda: _read(beside / str(file))
    if plugin := user.get("exec"):
        return Plugin(plugin).token
    return lambda: user.get("token")


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
