"""What a Ceph is made of: how many daemons, on which files, with which pools. Decided here, done elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import InvalidInput
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
