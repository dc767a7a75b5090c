"""The layout of a Ceph: daemons, files and pools, decided here and made elsewhere; and the state file of a home.

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
from penstock.lake.ceph.configuration import Ports, ceph_conf, names
from penstock.processes import free_ports
from penstock.units import GIB, MIB

REPLICATED, ERASURE = "replicated", "erasure"
REPLICAS = 3

# Each OSD reserves asynchronous requests of the kernel for each of its three files (fs.aio-max-nr, 65,536 by default).
_MOST_OSDS = 12
MOST_GATEWAYS = 8
_LEAST_OSD_BYTES = 2 * GIB
_MOST_OSD_BYTES = 1024 * GIB
# What RocksDB's levels need beside a block file of this size, by Ceph's own advice (1 to 4 %), with room to compact.
_METADATA_SHARE = 16
_LEAST_METADATA_BYTES = 1 * GIB
_JOURNAL_BYTES = 512 * MIB
# Ceph warns at 85 % of an OSD and refuses to write at 95 %, by letting writers wait: a quota refuses before.
_FILLED = 0.8
# Replicas or shards of placement groups on each OSD, for each of the two pools of data. Ceph advises 100 in all.
_SHARDS_PER_OSD = 32
_MOST_GROUPS = 256


@dataclass(frozen=True)
class Code:
    """An erasure code: objects are cut in `data` chunks, with `parity` more, and survive the loss of that many OSDs."""

    data: int
    parity: int

    @staticmethod
    def parse(text: str) -> Code:
        match = re.fullmatch(r"([1-9]\d?)\+([1-9])", text)
        if match is None or int(match[1]) < 2:
            raise InvalidInput(
                f"“{text}” is not an erasure code",
                why="it is the number of data chunks, at least two, and that of parity chunks",
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
    """How a bucket's data is kept. `name` is what S3 clients say: `LocationConstraint=":name"`."""

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
    """None where it is replicated."""


@dataclass(frozen=True)
class Device:
    """A file that an OSD takes for a disk."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Layout:
    """What is settled when a Ceph is made and stays so; directories are absolute, None means the home itself."""

    osds: int
    gateways: int
    default: str
    """`replicated` or `erasure`: what buckets are that do not say."""
    code: Code
    osd_bytes: int
    data_directory: Path | None = None
    metadata_directory: Path | None = None

    @staticmethod
    def checked(
        *,
        osds: int = 6,
        gateways: int = 2,
        erasure: str | None = None,
        osd_bytes: int = 8 * GIB,
        data_directory: Path | None = None,
        metadata_directory: Path | None = None,
    ) -> Layout:
        """`erasure`, such as `4+2`, is also the default placement; without it data is replicated by default."""
        if not REPLICAS <= osds <= _MOST_OSDS:
            raise InvalidInput(
                f"A Ceph of {osds} OSDs cannot be had",
                why=f"three replicas need {REPLICAS} OSDs; one machine carries at most {_MOST_OSDS}",
                fix="--osds 6",
            )
        if not 1 <= gateways <= MOST_GATEWAYS:
            raise InvalidInput(
                f"A Ceph with {gateways} gateways cannot be had",
                why=f"it has 1 to {MOST_GATEWAYS} of them on one machine",
                fix="--gateways 2",
            )
        if not _LEAST_OSD_BYTES <= osd_bytes <= _MOST_OSD_BYTES:
            raise InvalidInput(
                "The OSDs' size cannot be that",
                why=f"an OSD has {_LEAST_OSD_BYTES // GIB} to {_MOST_OSD_BYTES // GIB} GiB",
                fix="--size 8g; the files are sparse, they take what is written",
            )
        code = Code.parse(erasure) if erasure else _usual_code(osds)
        if code.width > osds:
            raise InvalidInput(
                f"The erasure code {code} needs {code.width} OSDs",
                why=f"each chunk of an object is on an OSD of its own, and there are {osds}",
                fix=f"--osds {code.width}" if code.width <= _MOST_OSDS else f"--erasure {_usual_code(osds)}",
            )
        return Layout(
            osds, gateways, ERASURE if erasure else REPLICATED, code, osd_bytes, data_directory, metadata_directory
        )

    def arguments(self) -> dict[str, Any]:
        """What `checked` makes this layout of."""
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
        """By kind, the default first."""
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
        """The gateways' pools, under the names that they would make them by, with a fixed number of placement groups.

        Few of them: each group is peered when its OSDs start, which on one machine is most of the time to start.
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
        """What a bucket may hold so that it alone cannot fill the OSDs."""
        return int(self.raw_bytes * _FILLED / placement.raw_factor)

    def devices(self) -> list[Device]:
        """Of each OSD. Its metadata are on files of their own only where these are on a medium of their own."""
        block = [Device("block", self.osd_bytes)]
        if self.metadata_directory is None:
            return block
        metadata = max(_LEAST_METADATA_BYTES, self.osd_bytes // _METADATA_SHARE)
        return [*block, Device("block.db", metadata), Device("block.wal", _JOURNAL_BYTES)]

    def as_json(self) -> dict[str, Any]:
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
    """A power of two, as CRUSH spreads evenly only those: the nearest that gives each OSD about so many shards."""
    wanted = max(1, osds * shards_per_osd // width)
    below = 1 << (wanted.bit_length() - 1)
    return min(_MOST_GROUPS, below if wanted / below < 1.5 else 2 * below)


LAKE = "ceph"
_FILE = "state.json"


@dataclass(frozen=True)
class State:
    fsid: str
    layout: Layout
    ports: Ports
    quotas: Mapping[str, int]
    """Placement's kind → what its bucket may hold, in bytes."""
    sts_key: str = field(repr=False)
    made: bool = False
    """Whether it was ever complete. One that was not holds nothing, and is made anew."""

    @staticmethod
    def new(layout: Layout, quota_bytes: int | None) -> State:
        monitor, *gateways = free_ports(1 + layout.gateways)
        quotas = {kind: quota_bytes or layout.quota_bytes(placement) for kind, placement in layout.placements().items()}
        # AES-128 of sixteen printable characters: what the gateways read from a line of text.
        return State(str(uuid.uuid4()), layout, Ports(monitor, tuple(gateways)), quotas, secrets.token_hex(8))

    @staticmethod
    def load(directory: Path) -> State | None:
        value = read_json(directory / _FILE)
        if value is None:
            return None
        try:
            return State(
                **{**value, "layout": Layout.from_json(value["layout"]), "ports": Ports.from_json(value["ports"])}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{directory / _FILE} is damaged",
                why=f"it does not describe a Ceph ({type(error).__name__}: {error})",
                fix=f"bring it back from a copy; without it the data below {directory} cannot be found",
            ) from error

    def store(self, directory: Path) -> None:
        layout, ports = self.layout.as_json(), self.ports.as_json()
        write_json(directory / _FILE, {**self.__dict__, "layout": layout, "ports": ports})

    def daemons(self) -> list[str]:
        return names(osds=self.layout.osds, gateways=self.layout.gateways)

    def configuration(self) -> str:
        return ceph_conf(fsid=self.fsid, ports=self.ports, sts_key=self.sts_key)

    def lakes(self) -> dict[str, str]:
        """The lake's name → its placement's kind: the default one is simply “ceph”. Their buckets have their names."""
        first, second = self.layout.placements()
        return {LAKE: first, f"{LAKE}-{second}": second}

    def device_directories(self, directory: Path) -> dict[str, Path]:
        """Where each of an OSD's files is; outside of the home below a name that no other Ceph has."""
        own = f"penstock-ceph-{self.fsid}"
        data, metadata = self.layout.data_directory, self.layout.metadata_directory
        at_data = data / own if data else directory / "devices"
        at_metadata = metadata / own if metadata else at_data
        return {device.name: at_data if device.name == "block" else at_metadata for device in self.layout.devices()}

    def resumed(self, asked: Mapping[str, Any]) -> State:
        """The state with what was asked for and can be changed; `Conflict` where it is something that cannot."""
        have = self.layout.arguments()
        differing = sorted(name for name, value in asked.items() if value != have[name] and name != "gateways")
        if differing:
            told = ", ".join(f"{name.replace('_', ' ')}: {have[name]}, not {asked[name]}" for name in differing)
            raise Conflict(
                "There is a Ceph here already, and it is another",
                why=told,
                fix="penstock lake ceph up without these options resumes it; penstock lake ceph wipe removes it with "
                "its data. Both placements are there in any case: penstock lake list",
            )
        layout = Layout.checked(**{**have, "gateways": asked.get("gateways", have["gateways"])})
        lacking = layout.gateways - len(self.ports.gateways)
        gateways = (*self.ports.gateways, *free_ports(max(lacking, 0)))[: layout.gateways]
        return replace(self, layout=layout, ports=replace(self.ports, gateways=gateways))
