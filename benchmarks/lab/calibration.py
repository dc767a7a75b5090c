"""The error rates of the lab's verdicts and bands, by simulation: `python -m benchmarks.lab.calibration`.

Each trial draws the costs of two arms, or the times of a known scalability law, and gives them to the functions that
reports use. An application run has noise of its own (`BETWEEN`), which its iterations share, each iteration some more
(`WITHIN`), and each round a drift that both arms share. The exit code is 2 where a rate misses its promise.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.lab.analysis.samples import SECONDS, Costs, Measure, Work
from penstock.lab.analysis.usl import Fit, Law, curve
from penstock.lab.analysis.verdicts import FASTER, SLOWER, Interval, Ratio, holm, ratio

BETWEEN, WITHIN, DRIFT = 0.03, 0.005, 0.03
QUERIES = 103
MOST_FALSE, LEAST_COVERED = 0.05, 0.93

Dice = np.random.Generator
Logs = NDArray[np.float64]


def lognormal(dice: Dice, shape: tuple[int, ...]) -> Logs:
    return dice.normal(0, BETWEEN, shape)


def outliers(dice: Dice, shape: tuple[int, ...]) -> Logs:
    """One run in ten takes 10 to 50 % longer."""
    slow = np.log(dice.uniform(1.1, 1.5, shape))
    return lognormal(dice, shape) + np.where(dice.random(shape) < 0.1, slow, 0)


def two_speeds(dice: Dice, shape: tuple[int, ...]) -> Logs:
    """Every second run takes 10 % longer, as by luck with the compiler or a device, and little else varies."""
    return dice.normal(0, WITHIN, shape) + np.where(dice.random(shape) < 0.5, np.log(1.1), 0)


NOISES: dict[str, Callable[[Dice, tuple[int, ...]], Logs]] = {
    "lognormal": lognormal,
    "with outliers": outliers,
    "two speeds": two_speeds,
}


def arm(dice: Dice, noise: str, drift: Logs, iterations: int, factor: float = 1.0) -> Costs:
    """The costs of one arm's rounds."""
    runs = NOISES[noise](dice, drift.shape) + drift + np.log(factor)
    seconds = np.exp(runs[:, np.newaxis] + dice.normal(0, WITHIN, (len(runs), iterations)))
    works = [
        Work((number, iteration), float(value))
        for number, row in enumerate(seconds, start=1)
        for iteration, value in enumerate(row, start=1)
    ]
    return Measure("q", tuple(works)).costs(SECONDS)


def compared(dice: Dice, noise: str, rounds: int, iterations: int, factor: float = 1.0) -> Ratio:
    """One measure of two arms, of which the candidate takes `factor` times as long."""
    drift = dice.normal(0, DRIFT, rounds)
    return ratio("q", arm(dice, noise, drift, iterations), arm(dice, noise, drift, iterations, factor))


def family(dice: Dice, noise: str, rounds: int, factor: float = 1.0) -> tuple[Ratio, ...]:
    """All queries of two arms; the first query takes `factor` times as long in the candidate, the others as long."""
    runs = np.exp(NOISES[noise](dice, (2, QUERIES, rounds)))
    runs[1, 0] *= factor
    before, after = ([dict(enumerate(query)) for query in own] for own in runs.tolist())
    return holm([ratio(str(n), one, other) for n, (one, other) in enumerate(zip(before, after, strict=True))])


def decided(part: Ratio) -> bool:
    return part.verdict in (FASTER, SLOWER)


def covers(found: Interval | None, truth: float) -> bool:
    """Without rounding errors at the edges of the cone, where interval and truth meet."""
    return found is not None and found.low * (1 - 1e-9) <= truth <= found.high * (1 + 1e-9)


def share(trials: int, hit: Callable[[], bool]) -> float:
    return sum(hit() for _ in range(trials)) / trials


def arms(dice: Dice, trials: int, noise: str, rounds: int, iterations: int) -> dict[str, float]:
    """The rates of one measure of two equal arms."""
    found = [compared(dice, noise, rounds, iterations) for _ in range(trials)]
    return {
        "false": sum(map(decided, found)) / trials,
        "covered": sum(covers(part.interval, 1.0) for part in found) / trials,
    }


def power(dice: Dice, trials: int, noise: str, rounds: int, iterations: int) -> dict[str, float]:
    """The rate at which one measure that takes 5 % longer has a verdict."""
    return {"5 % shown": share(trials, lambda: decided(compared(dice, noise, rounds, iterations, 1.05)))}


def families(dice: Dice, trials: int, noise: str, rounds: int) -> dict[str, float]:
    """The rates of 103 queries: any false verdict, and one query of them that takes 10 or 20 % longer."""
    return {
        "any false": share(trials, lambda: any(map(decided, family(dice, noise, rounds)))),
        "10 % shown": share(trials // 10, lambda: decided(family(dice, noise, rounds, 1.1)[0])),
        "20 % shown": share(trials // 10, lambda: decided(family(dice, noise, rounds, 1.2)[0])),
    }


SIZES, BEYOND = (1, 2, 4), (8, 16)
SPREADS = {"1 %": (0.01, 0.01, 0.01), "5 %": (0.05, 0.05, 0.05), "1, 3, 5 %": (0.01, 0.03, 0.05)}
CONSTANTS = ((0.0, 0.0), (0.02, 0.0), (0.1, 0.001), (0.2, 0.01))
"""Contention and coherency."""


def law_of(contention: float, coherency: float) -> Law:
    return Law(100 * (1 - contention), 100 * contention, 100 * coherency)


def bands(dice: Dice, trials: int, law: Law, rounds: int, spreads: Sequence[float]) -> dict[str, float]:
    """The share of bands that cover the law, at each size, and of the predictions that reports show."""
    hits = dict.fromkeys((*SIZES, *BEYOND), 0)
    shown = dict.fromkeys(BEYOND, 0)
    for _ in range(trials):
        drawn = np.exp(
            [dice.normal(math.log(law.seconds(n)), own, rounds) for n, own in zip(SIZES, spreads, strict=True)]
        )
        found = curve(dict(zip(SIZES, map(dict, map(enumerate, drawn.tolist())), strict=True)), float)
        assert isinstance(found.fit, Fit)
        for cores in hits:
            hits[cores] += covers(found.fit.band(cores), law.seconds(cores))
        for size in found.predicted:
            shown[size.cores] += 1
    least = min(hits[cores] for cores in SIZES)
    return {
        "1, 2 or 4 cores": least / trials,
        **{f"{cores} cores": hits[cores] / trials for cores in BEYOND},
        **{f"{cores} shown": shown[cores] / trials for cores in BEYOND},
    }


Row = tuple[tuple[object, ...], dict[str, float]]


def table(columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
    """Print a Markdown table, and return the sentences on rates that miss their promise."""
    missed: list[str] = []
    for number, (labels, rates) in enumerate(rows):
        if not number:
            names = (*columns, *rates)
            print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}")
        print(f"| {' | '.join([*map(str, labels), *(f'{rate:.1%}' for rate in rates.values())])} |", flush=True)
        missed += [
            f"{', '.join(map(str, labels))}: {name} {rate:.1%}"
            for name, rate in rates.items()
            if ("false" in name and rate > MOST_FALSE) or (name.endswith(("covered", "cores")) and rate < LEAST_COVERED)
        ]
    return missed


def arms_part(dice: Dice, trials: int) -> list[str]:
    keys = itertools.product(NOISES, (3, 5, 10), (1, 3))
    rates = ((key, {**arms(dice, trials, *key), **power(dice, trials, *key)}) for key in keys)
    return table(("noise", "rounds", "iterations"), rates)


def families_part(dice: Dice, trials: int) -> list[str]:
    keys = itertools.product(NOISES, (5, 10))
    return table(("noise", "rounds"), ((key, families(dice, trials, *key)) for key in keys))


def law_part(dice: Dice, trials: int) -> list[str]:
    keys = itertools.product(CONSTANTS, (3, 5), SPREADS)
    rates = (
        ((*constants, rounds, spread), bands(dice, trials, law_of(*constants), rounds, SPREADS[spread]))
        for constants, rounds, spread in keys
    )
    return table(("σ", "κ", "rounds", "spread"), rates)


PARTS = {"arms": arms_part, "families": families_part, "law": law_part}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--trials", type=int, default=2000)
    chosen = parser.parse_args()
    missed = [why for part in chosen.parts for why in PARTS[part](np.random.default_rng(1), chosen.trials)]
    print("\n".join(["", *missed]) if missed else "\nNo rate misses its promise.")
    return 2 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
