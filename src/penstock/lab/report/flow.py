"""What happened within the work: throughput in every second, and the latency of single requests."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab.analysis import Latency, Seconds
from penstock.lab.report import plots
from penstock.lab.report.document import Part, Plot, Section, Table

_SERIES_IN_ONE_PLOT = 3


def over_time(found: Sequence[Seconds]) -> list[Section]:
    """The lines of what moves bytes, those of what does not, and the fastest, median and slowest second of each."""
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
            text = "; ".join(_told(line) for line in shown)
            parts.append(Plot(name, plots.over_time(shown), f"{text}.", height=260))
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
        "What was done in each second. Slowest, median and fastest are of whole seconds: not the first, not the last."
    )
    return [Section("Throughput over time", note, [*parts, *table])]


def latency(found: Sequence[Latency]) -> list[Section]:
    if not found:
        return []
    asked = list(dict.fromkeys(percentile.percent for line in found for percentile in line.percentiles))
    rows = []
    for line in found:
        values = {percentile.percent: units.latency(percentile.value) for percentile in line.percentiles}
        told = [values.get(percent, "") for percent in asked]
        rows.append((line.name, plots.phase(line.phase), units.count(line.count), *told, units.latency(line.maximum)))
    columns = ("operation", "latency", "requests", *(f"{percent:g} %" for percent in asked), "slowest")
    table = Table(columns, rows, numeric=frozenset(range(2, len(columns))))
    text = "; ".join(
        f"{line.name} {plots.phase(line.phase)}: "
        + ", ".join(f"{p.percent:g} % within {units.latency(p.value)}" for p in line.percentiles)
        for line in found
    )
    error = max(line.error for line in found)
    note = "From sending a request. Each figure is the upper bound of its histogram bucket: the truth is at or below it"
    note += f", by {_percent(error)} at the most." if error else "."
    plot = Plot("latency", plots.percentiles(found), f"{text}.", height=380)
    return [Section("Latency", note, [plot, table], brief=True)]


def _percent(share: float) -> str:
    return f"{share * 100:.{0 if share >= 0.1 else 1}f} %"


def _told(line: Seconds) -> str:
    extremes = line.extremes
    if extremes is None:
        return f"{line.series}: {units.plural(len(line.amounts), 'second')}"
    return (
        f"{line.series}, repetition {line.repetition}: median {_rate(line, extremes.median)}, "
        f"between {_rate(line, extremes.slowest)} and {_rate(line, extremes.fastest)}"
    )


def _rate(line: Seconds, amount: float) -> str:
    return units.rate(amount) if line.moves_bytes else units.operations(amount)
