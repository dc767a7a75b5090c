"""Statistics of one operation of one work: counts and latencies that add up over workers, processes and repetitions.

Latencies are counted in buckets whose width grows with the value, as in HdrHistogram: any percentile to better than
1 %. Processes, repetitions and reports merge the recorded form (upper bound, count), so no library is used.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_BITS = 7
RELATIVE_ERROR = 1 / (1 << _BITS)
"""A percentile is never below the true one and at most this fraction above it. Values below 256 are exact."""


def bucket_of(value: int) -> int:
    """Return the bucket of a non-negative value: each power of two has 128 buckets of equal width."""
    shift = max(0, value.bit_length() - _BITS - 1)
    return (shift << _BITS) + (value >> shift)


def upper_bound(bucket: int) -> int:
    """Return the largest value of a bucket."""
    shift = max(0, (bucket >> _BITS) - 1)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1


class Histogram:
    """Counts of non-negative integers, here microseconds. Histograms merge without loss."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        self._counts[bucket_of(value)] += 1

    def merge(self, other: Histogram) -> None:
        self._counts.update(other._counts)

    def __len__(self) -> int:
        return self._counts.total()

    def percentile(self, percent: float) -> int:
        """Return the upper bound of the bucket with the value at the nearest rank. Raises `ValueError` where empty."""
        total = len(self)
        if not total:
            raise ValueError("no values")
        # Whole millionths: 99.99 / 100 * 10_000 in floating point is a hair above 9 999, and would be the next rank.
        rank = max(1, -(-round(percent * 1_000_000) * total // 100_000_000))
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return upper_bound(bucket)
        raise AssertionError("the ranks end with the last value")

    def pairs(self) -> list[list[int]]:
        """Return the recorded form: (upper bound, count), ascending."""
        return [[upper_bound(bucket), count] for bucket, count in sorted(self._counts.items())]

    @staticmethod
    def of_pairs(pairs: Iterable[Sequence[int]]) -> Histogram:
        """The inverse of `pairs`."""
        found = Histogram()
        for bound, count in pairs:
            found._counts[bucket_of(bound)] += count
        return found


_SLOWEST = 10
WRONG_CONTENT = "wrong content"
WRONG_LENGTH = "wrong length"
UNFINISHED = "cut off at the end"


@dataclass(frozen=True, order=True)
class SlowRequest:
    """One of the slowest requests. `second` is its end, in seconds since the start of the counted time."""

    total_us: int
    second: float
    name: str
    gateway: str


@dataclass
class OperationStats:
    """Successful requests, and errors by kind.

    `operations`, `bytes` and `seconds` are of the counted time; `late` requests began in it and ended after it: they
    count in the latencies, so that slow requests are not lost, but in no rate. `elapsed` is the last end, in seconds.
    """

    operations: int = 0
    bytes: int = 0
    late: int = 0
    elapsed: float = 0.0
    verified_bytes: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    first_error: dict[str, str] = field(default_factory=dict)
    seconds: dict[int, list[int]] = field(default_factory=dict)
    first_byte: Histogram = field(default_factory=Histogram)
    total: Histogram = field(default_factory=Histogram)
    slowest: list[SlowRequest] = field(default_factory=list)

    def succeeded(self, transferred: int, end: float) -> None:
        self.operations += 1
        self.bytes += transferred
        self.elapsed = max(self.elapsed, end)
        second = self.seconds.setdefault(int(end), [0, 0])
        second[0] += 1
        second[1] += transferred

    def failed(self, kind: str, detail: str) -> None:
        self.errors[kind] += 1
        self.first_error.setdefault(kind, detail)

    def timed(self, total_us: int, first_byte_us: int | None, end: float, name: str, gateway: str) -> None:
        self.total.add(total_us)
        if first_byte_us is not None:
            self.first_byte.add(first_byte_us)
        if len(self.slowest) < _SLOWEST or total_us >= self.slowest[0].total_us:
            self._add_slow(SlowRequest(total_us, round(end, 3), name, gateway))

    def merge(self, other: OperationStats) -> None:
        self.operations += other.operations
        self.bytes += other.bytes
        self.late += other.late
        self.elapsed = max(self.elapsed, other.elapsed)
        self.verified_bytes += other.verified_bytes
        self.errors.update(other.errors)
        self.first_error = {**other.first_error, **self.first_error}
        for number, (operations, count) in other.seconds.items():
            second = self.seconds.setdefault(number, [0, 0])
            second[0] += operations
            second[1] += count
        self.first_byte.merge(other.first_byte)
        self.total.merge(other.total)
        for slow in other.slowest:
            self._add_slow(slow)

    @property
    def wrong(self) -> int:
        """Requests to which the store responded with success but other contents than written."""
        return self.errors[WRONG_CONTENT] + self.errors[WRONG_LENGTH]

    def _add_slow(self, slow: SlowRequest) -> None:
        heapq.heappush(self.slowest, slow)
        if len(self.slowest) > _SLOWEST:
            heapq.heappop(self.slowest)
