"""The report of timed work: rates against clients, throughput over time, latencies, failed requests."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab.analysis import samples
from penstock.lab.analysis.doubts import doubts, valid
from penstock.lab.analysis.latency import Latency, RateSeries, latencies, rate_series
from penstock.lab.analysis.resources import core_seconds, core_seconds_per_gb, cores, main_measure, peak_memory, usage
from penstock.lab.analysis.samples import (
    GB,
    Measure,
    counted,
    failed_checks,
    gb_per_core_hour,
    measures_by_name,
    repetitions,
    validation_counts,
)
from penstock.lab.analysis.verdicts import spread
from penstock.lab.records import Run, Sample
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
from penstock.lab.report.plots import measures as measure_plots
from penstock.lab.report.plots import series as series_plots
from penstock.lab.report.plots.base import MB, Write

_FOR_A_BOX = 3
"""The fewest repetitions for which a box shows more than a range."""


def throughput(measure: Measure) -> float:
    """Bytes per second, or operations per second where no bytes are moved; 0 where neither is known."""
    rates = measure.bytes_per_second if measure.bytes else measure.operations_per_second
    return spread(rates).median


def achieved(measure: Measure) -> str:
    """`87.3 MB/s` or `1 240 operations/s`; empty where neither is known."""
    if measure.bytes:
        return units.rate(throughput(measure))
    return units.operations(throughput(measure)) if measure.operations else ""


def _requests(measure: Measure) -> str:
    """Operations per second, which are the limit for small objects."""
    if not measure.operations:
        return ""
    rate = spread(measure.operations_per_second).median
    return units.count(rate) if rate >= 100 else units.number(rate)


def result_text(measure: Measure) -> str:
    """`12.3 s (1.07 GB, 87.3 MB/s)`; for work of fixed time, the rate precedes the time."""
    if measure.fixed_time and achieved(measure):
        requests = f" ({_requests(measure)} operations/s)" if measure.bytes and measure.operations else ""
        return f"{achieved(measure)}{requests} over {units.seconds(measure.median)}"
    amount = f" ({units.data(measure.bytes)}, {achieved(measure)})" if measure.bytes else ""
    return f"{units.seconds(measure.median)}{amount}"


def key_figure(measure: Measure) -> KeyFigure:
    times = spread(measure.seconds)
    if measure.fixed_time and achieved(measure):
        return KeyFigure(measure.name, achieved(measure), f"over {units.seconds(times.median)}")
    if measure.clients and achieved(measure):
        return KeyFigure(measure.name, achieved(measure), units.seconds(times.median))
    details = [achieved(measure)] if achieved(measure) else []
    if times.count > 1:
        details.append(f"{units.seconds(times.low)} to {units.seconds(times.high)}")
    return KeyFigure(measure.name, units.seconds(times.median), ", ".join(details))


def by_clients(found: Sequence[Measure]) -> dict[str, dict[int, Measure]]:
    """Measures by series and number of clients, for the series with more than one number of clients."""
    series: dict[str, dict[int, Measure]] = {}
    for measure in found:
        if measure.clients and throughput(measure):
            series.setdefault(measure.series, {})[measure.clients] = measure
    return {name: dict(sorted(curve.items())) for name, curve in series.items() if len(curve) > 1}


def work_sections(found: Sequence[Measure], cores: int, core_seconds_per_gb: dict[str, float | None]) -> list[Section]:
    """Plots and table; empty for a run without measures. `cores` are those of the executors, 0 if unknown."""
    if not found:
        return []
    table = _table(found, cores, core_seconds_per_gb)
    curves = by_clients(found)
    plots = [_curve_section(curves)] if curves else _time_sections(found)
    return [*plots, Section("All measures", "1 GB is 10⁹ bytes.", [table], brief=True)]


def _time_sections(found: Sequence[Measure]) -> list[Section]:
    timed = {measure.name: measure.seconds for measure in found if not measure.fixed_time}
    moved = {m.name: [rate / MB for rate in m.bytes_per_second] for m in found if m.fixed_time and m.bytes}
    others = {m.name: m.operations_per_second for m in found if m.fixed_time and not m.bytes and m.operations}
    parts = [
        *_plots("times", timed, "seconds", units.seconds),
        *_plots("throughput", moved, "MB/s", lambda value: units.rate(value * MB)),
        *_plots("operations", others, "operations/s", units.operations),
    ]
    note = "Medians of the repetitions; the whiskers are their range." if _repeated(found) else ""
    if any(len(measure.works) >= _FOR_A_BOX for measure in found):
        note += " The boxes show every repetition relative to the median of its measure."
    return [Section("Time per measure" if timed else "Throughput", note, parts)]


def _plots(name: str, values: dict[str, list[float]], unit: str, write: Write) -> list[Part]:
    if not values:
        return []
    spreads = {measure: spread(found) for measure, found in values.items()}
    text = "; ".join(f"{measure} {write(found.median)}" for measure, found in spreads.items()) + "."
    height = 64 + 34 * len(values)
    parts: list[Part] = [Plot(f"{name}-bars", measure_plots.bars(spreads, unit, write), text, height=height)]
    if max(found.count for found in spreads.values()) >= _FOR_A_BOX:
        ranges = "; ".join(f"{measure} {write(s.low)} to {write(s.high)}" for measure, s in spreads.items())
        boxes = measure_plots.deviations(values, write)
        parts.append(Plot(f"{name}-boxes", boxes, f"Every repetition. {ranges}.", height=64 + 44 * len(values)))
    return parts


def _curve_section(curves: dict[str, dict[int, Measure]]) -> Section:
    moves_bytes = all(measure.bytes for curve in curves.values() for measure in curve.values())
    scale, unit = (MB, "MB/s") if moves_bytes else (1, "operations/s")

    def write(value: float) -> str:
        return units.rate(value * scale) if moves_bytes else units.operations(value)

    def rates(measure: Measure) -> list[float]:
        found = measure.bytes_per_second if moves_bytes else measure.operations_per_second
        return [rate / scale for rate in found]

    series = {
        name: {clients: spread(rates(measure)) for clients, measure in curve.items()} for name, curve in curves.items()
    }
    text = "; ".join(
        f"{name}: " + ", ".join(f"{write(found.median)} with {clients}" for clients, found in curve.items())
        for name, curve in series.items()
    )
    plot = Plot("clients", measure_plots.curves(series, "clients", unit, write), f"{text}.", height=360)
    note = "Rates are totals of all clients; "
    note += "; ".join(
        f"{name} is highest with {units.plural(max(curve, key=lambda clients: curve[clients].median), 'client')}"
        for name, curve in series.items()
    )
    return Section("Throughput against clients", f"{note}.", [plot])


def _table(found: Sequence[Measure], cores: int, core_seconds_per_gb: dict[str, float | None]) -> Table:
    def row(measure: Measure) -> dict[str, str]:
        times = spread(measure.seconds)
        per_gb = core_seconds_per_gb.get(measure.name)
        on = measure.cores or cores
        price = gb_per_core_hour(measure.bytes, times.median, on) if on and measure.bytes else 0
        return {
            "measure": measure.name,
            "times": units.count(times.count) if times.count > 1 else "",
            "median, s" if _repeated(found) else "seconds": units.digits(times.median),
            "range, s": range_text(times),
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


_SERIES_IN_ONE_PLOT = 3


def over_time(found: Sequence[RateSeries]) -> list[Section]:
    """Series that move bytes, then those that do not, and the slowest, median and fastest second of each."""
    lines = [line for line in found if any(line.amounts)]
    if not lines:
        return []
    parts: list[Part] = []
    for moves_bytes in (True, False):
        alike = [line for line in lines if line.moves_bytes == moves_bytes]
        names = list(dict.fromkeys(line.series for line in alike))
        for start in range(0, len(names), _SERIES_IN_ONE_PLOT):
            together = names[start : start + _SERIES_IN_ONE_PLOT]
            shown = [line for line in alike if line.series in together]
            name = f"over-time-{'bytes' if moves_bytes else 'operations'}-{start}"
            text = "; ".join(_line_text(line) for line in shown)
            parts.append(Plot(name, series_plots.over_time(shown), f"{text}.", height=260))
    rows = [
        (
            line.series,
            str(line.repetition),
            units.count(len(line.amounts)),
            *(_rate(line, value) for value in (extremes.slowest, extremes.median, extremes.fastest)),
        )
        for line in lines
        if (extremes := line.extremes)
    ]
    columns = ("series", "repetition", "seconds", "slowest second", "median second", "fastest second")
    table = [Table(columns, rows, numeric=frozenset({1, 2, 3, 4, 5}))] if rows else []
    note = (
        "Work done in each second. The slowest, median and fastest second exclude the first and the last, which are "
        "partial."
    )
    return [Section("Throughput over time", note, [*parts, *table])]


def latency(found: Sequence[Latency]) -> list[Section]:
    if not found:
        return []
    percents = list(dict.fromkeys(percentile.percent for line in found for percentile in line.percentiles))
    rows = []
    for line in found:
        values = {percentile.percent: units.latency(percentile.value) for percentile in line.percentiles}
        known = (values.get(percent, "") for percent in percents)
        phase = series_plots.phase(line.phase)
        rows.append((line.name, phase, units.count(line.count), *known, units.latency(line.maximum)))
    columns = ("operation", "latency", "requests", *(f"{percent:g} %" for percent in percents), "maximum")
    table = Table(columns, rows, numeric=frozenset(range(2, len(columns))))
    text = "; ".join(
        f"{line.name} {series_plots.phase(line.phase)}: "
        + ", ".join(f"{p.percent:g} % within {units.latency(p.value)}" for p in line.percentiles)
        for line in found
    )
    error = max(line.error for line in found)
    note = "Time from sending a request. Each figure is the upper bound of its histogram bucket"
    note += f", which exceeds the true value by at most {resources.percent(error)}." if error else "."
    plot = Plot("latency", series_plots.percentiles(found), f"{text}.", height=380)
    return [Section("Latency", note, [plot, table], brief=True)]


def _line_text(line: RateSeries) -> str:
    extremes = line.extremes
    if extremes is None:
        return f"{line.series}: {units.plural(len(line.amounts), 'second')}"
    return (
        f"{line.series}, repetition {line.repetition}: median {_rate(line, extremes.median)}, "
        f"between {_rate(line, extremes.slowest)} and {_rate(line, extremes.fastest)}"
    )


def _rate(line: RateSeries, amount: float) -> str:
    return units.rate(amount) if line.moves_bytes else units.operations(amount)


BUSY_SHARE = 0.8
"""The share of the generator's own ceiling above which the generator may be the limit instead of the store."""


def _generator(run: Run) -> list[Section]:
    shares: dict[str, list[float]] = {}
    for sample in counted(run, "measure"):
        if sample.get("of_ceiling") is not None:
            shares.setdefault(str(sample["name"]), []).append(float(sample["of_ceiling"]))
    spent = [
        sample["core_seconds"] / sample["operations"] * 1e6
        for sample in counted(run, "generator")
        if sample["operations"]
    ]
    if not shares:
        return []
    ceilings = {str(sample["name"]): sample for sample in run.of_kind("ceiling")}
    rows = []
    for name, found in shares.items():
        share = spread(found).median
        verdict = "✗ the generator may be the limit" if share > BUSY_SHARE else "✓"
        rows.append((name, *_ceiling(ceilings.get(name)), f"{share * 100:.0f} %", verdict))
    note = "The ceiling is the limit of the generator itself, measured against a store that does no work."
    if spent:
        note += f" The generator spent {units.count(spread(spent).median)} µs of a core per request."
    columns = ("operation", "ceiling, operations/s", "ceiling", "share of ceiling", "limited by the store")
    return [Section("Load generator", note, [Table(columns, rows, numeric=frozenset({1, 2, 3}))], brief=True)]


def _ceiling(sample: Sample | None) -> tuple[str, str]:
    """The generator's ceiling, in operations and in bytes per second."""
    if sample is None:
        return "", ""
    moved = float(sample["bytes_per_second"])
    return units.count(float(sample["operations_per_second"])), units.rate(moved) if moved else ""


_PROMINENT = 4
"""The most measures that the headline and the key figures list; of more, they have the longest."""


def document(run: Run) -> Document:
    found = list(measures_by_name(run).values())
    doubted = doubts([run])
    per_gb = {measure.name: core_seconds_per_gb(run, measure) for measure in found}
    return Document(
        kicker=f"Penstock lab · {workload_title(run.description)} · {run.description.arm}",
        result=_result(run, found, sound=valid(doubted)),
        doubts=doubted,
        key_figures=_key_figures(run, found),
        sections=[
            *checks.failures([run]),
            *work_sections(found, cores(run), per_gb),
            *over_time(rate_series(run)),
            *latency(latencies(run)),
            *checks.checks_section(run),
            *_generator(run),
            *resources.resource_sections(run),
            *resources.machine_sections(run),
            checks.reproduction([run]),
        ],
        data=_data(run, found),
    )


def _result(run: Run, found: list[Measure], *, sound: bool) -> str:
    count = cores(run)
    where = f" on {units.plural(count, 'core')}" if count else ""
    sentence = f"{units.capitalised(workload_title(run.description))}{where}: {_did(found)}"
    checked = validation_counts(run)
    if not checked.total:
        return f"{sentence}; nothing was checked."
    if checked.passed < checked.total or not sound:
        return f"{sentence}; {checked.passed} of {checked.total} checks passed."
    all_of_them = {1: "the check", 2: "both checks"}.get(checked.total, f"all {units.count(checked.total)} checks")
    return f"{sentence}; {all_of_them} passed."


def _did(found: list[Measure]) -> str:
    if not found:
        return "nothing was measured"
    if curves := by_clients(found):
        reached = []
        for name, curve in curves.items():
            best = max(curve.values(), key=throughput)
            reached.append(f"{name} reaches {achieved(best)} with {units.plural(best.clients or 0, 'client')}")
        return units.some(reached, _PROMINENT)
    if len(found) > _PROMINENT:
        longest = max(found, key=lambda measure: measure.median)
        total = sum(measure.median for measure in found)
        return f"{len(found)} measures in {units.seconds(total)}, the longest {longest.name} {result_text(longest)}"
    return ", ".join(f"{measure.name}{' at' if measure.fixed_time else ''} {result_text(measure)}" for measure in found)


def _key_figures(run: Run, found: list[Measure]) -> list[KeyFigure]:
    figures = [key_figure(measure) for measure in _prominent(found)]
    if main := main_measure(run, found):
        figures += _price(run, main)
    if (spent := core_seconds(run)) is not None:
        figures.append(KeyFigure("Core-seconds", units.number(spent), "drivers and executors, per repetition"))
    if store := usage(run, "store_core_seconds"):
        median = spread(store).median
        figures.append(KeyFigure("Core-seconds of the store", units.number(median), "per repetition"))
    if (peak := peak_memory(run)) is not None:
        figures.append(KeyFigure("Peak memory", units.size(peak), "drivers and executors, per repetition"))
    if (checked := validation_counts(run)).total:
        figures.append(KeyFigure("Checks passed", f"{checked.passed} of {checked.total}"))
    return figures


def _prominent(found: list[Measure]) -> list[Measure]:
    if curves := by_clients(found):
        return [max(curve.values(), key=throughput) for curve in curves.values()][:_PROMINENT]
    longest = sorted(found, key=lambda measure: -measure.median)[:_PROMINENT]
    return [measure for measure in found if measure in longest]


def _price(run: Run, main: Measure) -> list[KeyFigure]:
    figures = []
    if count := main.cores or cores(run):
        rate = gb_per_core_hour(main.bytes, main.median, count)
        figures.append(KeyFigure("GB per core and hour", units.number(rate), main.name))
    if (own := core_seconds_per_gb(run, main)) is not None:
        figures.append(KeyFigure("Core-seconds per GB", units.number(own), main.name))
    elif (whole := core_seconds(run)) is not None:
        per_gb = whole / main.bytes * GB
        figures.append(KeyFigure("Core-seconds per GB", units.number(per_gb), f"all applications, GB of {main.name}"))
    return figures


def _data(run: Run, found: list[Measure]) -> dict[str, object]:
    ended, wrong = repetitions(run), failed_checks(run)
    return {
        "measures": {
            measure.name: {
                "seconds": measure.seconds,
                "bytes": measure.bytes,
                "operations": measure.operations,
                "rows": measure.rows,
                "clients": measure.clients,
                "core_seconds_per_gb": core_seconds_per_gb(run, measure),
            }
            for measure in found
        },
        "checks": {"right": len(samples.checks(run)) - len(wrong), "wrong": [dict(sample) for sample in wrong]},
        "repetitions": {"succeeded": ended.succeeded, "failed": dict(ended.errors)},
        "latency_seconds": [
            {
                "name": line.name,
                "phase": line.phase,
                "requests": line.count,
                "above_and_at_most": {f"{p.percent:g}": [p.above, p.value] for p in line.percentiles},
            }
            for line in latencies(run)
        ],
    }
