"""The Universal Scalability Law, which gives the time of a workload by its cores, fitted with its uncertainty. Pure.

By N. J. Gunther's law (Guerrilla Capacity Planning, Springer 2007, chapter 4), N cores do

    X(N) = λN / (1 + σ(N − 1) + κN(N − 1))

units of work per second. With one run as the unit, the time of a run is 1 / X(N):

    T(N) = p/N + s + c(N − 1),   where  1/λ = p + s,  σ = s / (p + s),  κ = c / (p + s):

p are the seconds that divide among the cores, s those that do not, and c those that every further core adds. In this
form the law is linear in its unknowns, and the bounds 0 ≤ σ ≤ 1 and 0 ≤ κ ≤ 1 form a convex cone: p, s, c ≥ 0 and
c ≤ p + s. The best of the least-squares solutions on the few faces of that cone is therefore the exact best fit: no
iteration, no starting point, no library.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.verdicts import CONFIDENCE, Interval, Spread, ratio, spread

Times = Mapping[int, Sequence[float]]
"""Seconds of each repetition, by number of cores."""

RESAMPLES = 500
LEAST_SIZES = 3
"""The law has three unknowns."""

PREDICTED_SPAN = 4
"""The largest predicted size, in multiples of the largest measured one; beyond it the band is too wide to be of use."""


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
    """`resampled` are the laws of the bootstrap; without them the noise is unknown."""

    law: Law
    resampled: tuple[Law, ...]

    def interval(self, figure: Callable[[Law], float]) -> Interval | None:
        """The confidence interval of a figure of the law; None where the noise is unknown."""
        if not self.resampled:
            return None
        ordered = sorted(figure(law) for law in self.resampled)
        tail = (1 - CONFIDENCE) / 2
        return Interval(ordered[round(tail * (len(ordered) - 1))], ordered[round((1 - tail) * (len(ordered) - 1))])

    def band(self, cores: float) -> Interval | None:
        """The confidence interval of the seconds on that many cores, if the law holds there."""
        return self.interval(lambda law: law.seconds(cores))


@dataclass(frozen=True)
class NoFit:
    reason: str


def fit(times: Times, *, seed: int = 1) -> Fit | NoFit:
    """Fit the law with the least squared relative error, and its bootstrap.

    Errors are relative to the median of their size, so a short time on many cores weighs as much as a long one on few.
    The bootstrap resamples the ratios of measured to fitted times of all sizes together, widened by sqrt(n / (n − k))
    for the k fitted constants: with the two or three repetitions of a benchmark, resampling each size by itself would
    give too narrow a band. The band therefore includes the misfit of the law.
    """
    measured = {cores: list(seconds) for cores, seconds in sorted(times.items()) if seconds}
    if len(measured) < LEAST_SIZES:
        return NoFit(
            f"The scalability law has three unknowns: it needs {LEAST_SIZES} or more cluster sizes with a successful "
            f"repetition, and there {'is' if len(measured) == 1 else 'are'} {len(measured)}."
        )
    # The law gives all repetitions of a size the same time: their mean, weighted by their number, stands for them.
    weights = [math.sqrt(len(seconds)) / statistics.median(seconds) for seconds in measured.values()]
    cone = _Cone(list(measured), weights)
    best = cone.nearest([statistics.fmean(seconds) for seconds in measured.values()])
    return Fit(best, tuple(_resampled(measured, cone, best, random.Random(seed))))  # noqa: S311 - not secrecy


_RAYS = (Law(1, 0, 0), Law(0, 1, 0), Law(1, 0, 1), Law(0, 1, 1))
"""The edges of the cone: every law in it is a sum of multiples of at most three of them."""


class _Cone:
    """Least squares over the laws in the cone, for one set of sizes and their weights."""

    def __init__(self, sizes: Sequence[int], weights: Sequence[float]) -> None:
        self._weights = weights
        columns = [[weight * ray.seconds(cores) for cores, weight in zip(sizes, weights, strict=True)] for ray in _RAYS]
        faces = itertools.chain.from_iterable(itertools.combinations(range(len(_RAYS)), count) for count in (1, 2, 3))
        self._faces = [_Face([_RAYS[index] for index in face], [columns[index] for index in face]) for face in faces]

    def nearest(self, seconds: Sequence[float]) -> Law:
        """Return the law nearest to the seconds of each size."""
        target = [weight * value for weight, value in zip(self._weights, seconds, strict=True)]
        found = [nearest for face in self._faces if (nearest := face.nearest(target)) is not None]
        return max(found, key=lambda candidate: candidate[0])[1]


class _Face:
    """One face of the cone, with its columns as an orthonormal basis times a triangle (modified Gram-Schmidt).

    The columns are independent wherever there are three sizes or more.
    """

    def __init__(self, rays: Sequence[Law], columns: Sequence[Sequence[float]]) -> None:
        self._rays = rays
        self._basis: list[list[float]] = []
        self._triangle: list[list[float]] = []
        for column in columns:
            vector, shares = list(column), []
            for unit in self._basis:
                share = _dot(unit, vector)
                shares.append(share)
                vector = [value - share * part for value, part in zip(vector, unit, strict=True)]
            length = math.sqrt(_dot(vector, vector))
            self._basis.append([value / length for value in vector])
            self._triangle.append([*shares, length])

    def nearest(self, target: Sequence[float]) -> tuple[float, Law] | None:
        """Return the squared length of the part of `target` that the best law of this face explains, and that law.

        None where the best solution is outside of the cone: then another face has a better one.
        """
        explained = [_dot(unit, target) for unit in self._basis]
        left = list(explained)
        multiples = [0.0] * len(left)
        for position in reversed(range(len(left))):
            multiple = left[position] / self._triangle[position][position]
            if multiple < 0:
                return None
            multiples[position] = multiple
            for earlier in range(position):
                left[earlier] -= self._triangle[position][earlier] * multiple
        return _dot(explained, explained), Law(
            _dot(multiples, [ray.divided for ray in self._rays]),
            _dot(multiples, [ray.undivided for ray in self._rays]),
            _dot(multiples, [ray.added for ray in self._rays]),
        )


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(operator.mul, one, other))


def _resampled(times: Times, cone: _Cone, best: Law, dice: random.Random) -> list[Law]:
    count = sum(len(seconds) for seconds in times.values())
    constants = sum(value > 0 for value in (best.divided, best.undivided, best.added))
    if count <= constants:
        return []
    widened = math.sqrt(count / (count - constants))
    errors = [(value / best.seconds(cores)) ** widened for cores, seconds in times.items() for value in seconds]
    sizes = [(best.seconds(cores), len(seconds)) for cores, seconds in times.items()]
    return [
        cone.nearest([law * statistics.fmean(dice.choices(errors, k=repetitions)) for law, repetitions in sizes])
        for _ in range(RESAMPLES)
    ]


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

    @property
    def fastest(self) -> Size:
        return min(self.measured, key=lambda size: size.seconds)

    @property
    def cheapest(self) -> Size:
        return min(self.measured, key=lambda size: size.cost)

    @property
    def slower_from(self) -> Size | None:
        """The first measured size above the fastest that is slower than it beyond the noise."""
        for size in self.measured:
            if size.cores > self.fastest.cores and self._verdict(size, self.fastest) == "slower":
                return size
        return None

    @property
    def as_fast(self) -> Size:
        """The cheapest measured size that is not slower than the fastest beyond the noise."""
        level = [size for size in self.measured if self._verdict(size, self.fastest) == "inside the noise"]
        return min([self.fastest, *level], key=lambda size: size.cost)

    def is_efficient(self, size: Size) -> bool:
        """Return whether the size is Pareto-efficient: no other measured size beats it."""
        return not any(other.beats(size) for other in self.measured)

    def price_per_hour_saved(self, size: Size) -> float | None:
        """The price of each hour that `size` saves over the next cheaper efficient size; None for the cheapest."""
        efficient = sorted((other for other in self.measured if self.is_efficient(other)), key=lambda other: other.cost)
        if size not in efficient or size is efficient[0]:
            return None
        before = efficient[efficient.index(size) - 1]
        return (size.cost - before.cost) / ((before.seconds - size.seconds) / 3600)

    def _verdict(self, size: Size, other: Size) -> str:
        if size.cores == other.cores:
            return "the same"
        return ratio("", self.times[other.cores], self.times[size.cores]).verdict


def curve(times: Times, hourly: Callable[[int], float]) -> Curve:
    """Build the curve. `hourly` is the price of an hour of a cluster with that many cores.

    Raises `ValueError` where no repetition succeeded on any size.
    """
    measured_times = {cores: tuple(seconds) for cores, seconds in sorted(times.items()) if seconds}
    if not measured_times:
        raise ValueError("no repetition succeeded on any size")
    found = fit(measured_times)
    measured = []
    for cores, seconds in measured_times.items():
        known = spread(seconds)
        band = found.band(cores) if isinstance(found, Fit) else None
        measured.append(Size(cores, known.median, hourly(cores) * known.median / 3600, known, band))
    predicted = []
    if isinstance(found, Fit):
        for cores in sizes_beyond(max(measured_times)):
            seconds_there = found.law.seconds(cores)
            cost = hourly(cores) * seconds_there / 3600
            predicted.append(Size(cores, seconds_there, cost, None, found.band(cores)))
    return Curve(measured_times, tuple(measured), tuple(predicted), found)


def sizes_beyond(largest: int) -> list[int]:
    """The sizes to predict: doublings of the largest measured one."""
    return [largest * 2**step for step in range(1, PREDICTED_SPAN.bit_length())]
