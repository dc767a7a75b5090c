"""The embedded lake against other accounts of the machine, which reach its ports without its private files."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.home import Home
from penstock.lake.embedded import EmbeddedLake, Identity, Ports
from penstock.lake.s3 import open_store

PARTS = ("master", "volume", "filer", "s3")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4
_SECONDS = 5.0


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    home = Home(tmp_path_factory.mktemp("strangers"))
    embedded = EmbeddedLake(home)
    try:
        open_store(home, embedded.up()).put("private", b"content")
        yield embedded
        # After every attempt nothing is missing, and nothing was added.
        store = open_store(home, embedded.up())
        assert [found.key for found in store.list("")] == ["private"]
        assert store.get("private") == b"content"
    finally:
        embedded.down()


@pytest.fixture(scope="module")
def ports(lake: EmbeddedLake) -> Ports:
    server = lake._running()
    assert server is not None
    return server.ports


def _connected(ports: Ports, part: str, way: str) -> socket.socket:
    if way == "port":
        return socket.create_connection(("127.0.0.1", getattr(ports, f"{part}_grpc")), timeout=_SECONDS)
    (path,) = [path for path in ports.sockets() if path.name.startswith(f"seaweedfs-{part}-")]
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_SECONDS)
    connection.connect(str(path))
    return connection


def _takes_orders(connection: socket.socket, context: ssl.SSLContext | None) -> bool:
    """Return whether the server speaks gRPC on such a connection: it sends its settings, and accepts ours."""
    with connection, contextlib.suppress(OSError):
        speaking = context.wrap_socket(connection) if context else connection
        with speaking:
            speaking.sendall(_PREFACE)
            frame = speaking.recv(9)
            return len(frame) > 3 and frame[3] == _SETTINGS
    return False


def _context(directory: Path, identity: Identity | None) -> ssl.SSLContext:
    """Return a client's TLS context with that certificate, which trusts every server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if identity is not None:
        (directory / "certificate").write_text(identity.certificate)
        (directory / "key").write_text(identity.key)
        context.load_cert_chain(directory / "certificate", directory / "key")
    return context


@pytest.mark.parametrize("way", ["port", "socket"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("stranger", ["without TLS", "without a certificate", "with a certificate of its own"])
def test_no_part_takes_orders_from_a_stranger(ports: Ports, tmp_path: Path, part: str, way: str, stranger: str) -> None:
    identity = Identity.make() if stranger == "with a certificate of its own" else None
    context = None if stranger == "without TLS" else _context(tmp_path, identity)
    assert not _takes_orders(_connected(ports, part, way), context)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_takes_orders_from_who_has_the_private_files(
    lake: EmbeddedLake, ports: Ports, tmp_path: Path, part: str
) -> None:
    """Without this the attempts above would prove nothing."""
    own = Identity((lake.directory / "grpc.crt").read_text(), (lake.directory / "grpc.key").read_text())
    assert _takes_orders(_connected(ports, part, "port"), _context(tmp_path, own))


@pytest.mark.parametrize(
    ("part", "method", "path"),
    [
        ("master", "GET", "/dir/assign"),
        ("master", "GET", "/dir/assign?collection=penstock"),
        ("master", "GET", "/dir/status"),
        ("master", "GET", "/dir/lookup?volumeId=1"),
        ("master", "GET", "/vol/grow?count=1"),
        ("master", "POST", "/vol/grow?count=1"),
        ("master", "POST", "/vol/vacuum?garbageThreshold=0"),
        ("master", "GET", "/vol/status"),
        ("master", "GET", "/col/delete?collection=penstock"),
        ("master", "POST", "/col/delete?collection=penstock"),
        ("master", "POST", "/submit"),
        ("master", "GET", "/1,0123456789"),
        ("volume", "GET", "/1,0123456789"),
        ("volume", "POST", "/1,0123456789"),
        ("volume", "PUT", "/1,0123456789"),
        ("volume", "DELETE", "/1,0123456789"),
        ("volume", "GET", "/ui/index.html"),
        ("volume", "GET", "/stats/disk"),
        ("filer", "GET", "/buckets/penstock/private"),
        ("filer", "POST", "/buckets/penstock/mine"),
        ("filer", "DELETE", "/buckets/penstock/private"),
        ("filer", "DELETE", "/buckets/penstock?recursive=true"),
        ("filer", "GET", "/etc/iam/identity.json"),
        ("s3", "GET", "/"),
        ("s3", "GET", "/penstock?list-type=2"),
        ("s3", "GET", "/penstock/private"),
        ("s3", "HEAD", "/penstock/private"),
        ("s3", "PUT", "/penstock/mine"),
        ("s3", "POST", "/penstock?delete"),
        ("s3", "DELETE", "/penstock/private"),
        ("s3", "DELETE", "/penstock"),
        ("s3", "PUT", "/penstock?policy"),
        ("s3", "POST", "/?Action=CreateAccessKey&UserName=penstock"),
    ],
)
def test_no_part_answers_a_stranger_over_http(ports: Ports, part: str, method: str, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", getattr(ports, part), timeout=_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, body=b"mine" if method in ("POST", "PUT") else None)
        answer = connection.getresponse()
        assert 400 <= answer.status < 500, (answer.status, answer.read(200))
        # Permission to write, which the master grants in a header.
        assert answer.headers.get("Authorization") is None
        assert answer.read() != b"content"


@pytest.mark.parametrize(
    "path", ["/metrics", "/debug/vars", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap"]
)
def test_the_counts_of_requests_come_without_a_secret(lake: EmbeddedLake, ports: Ports, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", ports.metrics, timeout=_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse().read()
    (user,) = json.loads((lake.directory / "s3.json").read_text())["identities"]
    keys = re.findall(r'^key = "([0-9a-f]{64})"$', (lake.directory / "security.toml").read_text(), re.MULTILINE)
    assert keys
    for secret in (*user["credentials"][0].values(), *keys):
        assert secret.encode() not in answer


def test_what_the_parts_know_each_other_by_is_private(lake: EmbeddedLake) -> None:
    assert stat.S_IMODE(lake.directory.stat().st_mode) == 0o700
    for name in ("grpc.key", "security.toml", "s3.json"):
        assert stat.S_IMODE((lake.directory / name).stat().st_mode) == 0o600, name
