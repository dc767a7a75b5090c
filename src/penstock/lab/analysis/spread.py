"""Medians, spreads and ratios of repeated measurements.

A ratio is always candidate over baseline: below 1 the candidate is faster. Its interval is a percentile bootstrap
over the samples of each arm with a fixed seed, so the same samples always give the same report.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000
CONFIDENCE = 0.95
FEWEST = 3
"""Samples of each arm below which no interval is given: two of each lie apart by chance in one case of three."""


@dataclass(frozen=True)
class Spread:
    """Of counted and successful repetitions only; in the unit of the samples, seconds where nothing else is said."""

    count: int
    median: float
    low: float
    high: float
    quartile_low: float
    quartile_high: float


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Ratio:
    """Candidate over baseline. `interval` is None where an arm has too few samples: nothing is known of the noise."""

    name: str
    baseline: Spread
    candidate: Spread
    ratio: float
    interval: Interval | None
    unit: str = "s"
    """What both sides are in; less is better. Empty for a mean over different units."""

    @property
    def verdict(self) -> str:
        if self.interval is None:
            return "noise unknown"
        if self.interval.holds(1.0):
            return "inside the noise"
        return "faster" if self.ratio < 1 else "slower"


def spread(seconds: Sequence[float]) -> Spread:
    """Raises `ValueError` on an empty sequence: no sample is not a sample of zero."""
    if not seconds:
        raise ValueError("no samples")
    quartiles = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
    return Spread(len(seconds), statistics.median(seconds), min(seconds), max(seconds), quartiles[0], quartiles[2])


def ratio_interval(baseline: Sequence[float], candidate: Sequence[float], *, seed: int = 1) -> Interval | None:
    """The bootstrap interval of median(candidate) / median(baseline); None below `FEWEST` samples of either."""
    if min(len(baseline), len(candidate)) < FEWEST:
        return None
    dice = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    ratios = sorted(
        statistics.median(dice.choices(candidate, k=len(candidate)))
        / statistics.median(dice.choices(baseline, k=len(baseline)))
        for _ in range(RESAMPLES)
    )
    tail = (1 - CONFIDENCE) / 2
    return Interval(ratios[round(tail * (RESAMPLES - 1))], ratios[round((1 - tail) * (RESAMPLES - 1))])


def ratio(name: str, baseline: Sequence[float], candidate: Sequence[float], unit: str = "s") -> Ratio:
    """Raises `ValueError` where a side has no sample."""
    before, after = spread(baseline), spread(candidate)
    return Ratio(name, before, after, after.median / before.median, ratio_interval(baseline, candidate), unit)
