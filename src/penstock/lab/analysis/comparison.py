"""Two runs of one workload, set against each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.lab.analysis.measures import PER_1000_OPERATIONS, PER_GB, SECONDS, Measure, cost, measured
from penstock.lab.analysis.samples import failed_queries, natural
from penstock.lab.analysis.spread import Ratio, ratio
from penstock.lab.records import Run

_SAME_AMOUNT = 0.01
"""Amounts that differ by less are the same work: compressed sizes vary a little with how rows fell into files."""


@dataclass(frozen=True)
class Comparison:
    baseline: Run
    candidate: Run
    total: Ratio
    """Over all parts: their sum in each round; the geometric mean of their costs where an amount is the basis."""
    parts: tuple[Ratio, ...]
    only_in_one: tuple[str, ...]
    """What one arm measured and the other did not, or not with success; counted in no total."""


def compare(baseline: Run, candidate: Run) -> Comparison:
    """Raises `ValueError` when the two runs have nothing in common to compare."""
    before, after = measured(baseline), measured(candidate)
    failed = failed_queries(baseline) | failed_queries(candidate)
    names = [name for name in before if name in after and name not in failed]
    if not names:
        raise ValueError("nothing was measured with success in both runs")
    if baseline.of_kind("query"):
        names.sort(key=natural)
    bases = {name: basis(before[name], after[name]) for name in names}
    parts = tuple(ratio(name, before[name].costs(unit), after[name].costs(unit), unit) for name, unit in bases.items())
    others = sorted((before.keys() | after.keys() | failed) - set(names), key=natural)
    return Comparison(baseline, candidate, _total(parts, bases, before, after), parts, tuple(others))


def basis(before: Measure, after: Measure) -> str:
    """Seconds where both did the same amount of work; else seconds for a fixed amount of it, where that is known.

    Work that went on for a set time is compared by what it did, and so are arms of different scales.
    """
    if not (before.fixed_time or after.fixed_time) and _same(before.bytes, after.bytes):
        return SECONDS
    if _all_known(before, after, "bytes"):
        return PER_GB
    return PER_1000_OPERATIONS if _all_known(before, after, "operations") else SECONDS


def _all_known(before: Measure, after: Measure, amount: str) -> bool:
    return all(getattr(work, amount) > 0 for work in (*before.works, *after.works))


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_AMOUNT * max(one, other)


def _total(
    parts: tuple[Ratio, ...], bases: Mapping[str, str], before: Mapping[str, Measure], after: Mapping[str, Measure]
) -> Ratio:
    if len(parts) == 1:
        return parts[0]
    rounds = _rounds(before, bases), _rounds(after, bases)
    if not all(rounds):
        raise ValueError("no round of one run completed everything that both measured")
    by_time = set(bases.values()) == {SECONDS}
    name, over = ("total", math.fsum) if by_time else ("geometric mean", statistics.geometric_mean)
    totals_before, totals_after = ([over(costs) for costs in side] for side in rounds)
    return ratio(name, totals_before, totals_after)


def _rounds(measures: Mapping[str, Measure], bases: Mapping[str, str]) -> list[list[float]]:
    """For each round in which every name was measured, their costs; the median where one was measured more than once.

    Several of one name in a round are concurrent users or runs: adding them up would count the same minute twice.
    """
    found: dict[tuple[int, int], dict[str, list[float]]] = {}
    for name, unit in bases.items():
        for work in measures[name].works:
            found.setdefault(work.round, {}).setdefault(name, []).append(cost(work, unit))
    return [
        [statistics.median(costs) for costs in by_name.values()]
        for _, by_name in sorted(found.items())
        if by_name.keys() == bases.keys()
    ]
