"""What runs cost for what they did, and what the store costs over its life."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from penstock import units
from penstock.lab.analysis import cost
from penstock.lab.analysis.cost import TB, Protection, Relative, RunCost, StoreCost, Work
from penstock.lab.analysis.verdicts import spread
from penstock.lab.records import Run
from penstock.lab.report import checks, comparison, scaling
from penstock.lab.report.plots import base as base_plots
from penstock.lab.report.render import Document, KeyFigure, Plot, Section, Table, title
from penstock.prices import Prices


@dataclass(frozen=True)
class Question:
    """What is to be priced. `protections` as many as runs say how the store of each run was protected.

    `capacity_bytes` is users' data the store is to hold; None where only runs are of interest.
    """

    prices: Prices
    protections: Sequence[Protection]
    capacity_bytes: float | None = None


@dataclass(frozen=True)
class _Priced:
    name: str
    run: Run
    work: Work
    cost: RunCost


def document(runs: Sequence[Run], asked: Question) -> Document:
    """Raises `ValueError` where a run has no cluster, or completed no repetition."""
    names = _names(runs)
    priced = [
        _Priced(name, run, cost.work(run), cost.run_cost(run, asked.prices))
        for name, run in zip(names, runs, strict=True)
    ]
    stores = _stores(asked)
    doubts = checks.doubts(runs, names)
    sections = [*_runs(priced, asked), *_capacity(priced, asked), *_scaling(runs, asked), *_ownership(stores, asked)]
    used = ["amortisation", "compute", "power", *(["storage", "media"] if stores else [])]
    sections.append(scaling.sources(asked.prices, *used))
    if runs:
        sections.append(checks.reproduction([run.description for run in runs]))
    return Document(
        kicker="Penstock lab · price/performance"
        + (f" · {title(runs[0].description)}" if runs and not _mixed(runs) else ""),
        headline=doubts
        + checks.unfinished(runs)
        + " ".join([*_headline_of_runs(priced, asked.prices), *_headline_of_stores(stores, asked)]),
        good=not doubts,
        key_figures=[*_figures_of_runs(priced, asked.prices), *_figures_of_stores(stores, asked.prices)],
        sections=sections,
        data=_data(priced, stores, asked),
    )


def _names(runs: Sequence[Run]) -> list[str]:
    if _mixed(runs):
        return [f"{title(run.description)}, {run.description.arm}" for run in runs]
    return comparison.arm_names(runs)


def _mixed(runs: Sequence[Run]) -> bool:
    return len({title(run.description) for run in runs}) > 1


def _stores(asked: Question) -> list[StoreCost]:
    if asked.capacity_bytes is None:
        return []
    different = list(dict.fromkeys(asked.protections))
    return [
        cost.store_cost(asked.prices, medium, kept, asked.capacity_bytes)
        for medium in asked.prices.media.values()
        for kept in different
    ]


def _headline_of_runs(priced: Sequence[_Priced], prices: Prices) -> list[str]:
    if not priced:
        return []
    best = min(priced, key=lambda one: one.cost.cost)
    dearest = max(priced, key=lambda one: one.cost.cost)
    if _mixed([one.run for one in priced]):
        low, high = (scaling.amount(one.cost.cost, prices.currency) for one in (best, dearest))
        return [f"A {best.work.unit} costs from {low} ({best.name}) to {high} ({dearest.name})."]
    name = units.capitalised(title(best.run.description))
    per_tb = f", {scaling.amount(best.cost.cost_per_tb, prices.currency)} per TB" if best.cost.cost_per_tb else ""
    cost = f"{scaling.amount(best.cost.cost, prices.currency)} a {best.work.unit}{per_tb}"
    if len(priced) == 1:
        return [f"{name} costs {cost}."]
    factor = dearest.cost.cost / best.cost.cost
    return [f"{name} costs least with {best.name}: {cost}; with {dearest.name} it costs {units.number(factor)}×."]


def _headline_of_stores(stores: Sequence[StoreCost], asked: Question) -> list[str]:
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
        f"{scaling.amount(cheapest.total_cost, asked.prices.currency)}{''.join(against)}."
    ]


def _figures_of_runs(priced: Sequence[_Priced], prices: Prices) -> list[KeyFigure]:
    if not priced:
        return []
    best = min(priced, key=lambda one: one.cost.cost)
    figures = [KeyFigure(f"A {best.work.unit}", scaling.amount(best.cost.cost, prices.currency), best.name)]
    if best.cost.cost_per_tb is not None and best.cost.gb_per_core_hour is not None:
        figures.append(KeyFigure("A TB processed", scaling.amount(best.cost.cost_per_tb, prices.currency), best.name))
        figures.append(KeyFigure("GB per core and hour", units.number(best.cost.gb_per_core_hour), best.name))
    return figures


def _figures_of_stores(stores: Sequence[StoreCost], prices: Prices) -> list[KeyFigure]:
    return [
        KeyFigure(
            f"A usable TB a year, {store.protection.name}",
            scaling.amount(store.cost_per_usable_tb_year, prices.currency),
            store.medium.title,
        )
        for store in stores[:2]
    ]


def _runs(priced: Sequence[_Priced], asked: Question) -> list[Section]:
    if not priced:
        return []
    currency = asked.prices.currency
    rows = []
    for one in priced:
        seconds = spread(one.work.seconds)
        rows.append(
            (
                one.name,
                units.count(one.cost.cores),
                units.digits(seconds.median),
                f"{units.digits(seconds.low)}–{units.digits(seconds.high)}" if seconds.count > 1 else "",
                units.number(one.cost.gb_per_core_hour) if one.cost.gb_per_core_hour else "",
                scaling.digits(one.cost.cost),
                scaling.digits(one.cost.cost_per_tb) if one.cost.cost_per_tb else "",
            )
        )
    unit = priced[0].work.unit
    columns = (
        *("run", "cores", f"seconds a {unit}", "range", "GB per core and hour"),
        *(f"{currency} a {unit}", f"{currency} per TB"),
    )
    note = (
        "The cost is that of the whole cluster, driver included, while the work went on; its start is not counted. "
        "GB per core and hour is size / executor cores / seconds × 3600."
    )
    return [Section("What the runs cost", note, [Table(columns, rows, numeric=frozenset(range(1, 7)))], brief=True)]


def _capacity(priced: Sequence[_Priced], asked: Question) -> list[Section]:
    """Red Hat's view: time and raw capacity only, where each run's protection was told."""
    found = _relative(priced, asked)
    rows = [
        (
            one.name,
            kept.name,
            f"{units.number(kept.factor)}×",
            f"{units.number(against.time)}×",
            f"{units.number(against.capacity)}×",
            f"{units.number(against.price_performance)}×",
        )
        for one, kept, against in zip(priced, asked.protections, found, strict=False)
    ]
    columns = ("run", "protection", "raw capacity", "time", "price of capacity", "price × time")
    note = (
        f"Against {priced[0].name}, with raw capacity as the stand-in for price, as Red Hat compared Ceph with HDFS: "
        "below 1 the same work for less."
        if found
        else ""
    )
    table = Table(columns, rows, numeric=frozenset(range(2, 6)))
    return [Section("Time and raw capacity", note, [table], brief=True)] if found else []


def _relative(priced: Sequence[_Priced], asked: Question) -> list[Relative]:
    if len(priced) < 2 or len(priced) != len(asked.protections) or _mixed([one.run for one in priced]):
        return []
    return cost.relative([statistics.median(one.work.seconds) for one in priced], asked.protections)


def _scaling(runs: Sequence[Run], asked: Question) -> list[Section]:
    if not runs or not cost.same_but_for_size(runs):
        return []
    return scaling.sections(cost.sizing(runs, asked.prices))


def _ownership(stores: Sequence[StoreCost], asked: Question) -> list[Section]:
    if not stores:
        return []
    currency, storage = asked.prices.currency, asked.prices.storage
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
    whole = [
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
    columns = ("media", "protection", "raw", "drives", "nodes", f"{currency} in all", f"{currency} a usable TB a year")
    note = (
        f"For {units.size(stores[0].capacity_bytes)} of users' data over {units.number(stores[0].years)} years, filled "
        f"to {storage.fill_share:.0%}. No two copies or chunks share a node, so 4+2 needs six however little they hold."
    )
    made_of = [(name, *(units.count(values[index]) for values in parts.values())) for index, name in enumerate(names)]
    return [
        Section(
            "Total cost of ownership of the store",
            note,
            [plot, Table(columns, whole, numeric=frozenset(range(2, 7)))],
            brief=True,
        ),
        Section(
            "What it is made of",
            f"In {currency}. Power is that of drives and nodes, times the site's PUE of {asked.prices.power.pue:g}.",
            [Table(("store", *parts), made_of, numeric=frozenset(range(1, 5)))],
        ),
    ]


def _data(priced: Sequence[_Priced], stores: Sequence[StoreCost], asked: Question) -> dict[str, object]:
    return {
        "currency": asked.prices.currency,
        "prices_of": asked.prices.date,
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
            for found in _relative(priced, asked)
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
        "prices": {key: found.value for key, found in asked.prices.sources.items()},
    }
