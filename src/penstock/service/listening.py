"""Listening addresses and certificates, and the refusal of unsafe ones."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.errors import InvalidInput, MissingRequirement
from penstock.formats import url_host

PORT = 8440
GRACE_SECONDS = 10
_BACKLOG = 512
_LAST_PORT = 65535


@dataclass(frozen=True)
class Listening:
    """An address to listen on. `certificate` and `key` are PEM files; both or neither."""

    host: str = "127.0.0.1"
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None

    @property
    def public(self) -> bool:
        """True if other machines may be able to connect; a host name counts as public, except localhost."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{url_host(self.host)}:{self.port}"


def spark_pages_listening(listening: Listening, port: int | None) -> Listening:
    """Return the address of Spark's pages: the service's own with another port, by default the next one.

    Raises `InvalidInput` for the service's own port, and for one that does not exist.
    """
    found = replace(listening, port=listening.port + 1 if port is None else port)
    if found.port == listening.port or found.port > _LAST_PORT:
        raise InvalidInput(
            f"Spark's pages cannot be served on port {found.port}",
            why="they run users' code and need an origin, and so a port, of their own",
            fix="choose another port: --spark-ui-port N",
        )
    return found


def refuse_unsafe(listening: Listening, *, has_tokens: bool) -> None:
    """Raise `InvalidInput` for an address that exposes the service, `MissingRequirement` for a missing TLS file."""
    if (listening.certificate is None) != (listening.key is None):
        raise InvalidInput("TLS needs two files", why="one of the two is missing", fix="--tls-cert FILE --tls-key FILE")
    for path in (listening.certificate, listening.key):
        if path is not None and not path.is_file():
            raise MissingRequirement(f"There is no file {path}", why="TLS needs it", fix=f"ls -l '{path.parent}'")
    if listening.key is not None and listening.key.stat().st_mode & 0o007:
        raise InvalidInput(
            "Every user of this machine can access the TLS key",
            why=str(listening.key),
            fix=f"chmod 600 '{listening.key}'",
        )
    if not listening.public:
        return
    if listening.certificate is None:
        raise InvalidInput(
            f"{listening.host} is reachable from outside, and connections would not be encrypted",
            why="tokens would cross the network in plain text",
            fix="--tls-cert FILE --tls-key FILE; or --host 127.0.0.1 behind a TLS proxy on this machine",
        )
    if not has_tokens:
        raise InvalidInput(
            f"{listening.host} is reachable from outside, and there is no token yet",
            why="no client could use the service",
            fix="penstock token create NAME --scope administer",
        )


def bind(listening: Listening, *, port_option: str = "--port") -> socket.socket:
    """Return the listening socket. `port_option` is the command's option for the port.

    Raises `MissingRequirement` where the port is taken, or the address is not one of this machine's.
    """
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        listener = socket.create_server((listening.host, listening.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise MissingRequirement(
            f"Port {listening.port} is taken" if taken else f"{listening.host} cannot be listened on",
            why=error.strerror or str(error),
            fix=f"choose another: {port_option} N; ss -ltnp 'sport = :{listening.port}' shows the process that has it"
            if taken
            else "--host 127.0.0.1 for this machine only",
        ) from error
    # Accepted connections inherit it. asyncio sets it only on sockets that name their protocol, which these do not; a
    # response in two writes would wait 40 ms for the client to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
