"""Latencies in buckets whose width grows with the value, as in HdrHistogram: any percentile to better than 1 %.

Kept here rather than taken from a library, since the records' own form (upper bound, count) is what processes,
repetitions and reports merge; the bucket arithmetic below is all there is to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

_BITS = 7
RELATIVE_ERROR = 1 / (1 << _BITS)
"""A percentile is never below the true one and at most this fraction above it. Values below 256 are exact."""


def bucket_of(value: int) -> int:
    """The number of the bucket a non-negative value falls into: each power of two has 128 buckets of equal width."""
    shift = max(0, value.bit_length() - _BITS - 1)
    return (shift << _BITS) + (value >> shift)


def upper_bound(bucket: int) -> int:
    """The largest value of that bucket."""
    shift = max(0, (bucket >> _BITS) - 1)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1


class Histogram:
    """Counts of non-negative whole numbers, here microseconds. Two of them add up without loss."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        self._counts[bucket_of(value)] += 1

    def merge(self, other: Histogram) -> None:
        self._counts.update(other._counts)

    def __len__(self) -> int:
        return self._counts.total()

    def percentile(self, percent: float) -> int:
        """The upper bound of the bucket that holds the value at that rank (nearest rank); `ValueError` where empty."""
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
        """As recorded: (upper bound, count), ascending."""
        return [[upper_bound(bucket), count] for bucket, count in sorted(self._counts.items())]

    @staticmethod
    def of_pairs(pairs: Iterable[Sequence[int]]) -> Histogram:
        """The inverse of `pairs`."""
        found = Histogram()
        for bound, count in pairs:
            found._counts[bucket_of(bound)] += count
        return found
