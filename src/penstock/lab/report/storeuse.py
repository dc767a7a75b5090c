"""What workloads took of each store: bytes on drives, throughput, and the work of the store's own processes."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab import analysis
from penstock.lab.report import again
from penstock.lab.report.document import Part, Section, Table
from penstock.lab.stores import Cell, Matrix, Store


def sections(found: Matrix, labels: Sequence[str]) -> list[Section]:
    return [_amounts(found, labels), *_effort(found, labels), *_layouts(found)]


def _amounts(found: Matrix, labels: Sequence[str]) -> Section:
    """Bytes of users and on drives, and throughput per core and hour."""
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
        "What users store, and what that is on each store's drives: the data set, or where there is none, what is "
        "written. Then GB per core and hour: size / executor cores / seconds × 3600; of TPC-DS the size is its scale's "
        "raw data."
    )
    return Section(
        "Bytes and throughput",
        note,
        [
            Table(("workload", "stored", *(f"raw, {name}" for name in names)), stored, numeric),
            Table(("GB per core and hour", *names), speeds, numeric),
        ],
    )


def _effort(found: Matrix, labels: Sequence[str]) -> list[Section]:
    """Of stores on the measuring machine; nothing where there is none."""
    shares, figures, daemons = [], [], []
    told: set[str] = set()
    for row, label in zip(found.rows, labels, strict=True):
        # Reading and writing of one run are two workloads here, and were metered as one repetition.
        cells = [cell for cell in row.cells.values() if cell.run.description.id not in told]
        told |= {cell.run.description.id for cell in cells}
        name = label.removesuffix(f", {row.series}") if row.series else label
        if any(analysis.usage(cell.run, _FIGURES[0][0]) for cell in cells):
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
        "Core-seconds of the store and, in brackets, of the applications, in one repetition, by the kernel's own "
        "counters. Only stores on the measuring machine are known; what they take there applications lack."
    )
    return [Section("The store's own work", note, parts)]


def _share(cell: Cell | None) -> str:
    own = analysis.usage(cell.run, _FIGURES[0][0]) if cell else []
    if cell is None or not own:
        return ""
    applications = analysis.core_seconds(cell.run)
    beside = f" ({units.number(applications)})" if applications is not None else ""
    return f"{units.number(analysis.spread(own).median)}{beside}"


_FIGURES = (
    ("store_core_seconds", "core-seconds"),
    ("store_peak_memory_bytes", "peak memory"),
    ("store_read_bytes", "read"),
    ("store_written_bytes", "written"),
)


def _median(cell: Cell, key: str) -> str:
    values = analysis.usage(cell.run, key)
    if not values:
        return ""
    median = analysis.spread(values).median
    return (
        units.number(median) if key.endswith("seconds") else units.size(median) if "peak" in key else units.data(median)
    )


def _daemons(cell: Cell, label: str, store: Store) -> list[tuple[str, ...]]:
    found = analysis.daemons(cell.run)
    if len(found) < 2:
        return []
    return [
        (
            label,
            store.name,
            name,
            units.number(one.core_seconds),
            units.size(one.peak_memory_bytes) if one.peak_memory_bytes else "",
            units.data(one.read_bytes) if one.read_bytes is not None else "",
            units.data(one.written_bytes) if one.written_bytes is not None else "",
        )
        for name, one in found.items()
    ]


def _layouts(found: Matrix) -> list[Section]:
    """Media, daemons and pools, as the runs recorded them."""
    layouts = {store.name: (store.told.get("store") or {}).get("layout") or {} for store in found.stores}
    keys = list(dict.fromkeys(key for layout in layouts.values() for key in layout))
    rows = [("lake", *(again.lake(store.told) for store in found.stores))]
    rows += [(key, *(str(layout.get(key, "")) for layout in layouts.values())) for key in keys]
    return [Section("What the stores are made of", "", [Table(("", *layouts), rows)])]
