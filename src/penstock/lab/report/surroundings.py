"""What a repetition cost beside its applications: the local store and catalog, the shuffle disk, the whole machine."""

from __future__ import annotations

from collections.abc import Callable

from penstock import units
from penstock.lab import analysis
from penstock.lab.records import Run
from penstock.lab.report import devices
from penstock.lab.report.document import Section, Table

_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("store, core-seconds", "store_core_seconds", units.number),
    ("store, peak memory", "store_peak_memory_bytes", units.size),
    ("store, read from devices", "store_read_bytes", units.data),
    ("store, written to devices", "store_written_bytes", units.data),
    ("catalog, core-seconds", "catalog_core_seconds", units.number),
    ("catalog, peak memory", "catalog_peak_memory_bytes", units.size),
    ("shuffle disk, busy", "disk_busy_share", lambda share: f"{share:.0%}".replace("%", " %")),
    ("shuffle disk, requests at once", "disk_queue", units.number),
    ("shuffle disk, read", "disk_read_bytes", units.data),
    ("shuffle disk, written", "disk_written_bytes", units.data),
    ("loopback network", "loopback_bytes", units.data),
    ("whole machine, core-seconds", "machine_core_seconds", units.number),
)


def sections(run: Run) -> list[Section]:
    """Nothing for a run that was not metered."""
    rows: list[tuple[str, ...]] = []
    for label, key, write in _FIGURES:
        values = analysis.usage(run, key)
        if values:
            found = analysis.spread(values)
            ranged = f"{write(found.low)} to {write(found.high)}" if found.count > 1 else ""
            rows.append((label, write(found.median), ranged))
    if not rows:
        return []
    if not any(row[2] for row in rows):
        rows = [row[:2] for row in rows]
    columns = ("", "median", "range")[: len(rows[0])]
    note = "Of one repetition, from the kernel's own counters. Only what runs on this machine is known."
    parts = [Table(columns, rows, numeric=frozenset({1, 2})), *_daemons(run)]
    return [Section("Store, disk and machine", note, parts), *devices.sections(run)]


def _daemons(run: Run) -> list[Table]:
    """Nothing where one process is the whole store: its figures are the store's."""
    found = analysis.daemons(run)
    if len(found) < 2:
        return []
    rows = [
        (
            name,
            units.number(daemon.core_seconds),
            units.size(daemon.peak_memory_bytes) if daemon.peak_memory_bytes else "",
            units.data(daemon.read_bytes) if daemon.read_bytes is not None else "",
            units.data(daemon.written_bytes) if daemon.written_bytes is not None else "",
        )
        for name, daemon in found.items()
    ]
    columns = ("daemon", "core-seconds", "peak memory", "read from devices", "written to devices")
    return [
        Table(columns, rows, numeric=frozenset(range(1, 5)), folded=f"{units.plural(len(rows), 'daemon')} of the store")
    ]
