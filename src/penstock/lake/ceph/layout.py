"""The layout of a Ceph cluster (daemons, files and pools), which `bootstrap` creates, and a home's state file.

The state file holds a secret, so it is private like the daemons' keys beside it.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.errors import Conflict, InvalidInput, StateError
from penstock.home import read_json, write_json
from penstock.lake.ceph.configuration import Ports, ceph_conf, daemon_names
from penstock.processes import free_ports
from penstock.units import GIB, MIB

REPLICATED, ERASURE = "replicated", "erasure"
REPLICAS = 3

# Each OSD reserves asynchronous requests of the kernel for each of its three files (fs.aio-max-nr, 65,536 by default).
_MOST_OSDS = 12
MOST_GATEWAYS = 8
_LEAST_OSD_BYTES = 2 * GIB
_MOST_OSD_BYTES = 1024 * GIB
# Metadata is 1/16 of the block file: Ceph advises 1 to 4 % for RocksDB's levels, and compaction needs room as well.
_METADATA_SHARE = 16
_LEAST_METADATA_BYTES = 1 * GIB
_JOURNAL_BYTES = 512 * MIB
# Ceph warns at 85 % of an OSD and blocks writers at 95 %; the quota refuses writes before that.
_FILLED = 0.8
# Replicas or shards of placement groups on each OSD, for each of the two data pools. Ceph advises 100 in total.
_SHARDS_PER_OSD = 32
_MOST_GROUPS = 256


@dataclass(frozen=True)
class Code:
    """An erasure code: objects are cut into `data` chunks plus `parity` more, and survive the loss of `parity` OSDs."""

    data: int
    parity: int

    @staticmethod
    def parse(text: str) -> Code:
        match = re.fullmatch(r"([1-9]\d?)\+([1-9])", text)
        if match is None or int(match[1]) < 2:
            raise InvalidInput(
                f"“{text}” is not an erasure code",
                why="an erasure code is the number of data chunks, at least two, and the number of parity chunks",
                fix="--erasure 4+2",
            )
        return Code(int(match[1]), int(match[2]))

    @property
    def width(self) -> int:
        return self.data + self.parity

    def __str__(self) -> str:
        return f"{self.data}+{self.parity}"


@dataclass(frozen=True)
class Placement:
    """The protection of a bucket's data. S3 clients choose it by `name`: `LocationConstraint=":name"`."""

    kind: str
    name: str
    pool: str
    protection: str
    raw_factor: float
    """Raw bytes for each byte stored."""


@dataclass(frozen=True)
class Pool:
    name: str
    groups: int
    code: Code | None = None
    """The erasure code; None for a replicated pool."""


@dataclass(frozen=True)
class Device:
    """A file that an OSD uses as a disk."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Layout:
    """Decisions made when a cluster is created, of which only `gateways` may change later.

    Directories are absolute; None means the home itself.
    """

    osds: int
    gateways: int
    default: str
    """The kind of placement for buckets that name none: `replicated` or `erasure`."""
    code: Code
    osd_bytes: int
    data_directory: Path | None = None
    metadata_directory: Path | None = None

    @staticmethod
    def validated(
        *,
        osds: int = 6,
        gateways: int = 2,
        erasure: str | None = None,
        osd_bytes: int = 8 * GIB,
        data_directory: Path | None = None,
        metadata_directory: Path | None = None,
    ) -> Layout:
        """Return a validated layout; raise `InvalidInput` otherwise.

        An `erasure` code, such as `4+2`, also makes erasure coding the default placement; without one, data is
        replicated by default.
        """
        if not REPLICAS <= osds <= _MOST_OSDS:
            raise InvalidInput(
                f"A Ceph cluster cannot have {osds} OSDs",
                why=f"three replicas need {REPLICAS} OSDs; one machine carries at most {_MOST_OSDS}",
                fix="--osds 6",
            )
        if not 1 <= gateways <= MOST_GATEWAYS:
            raise InvalidInput(
                f"A Ceph cluster cannot have {gateways} gateways",
                why=f"one machine carries 1 to {MOST_GATEWAYS} gateways",
                fix="--gateways 2",
            )
        if not _LEAST_OSD_BYTES <= osd_bytes <= _MOST_OSD_BYTES:
            raise InvalidInput(
                "The OSDs' size is out of range",
                why=f"an OSD has {_LEAST_OSD_BYTES // GIB} to {_MOST_OSD_BYTES // GIB} GiB",
                fix="--size 8g; the files are sparse and take only the space that is written",
            )
        code = Code.parse(erasure) if erasure else _usual_code(osds)
        if code.width > osds:
            raise InvalidInput(
                f"The erasure code {code} needs {code.width} OSDs",
                why=f"each chunk of an object is on an OSD of its own, and the cluster has {osds}",
                fix=f"--osds {code.width}" if code.width <= _MOST_OSDS else f"--erasure {_usual_code(osds)}",
            )
        return Layout(
            osds, gateways, ERASURE if erasure else REPLICATED, code, osd_bytes, data_directory, metadata_directory
        )

    def arguments(self) -> dict[str, Any]:
        """The arguments from which `validated` makes this layout."""
        return {
            "osds": self.osds,
            "gateways": self.gateways,
            "erasure": str(self.code) if self.default == ERASURE else None,
            "osd_bytes": self.osd_bytes,
            "data_directory": self.data_directory,
            "metadata_directory": self.metadata_directory,
        }

    @property
    def raw_bytes(self) -> int:
        return self.osds * self.osd_bytes

    def placements(self) -> dict[str, Placement]:
        """The placements by kind, the default first."""
        both = {
            REPLICATED: Placement(
                REPLICATED, "default-placement", "default.rgw.buckets.data", f"{REPLICAS}x", float(REPLICAS)
            ),
            ERASURE: Placement(
                ERASURE, "erasure", "default.rgw.erasure.data", str(self.code), self.code.width / self.code.data
            ),
        }
        return {kind: both[kind] for kind in sorted(both, key=lambda kind: kind != self.default)}

    def pools(self) -> list[Pool]:
        """The gateways' pools, with the gateways' own default names and a fixed number of placement groups.

        Groups are few, because each is peered when its OSDs start, which is most of the start's time on one machine.
        """
        small = (
            ".rgw.root",
            "default.rgw.control",
            "default.rgw.meta",
            "default.rgw.log",
            "default.rgw.buckets.non-ec",
        )
        places = self.placements()
        return [
            *(Pool(name, 4) for name in small),
            Pool("default.rgw.buckets.index", _groups(self.osds, REPLICAS, _SHARDS_PER_OSD // 4)),
            Pool(places[REPLICATED].pool, _groups(self.osds, REPLICAS, _SHARDS_PER_OSD)),
            Pool(places[ERASURE].pool, _groups(self.osds, self.code.width, _SHARDS_PER_OSD), self.code),
        ]

    def quota_bytes(self, placement: Placement) -> int:
        """The quota with which a bucket alone cannot fill the OSDs."""
        return int(self.raw_bytes * _FILLED / placement.raw_factor)

    def devices(self) -> list[Device]:
        """The files of each OSD; metadata has separate files only if it has a separate medium."""
        block = [Device("block", self.osd_bytes)]
        if self.metadata_directory is None:
            return block
        metadata = max(_LEAST_METADATA_BYTES, self.osd_bytes // _METADATA_SHARE)
        return [*block, Device("block.db", metadata), Device("block.wal", _JOURNAL_BYTES)]

    def to_json(self) -> dict[str, Any]:
        places = {"data_directory": self.data_directory, "metadata_directory": self.metadata_directory}
        return {
            **asdict(self),
            "code": str(self.code),
            **{name: str(place) if place else None for name, place in places.items()},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Layout:
        places = {name: Path(value[name]) if value[name] else None for name in ("data_directory", "metadata_directory")}
        return Layout(**{**value, "code": Code.parse(value["code"]), **places})


def _usual_code(osds: int) -> Code:
    return Code(4, 2) if osds >= 6 else Code(2, 1)


def _groups(osds: int, width: int, shards_per_osd: int) -> int:
    """The power of two that gives each OSD about that many shards; CRUSH spreads only powers of two evenly."""
    wanted = max(1, osds * shards_per_osd // width)
    below = 1 << (wanted.bit_length() - 1)
    return min(_MOST_GROUPS, below if wanted / below < 1.5 else 2 * below)


LAKE = "ceph"
_FILE = "state.json"


@dataclass(frozen=True)
class CephState:
    """The recorded state of a home's Ceph cluster."""

    fsid: str
    layout: Layout
    ports: Ports
    quotas: Mapping[str, int]
    """Placement's kind → quota of its bucket, in bytes."""
    sts_key: str = field(repr=False)
    made: bool = False
    """True once the creation completed; an incomplete cluster holds no data and is created again."""

    @staticmethod
    def new(layout: Layout, quota_bytes: int | None) -> CephState:
        monitor, *gateways = free_ports(1 + layout.gateways)
        quotas = {kind: quota_bytes or layout.quota_bytes(placement) for kind, placement in layout.placements().items()}
        # The gateways read the AES-128 key as sixteen printable characters from a line of text.
        return CephState(str(uuid.uuid4()), layout, Ports(monitor, tuple(gateways)), quotas, secrets.token_hex(8))

    @staticmethod
    def load(directory: Path) -> CephState | None:
        value = read_json(directory / _FILE)
        if value is None:
            return None
        try:
            return CephState(
                **{**value, "layout": Layout.from_json(value["layout"]), "ports": Ports.from_json(value["ports"])}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{directory / _FILE} is damaged",
                why=f"it does not describe a Ceph cluster ({type(error).__name__}: {error})",
                fix=f"restore it from a copy; without it the data below {directory} cannot be found",
            ) from error

    def store(self, directory: Path) -> None:
        layout, ports = self.layout.to_json(), self.ports.to_json()
        write_json(directory / _FILE, {**self.__dict__, "layout": layout, "ports": ports})

    def daemons(self) -> list[str]:
        return daemon_names(osds=self.layout.osds, gateways=self.layout.gateways)

    def configuration(self) -> str:
        return ceph_conf(fsid=self.fsid, ports=self.ports, sts_key=self.sts_key)

    def lakes(self) -> dict[str, str]:
        """Lake name → its placement's kind; the default lake is simply “ceph”. Each bucket has its lake's name."""
        first, second = self.layout.placements()
        return {LAKE: first, f"{LAKE}-{second}": second}

    def device_directories(self, directory: Path) -> dict[str, Path]:
        """Device name → directory of the OSDs' files; outside the home, a subdirectory unique to this cluster."""
        own = f"penstock-ceph-{self.fsid}"
        data, metadata = self.layout.data_directory, self.layout.metadata_directory
        at_data = data / own if data else directory / "devices"
        at_metadata = metadata / own if metadata else at_data
        return {device.name: at_data if device.name == "block" else at_metadata for device in self.layout.devices()}

    def resumed(self, requested: Mapping[str, Any]) -> CephState:
        """The state with the requested number of gateways; raises `Conflict` if any other argument differs."""
        have = self.layout.arguments()
        differing = sorted(name for name, value in requested.items() if value != have[name] and name != "gateways")
        if differing:
            differences = ", ".join(
                f"{name.replace('_', ' ')}: {have[name]}, not {requested[name]}" for name in differing
            )
            raise Conflict(
                "This home already has a Ceph cluster with another layout",
                why=differences,
                fix="penstock lake ceph up without these options resumes it; penstock lake ceph wipe removes it with "
                "its data. Both placements exist in any case: penstock lake list",
            )
        layout = Layout.validated(**{**have, "gateways": requested.get("gateways", have["gateways"])})
        additional = layout.gateways - len(self.ports.gateways)
        gateways = (*self.ports.gateways, *free_ports(max(additional, 0)))[: layout.gateways]
        return replace(self, layout=layout, ports=replace(self.ports, gateways=gateways))
