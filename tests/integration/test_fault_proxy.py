"""Fault injection on a store of a few lines: each fault has its named effect, on that request only."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.faults import (
    Answer,
    CutAnswer,
    CutUpload,
    Delay,
    Fault,
    FlipAnswer,
    FlipUpload,
    KillClient,
    LoseAnswer,
    Plan,
    Reset,
    Rule,
    Skew,
    StopClient,
    Throttle,
)
from benchmarks.chaos.gateways import ROOT, Gateway

CONTENT = bytes(range(256)) * 1_000
DATE = "Sun, 22 Nov 2026 02:00:00 GMT"


class Store(ThreadingHTTPServer):
    """A store that keeps objects, records requests, and answers half of all GETs in chunks."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {"/lake/known": CONTENT, "/lake/chunked": CONTENT}
        self.asked: list[tuple[str, str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def _note(self) -> None:
        self.server.asked.append((self.command, self.path, self.headers["Host"]))

    def do_GET(self) -> None:
        self._note()
        content = self.server.objects[self.path]
        self.send_response_only(200)
        self.send_header("Date", DATE)
        if self.path.endswith("chunked"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(content), 50_000):
                piece = content[at : at + 50_000]
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def do_PUT(self) -> None:
        self._note()
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if len(content) == int(self.headers["Content-Length"]):
            self.server.objects[self.path] = content
        self.send_response_only(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def gateway(store: Store, tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway("g0", f"127.0.0.1:{store.server_port}", tmp_path / "faults.jsonl")
    yield made
    made.close()


@pytest.fixture
def record(tmp_path: Path) -> Any:
    path = tmp_path / "faults.jsonl"
    return lambda: [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def ask(gateway: Gateway, method: str, key: str, content: bytes | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    connection.request(method, f"/lake/{key}", body=content)
    return connection.getresponse()


def once(gateway: Gateway, fault: Fault) -> None:
    gateway.follow(Plan("7", (Rule(fault, 1.0, at_most=1),)))


@pytest.mark.parametrize("key", ["known", "chunked"])
def test_without_a_fault_everything_passes_as_it_is(gateway: Gateway, store: Store, key: str, record: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    for _ in range(3):
        connection.request("GET", f"/lake/{key}", headers={"Host": "signed.example:80"})
        assert connection.getresponse().read() == CONTENT
    assert store.asked == [("GET", f"/lake/{key}", "signed.example:80")] * 3
    assert ask(gateway, "PUT", "new", CONTENT).status == 200
    assert store.objects["/lake/new"] == CONTENT
    assert gateway.requests() == {"GetObject": 3, "PutObject": 1}
    assert record() == []


def test_a_request_that_waits_for_its_turn_to_send_is_heard(gateway: Gateway, store: Store) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), 10) as client:
        client.sendall(b"PUT /lake/waits HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1_000).startswith(b"HTTP/1.1 100")
        client.sendall(b"hello")
        assert client.recv(1_000).startswith(b"HTTP/1.1 200")
    assert store.objects["/lake/waits"] == b"hello"


def test_latency_comes_before_the_store_and_bandwidth_beside_the_body(gateway: Gateway, store: Store) -> None:
    for fault in (Delay(0.4), Throttle(500_000)):
        once(gateway, fault)
        began = time.monotonic()
        assert ask(gateway, "GET", "known").read() == CONTENT
        assert time.monotonic() - began > 0.35


def test_a_reset_request_never_reached_the_store(gateway: Gateway, store: Store, record: Any) -> None:
    once(gateway, Reset())
    with pytest.raises(ConnectionResetError):
        ask(gateway, "PUT", "new", CONTENT)
    assert store.asked == []
    assert [(line["kind"], line["operation"], line["key"]) for line in record()] == [("reset", "PutObject", "new")]
    assert ask(gateway, "PUT", "new", CONTENT).status == 200


def test_a_lost_answer_is_of_something_that_was_done(gateway: Gateway, store: Store) -> None:
    once(gateway, LoseAnswer())
    with pytest.raises(ConnectionResetError):
        ask(gateway, "PUT", "new", CONTENT)
    assert store.objects["/lake/new"] == CONTENT


@pytest.mark.parametrize(
    ("fault", "end"), [(CutAnswer(), http.client.IncompleteRead), (CutAnswer(reset=True), ConnectionResetError)]
)
def test_half_an_answer_is_half_of_it(gateway: Gateway, fault: Fault, end: type[Exception]) -> None:
    once(gateway, fault)
    answer = ask(gateway, "GET", "known")
    assert answer.getheader("Content-Length") == str(len(CONTENT))
    with pytest.raises(end) as raised:
        answer.read()
    if isinstance(raised.value, http.client.IncompleteRead):
        assert raised.value.partial == CONTENT[: len(CONTENT) // 2]


def test_half_an_upload_stores_nothing(gateway: Gateway, store: Store) -> None:
    once(gateway, CutUpload())
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        ask(gateway, "PUT", "new", CONTENT)
    assert "/lake/new" not in store.objects


def test_a_status_is_the_gateways_own_and_says_when_to_come_back(gateway: Gateway, store: Store) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    gateway.follow(Plan("7", (Rule(Answer(503, "SlowDown", retry_after=2), 1.0, at_most=1),)))
    connection.request("PUT", "/lake/new", body=CONTENT)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Retry-After")) == (503, "2")
    assert b"<Code>SlowDown</Code>" in answer.read()
    assert store.asked == []
    # The connection stays usable: the proxy read the body, as the store would have.
    connection.request("PUT", "/lake/new", body=CONTENT)
    assert connection.getresponse().status == 200
    once(gateway, Answer(500, "InternalError"))
    assert ask(gateway, "GET", "known").getheader("Retry-After") is None


def test_a_flipped_body_is_one_bit_off(gateway: Gateway, store: Store) -> None:
    once(gateway, FlipAnswer())
    got = ask(gateway, "GET", "known").read()
    once(gateway, FlipUpload())
    ask(gateway, "PUT", "new", CONTENT)
    for wrong in (got, store.objects["/lake/new"]):
        assert len(wrong) == len(CONTENT)
        assert sum((a ^ b).bit_count() for a, b in zip(wrong, CONTENT, strict=True)) == 1


def test_a_skewed_clock_is_in_the_date_alone(gateway: Gateway) -> None:
    once(gateway, Skew(3_600))
    answer = ask(gateway, "GET", "known")
    off = parsedate_to_datetime(str(answer.getheader("Date"))) - parsedate_to_datetime(DATE)
    assert off.total_seconds() == 3_600
    assert answer.read() == CONTENT
    once(gateway, Skew(-3_600, refused=True))
    answer = ask(gateway, "GET", "known")
    assert answer.status == 403
    assert b"RequestTimeTooSkewed" in answer.read()


CLIENT = """
import http.client, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
c.request("PUT", "/lake/new", body=b"x" * 10)
print(c.getresponse().status)
"""


@contextlib.contextmanager
def client(gateway: Gateway, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", CLIENT, str(gateway.port)]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("done", "stored"), [(False, False), (True, True)])
def test_the_process_that_asked_is_killed_before_or_after(
    gateway: Gateway, store: Store, record: Any, *, done: bool, stored: bool
) -> None:
    once(gateway, KillClient(done=done))
    with client(gateway, PENSTOCK_APPLICATION="app-test-proxy") as process:
        assert process.wait(timeout=20) == -signal.SIGKILL
    (line,) = record()
    assert line["victim"] == {"pid": process.pid, "application": "app-test-proxy", "role": "driver"}
    assert ("/lake/new" in store.objects) == stored


def test_the_process_that_asked_is_stopped_and_goes_on(gateway: Gateway, store: Store) -> None:
    once(gateway, StopClient(0.5))
    began = time.monotonic()
    with client(gateway, PENSTOCK_APPLICATION="app-test-proxy") as process:
        assert process.communicate(timeout=20)[0] == "200\n"
    assert time.monotonic() - began > 0.5


def test_a_process_of_no_application_is_left_alone(gateway: Gateway, store: Store, record: Any) -> None:
    once(gateway, KillClient())
    with client(gateway) as process:
        assert process.communicate(timeout=20)[0] == "200\n"
    assert record() == []


def test_a_gateway_that_was_killed_comes_back_where_it_was(gateway: Gateway, store: Store) -> None:
    port = gateway.port
    gateway.follow(Plan("7", (Rule(Answer(500, "InternalError"), 1.0),)))
    gateway.kill()
    with pytest.raises(ConnectionRefusedError):
        ask(gateway, "GET", "known")
    gateway.start_again()
    assert gateway.port == port
    assert ask(gateway, "GET", "known").status == 500
    gateway.heal()
    assert ask(gateway, "GET", "known").read() == CONTENT


def test_a_gateway_ends_with_its_parent(store: Store, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.chaos.proxy", "--upstream", f"127.0.0.1:{store.server_port}"]
    process = subprocess.Popen(
        [*command, "--record", str(tmp_path / "r")], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert int(process.stdout.readline()) > 0
    process.stdin.close()
    assert process.wait(timeout=10) == 0
    process.stdout.close()
