"""A webhook's receiver can verify its sender, and no webhook reaches into the engine's own network."""

from __future__ import annotations

import base64
import ipaddress
import socket
import threading
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from penstock.engine import webhooks
from penstock.engine.repository.audit import Delivery
from penstock.engine.webhooks import (
    MOST_TRIES,
    AllowedNetworks,
    Webhooks,
    next_try,
    shown_secret,
    sign,
    signing_secret,
    validate_url,
)
from penstock.errors import InvalidInput, StateError
from penstock.home import Home
from tests.unit.engine.engine_making import START


def test_the_signature_is_the_one_of_the_specification() -> None:
    """The example of the reference libraries' test: https://github.com/standard-webhooks/standard-webhooks."""
    from datetime import datetime, timezone

    at = datetime.fromtimestamp(1614265330, timezone.utc)
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_secret_is_one_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    assert signing_secret(Home(tmp_path), "sales") == signing_secret(Home(tmp_path), "sales")
    assert (tmp_path / webhooks.KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / webhooks.KEY_FILE).write_text("whsec_?")
    with pytest.raises(StateError, match="damaged"):
        signing_secret(Home(tmp_path), "sales")


def test_a_receiver_can_forge_nothing_for_another_instance(tmp_path: Path) -> None:
    home = Home(tmp_path)
    secrets = {signing_secret(home, instance) for instance in ("sales", "Sales", "sales2", "")}
    assert len(secrets) == 4
    key = base64.b64decode(shown_secret(home, "sales").removeprefix("whsec_"))
    assert key == signing_secret(home, "sales") and len(key) == 32


class Waiting:
    """An outbox whose deliveries are due at once."""

    def __init__(self, *instances: str) -> None:
        self._due = [
            Delivery(number, f"app-{number}", "https://receiver.example/", {"data": {"instance": instance}}, 1)
            for number, instance in enumerate(instances)
        ]
        self.delivered_to: list[str] = []

    def take(self, _: datetime, *, limit: int, without: Collection[str]) -> list[Delivery]:
        taken = [delivery for delivery in self._due if delivery.instance not in without][:limit]
        self._due = [delivery for delivery in self._due if delivery not in taken]
        return taken

    def delivered(self, delivery: Delivery, _: datetime) -> None:
        self.delivered_to.append(delivery.instance)


def test_receivers_that_do_not_answer_delay_nobody_else_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, stop, others = threading.Event(), threading.Event(), threading.Event()
    outbox = Waiting(*["slow"] * 40, *["quick"] * 30)

    def post(_url: str, body: bytes, *_: object) -> int:
        if b"slow" in body:
            answer.wait(30)
        elif outbox.delivered_to.count("quick") >= 20:
            others.set()
        return 200

    monkeypatch.setattr(webhooks, "post", post)
    worker = threading.Thread(target=Webhooks(outbox, Home(tmp_path), AllowedNetworks()).run, args=[stop])  # type: ignore[arg-type]
    worker.start()
    assert others.wait(20)
    assert "slow" not in outbox.delivered_to
    stop.set()
    answer.set()
    worker.join(20)
    assert not worker.is_alive()
    assert outbox.delivered_to.count("slow") == 4


def test_tries_are_further_and_further_apart_and_come_to_an_end() -> None:
    pauses = []
    for tries in range(1, MOST_TRIES):
        again = next_try(tries, START)
        assert again is not None
        pauses.append(again - START)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1]) == (timedelta(seconds=5), timedelta(seconds=10))
    assert max(pauses) <= timedelta(hours=1)
    assert next_try(MOST_TRIES, START) is None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "127.255.255.254",
        "10.255.255.255",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.9",
        "240.0.0.1",
        "100.127.255.254",
        "169.254.170.2",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:a9fe:a9fe::",
        "2001:0:7f00:1:0:0:80ff:fffe",
        "2001:db8::1",
        "fc00::1",
        "fdff:ffff::1",
        "febf::1",
        "ff0e::1",
        "100::1",
    ],
)
def test_addresses_that_are_not_public_are_out_of_reach(address: str) -> None:
    assert not AllowedNetworks().permits(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_public_addresses_are_within_reach(address: str) -> None:
    assert AllowedNetworks().permits(ipaddress.ip_address(address))


def test_a_name_that_has_a_private_address_beside_a_public_one_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in ("93.184.215.14", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(InvalidInput, match="may not be called"):
        webhooks.post("https://two.example/", b"", {}, AllowedNetworks())


def test_plain_http_stays_inside_what_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)
    with pytest.raises(InvalidInput, match="TLS"):
        webhooks.post("http://public.example/", b"", {}, AllowedNetworks())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://a.example/",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://user:secret@a.example/",
        "https://a.example/\r\nX: y",
        "https://a.example/ b",
        "https://a.example:99999/",
        "https://a.example\\@b.example/",
        "https://ä.example/",
        "https://[::1/",
        "https://a..b/",
        "https://.a.example/",
        f"https://{'a' * 64}.example/",
        "https://a.example/" + "x" * 2000,
    ],
)
def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        validate_url(url)


@pytest.mark.parametrize("url", ["https://a.example/", "https://a.example./", f"https://{'a' * 63}/", "https://[::1]/"])
def test_a_host_name_within_its_bounds_is_accepted(url: str) -> None:
    validate_url(url)


class Failing:
    """An outbox that records failed tries."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, datetime | None]] = []

    def failed(self, _: Delivery, problem: str, *, again_at: datetime | None) -> None:
        self.failures.append((problem, again_at))


@pytest.mark.parametrize("error", [UnicodeError("label empty"), ValueError("a port"), RuntimeError("a defect")])
def test_a_try_that_fails_unexpectedly_is_counted_so_that_the_tries_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    outbox = Failing()
    delivery = Delivery(1, "app-1", "https://a.example/", {"data": {"instance": "a"}}, MOST_TRIES)
    Webhooks(outbox, Home(tmp_path), AllowedNetworks()).deliver(delivery)  # type: ignore[arg-type]
    assert outbox.failures == [(str(error), None)]
