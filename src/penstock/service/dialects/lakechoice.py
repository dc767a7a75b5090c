"""Which lake an application reads, by what its body says of stores. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import InvalidInput
from penstock.lake.model import Credentials, Lake
from penstock.service.dialects.addresses import CosAddress
from penstock.service.dialects.stores import Store


@dataclass(frozen=True)
class Choice:
    """`keys` came with the body: to be compared with the lake's own, or kept where secrets are, before it is used."""

    lake: Lake
    keys: Credentials | None = None


def choose(stores: Mapping[str, Store], addresses: Sequence[CosAddress], lakes: Sequence[Lake], home: Lake) -> Choice:
    """`lakes` are those known here, `home` the instance's own or the default one.

    Only stores an administrator has registered are opened: a body could otherwise have the engine call any address.
    Raises `InvalidInput` for another store, or for more than one.
    """
    buckets: dict[str, str] = {}
    for address in addresses:
        buckets.setdefault(address.service, address.bucket)
    # The services of addresses first, the application's own before all: its lake is the application's.
    found = [
        _lake_of(name, buckets.get(name), stores.get(name, Store()), lakes, home)
        for name in dict.fromkeys([*buckets, *stores])
    ]
    keys = {store.keys for store in stores.values() if store.keys}
    if len(keys) > 1 or len({lake.endpoints for lake in found}) > 1:
        raise InvalidInput(
            "The body names more than one store",
            why="an application reads one store, with one pair of keys",
            fix="copy what it needs into one lake, or run one application for each",
        )
    return Choice(found[0] if found else home, next(iter(keys), None))


def _lake_of(name: str, bucket: str | None, store: Store, lakes: Sequence[Lake], home: Lake) -> Lake:
    if store.endpoint is None:
        return min(
            (lake for lake in lakes if _fit(lake, name, bucket) < _ANY), key=_order(name, bucket, home), default=home
        )
    host = _host(store.endpoint)
    known = [lake for lake in lakes if host in map(_host, lake.endpoints)]
    if not known:
        raise InvalidInput(
            f"The store “{name or 's3a'}” is not known here",
            why=f"no lake has the endpoint {host}",
            fix="have an administrator add it: "
            f"penstock lake add {name or 'NAME'} --endpoint https://{host} --bucket {bucket or 'BUCKET'}",
        )
    return min(known, key=_order(name, bucket, home))


_BUCKET, _NAME, _ANY = range(3)


def _fit(lake: Lake, name: str, bucket: str | None) -> int:
    if lake.bucket == bucket:
        return _BUCKET
    return _NAME if name in (lake.bucket, lake.name) else _ANY


def _order(name: str, bucket: str | None, home: Lake) -> Callable[[Lake], tuple[int, bool, str]]:
    """Of lakes that fit as well, the home; then the first by name: one with other keys is named after its original."""
    return lambda lake: (_fit(lake, name, bucket), lake.name != home.name, lake.name)


def _host(endpoint: str) -> str:
    """Host and port, as bodies give them with a scheme or without; never the password an address may hold."""
    return endpoint.strip().lower().rpartition("://")[2].rpartition("@")[2].rstrip("/")
