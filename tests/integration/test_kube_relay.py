"""Forwarding from a local port to a driver's loopback port through the real sidecar, over real sockets."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.client import Access, Api
from penstock.clusters.kubernetes.pod.sidecar import serve
from penstock.clusters.kubernetes.sidecar_client import Relay, SidecarClient, TunnelEndpoint

TOKEN = "t0ken"
LONG = b"x" * (3 << 20)


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self.path.encode())

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Known:
    def status(self) -> dict[str, object]:
        return {}

    def pages(self) -> dict[str, object]:
        return {"port": 4040, "key": "k3y"}

    def release(self) -> None: ...


@pytest.fixture
def driver() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(layout, "WORK", tmp_path)
    server = serve(Known(), TOKEN, port=0)
    monkeypatch.setattr(layout, "SIDECAR_PORT", server.server_address[1])
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


@pytest.fixture
def client(sidecar: int) -> SidecarClient:
    api = Api(Access("http://nowhere.invalid", None, lambda: None, in_cluster=True))
    return SidecarClient(api, "lake", "app-1", lambda: TOKEN)


@pytest.fixture
def way(client: SidecarClient, driver: int) -> Iterator[Relay]:
    relay = Relay(lambda: client.entrance("127.0.0.1", driver))
    yield relay
    relay.close()


def ask(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body=body)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_what_listens_on_the_driver_s_loopback_answers_here(way: Relay) -> None:
    assert ask(way.port, "GET", "/jobs/") == b"/jobs/"
    assert ask(way.port, "POST", "/", LONG) == LONG


def test_many_connections_at_once_each_get_their_own_answer(way: Relay) -> None:
    got: dict[int, bytes] = {}
    asking = [
        threading.Thread(target=lambda n=number: got.update({n: ask(way.port, "GET", f"/{n}")})) for number in range(20)
    ]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert got == {number: f"/{number}".encode() for number in range(20)}


def test_a_connection_may_stay_open_between_questions(way: Relay) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", way.port, timeout=30)
    for number in range(3):
        connection.request("GET", f"/{number}")
        assert connection.getresponse().read() == f"/{number}".encode()
    connection.close()


@pytest.mark.parametrize("token", ["guess", ""])
def test_there_is_no_tunnel_without_the_token(sidecar: int, driver: int, token: str) -> None:
    relay = Relay(lambda: TunnelEndpoint("127.0.0.1", sidecar, None, f"/tunnel/{driver}", {layout.TOKEN_HEADER: token}))
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(relay.port, "GET", "/")
    relay.close()


def test_where_nothing_listens_the_connection_ends_and_the_way_stays(client: SidecarClient, driver: int) -> None:
    ports = [1, driver]
    relay = Relay(lambda: client.entrance("127.0.0.1", ports.pop(0)))
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(relay.port, "GET", "/")
    assert ask(relay.port, "GET", "/jobs/") == b"/jobs/"
    relay.close()


def test_nothing_listens_here_when_it_is_closed(client: SidecarClient, driver: int) -> None:
    relay = Relay(lambda: client.entrance("127.0.0.1", driver))
    open_one = socket.create_connection(("127.0.0.1", relay.port), timeout=30)
    relay.close()
    assert open_one.recv(1) == b""
    open_one.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", relay.port), timeout=5).close()
    relay.close()


def test_from_outside_the_way_leads_through_the_api_server() -> None:
    api = Api(Access("https://kube.example:6443/clusters/a", None, lambda: "b3arer"))
    found = SidecarClient(api, "lake", "app-1", lambda: TOKEN).entrance(None, 4040)
    assert found is not None
    assert (found.host, found.port) == ("kube.example", 6443)
    assert found.path == "/clusters/a/api/v1/namespaces/lake/pods/app-1:7070/proxy/tunnel/4040"
    assert found.headers == {layout.TOKEN_HEADER: TOKEN, "Authorization": "Bearer b3arer"}


def test_before_the_pod_has_an_address_there_is_no_way(client: SidecarClient) -> None:
    assert client.entrance(None, 4040) is None


def test_the_sidecar_reports_the_address_of_the_pages(client: SidecarClient) -> None:
    assert client.pages("127.0.0.1") == (4040, "k3y")
