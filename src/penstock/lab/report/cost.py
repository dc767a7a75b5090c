"""The report on costs: price/performance of runs, and total cost of ownership of stores."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from penstock import units
from penstock.lab.analysis import cost
from penstock.lab.analysis.cost import TB, CompletedWork, Protection, Relative, RunCost, StoreCost
from penstock.lab.analysis.doubts import doubts
from penstock.lab.analysis.verdicts import spread
from penstock.lab.records import Run
from penstock.lab.report import comparison, scaling
from penstock.lab.report.elements import checks
from penstock.lab.report.elements.render import Document, KeyFigure, Plot, Section, Table, range_text, workload_title
from penstock.lab.report.plots import base as base_plots
from penstock.prices import Prices

_USUAL = ("3x", "4+2")


@dataclass(frozen=True)
class PriceOptions:
    """The options of a price report.

    With one protection per run, `protections` are those of the runs' stores, in order. Without any, a store is priced
    with three copies and with 4+2. `capacity_bytes` is the user data that the store is to hold; None prices the runs
    alone.
    """

    prices: Prices
    protections: Sequence[Protection] = ()
    capacity_bytes: float | None = None


@dataclass(frozen=True)
class _Priced:
    name: str
    run: Run
    work: CompletedWork
    cost: RunCost


def document(runs: Sequence[Run], question: PriceOptions) -> Document:
    """Raises `ValueError` where a run has no cluster, or completed no repetition."""
    names = _names(runs)
    priced = [
        _Priced(name, run, cost.completed_work(run), cost.run_cost(run, question.prices))
        for name, run in zip(names, runs, strict=True)
    ]
    stores = _stores(question)
    sections = [
        *checks.failures(runs, names),
        *_runs(priced, question),
        *_capacity(priced, question),
        *_scaling(runs, question),
        *_ownership(stores, question),
    ]
    used = ["amortisation", "compute", "power", *(["storage", "media"] if stores else [])]
    sections.append(scaling.sources(question.prices, *used))
    if runs:
        sections.append(checks.reproduction(runs))
    return Document(
        kicker="Penstock lab · price/performance"
        + (f" · {workload_title(runs[0].description)}" if runs and not _mixed(runs) else ""),
        result=" ".join([*_headline_of_runs(priced, question.prices), *_headline_of_stores(stores, question)]),
        doubts=doubts(runs, names=names),
        key_figures=[*_figures_of_runs(priced, question.prices), *_figures_of_stores(stores, question.prices)],
        sections=sections,
        data=_data(priced, stores, question),
    )


def _names(runs: Sequence[Run]) -> list[str]:
    if _mixed(runs):
        return [f"{workload_title(run.description)}, {run.description.arm}" for run in runs]
    return comparison.arm_names(runs)


def _mixed(runs: Sequence[Run]) -> bool:
    return len({workload_title(run.description) for run in runs}) > 1


def _stores(question: PriceOptions) -> list[StoreCost]:
    if question.capacity_bytes is None:
        return []
    different = list(dict.fromkeys(question.protections)) or [cost.parse_protection(name) for name in _USUAL]
    return [
        cost.store_cost(question.prices, medium, protection, question.capacity_bytes)
        for medium in question.prices.media.values()
        for protection in different
    ]


def _headline_of_runs(priced: Sequence[_Priced], prices: Prices) -> list[str]:
    if not priced:
        return []
    best = min(priced, key=lambda one: one.cost.cost)
    dearest = max(priced, key=lambda one: one.cost.cost)
    if _mixed([one.run for one in priced]):
        low, high = (scaling.amount(one.cost.cost, prices.currency) for one in (best, dearest))
        return [f"A {best.work.unit} costs from {low} ({best.name}) to {high} ({dearest.name})."]
    name = units.capitalised(workload_title(best.run.description))
    per_tb = f", {scaling.amount(best.cost.cost_per_tb, prices.currency)} per TB" if best.cost.cost_per_tb else ""
    cost = f"{scaling.amount(best.cost.cost, prices.currency)} per {best.work.unit}{per_tb}"
    if len(priced) == 1:
        return [f"{name} costs {cost}."]
    factor = dearest.cost.cost / best.cost.cost
    return [
        f"{name} costs least with {best.name}: {cost}; with {dearest.name} it costs {units.number(factor)}× as much."
    ]


def _headline_of_stores(stores: Sequence[StoreCost], question: PriceOptions) -> list[str]:
    if not stores:
        return []
    cheapest = min(stores, key=lambda store: store.total_cost)
    others = [store for store in stores if store.medium == cheapest.medium and store != cheapest]
    against = [
        f"; {store.protection.name} costs {units.number(store.total_cost / cheapest.total_cost)}× as much"
        for store in others
    ]
    return [
        f"{units.size(cheapest.capacity_bytes)} for {units.number(cheapest.years)} years cost least on "
        f"{cheapest.medium.title} with {cheapest.protection.name}: "
        f"{scaling.amount(cheapest.total_cost, question.prices.currency)}{''.join(against)}."
    ]


def _figures_of_runs(priced: Sequence[_Priced], prices: Prices) -> list[KeyFigure]:
    if not priced:
        return []
    best = min(priced, key=lambda one: one.cost.cost)
    figures = [KeyFigure(f"Cost per {best.work.unit}", scaling.amount(best.cost.cost, prices.currency), best.name)]
    if best.cost.cost_per_tb is not None and best.cost.gb_per_core_hour is not None:
        figures.append(
            KeyFigure("Cost per TB processed", scaling.amount(best.cost.cost_per_tb, prices.currency), best.name)
        )
        figures.append(KeyFigure("GB per core and hour", units.number(best.cost.gb_per_core_hour), best.name))
    return figures


def _figures_of_stores(stores: Sequence[StoreCost], prices: Prices) -> list[KeyFigure]:
    return [
        KeyFigure(
            f"Cost per usable TB and year, {store.protection.name}",
            scaling.amount(store.cost_per_usable_tb_year, prices.currency),
            store.medium.title,
        )
        for store in stores[:2]
    ]


def _runs(priced: Sequence[_Priced], question: PriceOptions) -> list[Section]:
    if not priced:
        return []
    currency = question.prices.currency
    rows = []
    for one in priced:
        seconds = spread(one.work.seconds)
        rows.append(
            (
                one.name,
                units.count(one.cost.cores),
                units.digits(seconds.median),
                range_text(seconds),
                units.number(one.cost.gb_per_core_hour) if one.cost.gb_per_core_hour else "",
                scaling.digits(one.cost.cost),
                scaling.digits(one.cost.cost_per_tb) if one.cost.cost_per_tb else "",
            )
        )
    unit = priced[0].work.unit
    columns = (
        *("run", "cores", f"seconds per {unit}", "range", "GB per core and hour"),
        *(f"{currency} per {unit}", f"{currency} per TB"),
    )
    note = (
        "The cost covers the whole cluster, driver and overheads included, for the duration of the work, without its "
        "start. GB per core and hour is size / executor cores / seconds × 3600."
    )
    if any(cost.concurrent_clusters(one.run) > 1 for one in priced):
        note += (
            " Where applications ran at once, each has a cluster, whose cost covers the time from the application's "
            "submission to its end."
        )
    return [Section("Cost of the runs", note, [Table(columns, rows, numeric=frozenset(range(1, 7)))], brief=True)]


def _capacity(priced: Sequence[_Priced], question: PriceOptions) -> list[Section]:
    """Time and raw capacity alone, as in Red Hat's comparison, where each run's protection is given."""
    found = _relative(priced, question)
    rows = [
        (
            one.name,
            protection.name,
            f"{units.number(protection.factor)}×",
            f"{units.number(against.time)}×",
            f"{units.number(against.capacity)}×",
            f"{units.number(against.price_performance)}×",
        )
        for one, protection, against in zip(priced, question.protections, found, strict=False)
    ]
    columns = ("run", "protection", "raw capacity", "time", "price of capacity", "price × time")
    note = (
        f"Relative to {priced[0].name}, with raw capacity in place of price, as in Red Hat's comparison of Ceph with "
        "HDFS. Below 1 the same work costs less."
        if found
        else ""
    )
    table = Table(columns, rows, numeric=frozenset(range(2, 6)))
    return [Section("Time and raw capacity", note, [table], brief=True)] if found else []


def _relative(priced: Sequence[_Priced], question: PriceOptions) -> list[Relative]:
    if len(priced) < 2 or len(priced) != len(question.protections) or _mixed([one.run for one in priced]):
        return []
    return cost.relative([statistics.median(one.work.seconds) for one in priced], question.protections)


def _scaling(runs: Sequence[Run], question: PriceOptions) -> list[Section]:
    if not runs or not cost.differ_in_size_alone(runs):
        return []
    return scaling.sections(cost.sizing(runs, question.prices))


def _ownership(stores: Sequence[StoreCost], question: PriceOptions) -> list[Section]:
    if not stores:
        return []
    currency, storage = question.prices.currency, question.prices.storage
    names = [f"{store.medium.title}, {store.protection.name}" for store in stores]
    parts = {
        "drives": [store.drives_cost for store in stores],
        "nodes": [store.nodes_cost for store in stores],
        "power": [store.energy_cost for store in stores],
        "replacements": [store.replacements_cost for store in stores],
    }

    def write(value: float) -> str:
        return scaling.amount(value, currency)

    text = "; ".join(f"{name}: {write(store.total_cost)}" for name, store in zip(names, stores, strict=True))
    figure = base_plots.stacked_costs(names, parts, currency, write)
    plot = Plot("ownership", figure, f"{text}.", height=110 + 38 * len(stores))
    totals = [
        (
            store.medium.title,
            store.protection.name,
            units.data(store.raw_bytes),
            units.count(store.drives),
            units.count(store.nodes),
            units.count(store.total_cost),
            scaling.digits(store.cost_per_usable_tb_year),
        )
        for store in stores
    ]
    columns = (
        "media",
        "protection",
        "raw",
        "drives",
        "nodes",
        f"total, {currency}",
        f"{currency} per usable TB and year",
    )
    note = (
        f"For {units.size(stores[0].capacity_bytes)} of user data over {units.number(stores[0].years)} years, with "
        f"drives filled to {storage.fill_share:.0%}. No two copies or chunks share a node, so 4+2 needs six nodes."
    )
    made_of = [(name, *(units.count(values[index]) for values in parts.values())) for index, name in enumerate(names)]
    return [
        Section(
            "Total cost of ownership of the store",
            note,
            [plot, Table(columns, totals, numeric=frozenset(range(2, 7)))],
            brief=True,
        ),
        Section(
            "Cost components",
            f"In {currency}. Power is the consumption of drives and nodes, multiplied by the site's PUE of "
            f"{question.prices.power.pue:g}.",
            [Table(("store", *parts), made_of, numeric=frozenset(range(1, 5)))],
        ),
    ]


def _data(priced: Sequence[_Priced], stores: Sequence[StoreCost], question: PriceOptions) -> dict[str, object]:
    return {
        "currency": question.prices.currency,
        "prices_of": question.prices.date,
        "costs": [
            {
                "run": one.run.description.id,
                "seconds": list(one.work.seconds),
                "unit": one.work.unit,
                "bytes": one.cost.bytes,
                "cores": one.cost.cores,
                "cost": one.cost.cost,
                "cost_per_tb": one.cost.cost_per_tb,
                "gb_per_core_hour": one.cost.gb_per_core_hour,
            }
            for one in priced
        ],
        "relative": [
            {"time": found.time, "capacity": found.capacity, "price_performance": found.price_performance}
            for found in _relative(priced, question)
        ],
        "stores": [
            {
                "media": store.medium.title,
                "protection": store.protection.name,
                "usable_tb": store.capacity_bytes / TB,
                "raw_tb": store.raw_bytes / TB,
                "drives": store.drives,
                "nodes": store.nodes,
                "watts": store.watts,
                "years": store.years,
                "total_cost": store.total_cost,
                "cost_per_usable_tb_year": store.cost_per_usable_tb_year,
            }
            for store in stores
        ],
        "prices": {key: found.value for key, found in question.prices.sources.items()},
    }
