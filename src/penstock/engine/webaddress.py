"""Web addresses that users give and the engine calls: which may be, and where they may lead. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from penstock.errors import InvalidInput

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_CHARACTERS = 2000
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


NETWORKS_VARIABLE = "PENSTOCK_WEBHOOK_NETWORKS"
"""Names the networks of one's own that webhooks may reach."""


@dataclass(frozen=True)
class Reach:
    """What may be called: every public address over TLS; what `allowed` holds besides, also without TLS."""

    allowed: tuple[Network, ...] = ()

    @staticmethod
    def parse(text: str) -> Reach:
        """Networks with commas between them: `10.1.0.0/16, 127.0.0.1`. Raises `InvalidInput`."""
        try:
            return Reach(tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()))
        except ValueError as error:
            raise InvalidInput(
                "The networks that webhooks may reach are not understood", why=str(error), fix="10.1.0.0/16,127.0.0.1"
            ) from error

    def permits(self, address: Address) -> bool:
        return self.inside(address) or _is_public(address)

    def inside(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.allowed)


def checked_url(url: str) -> SplitResult:
    """The parts of a web address that may be called if what it resolves to may be. Raises `InvalidInput`."""
    fix = "https://host.example/path"
    if len(url) > _MOST_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidInput("That is no web address", why="it is too long, or has characters none has", fix=fix)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidInput("That is no web address", why=str(error), fix=fix) from error
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InvalidInput("That is no web address", why="it does not begin with https:// and a host", fix=fix)
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "A web address must not hold a login", why="it is kept in the records and shown", fix="leave it out"
        )
    return parts


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if within := address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]:
            return _is_public(within)
        if address in _NAT64:
            return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and not address.is_multicast
