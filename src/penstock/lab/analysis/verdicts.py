"""Medians, spreads and ratios of repeated measurements, and comparisons of runs with the first of them.

A ratio is candidate over baseline: below 1 the candidate is faster. Its interval is a percentile bootstrap over the
samples of each arm with a fixed seed, so the same samples always give the same report.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.samples import (
    PER_1000_OPERATIONS,
    PER_GB,
    SECONDS,
    Measure,
    failed_queries,
    measures_by_name,
    natural_key,
)
from penstock.lab.records import Run

RESAMPLES = 2000
CONFIDENCE = 0.95
FEWEST = 3
"""The fewest samples of each arm for an interval: two of each are separated by chance in one case of three."""


@dataclass(frozen=True)
class Spread:
    """The spread of counted samples, in their unit."""

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
    """Candidate over baseline. `interval` is None where an arm has too few samples, so that the noise is unknown."""

    name: str
    baseline: Spread
    candidate: Spread
    ratio: float
    interval: Interval | None
    unit: str = "s"
    """The unit of both sides, of which less is better; empty for a mean over different units."""

    @property
    def verdict(self) -> str:
        if self.interval is None:
            return "noise unknown"
        if self.interval.holds(1.0):
            return "inside the noise"
        return "faster" if self.ratio < 1 else "slower"


def spread(seconds: Sequence[float]) -> Spread:
    """The spread of the samples. Raises `ValueError` without any, since no sample is not zero."""
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
    """Candidate over baseline. Raises `ValueError` where a side has no sample."""
    before, after = spread(baseline), spread(candidate)
    return Ratio(name, before, after, after.median / before.median, ratio_interval(baseline, candidate), unit)


_SAME_AMOUNT = 0.01
"""The relative difference up to which amounts are equal: compressed sizes vary with the order of rows in files."""


@dataclass(frozen=True)
class Comparison:
    baseline: Run
    candidate: Run
    total: Ratio
    """The sum of the parts per round, without those apart; their geometric mean where an amount is the basis."""
    parts: tuple[Ratio, ...]
    only_in_one: tuple[str, ...]
    """Measures that not every run completed successfully; they are in no total."""


def compare_all(runs: Sequence[Run]) -> list[Comparison]:
    """Compare each run with the first, by the measures that all of them completed successfully.

    Raises `ValueError` where there is none.
    """
    baseline, *candidates = runs
    by_run = [measures_by_name(run) for run in runs]
    failed = {query for run in runs for query in failed_queries(run)}
    names = [name for name in by_run[0] if all(name in found for found in by_run) and name not in failed]
    if not names:
        raise ValueError("no measure succeeded in " + ("both runs" if len(runs) == 2 else "all runs"))
    if baseline.of_kind("query"):
        names.sort(key=natural_key)
    bases = {name: basis([found[name] for found in by_run]) for name in names}
    everything = {name for found in by_run for name in found} | failed
    others = tuple(sorted(everything - set(names), key=natural_key))
    before = by_run[0]
    return [
        Comparison(
            baseline,
            candidate,
            total=_total(bases, before, after),
            parts=_parts(bases, before, after),
            only_in_one=others,
        )
        for candidate, after in zip(candidates, by_run[1:], strict=True)
    ]


def basis(sides: Sequence[Measure]) -> str:
    """The basis of a comparison: seconds for the same amount of work, else seconds for a fixed amount, where known.

    Work of fixed time is compared by its amount, and so are arms of different scales.
    """
    if not any(side.fixed_time for side in sides) and _same([side.bytes for side in sides]):
        return SECONDS
    if _all_known(sides, "bytes"):
        return PER_GB
    return PER_1000_OPERATIONS if _all_known(sides, "operations") else SECONDS


def _all_known(sides: Sequence[Measure], amount: str) -> bool:
    return all(getattr(work, amount) > 0 for side in sides for work in side.works)


def _same(amounts: Sequence[float]) -> bool:
    return max(amounts) - min(amounts) <= _SAME_AMOUNT * max(amounts)


def _parts(bases: Mapping[str, str], before: Mapping[str, Measure], after: Mapping[str, Measure]) -> tuple[Ratio, ...]:
    def costs(side: Mapping[str, Measure], name: str) -> list[float]:
        return list(side[name].costs(bases[name]).values())

    return tuple(ratio(name, costs(before, name), costs(after, name), unit) for name, unit in bases.items())


def _total(bases: Mapping[str, str], before: Mapping[str, Measure], after: Mapping[str, Measure]) -> Ratio:
    in_total = {
        name: unit
        for name, unit in bases.items()
        if not (before[name].excluded_from_total or after[name].excluded_from_total)
    }
    bases = in_total or bases
    if len(bases) == 1:
        return _parts(bases, before, after)[0]
    rounds = _rounds(before, bases), _rounds(after, bases)
    if not all(rounds):
        raise ValueError("one run has no round that completed every common measure")
    units = set(bases.values())
    name, over = ("total", math.fsum) if units == {SECONDS} else ("geometric mean", statistics.geometric_mean)
    totals_before, totals_after = ([over(costs) for costs in side] for side in rounds)
    return ratio(name, totals_before, totals_after, units.pop() if len(units) == 1 else "")


def _rounds(measures: Mapping[str, Measure], bases: Mapping[str, str]) -> list[list[float]]:
    """The costs of all measures, for each round that completed all of them."""
    by_name = [measures[name].costs(unit) for name, unit in bases.items()]
    return [[costs[number] for costs in by_name] for number in by_name[0] if all(number in costs for costs in by_name)]
