"""Workloads by store: time against the price of raw capacity. Pure functions of the runs.

Red Hat's comparison of Ceph with HDFS over eight workloads has this form: the price of a store is the raw capacity that
it needs for user data (3.0 for three copies, 1.5 for four data and two parity chunks), its performance the time that
the work took.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock import units
from penstock.lab.analysis import cost
from penstock.lab.analysis.cost import CompletedWork, Protection, Relative
from penstock.lab.analysis.samples import failed_queries, gb_per_core_hour, measured_in_turns, natural_key
from penstock.lab.analysis.verdicts import Ratio, holm, ratio
from penstock.lab.records import Run
from penstock.prices import Medium, Prices


@dataclass(frozen=True)
class Store:
    """One arm. `lake` is recorded by its runs; `protection` is None where it is unknown."""

    name: str
    lake: Mapping[str, Any]
    protection: Protection | None

    @property
    def raw_factor(self) -> float | None:
        return self.protection.factor if self.protection else None


@dataclass(frozen=True)
class Cell:
    """One workload on one store."""

    run: Run
    work: CompletedWork
    stored_bytes: float | None
    """User data: the data set that the workload reads, or its output where it reads none."""

    @property
    def seconds(self) -> float:
        return statistics.median(self.work.seconds)

    @property
    def gb_per_core_hour(self) -> float | None:
        """Throughput per core; None where the workload has no size, or ran on no cluster."""
        if not self.work.bytes or not self.run.description.size:
            return None
        cores = cost.concurrent_clusters(self.run) * cost.cluster_size(self.run).working_cores
        return gb_per_core_hour(self.work.bytes, self.seconds, cores)

    def raw_bytes(self, store: Store) -> float | None:
        """Bytes on the store's drives; None where they are unknown."""
        return None if self.stored_bytes is None or store.raw_factor is None else self.stored_bytes * store.raw_factor


@dataclass(frozen=True)
class Row:
    """One workload, or one series (`read`, `write`) of a workload that is a curve against its clients."""

    run: Run
    """Any of its runs, for the label."""
    series: str
    cells: Mapping[str, Cell]
    """Cells by the store's name, without stores that completed no round."""
    left_out: tuple[str, ...] = ()
    """Measures that only some of the stores completed; they are excluded from all times."""
    failed: tuple[str, ...] = ()
    """The stores that completed no round of it."""


@dataclass(frozen=True)
class StoreMatrix:
    stores: tuple[Store, ...]
    """The baseline first."""
    rows: tuple[Row, ...]

    @property
    def baseline(self) -> Store:
        return self.stores[0]

    def ratio(self, row: Row, store: Store) -> Ratio | None:
        """The ratio of the store's time to the baseline's; None where one of them did not complete the row."""
        return self._ratios.get((id(row), store.name))

    @cached_property
    def _ratios(self) -> Mapping[tuple[int, str], Ratio]:
        """The ratios by row and store. Verdicts on all cells are one family, so they are corrected together."""
        found: dict[tuple[int, str], Ratio] = {}
        for row in self.rows:
            if before := row.cells.get(self.baseline.name):
                for name, after in row.cells.items():
                    in_turns = measured_in_turns((before.run, after.run))
                    found[id(row), name] = ratio(
                        name, before.work.rounds, after.work.rounds, before.work.unit, in_turns=in_turns
                    )
        family = {key: part for key, part in found.items() if part.name != self.baseline.name}
        return {**found, **dict(zip(family, holm(list(family.values())), strict=True))}

    def relative(self, row: Row, store: Store) -> Relative | None:
        """Time and price of raw capacity relative to the baseline; None where one of the two is unknown."""
        found, capacity = self.ratio(row, store), self.capacity(store)
        return None if found is None or capacity is None else Relative(found.ratio, capacity)

    def capacity(self, store: Store) -> float | None:
        """The price of the store's raw capacity over the baseline's; None where it is unknown."""
        own, first = store.raw_factor, self.baseline.raw_factor
        return None if own is None or first is None else own / first

    def mean_time(self, store: Store) -> float | None:
        """The geometric mean of the time ratios, over the workloads that store and baseline completed."""
        found = [ratio.ratio for row in self.rows if (ratio := self.ratio(row, store))]
        return statistics.geometric_mean(found) if found else None


@dataclass(frozen=True)
class StoreChoices:
    """The reader's choices: the baseline, which defaults to the first arm, and protections of stores by arm.

    A protection given here precedes the recorded one.
    """

    baseline: str | None = None
    protections: Mapping[str, Protection] = field(default_factory=dict)


def store_matrix(runs: Sequence[Run], chosen: StoreChoices = StoreChoices()) -> StoreMatrix:
    """The table of workloads and stores. An arm must be the same store in every workload.

    Raises `ValueError` where the runs do not form such a table.
    """
    names = list(dict.fromkeys(run.description.arm for run in runs))
    for name in (chosen.baseline, *chosen.protections):
        if name is not None and name not in names:
            raise ValueError(f"there is no arm {name}; the arms are {', '.join(names)}")
    if len(names) < 2:
        raise ValueError("all runs are of one arm")
    baseline = chosen.baseline or names[0]
    ordered = [baseline, *(name for name in names if name != baseline)]
    stores = tuple(_store(name, [run for run in runs if run.description.arm == name], chosen) for name in ordered)
    groups = _groups(runs)
    rows = [row for group in groups for row in _rows(group, ordered)]
    if not rows:
        raise ValueError("no workload was completed")
    if all(len(row.cells) < 2 for row in rows):
        raise ValueError(_unlike(groups) or "no two arms completed the same workload")
    return StoreMatrix(stores, tuple(rows))


def capacity_price(prices: Prices, medium: Medium, protection: Protection) -> float:
    """The price of drives for a TB of user data, at the fill share and in the currency of the prices."""
    return medium.price_per_tb * protection.factor / prices.storage.fill_share


def _store(name: str, runs: Sequence[Run], chosen: StoreChoices) -> Store:
    lake = runs[0].description.lake
    if len({str(run.description.lake.get("name")) for run in runs}) > 1:
        raise ValueError(f"the arm {name} has different lakes in different workloads")
    recorded = str((lake.get("store") or {}).get("protection") or "")
    return Store(name, lake, chosen.protections.get(name) or (cost.parse_protection(recorded) if recorded else None))


_WORK = ("workload", "options", "scale")
_CLUSTER = ("launcher", "cluster size", "profile", "settings")
"""The properties that the arms of one row share besides the work: another cluster is not another store."""


def _groups(runs: Sequence[Run]) -> list[dict[str, Run]]:
    """Runs by arm, for each workload on one kind of cluster, in the order of their first run."""
    found: dict[tuple[str, ...], dict[str, Run]] = {}
    for run in runs:
        own = found.setdefault(cost.conditions(run, (*_WORK, *_CLUSTER)), {})
        if run.description.arm in own:
            raise ValueError(f"{run.description.workload} was measured twice on {run.description.arm}")
        own[run.description.arm] = run
    return list(found.values())


def _unlike(groups: Sequence[Mapping[str, Run]]) -> str:
    """The reason why the first workload with the same work on several arms forms no row; empty where there is none."""
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in (run for group in groups for run in group.values()):
        alike.setdefault(cost.conditions(run, _WORK), []).append(run)
    for runs in alike.values():
        if differences := cost.differing(runs, _CLUSTER):
            arms = units.some(list(dict.fromkeys(run.description.arm for run in runs)))
            workload = runs[0].description.workload
            return f"{workload}: the arms {arms} differ in {units.some(differences)}, not only in the store"
    return ""


def _rows(group: Mapping[str, Run], order: Sequence[str]) -> list[Row]:
    pieces = {name: cost.measures_in_total(group[name]) for name in order if name in group}
    done = {name: found for name, found in pieces.items() if found}
    if not done:
        return []
    failed = {query for run in group.values() for query in failed_queries(run)}
    everything = {piece for found in done.values() for piece in found} | failed
    common = set.intersection(*(set(found) for found in done.values())) - failed
    left_out = tuple(sorted(everything - common, key=natural_key))
    first = next(iter(done.values()))
    none_done = tuple(name for name in order if name in group and name not in done)
    by_series: dict[str, list[str]] = {}
    for name in first:
        if name in common:
            by_series.setdefault(first[name].series if first[name].clients else "", []).append(name)
    return [
        Row(next(iter(group.values())), series, cells, left_out, none_done)
        for series, names in by_series.items()
        if (cells := {name: cell for name in done if (cell := _cell(group[name], series, names)) is not None})
    ]


def _cell(run: Run, series: str, names: Sequence[str]) -> Cell | None:
    found = cost.completed_work(run, names)
    if not found.seconds:
        return None
    stored = _stored_bytes(run) or found.bytes
    if series:
        # The stored bytes exist once, however many numbers of clients move them again.
        pieces = cost.measures_in_total(run)
        stored = _stored_bytes(run) or max(pieces[name].bytes for name in names) or None
    return Cell(run, found, stored)


def _stored_bytes(run: Run) -> float | None:
    """Bytes of the distinct data sets that the run recorded; None without any."""
    manifests = {repr(sample["manifest"]): sample["manifest"] for sample in run.of_kind("dataset")}
    sizes = [
        manifest["bytes"] if "bytes" in manifest else sum(table["bytes"] for table in manifest.get("tables", ()))
        for manifest in manifests.values()
    ]
    return math.fsum(sizes) or None
