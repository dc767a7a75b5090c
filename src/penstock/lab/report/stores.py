"""The comparison of stores over several workloads: time, price of raw capacity, bytes on drives, and processor time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock import prices, units
from penstock.lab.analysis import stores
from penstock.lab.analysis.cost import Relative
from penstock.lab.analysis.doubts import LAKE, doubts
from penstock.lab.analysis.resources import core_seconds, usage
from penstock.lab.analysis.stores import Cell, Row, Store, StoreChoices, StoreMatrix
from penstock.lab.analysis.verdicts import FASTER, SLOWER, spread
from penstock.lab.records import Description, Run
from penstock.lab.report import comparison, scaling
from penstock.lab.report.elements import checks, resources
from penstock.lab.report.elements.render import (
    Document,
    KeyFigure,
    Part,
    Plot,
    Section,
    Table,
    range_text,
    workload_title,
)
from penstock.lab.report.plots import base as base_plots
from penstock.prices import Medium, Prices


def sections(found: StoreMatrix, labels: Sequence[str]) -> list[Section]:
    return [_amounts(found, labels), *_effort(found, labels), *_layouts(found)]


def _amounts(found: StoreMatrix, labels: Sequence[str]) -> Section:
    """Bytes stored by users and on drives, and throughput per core and hour."""
    stored, speeds = [], []
    for row, label in zip(found.rows, labels, strict=True):
        cells = [(row.cells.get(store.name), store) for store in found.stores]
        users = next((cell.stored_bytes for cell, _ in cells if cell and cell.stored_bytes), None)
        raw = [cell.raw_bytes(store) if cell else None for cell, store in cells]
        stored.append((label, *(units.data(amount) if amount is not None else "" for amount in (users, *raw))))
        rates = [cell.gb_per_core_hour if cell else None for cell, _ in cells]
        speeds.append((label, *(units.number(rate) if rate else "" for rate in rates)))
    names = [store.name for store in found.stores]
    numeric = frozenset(range(1, len(names) + 2))
    note = (
        "The first table lists the bytes that users store (the data set, or the output where there is none) and the "
        "bytes on the drives of each store. The second lists GB per core and hour: size / executor cores / seconds × "
        "3600, where the size of TPC-DS is the raw data of its scale factor."
    )
    return Section(
        "Bytes and throughput",
        note,
        [
            Table(("workload", "stored", *(f"raw, {name}" for name in names)), stored, numeric),
            Table(("GB per core and hour", *names), speeds, numeric),
        ],
    )


def _effort(found: StoreMatrix, labels: Sequence[str]) -> list[Section]:
    """Resources of the stores on the measuring machine; empty where there is none."""
    shares, figures, daemons = [], [], []
    listed: set[str] = set()
    for row, label in zip(found.rows, labels, strict=True):
        # The reads and writes of one run are two workloads here, but its repetitions were metered as a whole.
        cells = [cell for cell in row.cells.values() if cell.run.description.id not in listed]
        listed |= {cell.run.description.id for cell in cells}
        name = label.removesuffix(f", {row.series}") if row.series else label
        if any(usage(cell.run, _FIGURES[0][0]) for cell in cells):
            shares.append((name, *(_share(row.cells.get(store.name)) for store in found.stores)))
        for store in found.stores:
            cell = row.cells.get(store.name)
            if cell in cells and cell is not None:
                figures.append((name, store.name, *(_median(cell, key) for key, _ in _FIGURES)))
                daemons += _daemons(cell, name, store)
    if not shares:
        return []
    stores = [store.name for store in found.stores]
    columns = ("workload", "store", *(label for _, label in _FIGURES))
    parts: list[Part] = [
        Table(("core-seconds", *stores), shares, frozenset(range(1, len(stores) + 1))),
        Table(columns, figures, frozenset(range(2, len(columns))), folded="Memory and devices"),
    ]
    if daemons:
        columns = ("workload", "store", "daemon", "core-seconds", "peak memory", "read", "written")
        parts.append(Table(columns, daemons, frozenset(range(3, 7)), folded="Every daemon"))
    note = (
        "Core-seconds of the store and, in parentheses, of the applications, per repetition, from the kernel's "
        "counters. They cover only stores on the measuring machine, where store and applications share the cores."
    )
    return [Section("Work of the stores", note, parts)]


def _share(cell: Cell | None) -> str:
    own = usage(cell.run, _FIGURES[0][0]) if cell else []
    if cell is None or not own:
        return ""
    applications = core_seconds(cell.run)
    in_brackets = f" ({units.number(applications)})" if applications is not None else ""
    return f"{units.number(spread(own).median)}{in_brackets}"


_FIGURES = (
    ("store_core_seconds", "core-seconds"),
    ("store_peak_memory_bytes", "peak memory"),
    ("store_read_bytes", "read"),
    ("store_written_bytes", "written"),
)


def _median(cell: Cell, key: str) -> str:
    values = usage(cell.run, key)
    if not values:
        return ""
    median = spread(values).median
    return (
        units.number(median) if key.endswith("seconds") else units.size(median) if "peak" in key else units.data(median)
    )


def _daemons(cell: Cell, label: str, store: Store) -> list[tuple[str, ...]]:
    return [(label, store.name, *row) for row in resources.daemon_rows(cell.run)]


def _layouts(found: StoreMatrix) -> list[Section]:
    """Recorded media, daemons and pools."""
    layouts = {store.name: (store.lake.get("store") or {}).get("layout") or {} for store in found.stores}
    keys = list(dict.fromkeys(key for layout in layouts.values() for key in layout))
    rows = [("lake", *(checks.lake_text(store.lake) for store in found.stores))]
    rows += [(key, *(str(layout.get(key, "")) for layout in layouts.values())) for key in keys]
    return [Section("Layout of the stores", "", [Table(("", *layouts), rows)])]


_IN_HEADLINE = 3
"""The most stores that the headline lists; of more, it names the fastest."""


@dataclass(frozen=True)
class StoreOptions:
    """The choices of the reader. `medium` names the drives, in the prices, that all capacity is priced as."""

    chosen: StoreChoices = field(default_factory=StoreChoices)
    prices: Prices = field(default_factory=prices.read_prices)
    medium: str | None = None

    @property
    def drives(self) -> Medium:
        """Raises `KeyError` where the prices have no such medium."""
        media = self.prices.media
        return media[self.medium] if self.medium else next(iter(media.values()))


def document(runs: Sequence[Run], question: StoreOptions | None = None) -> Document:
    """The comparison of stores. Raises `ValueError` where the runs do not form a table of stores."""
    question = question or StoreOptions()
    found = stores.store_matrix(runs, question.chosen)
    labels = row_labels(found)
    names = [f"{workload_title(run.description)} on {run.description.arm}" for run in runs]
    return Document(
        kicker=f"Penstock lab · stores · {units.plural(len(found.rows), 'workload')} on "
        f"{units.plural(len(found.stores), 'store')}",
        result=_result(found),
        doubts=doubts(runs, names=names, comparisons=_compared(found), subject=LAKE),
        key_figures=_key_figures(found),
        sections=[
            *checks.failures(runs, names),
            _stores(found, question),
            _times(found, labels),
            *_relative(found, labels),
            *_price_and_performance(found, labels),
            *sections(found, labels),
            *resources.compared_applications(runs, names),
            scaling.sources(question.prices, "storage", "media"),
            checks.reproduction(runs),
        ],
        data=_data(found, labels, question),
    )


def _compared(found: StoreMatrix) -> list[list[Run]]:
    """The runs of each workload, the baseline's first."""
    by_name = [[row.cells[store.name].run for store in found.stores if store.name in row.cells] for row in found.rows]
    # A workload may have several rows, of which each is a series.
    return list({tuple(run.description.id for run in runs): runs for runs in by_name}.values())


def row_labels(found: StoreMatrix) -> list[str]:
    """The label of each row, with the properties that distinguish rows of the same workload."""
    plain = [", ".join(filter(None, (workload_title(row.run.description), row.series))) for row in found.rows]
    distinct = [_distinct(row.run.description) for row in found.rows]
    labels = []
    for own, label in zip(distinct, plain, strict=True):
        alike = [other for other, same in zip(distinct, plain, strict=True) if same == label]
        differing = [text for name, text in own.items() if len({other.get(name) for other in alike}) > 1]
        labels.append(", ".join([label, *differing]))
    return labels


def _distinct(run: Description) -> dict[str, str]:
    cluster = {"cluster": checks.cluster_text(run.size), "launcher": run.launcher, "profile": f"profile {run.profile}"}
    choices = {**run.options, **run.settings}
    return {**{name: f"{name.replace('_', ' ')} {value}" for name, value in choices.items()}, **cluster}


def _result(found: StoreMatrix) -> str:
    over = units.plural(len(found.rows), "workload")
    parts = [sentence for store in found.stores[1:] if (sentence := _against(found, store))]
    if not parts:
        return f"No store completed a workload that {found.baseline.name} completed too."
    if len(parts) > _IN_HEADLINE:
        timed = [(found.mean_time(store) or 0, store) for store in found.stores[1:] if found.mean_time(store)]
        time, best = min(timed, key=lambda pair: pair[0])
        outcome = f"the fastest, {best.name}, takes {units.number(time)}× the time"
    else:
        outcome = "; ".join(parts)
    return f"Over {over}, against {found.baseline.name}: {outcome}."


def _against(found: StoreMatrix, store: Store) -> str:
    time, capacity = found.mean_time(store), found.capacity(store)
    if time is None:
        return ""
    price = ""
    if capacity is not None:
        price = " at the same price of raw capacity" if capacity == 1 else f" at {units.number(capacity)}× the price"
    return f"{store.name} takes {units.number(time)}× the time{price}"


def _key_figures(found: StoreMatrix) -> list[KeyFigure]:
    figures = []
    for store in found.stores[1:]:
        time, capacity = found.mean_time(store), found.capacity(store)
        if time is not None and capacity is not None:
            both = Relative(time, capacity)
            detail = f"{units.number(time)}× the time, {units.number(capacity)}× the capacity"
            figures.append(KeyFigure(f"Price × time, {store.name}", f"{units.number(both.price_performance)}×", detail))
        elif time is not None:
            figures.append(KeyFigure(f"Time, {store.name}", f"{units.number(time)}×", "protection unknown"))
    return figures


def _stores(found: StoreMatrix, question: StoreOptions) -> Section:
    rows = []
    for store in found.stores:
        time, capacity = found.mean_time(store), found.capacity(store)
        protection = store.protection
        rows.append(
            (
                store.name,
                protection.name if protection else "unknown",
                f"{units.number(protection.factor)}×" if protection else "",
                scaling.digits(stores.capacity_price(question.prices, question.drives, protection))
                if protection
                else "",
                f"{units.number(time)}×" if time is not None else "",
                f"{units.number(capacity)}×" if capacity is not None else "",
                f"{units.number(time * capacity)}×" if time is not None and capacity is not None else "",
            )
        )
    columns = (
        *("store", "protection", "raw capacity", f"{question.prices.currency} per usable TB"),
        *("time", "price", "price × time"),
    )
    note = (
        f"Relative to {found.baseline.name}. Time is the geometric mean over the workloads that both stores completed. "
        "Price is the raw capacity for user data, as in Red Hat's comparison of Ceph with HDFS: 3× for three copies, "
        f"1.5× for four data and two parity chunks; in money, {question.drives.title} filled to "
        f"{question.prices.storage.fill_share:.0%}. Below 1 the same work costs less."
    )
    if unprotected := [store.name for store in found.stores if store.raw_factor == 1]:
        note += f" Data on {units.some(unprotected)} has a single copy: a lost drive is lost data."
    return Section("Stores", note, [Table(columns, rows, numeric=frozenset(range(2, 7)))], brief=True)


def _times(found: StoreMatrix, labels: Sequence[str]) -> Section:
    def written(row: Row, store: Store) -> str:
        cell = row.cells.get(store.name)
        if cell is None:
            return "✗ failed" if store.name in row.failed else ""
        took = spread(cell.work.seconds)
        ranged = f" ({range_text(took)})" if took.count > 1 else ""
        part = found.ratio(row, store)
        ratio = f" {units.number(part.ratio)}×" if part and store != found.baseline else ""
        noise = "≈" if part and part.verdict not in (FASTER, SLOWER) and store != found.baseline else ""
        return f"{units.digits(took.median)}{ranged}{ratio}{noise}"

    rows = [
        (label, _unit(row), *(written(row, store) for store in found.stores))
        for row, label in zip(found.rows, labels, strict=True)
    ]
    columns = ("workload", "unit", *(store.name for store in found.stores))
    note = (
        f"Medians with their range, and their ratio to {found.baseline.name}; ≈ marks one without a verdict. Verdicts "
        "are corrected for the number of cells (Holm)."
    )
    left_out = list(dict.fromkeys(name for row in found.rows for name in row.left_out))
    if left_out:
        note += f" Left out, because not every store completed them: {units.some(left_out, 12)}."
    return Section("Time", note, [Table(columns, rows, numeric=frozenset(range(2, len(columns))))], brief=True)


def _unit(row: Row) -> str:
    unit = next(iter(row.cells.values())).work.unit
    return "s" if unit == "run" else f"s/{unit}"


def _relative(found: StoreMatrix, labels: Sequence[str]) -> list[Section]:
    """The performance of all stores by workload."""
    performance = _by_store(found, lambda row, store: _inverse(found, row, store))
    text = "; ".join(_ratios_text(name, labels, values) for name, values in performance.items())
    size = base_plots.height(len(labels), len(performance))
    figure = base_plots.ratio_bars(
        labels, performance, f"performance / that of {found.baseline.name}", longest=_longest(found)
    )
    note = f"Work done in the same time, relative to {found.baseline.name}: a longer bar is faster."
    return [Section("Performance", note, [Plot("performance", figure, f"{text}.", height=size)])]


def _price_and_performance(found: StoreMatrix, labels: Sequence[str]) -> list[Section]:
    """The relative price of each store beside its relative performance, as in the published figure."""
    sections = []
    for number, store in enumerate(found.stores[1:], start=1):
        against = [found.relative(row, store) for row in found.rows]
        if not any(against):
            continue
        groups: dict[str, list[float | None]] = {
            "price of raw capacity": [one.capacity if one else None for one in against],
            "performance": [one.performance if one else None for one in against],
        }
        figure = base_plots.ratio_bars(
            labels, groups, f"{store.name} / {found.baseline.name}", longest=_longest(found), first_colour=1
        )
        text = _ratios_text(f"{store.name}, performance", labels, groups["performance"])
        capacity = units.number(found.capacity(store) or 1)
        note = (
            f"{units.capitalised(store.name)} relative to {found.baseline.name}, whose price and performance are 1. "
            "The store pays off where its performance bar is longer than its price bar."
        )
        plot = Plot(f"price-{number}", figure, f"{text}; price {capacity}×.", height=base_plots.height(len(labels), 2))
        sections.append(Section(f"Relative price and performance: {store.name}", note, [plot]))
    if sections:
        rows = [
            (label, *(_cost(found.relative(row, store)) for store in found.stores[1:]))
            for label, row in zip(labels, found.rows, strict=True)
        ]
        columns = ("workload", *(store.name for store in found.stores[1:]))
        table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
        note = f"Price of raw capacity times time, relative to {found.baseline.name}: below 1 the same work costs less."
        sections.append(Section("Price × time", note, [table], brief=True))
    return sections


def _longest(found: StoreMatrix) -> float:
    """The longest bar of all plots, which share a scale so that stores can be compared across them."""
    against = [(row, store) for row in found.rows for store in found.stores]
    performances = [_inverse(found, row, store) or 0 for row, store in against]
    return max([*performances, *(found.capacity(store) or 0 for store in found.stores)])


def _cost(against: Relative | None) -> str:
    return f"{units.number(against.price_performance)}×" if against else ""


def _by_store(found: StoreMatrix, value: Callable[[Row, Store], float | None]) -> dict[str, list[float | None]]:
    return {store.name: [value(row, store) for row in found.rows] for store in found.stores[1:]}


def _inverse(found: StoreMatrix, row: Row, store: Store) -> float | None:
    part = found.ratio(row, store)
    return 1 / part.ratio if part else None


def _ratios_text(name: str, labels: Sequence[str], values: Sequence[float | None]) -> str:
    texts = [f"{label} {units.number(v)}×" for label, v in zip(labels, values, strict=True) if v is not None]
    return f"{name}: {', '.join(texts)}"


def _data(found: StoreMatrix, labels: Sequence[str], question: StoreOptions) -> Mapping[str, object]:
    return {
        "baseline": found.baseline.name,
        "currency": question.prices.currency,
        "medium": question.drives.title,
        "stores": {
            store.name: {
                "lake": dict(store.lake),
                "protection": store.protection.name if store.protection else None,
                "raw_factor": store.raw_factor,
                "capacity_price": stores.capacity_price(question.prices, question.drives, store.protection)
                if store.protection
                else None,
                "time": found.mean_time(store),
                "price": found.capacity(store),
            }
            for store in found.stores
        },
        "workloads": {
            label: {store.name: _cell_data(found, row, store) for store in found.stores if store.name in row.cells}
            for label, row in zip(labels, found.rows, strict=True)
        },
    }


def _cell_data(found: StoreMatrix, row: Row, store: Store) -> Mapping[str, object]:
    cell, part, against = row.cells[store.name], found.ratio(row, store), found.relative(row, store)
    return {
        "run": cell.run.description.id,
        "seconds": list(cell.work.seconds),
        "unit": cell.work.unit,
        "ratio": comparison.ratio_data(part) if part else None,
        "stored_bytes": cell.stored_bytes,
        "raw_bytes": cell.raw_bytes(store),
        "gb_per_core_hour": cell.gb_per_core_hour,
        "price_performance": against.price_performance if against else None,
    }
