"""The environment of a run: a home with its services, faulty gateways before its lake, and access past them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.chaos.disk import SmallDisk
from benchmarks.chaos.gateways import Gateway
from penstock.catalog.database import Database
from penstock.clusters import machine
from penstock.engine.installation import Installation
from penstock.home import Home
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.lake.s3 import s3_client
from penstock.lake.stores import ensure_running

LAKE = "chaos"
"""The lake as applications see it: the same bucket, behind the faulty gateways."""

_LEAST_GATEWAYS = 2


@dataclass(frozen=True)
class Environment:
    home: Home
    store: Lake
    """The lake itself."""
    credentials: Credentials
    gateways: tuple[Gateway, ...]
    record: Path
    """File of all faults, a line of JSON each."""
    disk: SmallDisk | None = None

    def client(self) -> Any:
        return s3_client(self.store, self.credentials, self.store.endpoints[0])

    def restore(self) -> None:
        """Heal the gateways, and start the store and the database where they are down."""
        for gateway in self.gateways:
            gateway.heal()
        ensure_running(self.home, self.store)
        Database(self.home).up()


@contextlib.contextmanager
def own_home(directory: Path) -> Iterator[Home]:
    """A home for this run alone; afterwards its services are stopped and its page cache is removed."""
    home = Home(directory)
    installation = Installation(home)
    home.create()
    try:
        yield home
    finally:
        list(installation.down())
        machine.remove_tiers(machine.page_cache(home))


@contextlib.contextmanager
def existing_home(directory: Path) -> Iterator[Home]:
    """An existing home with a lake; nothing of it is removed."""
    yield Home(directory.absolute())


@contextlib.contextmanager
def on(home: Home, directory: Path, *, lake: str | None, disk_megabytes: int = 0) -> Iterator[Environment]:
    """Start the faulty gateways of a run, with the record of faults in `directory`.

    With `disk_megabytes` the home's applications are on a disk of that size.
    """
    installation = Installation(home)
    default = installation.lake_up()
    store = Lakes(home).get(lake) if lake else default
    installation.catalog_up()
    credentials = Lakes(home).credentials_of(store)
    record = directory / "faults.jsonl"
    with contextlib.ExitStack() as stack:
        disk = None
        if disk_megabytes:
            disk = stack.enter_context(SmallDisk(home.applications, megabytes=disk_megabytes))
        upstreams = [urlsplit(endpoint).netloc for endpoint in store.endpoints]
        gateways = []
        for number in range(max(_LEAST_GATEWAYS, len(upstreams))):
            gateway = Gateway(f"g{number}", upstreams[number % len(upstreams)], record)
            stack.callback(gateway.close)
            gateways.append(gateway)
        faulty = replace(store, name=LAKE, kind="external", sts=None, endpoints=tuple(one.endpoint for one in gateways))
        Lakes(home).add(faulty, credentials)
        stack.callback(Lakes(home).remove, LAKE)
        yield Environment(home, store, credentials, tuple(gateways), record, disk)
