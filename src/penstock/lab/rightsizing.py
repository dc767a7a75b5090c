"""Runs of one workload as points of a curve and as things that cost money. Pure functions of their samples."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.lab import analysis, scaling
from penstock.lab.analysis import Measure
from penstock.lab.analysis.measures import GB
from penstock.lab.price import RunCost
from penstock.lab.records import Run
from penstock.lab.scaling import Curve
from penstock.model import ClusterSize, ProcessSize
from penstock.prices import Prices
from penstock.units import GIB

CORE_HOURS = "core-hours"
"""What a run costs where nobody gave prices: the cores of the whole cluster times the hours."""


@dataclass(frozen=True)
class Work:
    """What a run did in each of its complete rounds: `seconds` each, for `bytes` of input or output.

    Work of a set time, whose amount differs, is counted by the GB: then `unit` is `GB`, and else `run`.
    """

    unit: str
    seconds: tuple[float, ...]
    bytes: float | None


def work(run: Run, names: Collection[str] | None = None) -> Work:
    """All that was timed, or only the pieces in `names`; a round in which one of them is missing is not counted.

    Pieces of one name within a round are concurrent: their median stands for them. `bytes` are those of the largest
    piece, since pieces of one round work on the same data; of TPC-DS its scale factor's raw data, as the field counts.
    """
    pieces = own_pieces(run)
    found = {name: piece for name, piece in pieces.items() if names is None or name in names}
    by_amount = {name: piece for name, piece in found.items() if piece.fixed_time and piece.bytes}
    if by_amount:
        rounds = _rounds(by_amount, lambda w: w.seconds / w.bytes * GB)
        return Work("GB", tuple(statistics.fmean(values) for values in rounds), GB)
    size = max((piece.bytes for piece in found.values()), default=0)
    if run.description.scale and any("user" not in sample for sample in run.of_kind("query")):
        size = run.description.scale * GB
    return Work("run", tuple(math.fsum(values) for values in _rounds(found, lambda w: w.seconds)), size or None)


def own_pieces(run: Run) -> dict[str, Measure]:
    """What was timed, without what took place at the same time or elsewhere."""
    return {name: piece for name, piece in analysis.measured(run).items() if not piece.apart}


def _rounds(pieces: dict[str, Measure], value: Callable[[analysis.Work], float]) -> list[list[float]]:
    found: dict[tuple[int, int], dict[str, list[float]]] = {}
    for name, piece in pieces.items():
        for one in piece.works:
            found.setdefault(one.round, {}).setdefault(name, []).append(value(one))
    return [
        [statistics.median(values) for values in by_name.values()]
        for _, by_name in sorted(found.items())
        if by_name.keys() == pieces.keys()
    ]


def size_of(run: Run) -> ClusterSize:
    """Raises `ValueError` for a run that records no cluster."""
    if not run.description.size:
        raise ValueError(f"{run.description.id} ran on no cluster")
    return ClusterSize.from_json(run.description.size)


def hourly(size: ClusterSize, prices: Prices | None) -> float:
    """An hour of the whole cluster, driver included: in the prices' currency, or in core-hours without prices."""
    cores = size.driver.cores + size.executor_cores
    memory_bytes = size.driver.memory_bytes + size.executors * size.executor.memory_bytes
    return prices.compute_per_hour(cores, memory_bytes / GIB) if prices else float(cores)


def clusters_at_once(run: Run) -> int:
    """The most applications that ran at the same time, each on a cluster of the run's size; at least 1."""
    edges: list[tuple[int, int]] = []
    for sample in analysis.counted(run, "application"):
        if sample.get("submitted_ms") is not None and sample.get("elapsed_ms") is not None:
            edges += [(sample["submitted_ms"], 1), (sample["submitted_ms"] + sample["elapsed_ms"], -1)]
    # At one moment an end sorts before a start: one after the other is not at once.
    return max([1, *itertools.accumulate(change for _, change in sorted(edges))])


def run_cost(run: Run, prices: Prices) -> RunCost:
    """Of the median repetition. Raises `ValueError` where none was completed.

    Where users had a cluster each at the same time, all of them are counted for the whole time.
    """
    done, size = work(run), size_of(run)
    if not done.seconds:
        raise ValueError(f"no repetition of {run.description.id} was completed")
    seconds = statistics.median(done.seconds)
    clusters = clusters_at_once(run)
    cost = clusters * hourly(size, prices) * seconds / 3600
    return RunCost(seconds, clusters * size.executor_cores, cost, done.bytes)


@dataclass(frozen=True)
class Sizing:
    """A curve, and what its numbers are: `unit` of work (`run` or `GB`), `bytes` of it, `currency` of its costs."""

    curve: Curve
    unit: str
    bytes: float | None
    currency: str
    clusters: int
    """At once, each of the curve's sizes."""
    left_out: tuple[str, ...]
    """What only some of the sizes completed; part of no time."""


def same_but_for_size(runs: Sequence[Run]) -> bool:
    """Whether the runs are points of one curve: two or more numbers of cores, and nothing else that differs."""
    kinds = {
        (
            run.description.workload,
            run.description.launcher,
            run.description.profile,
            run.description.scale,
            str(run.description.lake.get("name")),
            repr(sorted(run.description.options.items())),
            repr(sorted(run.description.settings.items())),
        )
        for run in runs
    }
    sizes = {(analysis.executor_cores(run.description.size), repr(run.description.size)) for run in runs}
    cores = {count for count, _ in sizes}
    return len(kinds) == 1 and len(cores) > 1 and len(cores) == len(sizes) and 0 not in cores


def sizing(runs: Sequence[Run], prices: Prices | None = None) -> Sizing:
    """The curve of runs that are `same_but_for_size`. Raises `ValueError` where nothing was measured on any size.

    A size that nobody measured costs what a cluster of the largest measured one's driver and executors would.
    """
    measured = [names for run in runs if (names := set(own_pieces(run)))]
    names = set.intersection(*(measured or [set()]))
    times: dict[int, list[float]] = {}
    sizes: dict[int, ClusterSize] = {}
    done = [work(run, names) for run in runs]
    for run, one in zip(runs, done, strict=True):
        size = size_of(run)
        times.setdefault(size.executor_cores, []).extend(one.seconds)
        sizes[size.executor_cores] = size
    largest, clusters = sizes[max(sizes)], max(clusters_at_once(run) for run in runs)

    def cluster_hour(cores: int) -> float:
        return clusters * hourly(sizes.get(cores) or _scaled(largest, cores), prices)

    unit = next((one.unit for one in done if one.seconds), "run")
    size_bytes = next((one.bytes for one in done if one.seconds), None)
    currency = prices.currency if prices else CORE_HOURS
    left_out = set().union(*measured) - names
    return Sizing(
        curve=scaling.curve(times, cluster_hour),
        unit=unit,
        bytes=size_bytes,
        currency=currency,
        clusters=clusters,
        left_out=tuple(sorted(left_out, key=analysis.natural)),
    )


def _scaled(size: ClusterSize, cores: int) -> ClusterSize:
    return ClusterSize(size.driver, size.executor, math.ceil(cores / size.executor.cores))


def sizes_for(cores: Sequence[int], executor: ProcessSize, driver: ProcessSize) -> list[ClusterSize]:
    """Clusters of so many executor cores, in whole executors. Raises `ValueError` for one that is not."""
    for count in cores:
        if count < 1 or count % executor.cores:
            raise ValueError(f"{count} cores are not a whole number of executors with {executor.cores} cores each")
    return [ClusterSize(driver, executor, count // executor.cores) for count in cores]
