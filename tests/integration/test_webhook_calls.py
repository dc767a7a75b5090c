"""Webhooks to a receiver on the loopback address: signed, sent once per try, and only to permitted addresses."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import webhooks
from penstock.engine.repository.audit import Delivery
from penstock.engine.webhooks import AllowedNetworks, Webhooks
from penstock.home import Home

BODY = {"type": "application.state", "data": {"instance": "sales"}}
LOOPBACK = AllowedNetworks.parse("127.0.0.1")


class Receiver(HTTPServer):
    """A receiver that answers `status`, always with a redirect to itself, and records requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?a=b"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.send_header("location", self.server.url)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Outcomes:
    """An outbox that records the outcome of deliveries."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def delivered(self, delivery: Delivery, at: object) -> None:
        self.seen.append(("delivered", delivery.id))

    def failed(self, delivery: Delivery, problem: str, *, again_at: object) -> None:
        self.seen.append((problem, again_at))


def deliver(url: str, home: Path, *, reach: AllowedNetworks = LOOPBACK, tries: int = 1) -> tuple[str, Any]:
    outcomes = Outcomes()
    delivery = Delivery(7, "app-1", url, BODY, tries)
    Webhooks(outcomes, Home(home), reach).deliver(delivery)  # type: ignore[arg-type]
    (seen,) = outcomes.seen
    return seen


def test_a_receiver_can_check_who_sent_it_by_the_standard(receiver: Receiver, tmp_path: Path) -> None:
    assert deliver(receiver.url, tmp_path) == ("delivered", 7)
    ((headers, body),) = receiver.got
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(webhooks.shown_secret(Home(tmp_path), "sales").removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body) == BODY


@pytest.mark.parametrize("status", [301, 307, 404, 500])
def test_anything_but_a_success_is_tried_again_and_no_redirect_is_followed(
    receiver: Receiver, tmp_path: Path, status: int
) -> None:
    receiver.status = status
    problem, again_at = deliver(receiver.url, tmp_path)
    assert problem == f"it answered {status}"
    assert again_at is not None
    assert len(receiver.got) == 1


def test_nothing_is_sent_where_the_address_may_not_be_called(receiver: Receiver, tmp_path: Path) -> None:
    for url in (
        receiver.url,
        receiver.url.replace("127.0.0.1", "localhost"),
        receiver.url.replace("127.0.0.1", "0x7f.1"),
    ):
        problem, _ = deliver(url, tmp_path, reach=AllowedNetworks())
        assert "may not be called" in problem
    assert receiver.got == []


def test_the_connection_goes_to_the_address_that_was_judged(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that would resolve differently the second time is resolved only once."""
    asked = []

    def once(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(webhooks.socket, "getaddrinfo", once)
    connected = []
    real = socket.create_connection

    def connect(address: tuple[str, int], *more: object) -> socket.socket:
        connected.append(address)
        monkeypatch.undo()
        return real(address)

    monkeypatch.setattr(webhooks.socket, "create_connection", connect)
    url = f"http://rebound.example:{receiver.server_port}/"
    assert webhooks.post(url, b"{}", {}, LOOPBACK) == 200
    assert asked == ["rebound.example"]
    assert connected == [("127.0.0.1", receiver.server_port)]


def test_a_receiver_that_answers_a_byte_now_and_then_does_not_hold_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_MOST_SECONDS", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            while not over.wait(0.02):
                connection.sendall(b"H")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(OSError):
            webhooks.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {}, LOOPBACK)
    finally:
        over.set()
        thread.join()
        listener.close()
