"""The stores that this machine runs itself, for whoever starts, stops or lists them without asking which they are."""

from __future__ import annotations

from typing import Protocol

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.base import Lake
from penstock.lake.registry import EMBEDDED, Lakes

_COMMANDS = {EMBEDDED: "penstock lake", "ceph": "penstock lake ceph", "hdfs": "penstock lake hdfs"}


class LocalStore(Protocol):
    """One store of one home. Every method may be called by several processes at once."""

    def ensure(self, name: str) -> Lake:
        """Its lake of that name, started where it does not run."""

    def ready(self) -> bool:
        """Whether requests would be answered now."""

    def summary(self) -> str | None:
        """A line for people; None where the home has no such store. Nothing is started."""

    def down(self) -> bool:
        """Stop it; the data stay. False where it did not run."""

    def wipe(self) -> None:
        """Stop it and remove its data, outside of the home, too."""


def stores(home: Home) -> dict[str, LocalStore]:
    """By the kind of their lakes, those a home does not have included."""
    from penstock.lake.ceph.cluster import KIND, Ceph  # noqa: PLC0415  commands that need none start faster
    from penstock.lake.embedded import EmbeddedLake  # noqa: PLC0415
    from penstock.lake.hdfs.cluster import KIND as HDFS  # noqa: PLC0415
    from penstock.lake.hdfs.clusters import HdfsClusters  # noqa: PLC0415

    return {EMBEDDED: EmbeddedLake(home), KIND: Ceph(home), HDFS: HdfsClusters(home)}


def store_of(home: Home, lake: Lake) -> LocalStore | None:
    """None where the lake's store is somebody else's."""
    return stores(home).get(lake.kind)


def require_others(home: Home, name: str) -> None:
    """Raise `InvalidInput` where that is a lake of one of this machine's own stores: it has commands of its own."""
    kinds = {lake.name: lake.kind for lake in Lakes(home).all()}
    kind = EMBEDDED if name == EMBEDDED else kinds.get(name)
    if kind in _COMMANDS:
        raise InvalidInput(
            f"The lake “{name}” belongs to a store of this machine",
            why=f"{_COMMANDS[kind]} up and down start and stop it",
            fix=f"choose another name, or see {_COMMANDS[kind]} --help",
        )


def ensured(home: Home, lake: Lake) -> Lake:
    """The lake as it is now, its store started where it is this machine's and does not run."""
    store = store_of(home, lake)
    return store.ensure(lake.name) if store else lake
