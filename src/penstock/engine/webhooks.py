"""Webhooks: signed deliveries of state changes, retried with back-off, and kept out of the engine's own network.

A delivery follows the Standard Webhooks specification: headers `webhook-id`, `webhook-timestamp` and
`webhook-signature` (`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`). It is delivered when the receiver
answers 2xx within ten seconds. It may come twice, with the same id; the order of `timestamp` is that of the changes.

A receiver's name is resolved once, all its addresses are checked, and the connection goes to a checked address, which
defeats DNS rebinding (a name that resolves differently the second time). Redirects are not followed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import json
import logging
import os
import secrets
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from penstock.catalog.secrets import secret_store
from penstock.engine.repository.applications import CONNECTION_LOST, now
from penstock.engine.repository.audit import Delivery, Outbox
from penstock.errors import InvalidInput, PenstockError, StateError
from penstock.home import Home, write_once
from penstock.recovery import keep_going

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_CHARACTERS = 2000
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


NETWORKS_VARIABLE = "PENSTOCK_WEBHOOK_NETWORKS"
"""The variable with the private networks that webhooks may reach."""


@dataclass(frozen=True)
class AllowedNetworks:
    """The addresses that may be called: every public one over TLS, and those in `allowed`, also without TLS."""

    allowed: tuple[Network, ...] = ()

    @staticmethod
    def parse(text: str) -> AllowedNetworks:
        """Parse networks separated by commas: `10.1.0.0/16, 127.0.0.1`. Raises `InvalidInput`."""
        try:
            return AllowedNetworks(
                tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
            )
        except ValueError as error:
            raise InvalidInput(
                "The networks that webhooks may reach are invalid", why=str(error), fix="10.1.0.0/16,127.0.0.1"
            ) from error

    @staticmethod
    def from_environment() -> AllowedNetworks:
        """The networks in `$PENSTOCK_WEBHOOK_NETWORKS`. Raises `InvalidInput` where it is invalid."""
        return AllowedNetworks.parse(os.environ.get(NETWORKS_VARIABLE, ""))

    def permits(self, address: Address) -> bool:
        return self.inside(address) or _is_public(address)

    def inside(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.allowed)


def validate_url(url: str) -> SplitResult:
    """The parts of a valid web address, whose resolved addresses are still to be checked. Raises `InvalidInput`."""
    fix = "https://host.example/path"
    if len(url) > _MOST_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidInput("That is not a web address", why="it is too long or has invalid characters", fix=fix)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidInput("That is not a web address", why=str(error), fix=fix) from error
    try:
        (parts.hostname or "").encode("idna")
    except UnicodeError as error:
        why = "a part of its host name is empty or longer than 63 characters"
        raise InvalidInput("That is not a web address", why=why, fix=fix) from error
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InvalidInput("That is not a web address", why="it does not begin with https:// and a host", fix=fix)
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "A web address must not hold a login", why="the address is recorded and shown", fix="leave out the login"
        )
    return parts


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if within := address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]:
            return _is_public(within)
        if address in _NAT64:
            return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and not address.is_multicast


_SECONDS = 10.0
_MOST_SECONDS = 20.0
"""The time limit of a whole call, so that a receiver that trickles bytes cannot hold it for ever."""


def post(url: str, body: bytes, headers: Mapping[str, str], reach: AllowedNetworks) -> int:
    """Send `body` as JSON and return the status of the response.

    Raises `InvalidInput` where the address is not permitted, and `OSError` where no response comes in time.
    """
    parts = validate_url(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _resolved(host, port, reach)
    if parts.scheme != "https" and not reach.inside(address):
        raise InvalidInput(f"{host} may only be called over TLS", fix="https://…")
    connection = _Pinned(host, port, address, tls=parts.scheme == "https")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    end = threading.Timer(_MOST_SECONDS, connection.abort)
    end.start()
    with contextlib.closing(connection):
        try:
            connection.request(
                "POST", path, body, {**headers, "content-type": "application/json", "user-agent": "penstock"}
            )
            return connection.getresponse().status
        except http.client.HTTPException as error:
            raise OSError(f"its response is not HTTP ({type(error).__name__})") from error
        finally:
            end.cancel()


def _resolved(host: str, port: int, reach: AllowedNetworks) -> Address:
    found = [
        ipaddress.ip_address(str(sockaddr[0]).partition("%")[0])
        for *_, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]
    # All addresses must be permitted, so that the name's owner cannot choose which of them is called.
    if not found or not all(reach.permits(address) for address in found):
        raise InvalidInput(
            f"{host} may not be called",
            why="it resolves to an address that is not public",
            fix=f"an administrator may allow its network: {NETWORKS_VARIABLE}",
        )
    return found[0]


class _Pinned(http.client.HTTPConnection):
    """A connection to `address`, whatever `host` resolves to by now, that expects the certificate of `host`."""

    def __init__(self, host: str, port: int, address: Address, *, tls: bool) -> None:
        super().__init__(host, port, timeout=_SECONDS)
        self._address = str(address)
        self._tls = ssl.create_default_context() if tls else None

    def abort(self) -> None:
        """Make the call in progress fail at once; for another thread."""
        with contextlib.suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)


KEY_FILE = "webhooks.key"
"""The file in the state directory (`whsec_` and base64) from which the instances' secrets are derived."""

MOST_TRIES = 12

_FIRST = timedelta(seconds=5)
_LONGEST = timedelta(hours=1)
_AT_ONCE = 16
_AT_ONCE_FOR_AN_INSTANCE = 4
_LOOK_SECONDS = 1.0
_PREFIX = "whsec_"
_SHARED_KEY = "webhooks"
"""The name of the same key among the shared secrets."""

_log = logging.getLogger(__name__)


def sign(secret: bytes, delivery_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers that prove the sender and the time of `body` to a receiver. Pure."""
    timestamp = str(int(at.timestamp()))
    signed = b".".join((delivery_id.encode(), timestamp.encode(), body))
    signature = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": delivery_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def next_try(tries: int, at: datetime) -> datetime | None:
    """The time of the next try after that many failures: 5 s later, doubled up to an hour; None for no further try."""
    if tries >= MOST_TRIES:
        return None
    return at + min(_FIRST * (1 << (tries - 1)), _LONGEST)


def signing_secret(home: Home, instance: str) -> bytes:
    """The instance's signing secret: a receiver that knows it can forge nothing for another instance.

    It is derived from one key, created on first use: the one that services share in the database, if they share
    secrets, else the one in the state directory. Raises `StateError` where that file is damaged, and `CatalogError`
    where the database does not answer.
    """
    return hmac.new(_master_secret(home), b"webhooks of " + instance.encode(), hashlib.sha256).digest()


def shown_secret(home: Home, instance: str) -> str:
    """The signing secret in the form that receivers' libraries take: `whsec_` and base64."""
    return _PREFIX + _encoded(signing_secret(home, instance))


def _master_secret(home: Home) -> bytes:
    file = home.root / KEY_FILE
    store = secret_store(home)
    if store is None:
        if not file.exists():
            write_once(file, _PREFIX + _encoded(secrets.token_bytes(32)) + "\n")
        return _in_file(file)
    shared = store.get(_SHARED_KEY)
    content = shared.content if shared else None
    if not content:
        # Receivers from before secrets were shared know the file's key.
        key = _in_file(file) if file.exists() else secrets.token_bytes(32)
        content = store.put_if_absent(_SHARED_KEY, {"key": _encoded(key)})
    return base64.b64decode(content["key"])


def _encoded(secret: bytes) -> str:
    return base64.b64encode(secret).decode()


def _in_file(file: Path) -> bytes:
    try:
        return base64.b64decode(file.read_text(encoding="ascii").strip().removeprefix(_PREFIX), validate=True)
    except (ValueError, binascii.Error) as error:
        raise StateError(
            f"{file} is damaged", why="it holds no secret", fix=f"move it away (mv '{file}' '{file}.damaged')"
        ) from error


class Webhooks:
    """The delivery of the outbox. Any number of processes may deliver at once, each its own share.

    Deliveries run concurrently, and an instance with slow receivers has at most a few in flight, so that those of other
    instances proceed.
    """

    def __init__(self, outbox: Outbox, home: Home, reach: AllowedNetworks) -> None:
        self._outbox = outbox
        self._home = home
        self._reach = reach

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set and the deliveries in flight have finished."""
        under_way: dict[Future[None], str] = {}
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="webhook") as pool:
            keep_going(
                "the delivery of webhooks",
                lambda: self._run(pool, under_way, stop),
                stop,
                log=_log,
                transient=CONNECTION_LOST,
            )

    def _run(self, pool: ThreadPoolExecutor, under_way: dict[Future[None], str], stop: threading.Event) -> None:
        while not stop.is_set():
            for done in [future for future in under_way if future.done()]:
                del under_way[done]
            begun = self._begin_due(pool, under_way)
            if not begun and under_way:
                # A finished delivery frees a slot; new deliveries are looked for in any case.
                wait(under_way, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            elif not begun:
                stop.wait(_LOOK_SECONDS)

    def _begin_due(self, pool: ThreadPoolExecutor, under_way: dict[Future[None], str]) -> bool:
        """Begin due deliveries; return whether there were any."""
        begun = Counter(under_way.values())
        full = [instance for instance, number in begun.items() if number >= _AT_ONCE_FOR_AN_INSTANCE]
        if (room := _AT_ONCE - len(under_way)) <= 0:
            return False
        due = self._outbox.take(now(), limit=min(room, _AT_ONCE_FOR_AN_INSTANCE), without=full)
        for delivery in due:
            under_way[pool.submit(self._deliver, delivery)] = delivery.instance
        return bool(due)

    def _deliver(self, delivery: Delivery) -> None:
        try:
            self.deliver(delivery)
        except (*CONNECTION_LOST, PenstockError) as error:
            _log.warning("the delivery of a webhook failed, retrying later: %s", error)
        except Exception:
            _log.exception("the delivery of a webhook failed, retrying later")

    def deliver(self, delivery: Delivery) -> None:
        """Try the delivery once and record the result."""
        body = json.dumps(delivery.body, separators=(",", ":")).encode()
        at = now()
        headers = sign(signing_secret(self._home, delivery.instance), f"penstock-{delivery.id}", at, body)
        try:
            status = post(delivery.url, body, headers, self._reach)
            problem = "" if 200 <= status < 300 else f"it answered {status}"
        except Exception as error:
            # Any failure counts as a try: one that is not recorded would be repeated every minute for ever.
            if not isinstance(error, (OSError, InvalidInput)):
                _log.exception("the delivery of a webhook failed for an unexpected reason")
            problem = str(error) or type(error).__name__
        if not problem:
            self._outbox.delivered(delivery, at)
        else:
            self._outbox.failed(delivery, problem[:300], again_at=next_try(delivery.tries, at))
