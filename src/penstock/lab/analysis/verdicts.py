"""Medians, spreads and ratios of application runs, and comparisons of arms with the first of them.

A ratio is candidate over baseline: below 1 the candidate is faster. Arms that were measured in turns are paired by
round. Their ratio is the geometric mean of the pairs' ratios; its interval and p-value are those of Student's t for the
mean of the logarithms. `tests/unit/lab/test_calibration.py` holds both to their promise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from penstock.lab.analysis.samples import (
    PER_1000_OPERATIONS,
    PER_GB,
    SECONDS,
    Costs,
    Measure,
    complete_rounds,
    failed_queries,
    measured_in_turns,
    measures_by_name,
    natural_key,
)
from penstock.lab.records import Run

LEVEL = 0.97
"""The nominal level of intervals and tests: above 95 %, so that noise which is not lognormal leaves 95 %."""
FEWEST = 5
"""The fewest rounds for a verdict."""
_FEWEST_FOR_INTERVAL = 3
"""The fewest rounds for an interval: that of two spans a factor of ten at the usual spread."""

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference shown"
TOO_FEW = "too few rounds for a verdict"
NOT_IN_TURNS = "not measured in turns: no verdict"


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
    """Candidate over baseline: the geometric mean over `rounds` pairs.

    Without a pair it is the ratio of the geometric means. `interval` is None with too few pairs.
    """

    name: str
    baseline: Spread
    candidate: Spread
    ratio: float
    interval: Interval | None = None
    unit: str = "s"
    """The unit of both sides, of which less is better; empty for a mean over different units."""
    rounds: int = 0
    error: float = 0.0
    """The standard error of the ratio's logarithm."""
    p_value: float | None = None
    """That of no difference, corrected for the other ratios of its family (`holm`); None without a test."""
    in_turns: bool = True

    @property
    def verdict(self) -> str:
        if not self.in_turns:
            return NOT_IN_TURNS
        if self.p_value is None:
            return TOO_FEW
        if self.p_value > 1 - LEVEL:
            return NO_DIFFERENCE
        return FASTER if self.ratio < 1 else SLOWER


def spread(values: Sequence[float]) -> Spread:
    """The spread of the samples. Raises `ValueError` without any, since no sample is not zero."""
    if not values:
        raise ValueError("no samples")
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(len(values), statistics.median(values), min(values), max(values), quartiles[0], quartiles[2])


def student_p(t: float, degrees: int) -> float:
    """The two-sided p-value of Student's t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for number in range(2 + odd, degrees - 1 + odd, 2):
        term *= (number - 1) / number * cosine**2
        total += term
    if odd:
        return max(0.0, 1 - 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0)))
    return max(0.0, 1 - sine * total)


@cache
def student_quantile(degrees: int) -> float:
    """The t that a share `LEVEL` of the distribution does not exceed in magnitude."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        above = student_p(math.tan(angle) * math.sqrt(degrees), degrees) > 1 - LEVEL
        low, high = (angle, high) if above else (low, angle)
    return math.tan(low) * math.sqrt(degrees)


def ratio(name: str, baseline: Costs, candidate: Costs, unit: str = "s", *, in_turns: bool = True) -> Ratio:
    """Candidate over baseline; a round that only one of them completed is in no pair.

    Raises `ValueError` where a side has no sample.
    """
    before, after = spread(list(baseline.values())), spread(list(candidate.values()))
    pairs = sorted(baseline.keys() & candidate.keys()) if in_turns else []
    count = len(pairs)
    if not count:
        means = [statistics.geometric_mean(side.values()) for side in (candidate, baseline)]
        return Ratio(name, before, after, means[0] / means[1], unit=unit, in_turns=in_turns)
    logs = [math.log(candidate[number] / baseline[number]) for number in pairs]
    mean = math.fsum(logs) / count
    if count < _FEWEST_FOR_INTERVAL:
        return Ratio(name, before, after, math.exp(mean), unit=unit, rounds=count)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (count - 1) / count)
    reach = student_quantile(count - 1) * error
    found = Ratio(
        name,
        before,
        after,
        math.exp(mean),
        Interval(math.exp(mean - reach), math.exp(mean + reach)),
        unit,
        count,
        error,
    )
    return replace(found, p_value=_p_value(found, error)) if count >= FEWEST else found


def _p_value(part: Ratio, error: float) -> float:
    if not error:
        # Equal costs in every round show no difference; equal ratios other than 1 show it without error.
        return float(part.ratio == 1)
    return student_p(math.log(part.ratio) / error, part.rounds - 1)


def holm(family: Sequence[Ratio]) -> tuple[Ratio, ...]:
    """Correct p-values for the size of the family, so that it has any false verdict in one case of twenty.

    Holm's method needs no independence: the queries of one application run share its luck. Since the few rounds of
    some query of a hundred look quiet by luck, none counts as quieter than the quietest quarter.
    """
    tested = [index for index, part in enumerate(family) if part.p_value is not None]
    least = sorted(family[index].error for index in tested)[len(tested) // 4] if tested else 0.0
    ordered = sorted((_p_value(family[index], max(family[index].error, least)), index) for index in tested)
    found = list(family)
    corrected = 0.0
    for rank, (p_value, index) in enumerate(ordered):
        corrected = max(corrected, min(1.0, (len(ordered) - rank) * p_value))
        found[index] = replace(family[index], p_value=corrected)
    return tuple(found)


_SAME_AMOUNT = 0.01
"""The relative difference up to which amounts are equal: compressed sizes vary with the order of rows in files."""


@dataclass(frozen=True)
class Comparison:
    """`parts` are the measures that both runs completed, in natural order of queries."""

    baseline: Run
    candidate: Run
    total: Ratio
    """The sum of the measures that every arm completed, without those apart; their geometric mean where an amount is
    the basis. A test of its own, corrected for the number of arms."""
    parts: tuple[Ratio, ...]
    only_in_one: tuple[str, ...]
    """Measures that not every arm completed successfully; they are in no total."""


def compare_all(runs: Sequence[Run]) -> list[Comparison]:
    """Compare each run with the first, by the measures that both completed successfully.

    Raises `ValueError` where no measure succeeded in all runs.
    """
    baseline, *candidates = runs
    failed = [failed_queries(run) for run in runs]
    arms = [
        {name: measure for name, measure in measures_by_name(run).items() if name not in lost}
        for run, lost in zip(runs, failed, strict=True)
    ]
    names = list(dict.fromkeys(name for arm in arms for name in arm))
    if baseline.of_kind("query"):
        names.sort(key=natural_key)
    common = [name for name in names if all(name in arm for arm in arms)]
    if not common:
        raise ValueError("no measure succeeded in " + ("both runs" if len(runs) == 2 else "all runs"))
    in_total = [name for name in common if not any(arm[name].excluded_from_total for arm in arms)] or common
    bases = {name: basis([arm[name] for arm in arms if name in arm]) for name in names}
    left_out = tuple(sorted(set(names).union(*failed) - set(common), key=natural_key))
    turns = [measured_in_turns((baseline, candidate)) for candidate in candidates]
    first = arms[0]
    totals = holm(
        [
            _total({name: bases[name] for name in in_total}, first, arm, in_turns)
            for arm, in_turns in zip(arms[1:], turns, strict=True)
        ]
    )
    return [
        Comparison(baseline, candidate, total, _parts(bases, first, arm, total, in_turns), left_out)
        for candidate, arm, total, in_turns in zip(candidates, arms[1:], totals, turns, strict=True)
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


def _parts(
    bases: Mapping[str, str], before: Mapping[str, Measure], after: Mapping[str, Measure], total: Ratio, in_turns: bool
) -> tuple[Ratio, ...]:
    """The measures of both arms; one that is the total itself has been tested as such."""
    found = [
        ratio(name, before[name].costs(unit), after[name].costs(unit), unit, in_turns=in_turns)
        for name, unit in bases.items()
        if name in before and name in after
    ]
    corrected = {part.name: part for part in holm([part for part in found if part.name != total.name])}
    return tuple(corrected.get(part.name, total) for part in found)


def _total(
    bases: Mapping[str, str], before: Mapping[str, Measure], after: Mapping[str, Measure], in_turns: bool
) -> Ratio:
    units = set(bases.values())
    unit = units.pop() if len(units) == 1 else ""
    name, over = ("total", math.fsum) if unit == SECONDS else ("geometric mean", statistics.geometric_mean)
    if len(bases) == 1:
        name, over = next(iter(bases)), math.fsum
    before_total, after_total = (
        {
            number: over(costs)
            for number, costs in complete_rounds([arm[part].costs(own) for part, own in bases.items()]).items()
        }
        for arm in (before, after)
    )
    if not before_total or not after_total:
        raise ValueError("one run has no round that completed every common measure")
    return ratio(name, before_total, after_total, unit, in_turns=in_turns)
