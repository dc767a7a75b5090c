"""The Universal Scalability Law, which gives the time of a workload by its cores, fitted with its uncertainty. Pure.

By N. J. Gunther's law (Guerrilla Capacity Planning, Springer 2007, chapter 4), N cores do

    X(N) = λN / (1 + σ(N − 1) + κN(N − 1))

units of work per second. With one run as the unit, the time of a run is 1 / X(N):

    T(N) = p/N + s + c(N − 1),   where  1/λ = p + s,  σ = s / (p + s),  κ = c / (p + s):

p are the seconds that divide among the cores, s those that do not, and c those that every further core adds. In this
form the law is linear in its unknowns, and the bounds 0 ≤ σ ≤ 1 and 0 ≤ κ ≤ 1 form a convex cone: p, s, c ≥ 0 and
c ≤ p + s. The best of the least-squares solutions on the few faces of that cone is therefore the exact best fit,
without iteration or starting point.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.lab.analysis.samples import Costs
from penstock.lab.analysis.verdicts import (
    FASTER,
    NO_DIFFERENCE,
    NOT_IN_TURNS,
    SLOWER,
    TOO_FEW,
    Interval,
    Ratio,
    Spread,
    holm,
    ratio,
    spread,
)

Times = Mapping[int, Costs]
"""Seconds of each round, by number of cores."""

_Array = NDArray[np.float64]

DRAWS = 1000
_LEVEL = 0.99
"""The nominal level of the law's bands: at the edge of the cone, and beyond the measured sizes, it leaves 95 %."""
LEAST_SIZES = 3
"""The law has three unknowns."""

PREDICTED_SPAN = 4
"""The largest predicted size, in multiples of the largest measured one."""
WIDEST = 2.0
"""The widest band of a prediction, as the ratio of its ends; a wider one decides nothing."""


@dataclass(frozen=True)
class Law:
    """One run takes `divided / N + undivided + added * (N - 1)` seconds on N cores."""

    divided: float
    undivided: float
    added: float

    def seconds(self, cores: float) -> float:
        return self.divided / cores + self.undivided + self.added * (cores - 1)

    @property
    def rate(self) -> float:
        """λ: runs per second of one core."""
        return 1 / (self.divided + self.undivided)

    @property
    def contention(self) -> float:
        """σ: the share of one core's time that does not divide."""
        return self.undivided * self.rate

    @property
    def coherency(self) -> float:
        """κ: the cost of each pair of cores, as a share of one core's time."""
        return self.added * self.rate

    def efficiency(self, cores: float) -> float:
        """Speed-up over one core, per core: 1 where scaling is linear."""
        return self.seconds(1) / self.seconds(cores) / cores

    @property
    def peak_cores(self) -> float:
        """N* = sqrt((1 − σ) / κ), at least 1: the number of cores above which work gets slower, or infinity."""
        return max(1.0, math.sqrt(self.divided / self.added)) if self.added > 0 else math.inf


@dataclass(frozen=True)
class Fit:
    """`drawn` are the constants of laws that the measurements leave open, a row each; without them there is no band."""

    law: Law
    drawn: _Array = field(compare=False)

    @property
    def has_band(self) -> bool:
        return len(self.drawn) > 0

    def interval(self, figure: Callable[[Law], float]) -> Interval | None:
        """The confidence interval of a figure of the law; None where the noise is unknown."""
        return _middle(np.array([figure(Law(*constants)) for constants in self.drawn.tolist()]))

    def band(self, cores: float) -> Interval | None:
        """The confidence interval of the seconds on that many cores, if the law holds there."""
        return _middle(self.drawn @ (1 / cores, 1, cores - 1))


def _middle(drawn: _Array) -> Interval | None:
    """The interval that a share `_LEVEL` of the values does not leave; None without any."""
    if not len(drawn):
        return None
    ordered = np.sort(drawn)
    tail = round((1 - _LEVEL) / 2 * (len(ordered) - 1))
    return Interval(float(ordered[tail]), float(ordered[len(ordered) - 1 - tail]))


@dataclass(frozen=True)
class NoFit:
    reason: str


def fit(times: Times, *, seed: int = 1) -> Fit | NoFit:
    """Fit the law with the least squared relative error, and draw the laws of its bands.

    Errors are relative to the median of their size, so a short time on many cores weighs as much as a long one on few.
    A draw moves the mean of each size by Student's t, and fits the law to the moved means, so that on one face of the
    cone the quantiles of the draws are Student's intervals. The error is that of all sizes together, the law's misfit
    included, or that of the size itself where it is greater. Resampled times would be too alike: of three, one
    resample in nine repeats one time.
    """
    measured = {cores: list(rounds.values()) for cores, rounds in sorted(times.items()) if rounds}
    if len(measured) < LEAST_SIZES:
        return NoFit(
            f"The scalability law has three unknowns: it needs {LEAST_SIZES} or more cluster sizes with a successful "
            f"repetition, and there {'is' if len(measured) == 1 else 'are'} {len(measured)}."
        )
    counts = np.array([len(seconds) for seconds in measured.values()])
    means = np.array([statistics.fmean(seconds) for seconds in measured.values()])
    medians = np.array([statistics.median(seconds) for seconds in measured.values()])
    # The law gives all rounds of a size the same time: their mean, weighted by their number, stands for them.
    cone = _Cone(list(measured), np.sqrt(counts) / medians)
    best = Law(*cone.nearest(means[np.newaxis])[0].tolist())
    degrees = sum(counts) - LEAST_SIZES
    if not degrees:
        return Fit(best, np.empty((0, 3)))
    squares = [sum(math.log(value / best.seconds(cores)) ** 2 for value in each) for cores, each in measured.items()]
    own = np.array(squares) / np.maximum(counts - 1, 1)
    error = np.sqrt(np.maximum(own, math.fsum(squares) / degrees))
    dice = np.random.default_rng(seed)
    student = dice.standard_normal((DRAWS, len(means))) / np.sqrt(dice.chisquare(degrees, (DRAWS, 1)) / degrees)
    moved = np.clip(error / np.sqrt(counts) * student, -_FARTHEST, _FARTHEST)
    return Fit(best, cone.nearest(means * np.exp(moved)))


_FARTHEST = 10.0
"""The greatest move of a mean, as a logarithm: with one degree of freedom, Student's t knows no bounds."""

_RAYS = (Law(1, 0, 0), Law(0, 1, 0), Law(1, 0, 1), Law(0, 1, 1))
"""The edges of the cone: every law in it is a sum of multiples of at most three of them."""


class _Cone:
    """Least squares over the laws in the cone, for one set of sizes and their weights."""

    def __init__(self, sizes: Sequence[int], weights: _Array) -> None:
        self._weights = weights
        columns = weights[:, np.newaxis] * np.array([[ray.seconds(cores) for ray in _RAYS] for cores in sizes])
        rays = np.array([[ray.divided, ray.undivided, ray.added] for ray in _RAYS])
        faces = [list(face) for count in (1, 2, 3) for face in itertools.combinations(range(len(_RAYS)), count)]
        # The columns are independent wherever there are three sizes or more.
        self._faces = [(rays[face], columns[:, face], np.linalg.pinv(columns[:, face])) for face in faces]

    def nearest(self, seconds: _Array) -> _Array:
        """Return the constants of the law nearest to the seconds of each size, for each row."""
        target = seconds * self._weights
        least = np.full(len(target), np.inf)
        found = np.zeros((len(target), 3))
        for constants, columns, inverse in self._faces:
            multiples = target @ inverse.T
            # Where the best solution is outside of the cone, another face has a better one. What a face leaves is
            # compared, not what it explains, of which rounding would hide a small difference.
            left = np.where((multiples >= 0).all(axis=1), ((target - multiples @ columns.T) ** 2).sum(axis=1), np.inf)
            better = left < least
            least[better] = left[better]
            found[better] = multiples[better] @ constants
        return found


@dataclass(frozen=True)
class Size:
    """A cluster size, measured or predicted, with the time and the cost of a run on it.

    `cost` is in the unit of its hourly price, which is core-hours without prices.
    """

    cores: int
    seconds: float
    cost: float
    measured: Spread | None
    band: Interval | None

    def beats(self, other: Size) -> bool:
        """Return whether this size is neither slower nor costlier than the other, and better in one of the two."""
        return (
            self.seconds <= other.seconds
            and self.cost <= other.cost
            and (self.seconds, self.cost) != (other.seconds, other.cost)
        )


@dataclass(frozen=True)
class Curve:
    """Measured times, the sizes they give, and those that the law predicts, in order of their cores."""

    times: Times
    measured: tuple[Size, ...]
    predicted: tuple[Size, ...]
    fit: Fit | NoFit
    in_turns: bool

    @property
    def fastest(self) -> Size:
        return min(self.measured, key=lambda size: size.seconds)

    @property
    def cheapest(self) -> Size:
        return min(self.measured, key=lambda size: size.cost)

    @property
    def slower_from(self) -> Size | None:
        """The first measured size above the fastest that is slower than it by the verdict."""
        for size in self.measured:
            if size.cores > self.fastest.cores and self._against_fastest(size) == SLOWER:
                return size
        return None

    @property
    def as_fast(self) -> Size:
        """The cheapest measured size that is not shown to be slower than the fastest."""
        level = [size for size in self.measured if self._against_fastest(size) == NO_DIFFERENCE]
        return min([self.fastest, *level], key=lambda size: size.cost)

    @property
    def doubt(self) -> str:
        """The reason why no size has a verdict; empty where one has."""
        found = {part.verdict for part in self.verdicts.values()}
        return NOT_IN_TURNS if not self.in_turns else TOO_FEW if found == {TOO_FEW} else ""

    @cached_property
    def verdicts(self) -> Mapping[tuple[int, int], Ratio]:
        """The larger of two sizes over the smaller, for all pairs: the family from which the fastest is chosen."""
        pairs = list(itertools.combinations(self.times, 2))
        ratios = [
            ratio(f"{large} over {small}", self.times[small], self.times[large], in_turns=self.in_turns)
            for small, large in pairs
        ]
        return dict(zip(pairs, holm(ratios), strict=True))

    def is_efficient(self, size: Size) -> bool:
        """Return whether the size is Pareto-efficient: no other measured size beats it."""
        return not any(other.beats(size) for other in self.measured)

    def price_per_hour_saved(self, size: Size) -> float | None:
        """The price of each hour that `size` saves over the next cheaper efficient size.

        None for the cheapest, and for one that takes as long as that.
        """
        efficient = sorted((other for other in self.measured if self.is_efficient(other)), key=lambda other: other.cost)
        if size not in efficient or size is efficient[0]:
            return None
        before = efficient[efficient.index(size) - 1]
        if before.seconds == size.seconds:
            return None
        return (size.cost - before.cost) / ((before.seconds - size.seconds) / 3600)

    def _against_fastest(self, size: Size) -> str:
        small, large = sorted((size.cores, self.fastest.cores))
        if small == large:
            return ""
        verdict = self.verdicts[small, large].verdict
        opposite = {FASTER: SLOWER, SLOWER: FASTER}
        return verdict if size.cores == large else opposite.get(verdict, verdict)


def curve(times: Times, hourly: Callable[[int], float], *, in_turns: bool = True) -> Curve:
    """Build the curve. `hourly` is the price of an hour of a cluster with that many cores.

    Raises `ValueError` where no repetition succeeded on any size.
    """
    measured_times = {cores: rounds for cores, rounds in sorted(times.items()) if rounds}
    if not measured_times:
        raise ValueError("no repetition succeeded on any size")
    found = fit(measured_times)
    measured = []
    for cores, rounds in measured_times.items():
        known = spread(list(rounds.values()))
        band = found.band(cores) if isinstance(found, Fit) else None
        measured.append(Size(cores, known.median, hourly(cores) * known.median / 3600, known, band))
    predicted = []
    if isinstance(found, Fit):
        for cores in sizes_beyond(max(measured_times)):
            seconds_there, band = found.law.seconds(cores), found.band(cores)
            if band and band.high <= WIDEST * band.low:
                predicted.append(Size(cores, seconds_there, hourly(cores) * seconds_there / 3600, None, band))
    return Curve(measured_times, tuple(measured), tuple(predicted), found, in_turns)


def sizes_beyond(largest: int) -> list[int]:
    """The sizes to predict: doublings of the largest measured one."""
    return [largest * 2**step for step in range(1, PREDICTED_SPAN.bit_length())]
