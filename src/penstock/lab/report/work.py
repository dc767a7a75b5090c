"""Timed work: how long each measure took, how fast it was, and its throughput against the number of clients."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import Measure
from penstock.lab.report import plots
from penstock.lab.report.document import KeyFigure, Part, Plot, Section, Table

_MB = 1e6
_FOR_A_BOX = 3
"""Repetitions from which on a box says more than a range."""


def throughput(measure: Measure) -> float:
    """Bytes per second, or operations per second where no bytes are moved; 0 where neither is known."""
    rates = measure.bytes_per_second if measure.bytes else measure.operations_per_second
    return analysis.spread(rates).median


def achieved(measure: Measure) -> str:
    """`87.3 MB/s` or `1 240 operations/s`; nothing where neither is known."""
    if measure.bytes:
        return units.rate(throughput(measure))
    return units.operations(throughput(measure)) if measure.operations else ""


def _requests(measure: Measure) -> str:
    """Operations per second, beside the bytes: of small objects they are the limit."""
    if not measure.operations:
        return ""
    rate = analysis.spread(measure.operations_per_second).median
    return units.count(rate) if rate >= 100 else units.number(rate)


def told(measure: Measure) -> str:
    """`12.3 s (1.07 GB, 87.3 MB/s)`; of work for a set time first what it achieved."""
    if measure.fixed_time and achieved(measure):
        requests = f" ({_requests(measure)} operations/s)" if measure.bytes and measure.operations else ""
        return f"{achieved(measure)}{requests} over {units.seconds(measure.median)}"
    amount = f" ({units.data(measure.bytes)}, {achieved(measure)})" if measure.bytes else ""
    return f"{units.seconds(measure.median)}{amount}"


def key_figure(measure: Measure) -> KeyFigure:
    times = analysis.spread(measure.seconds)
    if measure.fixed_time and achieved(measure):
        return KeyFigure(measure.name, achieved(measure), f"over {units.seconds(times.median)}")
    if measure.clients and achieved(measure):
        return KeyFigure(measure.name, achieved(measure), units.seconds(times.median))
    details = [achieved(measure)] if achieved(measure) else []
    if times.count > 1:
        details.append(f"{units.seconds(times.low)} to {units.seconds(times.high)}")
    return KeyFigure(measure.name, units.seconds(times.median), ", ".join(details))


def by_clients(found: Sequence[Measure]) -> dict[str, dict[int, Measure]]:
    """Series of one kind of work against the number of clients; only those measured with more than one number."""
    series: dict[str, dict[int, Measure]] = {}
    for measure in found:
        if measure.clients and throughput(measure):
            series.setdefault(measure.series, {})[measure.clients] = measure
    return {name: dict(sorted(curve.items())) for name, curve in series.items() if len(curve) > 1}


def sections(found: Sequence[Measure], cores: int, core_seconds_per_gb: dict[str, float | None]) -> list[Section]:
    """The plots, then the table; nothing for a run that measured nothing. `cores` are the executors', 0 if unknown."""
    if not found:
        return []
    table = _table(found, cores, core_seconds_per_gb)
    curves = by_clients(found)
    made = [_curve_section(curves)] if curves else []
    if not curves:
        made += _time_sections(found)
    return [*made, Section("Every measure", "1 GB is 10⁹ bytes.", [table], brief=True)]


def _time_sections(found: Sequence[Measure]) -> list[Section]:
    timed = {measure.name: measure.seconds for measure in found if not measure.fixed_time}
    moved = {m.name: [rate / _MB for rate in m.bytes_per_second] for m in found if m.fixed_time and m.bytes}
    others = {m.name: m.operations_per_second for m in found if m.fixed_time and not m.bytes and m.operations}
    parts = [
        *_plots("times", timed, "seconds", units.seconds),
        *_plots("throughput", moved, "MB/s", lambda value: units.rate(value * _MB)),
        *_plots("operations", others, "operations/s", units.operations),
    ]
    note = "Medians of the repetitions; the whiskers are their range." if _repeated(found) else ""
    if any(len(measure.works) >= _FOR_A_BOX for measure in found):
        note += " Below, every repetition against the median of its measure."
    return [Section("Time per measure" if timed else "Throughput", note, parts)]


def _plots(name: str, values: dict[str, list[float]], unit: str, write: plots.Write) -> list[Part]:
    if not values:
        return []
    spreads = {measure: analysis.spread(found) for measure, found in values.items()}
    text = "; ".join(f"{measure} {write(found.median)}" for measure, found in spreads.items()) + "."
    height = 64 + 34 * len(values)
    made: list[Part] = [Plot(f"{name}-bars", plots.bars(spreads, unit, write), text, height=height)]
    if max(found.count for found in spreads.values()) >= _FOR_A_BOX:
        ranges = "; ".join(f"{measure} {write(s.low)} to {write(s.high)}" for measure, s in spreads.items())
        boxes = plots.deviations(values, write)
        made.append(Plot(f"{name}-boxes", boxes, f"Every repetition. {ranges}.", height=64 + 44 * len(values)))
    return made


def _curve_section(curves: dict[str, dict[int, Measure]]) -> Section:
    moves_bytes = all(measure.bytes for curve in curves.values() for measure in curve.values())
    scale, unit = (_MB, "MB/s") if moves_bytes else (1, "operations/s")

    def write(value: float) -> str:
        return units.rate(value * scale) if moves_bytes else units.operations(value)

    def rates(measure: Measure) -> list[float]:
        found = measure.bytes_per_second if moves_bytes else measure.operations_per_second
        return [rate / scale for rate in found]

    series = {
        name: {clients: analysis.spread(rates(measure)) for clients, measure in curve.items()}
        for name, curve in curves.items()
    }
    text = "; ".join(
        f"{name}: " + ", ".join(f"{write(found.median)} with {clients}" for clients, found in curve.items())
        for name, curve in series.items()
    )
    plot = Plot("clients", plots.curves(series, "clients", unit, write), f"{text}.", height=360)
    note = "All clients together; "
    note += "; ".join(
        f"{name} is highest with {units.plural(max(curve, key=lambda clients: curve[clients].median), 'client')}"
        for name, curve in series.items()
    )
    return Section("Throughput against clients", f"{note}.", [plot])


def _table(found: Sequence[Measure], cores: int, core_seconds_per_gb: dict[str, float | None]) -> Table:
    def row(measure: Measure) -> dict[str, str]:
        times = analysis.spread(measure.seconds)
        many = times.count > 1
        per_gb = core_seconds_per_gb.get(measure.name)
        on = measure.cores or cores
        price = analysis.gb_per_core_hour(measure.bytes, times.median, on) if on and measure.bytes else 0
        return {
            "measure": measure.name,
            "times": units.count(times.count) if many else "",
            "median, s" if _repeated(found) else "seconds": units.digits(times.median),
            "range, s": f"{units.digits(times.low)}–{units.digits(times.high)}" if many else "",
            "data": units.data(measure.bytes) if measure.bytes else "",
            "rows": units.count(measure.rows) if measure.rows else "",
            "operations": units.count(measure.operations) if measure.operations else "",
            "operations/s": _requests(measure) if measure.bytes else "",
            "throughput": achieved(measure),
            "core-s per GB": units.number(per_gb) if per_gb is not None else "",
            "GB per core and hour": units.number(price) if price else "",
        }

    rows = [row(measure) for measure in found]
    columns = [column for column in rows[0] if any(cells[column] for cells in rows)]
    return Table(
        columns, [[cells[column] for column in columns] for cells in rows], numeric=frozenset(range(1, len(columns)))
    )


def _repeated(found: Sequence[Measure]) -> bool:
    return any(len(measure.works) > 1 for measure in found)
