"""Sections on resources: those of applications, of block devices, and of store, catalog and machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab.analysis.resources import (
    DiskTrack,
    RoundRequests,
    core_seconds_by_round,
    counted_at_store,
    daemons,
    device_uses,
    disk_tracks,
    peak_memory_by_round,
    repetition_total,
    requests_at_store,
    requests_by_round,
    roles,
    shuffle_disk,
    usage,
)
from penstock.lab.analysis.verdicts import Spread, spread
from penstock.lab.records import Run
from penstock.lab.report.elements.render import Part, Plot, Section, Table, range_text
from penstock.lab.report.plots import series as series_plots
from penstock.lab.report.plots.base import Write
from penstock.summary import IoMetrics

_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("elapsed", "elapsed_ms", lambda value: units.seconds(value / 1000)),
    ("core-seconds", "core_seconds", units.number),
    ("peak memory", "peak_memory_bytes", units.size),
    ("task time", "task_ms", lambda value: units.seconds(value / 1000)),
    ("garbage collection", "gc_ms", lambda value: units.seconds(value / 1000)),
    ("tasks", "tasks", units.count),
    ("tasks failed", "tasks_failed", units.count),
    ("read by Spark", "bytes_read", units.data),
    ("written by Spark", "bytes_written", units.data),
    ("shuffled", "shuffle_write_bytes", units.data),
    ("spilled to disk", "spill_disk_bytes", units.data),
    ("shuffle and spill in memory", "scratch_memory_bytes", units.data),
    ("shuffle and spill on disk", "scratch_disk_bytes", units.data),
    ("S3 requests retried", "s3_retries", units.count),
)


def _counted(name: str) -> Callable[[IoMetrics], float | None]:
    """The counter of that name; None where an application has no such counter, which is not zero."""
    return lambda use: use.counts.get(name)


# Spark counts only the bytes of its own readers and writers; TeraSort, DFSIO and the ingest use others, too.
_IO_FIGURES: tuple[tuple[str, Callable[[IoMetrics], float | None], Callable[[float], str]], ...] = (
    ("received from the store", _counted("bytes_received"), units.data),
    ("sent to the store", _counted("bytes_sent"), units.data),
    ("time per request", lambda use: use.milliseconds_per_request, lambda value: units.latency(value / 1000)),
    ("read from cache", lambda use: use.hit_rate, lambda value: f"{value:.1%}"),
    ("read from memory", _counted("bytes_from_memory"), units.data),
    ("read from cache on disk", _counted("bytes_from_disk"), units.data),
    ("read past the cache", _counted("bytes_from_store"), units.data),
    ("pages evicted", _counted("pages_evicted"), units.count),
    ("“slow down” responses", _counted("answers_throttled"), units.count),
    ("store errors", _counted("answers_failed"), units.count),
)


def resource_sections(run: Run) -> list[Section]:
    """Resources by role; empty for a run without applications."""
    found = roles(run)
    if not found:
        return []
    rows: list[tuple[str, ...]] = []
    for label, key, write in _FIGURES:
        values = [role.median(key) for role in found]
        if any(value is not None for value in values):
            rows.append((label, *("" if value is None else write(value) for value in values)))
    for label, figure, write in _IO_FIGURES:
        values = [role.median_io(figure) for role in found]
        if any(values):
            rows.append((label, *("" if value is None else write(value) for value in values)))
    kinds = dict.fromkeys(kind for role in found for kind in role.requests())
    rows += [(f"{kind} requests", *(units.count(role.requests().get(kind, 0)) for role in found)) for kind in kinds]
    several = any(len(role.applications) > 1 for role in found)
    if several:
        rows.insert(0, ("applications", *(units.count(len(role.applications)) for role in found)))
    note = "Totals of drivers and executors per application"
    columns = ("", *(role.name for role in found))
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
    return [Section("Resources", f"{note}{', medians by role' if several else ''}.", [table])]


_NOTE = (
    "From the kernel's counters. Busy is the share of time in which the device had a request: 100 % is the limit only "
    "of a device that serves one request at a time."
)


def device_sections(run: Run) -> list[Section]:
    """Use of block devices; empty for a run whose machine was not metered, or whose devices were idle."""
    uses = device_uses(run)
    if not uses:
        return []
    parts: list[Part] = []
    if tracks := disk_tracks(run):
        shares = spread(usage(run, "disk_busy_share"))
        busy = series_plots.busy_over_time({"shuffle disk": tracks})
        parts.append(Plot("disk-busy", busy, f"{_busy_text(shares)}.", height=220))
        text = f"The shuffle disk in each second: {_moved(tracks)}."
        parts.append(Plot("disk-rates", series_plots.rates_over_time(tracks), text, height=220))
    shuffle = shuffle_disk(run)
    rows = [
        (
            f"{name}, shuffle" if name == shuffle else name,
            percent(use.busy_share),
            units.number(use.queue),
            units.data(use.read_bytes),
            units.data(use.written_bytes),
        )
        for name, use in uses.items()
    ]
    columns = ("device", "busy", "queue depth", "read", "written")
    parts.append(Table(columns, rows, numeric=frozenset({1, 2, 3, 4})))
    return [Section("Devices", f"Medians over the repetitions. {_NOTE}", parts)]


_KINDS = ("PUT", "LIST")
"""The kinds of requests with a column of their own, besides GET."""
_AT_STORE = (
    "The store counted the requests while the applications ran, HEAD as GET: they are the arm's where no other client "
    "used the store."
)
_BY_CLIENT = "Penstock counted its requests itself; those of plain Spark, and those at this store, are not counted."


def compared_applications(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """Processor time, memory and requests of each run's applications; empty without any."""
    requests, at_store = _requests(runs)
    rows = [
        (
            name,
            *_figure(core_seconds_by_round(run), units.number),
            *_figure(peak_memory_by_round(run), units.size),
            *_figure([found.gets for found in own], units.count),
            *_figure(_known(found.gets_per_file for found in own), units.number),
            *(_figure(_known(found.kinds.get(kind) for found in own), units.count)[0] for kind in _KINDS),
            _figure(_known(found.others("GET", *_KINDS) for found in own), units.count)[0],
        )
        for run, name, own in zip(runs, names, requests, strict=True)
    ]
    columns = (
        *(
            part
            for figure in ("core-seconds", "peak memory", "GETs", "GETs per opened file")
            for part in (figure, f"{figure}, range")
        ),
        *(f"{kind}s" for kind in _KINDS),
        "other requests",
    )
    table = Table(("arm", *columns), rows, numeric=frozenset(range(1, len(columns) + 1))).filled()
    if len(table.columns) == 1:
        return []
    note = (
        "Of drivers and executors, per repetition: medians and ranges. Peak memory is the sum of the peaks of the "
        f"processes at work at once. {_AT_STORE if at_store else _BY_CLIENT}"
    )
    return [Section("Resources", note, [table], brief=True)]


def compared_data(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any]:
    """The figures of `compared_applications` of each repetition, for JSON."""
    requests, at_store = _requests(runs)
    return {
        name: {
            "core_seconds": core_seconds_by_round(run),
            "peak_memory_bytes": peak_memory_by_round(run),
            "requests_counted_by": "store" if at_store else "client",
            "requests": [dict(found.kinds) for found in own],
            "gets": [found.gets for found in own],
            "gets_per_opened_file": [found.gets_per_file for found in own],
        }
        for run, name, own in zip(runs, names, requests, strict=True)
    }


def _requests(runs: Sequence[Run]) -> tuple[list[list[RoundRequests]], bool]:
    """The requests of each run by round, and whether stores counted them: one instrument for all runs of a table."""
    at_store = all(map(counted_at_store, runs))
    return [requests_at_store(run) if at_store else requests_by_round(run) for run in runs], at_store


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _figure(values: Sequence[float], write: Write) -> tuple[str, str]:
    if not values:
        return "", ""
    found = spread(values)
    return write(found.median), range_text(found, write)


def compared(runs: Mapping[str, Run]) -> list[Section]:
    """The shuffle disk of each arm, by the arms' names; empty where an arm's machine was not metered."""
    busy = {name: usage(run, "disk_busy_share") for name, run in runs.items()}
    if not all(busy.values()):
        return []
    rows = []
    for name, run in runs.items():
        shares = spread(busy[name])
        rows.append(
            (
                name,
                percent(shares.median),
                range_text(shares, percent),
                *(_median(run, f"disk_{key}", write) for key, write in _DEVICE_FIGURES),
                *(_scratch(run, place) for place in ("memory", "disk")),
            )
        )
    columns = (
        "arm",
        "disk busy",
        "range",
        "queue depth",
        "read",
        "written",
        "scratch in memory",
        "scratch on disk",
    )
    # Arms without a memory budget do not record what they wrote to scratch.
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns)))).filled()
    parts: list[Part] = []
    tracks = {name: disk_tracks(run) for name, run in runs.items()}
    if all(tracks.values()):
        text = "; ".join(f"{name} {percent(spread(shares).median)} busy" for name, shares in busy.items())
        parts.append(Plot("disk-busy", series_plots.busy_over_time(tracks), f"{text}.", height=260))
    return [Section("Shuffle disk", _NOTE, [*parts, table], brief=True)]


_DEVICE_FIGURES = (("queue", units.number), ("read_bytes", units.data), ("written_bytes", units.data))


def percent(share: float) -> str:
    return f"{share * 100:.{0 if share >= 0.1 or not share else 1}f} %"


def _median(run: Run, key: str, write: Write) -> str:
    values = usage(run, key)
    return write(spread(values).median) if values else ""


def _scratch(run: Run, place: str) -> str:
    value = repetition_total(run, f"scratch_{place}_bytes")
    return "" if value is None else units.data(value)


def _busy_text(shares: Spread) -> str:
    ranged = f", between {percent(shares.low)} and {percent(shares.high)}" if shares.count > 1 else ""
    return f"The shuffle disk was busy {percent(shares.median)} of the time{ranged}"


def _moved(tracks: Sequence[DiskTrack]) -> str:
    most_read = max(max(track.read_rates) for track in tracks)
    most_written = max(max(track.written_rates) for track in tracks)
    return f"at most {units.rate(most_read)} read and {units.rate(most_written)} written"


_MACHINE_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("store, core-seconds", "store_core_seconds", units.number),
    ("store, peak memory", "store_peak_memory_bytes", units.size),
    ("store, read from devices", "store_read_bytes", units.data),
    ("store, written to devices", "store_written_bytes", units.data),
    ("catalog, core-seconds", "catalog_core_seconds", units.number),
    ("catalog, peak memory", "catalog_peak_memory_bytes", units.size),
    ("shuffle disk, busy", "disk_busy_share", lambda share: f"{share:.0%}".replace("%", " %")),
    ("shuffle disk, queue depth", "disk_queue", units.number),
    ("shuffle disk, read", "disk_read_bytes", units.data),
    ("shuffle disk, written", "disk_written_bytes", units.data),
    ("loopback network", "loopback_bytes", units.data),
    ("whole machine, core-seconds", "machine_core_seconds", units.number),
)


def machine_sections(run: Run) -> list[Section]:
    """Use of store, catalog, disk and machine; empty for a run that was not metered."""
    rows: list[tuple[str, ...]] = []
    figures = [(label, usage(run, key), write) for label, key, write in _MACHINE_FIGURES]
    own = requests_at_store(run) if counted_at_store(run) else []
    kinds = dict.fromkeys(kind for counts in own for kind in counts.kinds)
    figures += [
        (f"store, {kind} requests", [counts.kinds.get(kind, 0) for counts in own], units.count) for kind in kinds
    ]
    for label, values, write in figures:
        if values:
            found = spread(values)
            ranged = f"{write(found.low)} to {write(found.high)}" if found.count > 1 else ""
            rows.append((label, write(found.median), ranged))
    if not rows:
        return []
    if not any(row[2] for row in rows):
        rows = [row[:2] for row in rows]
    columns = ("", "median", "range")[: len(rows[0])]
    note = "Per repetition, from the kernel's counters, which cover only the processes of this machine."
    note += " Requests are those of all clients while the applications ran; HEAD counts as GET." if own else ""
    parts = [Table(columns, rows, numeric=frozenset({1, 2})), *_daemons(run)]
    return [Section("Store, disk and machine", note, parts), *device_sections(run)]


def daemon_rows(run: Run) -> list[tuple[str, ...]]:
    """Use by daemon; empty where the store is a single process, since its figures are those of the store."""
    found = daemons(run)
    return [
        (
            name,
            units.number(daemon.core_seconds),
            units.size(daemon.peak_memory_bytes) if daemon.peak_memory_bytes else "",
            units.data(daemon.read_bytes) if daemon.read_bytes is not None else "",
            units.data(daemon.written_bytes) if daemon.written_bytes is not None else "",
        )
        for name, daemon in (found.items() if len(found) > 1 else ())
    ]


def _daemons(run: Run) -> list[Table]:
    rows = daemon_rows(run)
    if not rows:
        return []
    columns = ("daemon", "core-seconds", "peak memory", "read from devices", "written to devices")
    return [
        Table(columns, rows, numeric=frozenset(range(1, 5)), folded=f"{units.plural(len(rows), 'daemon')} of the store")
    ]
