"""What the samples say: medians, spreads and comparisons. Pure functions; nothing here reads a file or a clock.

A ratio is always candidate over baseline: below 1 the candidate is faster. Its interval is a percentile bootstrap
over the repetitions of each arm with a fixed seed, so the same samples always give the same report.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.records import Run

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Times in seconds, of counted and successful repetitions only."""

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
    """Candidate over baseline. `interval` is None where an arm has one sample only: nothing is known of the noise."""

    name: str
    baseline: Spread
    candidate: Spread
    ratio: float
    interval: Interval | None

    @property
    def verdict(self) -> str:
        if self.interval is None:
            return "one sample, noise unknown"
        if self.interval.holds(1.0):
            return "inside the noise"
        return "faster" if self.ratio < 1 else "slower"


@dataclass(frozen=True)
class Comparison:
    baseline: Run
    candidate: Run
    total: Ratio
    parts: tuple[Ratio, ...]
    only_in_one: tuple[str, ...]
    """What one arm measured and the other did not, or not with success; counted in no total."""


def spread(seconds: Sequence[float]) -> Spread:
    """Raises `ValueError` on an empty sequence: no sample is not a sample of zero."""
    if not seconds:
        raise ValueError("no samples")
    quartiles = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
    return Spread(len(seconds), statistics.median(seconds), min(seconds), max(seconds), quartiles[0], quartiles[2])


def ratio_interval(baseline: Sequence[float], candidate: Sequence[float], *, seed: int = 1) -> Interval | None:
    """The bootstrap interval of median(candidate) / median(baseline)."""
    if min(len(baseline), len(candidate)) < 2:
        return None
    dice = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    ratios = sorted(
        statistics.median(dice.choices(candidate, k=len(candidate)))
        / statistics.median(dice.choices(baseline, k=len(baseline)))
        for _ in range(RESAMPLES)
    )
    tail = (1 - CONFIDENCE) / 2
    return Interval(ratios[round(tail * (RESAMPLES - 1))], ratios[round((1 - tail) * (RESAMPLES - 1))])


def ratio(name: str, baseline: Sequence[float], candidate: Sequence[float]) -> Ratio:
    before, after = spread(baseline), spread(candidate)
    return Ratio(name, before, after, after.median / before.median, ratio_interval(baseline, candidate))


def query_seconds(run: Run) -> dict[str, list[float]]:
    """Per query the seconds of each counted execution that succeeded, in the order they ran."""
    found: dict[str, list[float]] = {}
    for sample in run.of_kind("query"):
        if sample["status"] == "ok" and not sample.get("warmup", False):
            found.setdefault(str(sample["query"]), []).append(sample["elapsed_ms"] / 1000)
    return found


def failed_queries(run: Run) -> set[str]:
    return {str(sample["query"]) for sample in run.of_kind("query") if sample["status"] != "ok"}


def round_seconds(run: Run, queries: set[str]) -> list[float]:
    """The total of `queries` for each round (application and iteration) in which all of them succeeded."""
    totals: dict[tuple[int, int], dict[str, float]] = {}
    for sample in run.of_kind("query"):
        if sample["query"] in queries and sample["status"] == "ok" and not sample.get("warmup", False):
            key = (sample.get("repetition", 1), sample["iteration"])
            totals.setdefault(key, {})[sample["query"]] = sample["elapsed_ms"] / 1000
    return [sum(times.values()) for _, times in sorted(totals.items()) if times.keys() == queries]


def start_seconds(run: Run) -> list[float]:
    """From submission to the first task, per counted repetition."""
    return [(sample["first_task_ms"] - sample["submitted_ms"]) / 1000 for sample in run.of_kind("start")]


def measures(run: Run) -> dict[str, list[float]]:
    """What a run is compared by: its queries, or its starts."""
    starts = start_seconds(run)
    return {"submission to first task": starts} if starts else query_seconds(run)


def compare(baseline: Run, candidate: Run) -> Comparison:
    """Raises `ValueError` when the two runs have nothing in common to compare."""
    before, after = measures(baseline), measures(candidate)
    failed = failed_queries(baseline) | failed_queries(candidate)
    common = {name for name in before.keys() & after.keys() if name not in failed}
    if not common:
        raise ValueError("nothing was measured with success in both runs")
    parts = tuple(ratio(name, before[name], after[name]) for name in sorted(common, key=natural))
    if baseline.of_kind("start"):
        total = parts[0]
    else:
        rounds = round_seconds(baseline, common), round_seconds(candidate, common)
        if not all(rounds):
            raise ValueError("no round of one run completed every query that both measured")
        total = ratio("total", *rounds)
    others = sorted((before.keys() | after.keys() | failed) - common, key=natural)
    return Comparison(baseline, candidate, total, parts, tuple(others))


def answer_verdicts(run: Run) -> Mapping[str, str]:
    """Per query `equal` or `different`; a query nobody checked is not in it."""
    return {str(sample["query"]): str(sample["verdict"]) for sample in run.of_kind("answer")}


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts q2 before q10 and q14a before q14b."""
    parts: list[tuple[int, int | str]] = []
    digits = ""
    for character in name + "\0":
        if character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, character))
    return tuple(parts)
