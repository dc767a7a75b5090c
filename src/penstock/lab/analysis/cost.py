"""Costs of runs, by the hour, and of stores, over their life; runs of one workload as points of a curve. Pure.

Money is in the currency of the prices, which are in `penstock.prices`. GB and TB are decimal, as drives are sold and as
throughput per core is published; GiB is for memory.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis import usl
from penstock.lab.analysis.resources import most_at_once
from penstock.lab.analysis.samples import (
    GB,
    PER_GB,
    SECONDS,
    Costs,
    Measure,
    complete_rounds,
    counted,
    gb_per_core_hour,
    measured_in_turns,
    measures_by_name,
    natural_key,
    seconds_of,
    working_cores,
)
from penstock.lab.analysis.usl import Curve
from penstock.lab.records import Description, Run
from penstock.model import ClusterSize, ProcessSize, promised
from penstock.prices import HOURS_PER_YEAR, Medium, Prices, cluster_hour

TB = 10**12


@dataclass(frozen=True)
class Protection:
    """Protection of a store against the loss of drives: copies, or data and parity chunks (erasure coding)."""

    name: str
    factor: float
    """Bytes on drives per byte stored: 3 for three copies, 1.5 for 4+2."""
    hosts: int
    """The fewest machines on which no two copies or chunks share one."""


def parse_protection(text: str) -> Protection:
    """Parse `3x` or `4+2`. Raises `ValueError` for anything else."""
    if found := re.fullmatch(r"([1-9]\d?)x", text):
        copies = int(found[1])
        return Protection(text, copies, copies)
    if found := re.fullmatch(r"([1-9]\d?)\+([1-9]\d?)", text):
        data, parity = int(found[1]), int(found[2])
        return Protection(text, (data + parity) / data, data + parity)
    raise ValueError(f"{text} is neither a number of copies (3x) nor data and parity chunks (4+2)")


@dataclass(frozen=True)
class RunCost:
    """Price/performance of one run. `cores` are the executors' task slots; `cost` is that of the whole cluster."""

    seconds: float
    cores: int
    cost: float
    bytes: float | None

    @property
    def gb_per_core_hour(self) -> float | None:
        """Throughput that is comparable between clusters of different sizes."""
        return gb_per_core_hour(self.bytes, self.seconds, self.cores) if self.bytes else None

    @property
    def cost_per_tb(self) -> float | None:
        return self.cost / (self.bytes / TB) if self.bytes else None


@dataclass(frozen=True)
class StoreCost:
    """The cost of a store for `capacity_bytes` of user data, over the years of its amortisation."""

    protection: Protection
    medium: Medium
    capacity_bytes: float
    years: float
    raw_bytes: float
    drives: int
    nodes: int
    watts: float
    drives_cost: float
    nodes_cost: float
    energy_cost: float
    replacements_cost: float

    @property
    def total_cost(self) -> float:
        return self.drives_cost + self.nodes_cost + self.energy_cost + self.replacements_cost

    @property
    def cost_per_usable_tb_year(self) -> float:
        return self.total_cost / (self.capacity_bytes / TB) / self.years


def store_cost(prices: Prices, medium: Medium, protection: Protection, capacity_bytes: float) -> StoreCost:
    """Total cost of ownership, with whole drives in whole nodes and at least one node for each copy or chunk."""
    storage, years = prices.storage, prices.amortisation.years
    raw_bytes = capacity_bytes * protection.factor / storage.fill_share
    drives = math.ceil(raw_bytes / TB / medium.tb_per_drive)
    nodes = max(math.ceil(drives / storage.drives_per_node), protection.hosts)
    drives = max(drives, nodes)
    watts = drives * medium.watts_per_drive + nodes * storage.watts_per_node
    drives_cost = drives * medium.tb_per_drive * medium.price_per_tb
    return StoreCost(
        protection=protection,
        medium=medium,
        capacity_bytes=capacity_bytes,
        years=years,
        raw_bytes=raw_bytes,
        drives=drives,
        nodes=nodes,
        watts=watts,
        drives_cost=drives_cost,
        nodes_cost=nodes * storage.price_per_node,
        energy_cost=prices.energy(watts, hours=years * HOURS_PER_YEAR),
        replacements_cost=drives_cost * medium.replaced_per_year * years,
    )


@dataclass(frozen=True)
class Relative:
    """One arm relative to the first, with raw capacity in place of price, as in Red Hat's Spark-on-Ceph tests.

    `time` and `capacity` are ratios to the baseline; below 1 is faster, or smaller.
    """

    time: float
    capacity: float

    @property
    def performance(self) -> float:
        """Work done in the same time; above 1 is faster."""
        return 1 / self.time

    @property
    def price_performance(self) -> float:
        """Time × raw capacity; below 1 the same work costs less storage-time than with the baseline."""
        return self.time * self.capacity


def relative(seconds: Sequence[float], protections: Sequence[Protection]) -> list[Relative]:
    """Each arm relative to the first."""
    return [
        Relative(own / seconds[0], protected.factor / protections[0].factor)
        for own, protected in zip(seconds, protections, strict=True)
    ]


CORE_HOURS = "core-hours"
"""The unit of cost without prices: the cores of the whole cluster times the hours."""


@dataclass(frozen=True)
class CompletedWork:
    """The work of a run: seconds of each complete round, for `bytes` of input or output.

    `unit` is `GB` for work of fixed time, whose amount varies, and `run` otherwise.
    """

    unit: str
    rounds: Costs
    bytes: float | None

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(self.rounds.values())


def completed_work(run: Run, names: Collection[str] | None = None) -> CompletedWork:
    """All work of the run, or only the pieces in `names`. Rounds in which a piece is missing are left out.

    Pieces of one name within a round are concurrent: their median stands for them. `bytes` are those of the largest
    piece, since pieces of one round work on the same data, but where each is for another number of clients and moves
    the data again, those of all; for TPC-DS they are the raw data of its scale factor, which is the convention.
    """
    pieces = measures_in_total(run)
    found = {name: piece for name, piece in pieces.items() if names is None or name in names}
    by_amount = [piece for piece in found.values() if piece.fixed_time and piece.bytes]
    if by_amount:
        rounds = complete_rounds([piece.costs(PER_GB) for piece in by_amount])
        return CompletedWork("GB", {number: statistics.fmean(costs) for number, costs in rounds.items()}, GB)
    moved_again = all(piece.clients for piece in found.values())
    size = (math.fsum if moved_again else max)([piece.bytes for piece in found.values()] or [0.0])
    if run.description.scale and any("user" not in sample for sample in run.of_kind("query")):
        size = run.description.scale * GB
    rounds = complete_rounds([piece.costs(SECONDS) for piece in found.values()])
    return CompletedWork("run", {number: math.fsum(costs) for number, costs in rounds.items()}, size or None)


def measures_in_total(run: Run) -> dict[str, Measure]:
    """The measures of the run that count in totals, by name."""
    return {name: piece for name, piece in measures_by_name(run).items() if not piece.excluded_from_total}


def cluster_size(run: Run) -> ClusterSize:
    """The size of the run's cluster. Raises `ValueError` for a run without one."""
    if not run.description.size:
        raise ValueError(f"{run.description.id} ran on no cluster")
    return ClusterSize.from_json(run.description.size)


def hourly(size: ClusterSize, prices: Prices | None) -> float:
    """The engine's price of an hour of the whole cluster; in core-hours without prices."""
    return cluster_hour(size, prices) if prices else float(promised(size).cores)


def concurrent_clusters(run: Run) -> int:
    """The greatest number of concurrent applications, each on a cluster of the run's size; at least 1."""
    applications = counted(run, "application")
    return most_at_once(applications, [1] * len(applications)) if applications else 1


def mean_clusters(run: Run) -> float:
    """The number of clusters that a run pays for, on average over the seconds of its work.

    It is 1 where no two applications ran at once. Otherwise each application pays for its cluster from its submission
    to its end, since the phases of such a run differ in their number of clusters. The greatest number stands for the
    average where the time of an application is unknown, or where the work is counted by its amount.
    """
    most, done = concurrent_clusters(run), completed_work(run)
    applications = [one for one in counted(run, "application") if one.get("repetition", 1) in done.rounds]
    if most == 1 or done.unit != "run" or not all(one.get("elapsed_ms") for one in applications):
        return float(most)
    paid = dict.fromkeys(done.rounds, 0.0)
    for one in applications:
        paid[one.get("repetition", 1)] += seconds_of(one)
    return statistics.median(paid.values()) / statistics.median(done.seconds) if done.seconds else float(most)


def run_cost(run: Run, prices: Prices) -> RunCost:
    """The cost of the median repetition. Raises `ValueError` where none was completed.

    Concurrent applications have a cluster each; see `mean_clusters`. `RunCost.cores` are those at work at once.
    """
    done, size = completed_work(run), cluster_size(run)
    if not done.seconds:
        raise ValueError(f"{run.description.id} completed no repetition")
    seconds = statistics.median(done.seconds)
    cost = mean_clusters(run) * hourly(size, prices) * seconds / 3600
    return RunCost(seconds, concurrent_clusters(run) * size.working_cores, cost, done.bytes)


@dataclass(frozen=True)
class Sizing:
    """A curve with the `unit` of its work (`run` or `GB`), the `bytes` of one unit, and the `currency` of its costs."""

    curve: Curve
    unit: str
    bytes: float | None
    currency: str
    clusters: int
    """The greatest number of concurrent clusters, each of the curve's size."""
    left_out: tuple[str, ...]
    """Measures that only some of the sizes completed; they are excluded from all times."""


CONDITIONS: Mapping[str, Callable[[Description], object]] = {
    "workload": lambda run: run.workload,
    "options": lambda run: run.options,
    "scale": lambda run: run.scale,
    "launcher": lambda run: run.launcher,
    "profile": lambda run: run.profile,
    "settings": lambda run: run.settings,
    "cluster size": lambda run: run.size,
    "lake": lambda run: run.lake.get("name"),
    "gateways": lambda run: (run.lake.get("gateways"), len(run.lake.get("endpoints", ()))),
    "machine": lambda run: run.machine,
    "versions": lambda run: run.versions,
}
"""The properties that two runs must share to be alike."""


def conditions(run: Run, names: Iterable[str] = CONDITIONS) -> tuple[str, ...]:
    """The run's values of these conditions, equal where they are equal."""
    return tuple(json.dumps(CONDITIONS[name](run.description), sort_keys=True, default=str) for name in names)


def differing(runs: Sequence[Run], names: Sequence[str] = tuple(CONDITIONS)) -> tuple[str, ...]:
    """The names of the conditions in which the runs differ."""
    values = zip(*(conditions(run, names) for run in runs), strict=True)
    return tuple(name for name, found in zip(names, values, strict=True) if len(set(found)) > 1)


def differ_in_size_alone(runs: Sequence[Run]) -> bool:
    """Return whether the runs differ in their number of cores and in no other of the conditions."""
    sizes = {(working_cores(run.description.size), repr(run.description.size)) for run in runs}
    cores = {count for count, _ in sizes}
    return differing(runs) == ("cluster size",) and len(cores) == len(sizes) and 0 not in cores


def sizing(runs: Sequence[Run], prices: Prices | None = None) -> Sizing:
    """The curve of runs that `differ_in_size_alone`. Raises `ValueError` where no repetition succeeded on any size.

    Predicted sizes are priced with the driver, the executors and the `mean_clusters` of the largest measured size.
    """
    completed = [names for run in runs if (names := set(measures_in_total(run)))]
    names = set.intersection(*(completed or [set()]))
    times: dict[int, Costs] = {}
    sizes: dict[int, ClusterSize] = {}
    done = [completed_work(run, names) for run in runs]
    for run, one in zip(runs, done, strict=True):
        size = cluster_size(run)
        times[size.working_cores] = one.rounds
        sizes[size.working_cores] = size
    largest = sizes[max(sizes)]
    paid = {cluster_size(run).working_cores: mean_clusters(run) for run in runs}

    def cluster_hour(cores: int) -> float:
        clusters = paid.get(cores, paid[largest.working_cores])
        return clusters * hourly(sizes.get(cores) or _scaled(largest, cores), prices)

    unit = next((one.unit for one in done if one.seconds), "run")
    size_bytes = next((one.bytes for one in done if one.seconds), None)
    currency = prices.currency if prices else CORE_HOURS
    left_out = set().union(*completed) - names
    return Sizing(
        curve=usl.curve(times, cluster_hour, in_turns=measured_in_turns(runs)),
        unit=unit,
        bytes=size_bytes,
        currency=currency,
        clusters=max(concurrent_clusters(run) for run in runs),
        left_out=tuple(sorted(left_out, key=natural_key)),
    )


def _scaled(size: ClusterSize, cores: int) -> ClusterSize:
    return ClusterSize(size.driver, size.executor, math.ceil(cores / size.executor.cores))


def cluster_sizes(cores: Sequence[int], executor: ProcessSize, driver: ProcessSize) -> list[ClusterSize]:
    """Clusters with these numbers of executor cores. Raises `ValueError` for a part of an executor."""
    for count in cores:
        if count < 1 or count % executor.cores:
            raise ValueError(f"{count} cores are not a whole number of executors with {executor.cores} cores each")
    return [ClusterSize(driver, executor, count // executor.cores) for count in cores]
