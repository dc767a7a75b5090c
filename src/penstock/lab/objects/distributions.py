"""Choices of numbers in COSBench's notation: `c(5)`, `u(1,100)`, `r(1,100)`, `s(1,100)`, `h(1|64|10,64|512|90)`.

Object sizes, container numbers and object numbers are written alike. Parsing raises `ValueError` with a sentence that
fits behind “because”; who calls knows which option or line it was.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

# Powers of ten, as COSBench has them (its DefaultSizeGenerator): 64KB there are 64 000 bytes.
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
"""Bytes that one PUT may carry: S3's own limit is 5 GiB; multipart uploads are not generated."""


@dataclass(frozen=True)
class Numbers:
    """The numbers `low` to `high`, both included, drawn at random or taken in turn."""

    low: int
    high: int
    in_turn: bool = False

    def __len__(self) -> int:
        return self.high - self.low + 1

    def share(self, index: int, of: int) -> Numbers:
        """Part `index` (from 0) of `of` nearly equal parts; the first ones are longer by one where it does not divide.

        A range with fewer numbers than parts gives some numbers to several parts: nobody is left without work.
        """
        if of > len(self):
            number = self.low + index % len(self)
            return Numbers(number, number, self.in_turn)
        base, extra = divmod(len(self), of)
        low = self.low + base * index + min(index, extra)
        return Numbers(low, low + base + (1 if index < extra else 0) - 1, self.in_turn)


@dataclass(frozen=True)
class Bucket:
    """Sizes `low` to `high` in units, both included; drawn as often as its weight says."""

    low: int
    high: int
    weight: int


@dataclass(frozen=True)
class Sizes:
    """Object sizes: whole multiples of `unit` bytes, uniform within each bucket."""

    buckets: tuple[Bucket, ...]
    unit: int = 1

    @staticmethod
    def constant(size_bytes: int) -> Sizes:
        return Sizes((Bucket(size_bytes, size_bytes, 1),))

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
        """The size in bytes of the object of that name: the same in every process and every repetition.

        COSBench draws a new size for each write instead. Tying it to the name lets a reader know what to expect, and
        over many names gives the same distribution.
        """
        if self.smallest == self.largest:
            return self.smallest
        dice = random.Random(f"{seed}/{name}")  # noqa: S311 - load, not secrecy
        chosen = dice.choices(self.buckets, [bucket.weight for bucket in self.buckets])[0]
        return dice.randint(chosen.low, chosen.high) * self.unit

    def __str__(self) -> str:
        if self.smallest == self.largest:
            return named_size(self.smallest)
        return f"{named_size(self.smallest)} to {named_size(self.largest)}"


def parse_numbers(text: str) -> Numbers:
    """`c(5)`, `u(1,9)` (at random), `r(1,9)`, `s(1,9)` and the old `1-9` (in turn)."""
    found = _NUMBERS.fullmatch(text.strip())
    if not found:
        raise ValueError(f"“{text[:60]}” is none of c(N), u(LOW,HIGH), r(LOW,HIGH), s(LOW,HIGH)")
    low = int(found["low"] or found["from"])
    upper = found["high"] or found["to"]
    if (found["how"] == "c") == bool(upper):
        raise ValueError(f"“{text[:60]}” should be c(N) with one number, or u, r or s with two")
    high = int(upper or low)
    if not 1 <= low <= high:
        raise ValueError(f"“{text[:60]}” does not count up from 1 or more")
    return Numbers(low, high, in_turn=found["how"] != "u")


def parse_sizes(text: str) -> Sizes:
    """`c(64)KB`, `u(1,64)KB`, `h(1|64|10,64|512|90)KB` (from, to, weight); KB, MB and GB are powers of ten here."""
    found = _SIZES.fullmatch(text.strip())
    if not found:
        raise ValueError(
            f"“{text[:60]}” is none of c(N)KB, u(LOW,HIGH)KB, h(LOW|HIGH|WEIGHT,…)KB with the unit B, KB, MB or GB"
        )
    parts = [part.split("|") for part in found["inside"].split(",")]
    if not all(number.isdigit() and len(number) <= 12 for part in parts for number in part):
        raise ValueError(f"“{text[:60]}” lacks a number, or has one that is too long")
    rows = [[int(number) for number in part] for part in parts]
    if found["how"] == "h":
        if any(len(row) != 3 for row in rows):
            raise ValueError(f"each part of “{text[:60]}” should be LOW|HIGH|WEIGHT")
        buckets = tuple(Bucket(*row) for row in rows)
    else:
        if any(len(row) != 1 for row in rows) or len(rows) != (1 if found["how"] == "c" else 2):
            raise ValueError(f"“{text[:60]}” should be c(N) or u(LOW,HIGH)")
        buckets = (Bucket(rows[0][0], rows[-1][0], 1),)
    return checked_sizes(Sizes(buckets, _COSBENCH_UNITS[found["unit"]]))


def checked_sizes(sizes: Sizes) -> Sizes:
    """`ValueError` where a bucket is empty or an object larger than one PUT may be."""
    if any(not 1 <= bucket.low <= bucket.high or bucket.weight < 1 for bucket in sizes.buckets):
        raise ValueError("sizes and weights should be 1 or more and count up")
    if sizes.largest > LARGEST_OBJECT:
        raise ValueError(f"one PUT carries at most {named_size(LARGEST_OBJECT)}")
    return sizes


def named_size(count: int) -> str:
    """Bytes exactly, in the largest unit they are a whole number of: `64 KB`, `1 MiB`, `1500 B`."""
    name, unit = max((pair for pair in _NAMED_UNITS if count % pair[1] == 0), key=lambda pair: pair[1])
    return f"{count // unit} {name}"
