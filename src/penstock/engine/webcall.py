"""Calling a web address that a user gave, so that it leads nowhere else than where it was judged to lead.

A name is resolved once, every address it has is judged, and the connection goes to the very address that was judged: a
name that answers something else the second time (DNS rebinding) gains nothing. Redirects are not followed.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping

from penstock.engine.webaddress import NETWORKS_VARIABLE, Address, Reach, checked_url
from penstock.errors import InvalidInput

_SECONDS = 10.0
_MOST_SECONDS = 20.0
"""For all of it: who sends a byte now and then does not hold us for ever."""


def post(url: str, body: bytes, headers: Mapping[str, str], reach: Reach) -> int:
    """The status of the answer to `body`, sent as JSON.

    Raises `InvalidInput` where the address leads to where it may not, `OSError` where nobody answers in time.
    """
    parts = checked_url(url)
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
            raise OSError(f"its answer is not HTTP ({type(error).__name__})") from error
        finally:
            end.cancel()


def _resolved(host: str, port: int, reach: Reach) -> Address:
    found = [
        ipaddress.ip_address(str(sockaddr[0]).partition("%")[0])
        for *_, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]
    # All of them: which one is taken is not for who answers for the name to choose.
    if not found or not all(reach.permits(address) for address in found):
        raise InvalidInput(
            f"{host} may not be called",
            why="it leads to an address that is not public",
            fix=f"an administrator may allow its network: {NETWORKS_VARIABLE}",
        )
    return found[0]


class _Pinned(http.client.HTTPConnection):
    """Connects to `address`, whatever `host` resolves to by now, and expects the certificate of `host`."""

    def __init__(self, host: str, port: int, address: Address, *, tls: bool) -> None:
        super().__init__(host, port, timeout=_SECONDS)
        self._address = str(address)
        self._tls = ssl.create_default_context() if tls else None

    def abort(self) -> None:
        """From another thread: what is under way fails at once."""
        with contextlib.suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)
