"""The model of a load: sequential stages of concurrent works, whose workers each repeat a mix of operations.

Plain data, as in COSBench. A container is a key prefix in the lake's bucket, not a bucket.

Numbers are in COSBench's notation: `c(5)`, `u(1,100)`, `r(1,100)`, `s(1,100)`, `h(1|64|10,64|512|90)`; object sizes,
container numbers and object numbers alike. Parsing raises `ValueError` with a clause that fits after “because”; the
caller knows the option or line.

The default load without a workload file: prepare objects, then one or more mixes at one or more worker counts.

The contents of an object follow from (seed, object name, object size, offset) alone. One pseudo-random block of a prime
length is repeated, and each object begins at a place in it that its name and size determine. That costs no time per
byte: a PUT sends slices of the block, and a GET is verified by comparing memory with it. It still detects the errors of
a faulty store: another object's bytes, a shortened object (the size is part of the place), bytes moved by any multiple
of a sector, page, part or erasure-code chunk (no power of two below 2^40 is a multiple of the prime), and flipped ones.

Compression gains nothing: the block is random and longer than a compressor's window. Deduplication on fixed boundaries
gains next to nothing; content-defined deduplication would store one block only, and needs another generator.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from penstock import units

# Powers of ten, as in COSBench (its DefaultSizeGenerator): 64KB there are 64 000 bytes.
_COSBENCH_UNITS = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}
_NAMED_UNITS = (
    *(("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)),
    *(("GB", 1000**3), ("MB", 1000**2), ("KB", 1000), ("B", 1)),
)

_NUMBERS = re.compile(
    r"(?:(?P<how>[cusr])\((?P<low>\d{1,9})(?:,(?P<high>\d{1,9}))?\)|(?P<from>\d{1,9})-(?P<to>\d{1,9}))", re.ASCII
)
_SIZES = re.compile(r"(?P<how>[cuh])\((?P<inside>[\d|,]{1,2000})\)(?P<unit>B|KB|MB|GB)", re.ASCII)

LARGEST_OBJECT = 5 * 1000**3
"""The limit of one PUT, in bytes: S3's own is 5 GiB; multipart uploads are not generated."""


@dataclass(frozen=True)
class Numbers:
    """The numbers `low` to `high`, both inclusive, drawn at random or taken in turn."""

    low: int
    high: int
    in_turn: bool = False

    def __len__(self) -> int:
        return self.high - self.low + 1

    def share(self, index: int, of: int) -> Numbers:
        """Return part `index` (from 0) of `of` nearly equal parts; the remainder lengthens the first ones by one.

        A range with fewer numbers than parts gives some numbers to several parts, so that no part is empty.
        """
        if of > len(self):
            number = self.low + index % len(self)
            return Numbers(number, number, self.in_turn)
        base, extra = divmod(len(self), of)
        low = self.low + base * index + min(index, extra)
        return Numbers(low, low + base + (1 if index < extra else 0) - 1, self.in_turn)


@dataclass(frozen=True)
class SizeBucket:
    """Sizes `low` to `high` in units, both inclusive, drawn in proportion to `weight`."""

    low: int
    high: int
    weight: int


@dataclass(frozen=True)
class Sizes:
    """Object sizes: whole multiples of `unit` bytes, uniform within each bucket."""

    buckets: tuple[SizeBucket, ...]
    unit: int = 1

    @staticmethod
    def constant(size_bytes: int) -> Sizes:
        return Sizes((SizeBucket(size_bytes, size_bytes, 1),))

    @property
    def smallest(self) -> int:
        return min(bucket.low for bucket in self.buckets) * self.unit

    @property
    def largest(self) -> int:
        return max(bucket.high for bucket in self.buckets) * self.unit

    @property
    def mean(self) -> float:
        """The expected size in bytes."""
        weights = sum(bucket.weight for bucket in self.buckets)
        return self.unit * sum(b.weight * (b.low + b.high) / 2 for b in self.buckets) / weights

    def of(self, seed: int, name: str) -> int:
        """Return the size in bytes of the object of that name: the same in every process and every repetition.

        COSBench draws a new size for each write instead. A size bound to the name is known to readers, and over many
        names has the same distribution.
        """
        if self.smallest == self.largest:
            return self.smallest
        dice = random.Random(f"{seed}/{name}")  # noqa: S311 - load, not secrecy
        chosen = dice.choices(self.buckets, [bucket.weight for bucket in self.buckets])[0]
        return dice.randint(chosen.low, chosen.high) * self.unit

    def __str__(self) -> str:
        if self.smallest == self.largest:
            return format_size(self.smallest)
        return f"{format_size(self.smallest)} to {format_size(self.largest)}"


def parse_numbers(text: str) -> Numbers:
    """Parse `c(5)`, `u(1,9)` (at random), `r(1,9)`, `s(1,9)` and the old `1-9` (in turn)."""
    found = _NUMBERS.fullmatch(text.strip())
    if not found:
        raise ValueError(f"“{text[:60]}” is not c(N), u(LOW,HIGH), r(LOW,HIGH) or s(LOW,HIGH)")
    low = int(found["low"] or found["from"])
    upper = found["high"] or found["to"]
    if (found["how"] == "c") == bool(upper):
        raise ValueError(f"“{text[:60]}” must be c(N) with one number, or u, r or s with two")
    high = int(upper or low)
    if not 1 <= low <= high:
        raise ValueError(f"“{text[:60]}” is not an ascending range from 1 or more")
    return Numbers(low, high, in_turn=found["how"] != "u")


def parse_sizes(text: str) -> Sizes:
    """Parse `c(64)KB`, `u(1,64)KB`, `h(1|64|10,64|512|90)KB` (from, to, weight); KB, MB, GB are powers of ten."""
    found = _SIZES.fullmatch(text.strip())
    if not found:
        raise ValueError(
            f"“{text[:60]}” is not c(N)KB, u(LOW,HIGH)KB or h(LOW|HIGH|WEIGHT,…)KB with the unit B, KB, MB or GB"
        )
    parts = [part.split("|") for part in found["inside"].split(",")]
    if not all(number.isdigit() and len(number) <= 12 for part in parts for number in part):
        raise ValueError(f"“{text[:60]}” has a number that is missing or too long")
    rows = [[int(number) for number in part] for part in parts]
    if found["how"] == "h":
        if any(len(row) != 3 for row in rows):
            raise ValueError(f"each part of “{text[:60]}” must be LOW|HIGH|WEIGHT")
        buckets = tuple(SizeBucket(*row) for row in rows)
    else:
        if any(len(row) != 1 for row in rows) or len(rows) != (1 if found["how"] == "c" else 2):
            raise ValueError(f"“{text[:60]}” must be c(N) or u(LOW,HIGH)")
        buckets = (SizeBucket(rows[0][0], rows[-1][0], 1),)
    return checked_sizes(Sizes(buckets, _COSBENCH_UNITS[found["unit"]]))


def checked_sizes(sizes: Sizes) -> Sizes:
    """Return the sizes. Raises `ValueError` where a bucket is empty or an object exceeds the limit of one PUT."""
    if any(not 1 <= bucket.low <= bucket.high or bucket.weight < 1 for bucket in sizes.buckets):
        raise ValueError("sizes and weights must be 1 or more, and ranges ascending")
    if sizes.largest > LARGEST_OBJECT:
        raise ValueError(f"one PUT carries at most {format_size(LARGEST_OBJECT)}")
    return sizes


def format_size(count: int) -> str:
    """Format bytes exactly, in the largest unit that divides them: `64 KB`, `1 MiB`, `1500 B`."""
    name, unit = max((pair for pair in _NAMED_UNITS if count % pair[1] == 0), key=lambda pair: pair[1])
    return f"{count // unit} {name}"


class OperationKind(str, Enum):
    PUT = "put"
    GET = "get"
    RANGE = "range"
    LIST = "list"
    DELETE = "delete"


class Division(str, Enum):
    """The dimension that is divided among the workers of a work."""

    NONE = "none"
    CONTAINER = "container"
    OBJECT = "object"


@dataclass(frozen=True)
class Targets:
    """The objects of an operation: `<container prefix><n><suffix>/<object prefix><m><suffix>`."""

    containers: Numbers
    objects: Numbers
    container_prefix: str = "c"
    container_suffix: str = ""
    object_prefix: str = "o"
    object_suffix: str = ""
    division: Division = Division.NONE

    def container(self, number: int) -> str:
        return f"{self.container_prefix}{number}{self.container_suffix}"

    def name(self, container: int, number: int) -> str:
        return f"{self.container(container)}/{self.object_prefix}{number}{self.object_suffix}"

    @property
    def count(self) -> int:
        return len(self.containers) * len(self.objects)

    def share(self, index: int, of: int) -> Targets:
        """Return the targets of worker `index` of `of`."""
        if self.division is Division.OBJECT:
            return replace(self, objects=self.objects.share(index, of))
        if self.division is Division.CONTAINER:
            return replace(self, containers=self.containers.share(index, of))
        return self


@dataclass(frozen=True)
class Operation:
    """One kind of request of a mix.

    `sizes` are those of the written objects; for a GET they may be unknown (None), and the store's size is used.
    With `churn`, PUT and DELETE of one work share their targets, which all exist at its start: a DELETE removes the
    oldest object of the worker's own part, and a PUT first rewrites deleted ones.
    A work that processes each object once uses `names` if there are any, instead of the targets.
    """

    kind: OperationKind
    ratio: float
    targets: Targets
    sizes: Sizes | None = None
    range_bytes: int = 0
    churn: bool = False
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind is OperationKind.RANGE:
            return f"range get {format_size(self.range_bytes)} of {self.sizes}"
        if self.kind in (OperationKind.PUT, OperationKind.GET) and self.sizes:
            return f"{self.kind.value} {self.sizes}"
        return str(self.kind.value)


@dataclass(frozen=True)
class Limit:
    """The end of a work, at the first limit reached. If all are None, it processes each of its objects once."""

    seconds: float | None = None
    operations: int | None = None
    bytes: int | None = None

    @property
    def each_once(self) -> bool:
        return self.seconds is None and self.operations is None and self.bytes is None


@dataclass(frozen=True)
class Work:
    """A number of `workers`, each with at most one request in flight.

    Requests started in the first `rampup_seconds` and after the time limit (for `rampdown_seconds`) are load that is
    not counted. With `rate` (operations per second of all workers), requests are due on a schedule and their latency
    counts from then, so a store that stalls is charged with the requests that it delayed.
    """

    name: str
    workers: int
    operations: tuple[Operation, ...]
    limit: Limit = Limit()
    rampup_seconds: float = 0.0
    rampdown_seconds: float = 0.0
    rate: float | None = None


@dataclass(frozen=True)
class Stage:
    """Works that run at the same time. `measured` is off where the stage only creates or deletes objects."""

    name: str
    works: tuple[Work, ...]
    pause_seconds: float = 0.0
    measured: bool = True

    @property
    def workers(self) -> int:
        return sum(work.workers for work in self.works)


@dataclass(frozen=True)
class Workload:
    name: str
    stages: tuple[Stage, ...]

    @property
    def workers(self) -> int:
        """The maximum of requests in flight at once."""
        return max((stage.workers for stage in self.stages), default=0)

    @property
    def written_bytes(self) -> int:
        """The bytes of all objects that may be written, where their sizes are known in advance."""
        largest: dict[tuple[str, str, str, str, int, int, int, int], float] = {}
        for operation in (op for stage in self.stages for work in stage.works for op in work.operations):
            if operation.kind is OperationKind.PUT and operation.sizes:
                t = operation.targets
                key = (
                    *(t.container_prefix, t.container_suffix, t.object_prefix, t.object_suffix),
                    *(t.containers.low, t.containers.high, t.objects.low, t.objects.high),
                )
                largest[key] = max(largest.get(key, 0.0), t.count * operation.sizes.mean)
        return round(sum(largest.values()))


_PREPARE_WORKERS = 16


@dataclass(frozen=True)
class SimpleOptions:
    """Options of the command line. `mixes` run one after another, each with each of `workers`."""

    mixes: tuple[Mapping[OperationKind, float], ...]
    sizes: Sizes
    objects: int
    containers: int
    workers: tuple[int, ...]
    seconds: float
    range_bytes: int
    rampup_seconds: float = 0.0
    rate: float | None = None


def simple_workload(options: SimpleOptions) -> Workload:
    """Return the workload of the options.

    GET, range GET and LIST use one set of objects, PUT and DELETE a second one of the same size. So no GET misses an
    object because of a concurrent DELETE, and a store never holds more than both sets, however long writes go on.
    """
    containers = Numbers(1, options.containers)
    each = -(-options.objects // options.containers)
    read = Targets(containers, Numbers(1, each))
    churned_each = max(each, *options.workers)  # each writer has an object of its own
    churned = Targets(containers, Numbers(1, churned_each), object_prefix="w", division=Division.OBJECT)
    stages: list[Stage] = []
    if {kind for mix in options.mixes for kind in mix} - {OperationKind.PUT, OperationKind.DELETE}:
        stages.append(_prepare("prepare", options, read))
    for mix in options.mixes:
        for workers in options.workers:
            if OperationKind.DELETE in mix:
                stages.append(_prepare("prepare to delete", options, churned))
            stages.append(_main(options, mix, workers, read, churned))
    return Workload("objects", tuple(stages))


def _main(
    options: SimpleOptions, mix: Mapping[OperationKind, float], workers: int, read: Targets, churned: Targets
) -> Stage:
    operations = tuple(
        Operation(
            kind,
            ratio,
            churned if kind in (OperationKind.PUT, OperationKind.DELETE) else read,
            None if kind in (OperationKind.LIST, OperationKind.DELETE) else options.sizes,
            options.range_bytes if kind is OperationKind.RANGE else 0,
            churn=kind in (OperationKind.PUT, OperationKind.DELETE),
        )
        for kind, ratio in mix.items()
    )
    limit = Limit(seconds=options.seconds)
    work = Work("main", workers, operations, limit, rampup_seconds=options.rampup_seconds, rate=options.rate)
    return Stage("main", (work,))


def _prepare(name: str, options: SimpleOptions, targets: Targets) -> Stage:
    put = Operation(OperationKind.PUT, 1.0, targets, options.sizes)
    workers = min(_PREPARE_WORKERS, targets.count)
    return Stage(name, (Work(name, workers, (put,)),), measured=False)


def parse_mix(text: str) -> dict[OperationKind, float]:
    """Parse `get=80,put=15,list=4,delete=1`, or a single kind. Raises `ValueError` with the reason."""
    mix: dict[OperationKind, float] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if name not in [kind.value for kind in OperationKind]:
            raise ValueError(f"“{name}” is not one of {', '.join(kind.value for kind in OperationKind)}")
        ratio = units.parse_number(number) if equals else 1.0
        if ratio is None or not 0 < ratio < 1e9:
            raise ValueError(f"the share of {name} must be a number above zero")
        if OperationKind(name) in mix:
            raise ValueError(f"{name} is given twice")
        mix[OperationKind(name)] = ratio
    return mix


def parse_object_sizes(text: str) -> Sizes:
    """Parse `1m` (powers of two), `4k-1m` (uniform), or COSBench's `c(64)KB`, `u(1,64)KB`, `h(…)KB` (powers of ten)."""
    if "(" in text:
        return parse_sizes(text)
    low, dash, high = text.partition("-")
    found = [units.parse_size(end) for end in ([low, high] if dash else [low])]
    if any(end is None for end in found):
        raise ValueError(f"“{text[:60]}” is not a size such as 64k, 1m, 4k-1m or u(1,64)KB")
    ends: Sequence[int] = [end for end in found if end is not None]
    sizes = Sizes.constant(ends[0])
    if dash:
        sizes = Sizes((replace(sizes.buckets[0], high=ends[1]),))
    return checked_sizes(sizes)


PERIOD = (1 << 20) - 3
"""Length of the repeated block in bytes: the largest prime below 1 MiB, so that it fits into a core's own cache."""

LONGEST_PIECE = PERIOD
"""The longest piece, in bytes, that can be returned or compared at once."""


class Content:
    """The contents of all objects of one seed."""

    def __init__(self, seed: int) -> None:
        block = random.Random(seed).randbytes(PERIOD)  # noqa: S311 - a test pattern
        self.block = block + block
        """The block twice, so that a piece from anywhere in the first is contiguous in memory."""

    @staticmethod
    def place(name: str, size: int) -> int:
        """Return an object's place in the block, below `PERIOD`."""
        digest = hashlib.blake2b(f"{size}/{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % PERIOD

    def piece(self, place: int, offset: int, length: int) -> bytes:
        """Return the bytes [offset, offset + length) of the object at `place`; at most `LONGEST_PIECE`."""
        start = (place + offset) % PERIOD
        return self.block[start : start + length]

    def is_piece(self, place: int, offset: int, data: bytes) -> bool:
        """Return whether `data`, at most `LONGEST_PIECE` long, are the bytes at `offset`; compares without copying."""
        return self.block.startswith(data, (place + offset) % PERIOD)
