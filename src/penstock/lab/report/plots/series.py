"""Plots over time and of latency: rates in every second, percentiles, and block devices.

The axis of percentiles gives the slowest tenth, hundredth and thousandth equal room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis import DiskTrack, Latency, Seconds
from penstock.lab.report.plots.base import DASHES, SERIES, SYMBOLS, Figure, axis, layout

MB = 1e6


def over_time(lines: Sequence[Seconds]) -> Figure:
    """A line per series, all of them moving bytes or all of them not; repetitions of a series share its colour."""
    names = list(dict.fromkeys(line.series for line in lines))
    moves_bytes = lines[0].moves_bytes
    scale = MB if moves_bytes else 1
    write = units.rate if moves_bytes else units.operations
    data: list[Figure] = []
    for line in lines:
        index = names.index(line.series)
        first = not any(entry["name"] == line.series for entry in data)
        alone = len(names) == 1 and first
        seconds = range(line.first, line.first + len(line.amounts))
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": line.series,
                "legendgroup": line.series,
                "showlegend": first,
                "x": list(seconds),
                "y": [amount / scale for amount in line.amounts],
                "line": {"color": SERIES[index % len(SERIES)], "width": 1.6, "dash": DASHES[index % len(DASHES)]},
                "opacity": 1 if first else 0.45,
                **({"fill": "tozeroy", "fillcolor": "var(--series-1-soft)"} if alone else {}),
                "hovertext": [
                    f"<b>{line.series}</b>, repetition {line.repetition}, second {second}<br>{write(amount)}"
                    for second, amount in zip(seconds, line.amounts, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    short = max(line.first + len(line.amounts) for line in lines) <= 10
    return {
        "data": data,
        "layout": layout(
            showlegend=len(names) > 1,
            margin={"l": 56, "r": 12, "t": 28, "b": 44},
            xaxis=axis(
                "seconds since the start", rangemode="tozero", tickformat=",d", **({"dtick": 1} if short else {})
            ),
            yaxis=axis("MB/s" if moves_bytes else "operations/s", rangemode="tozero"),
        ),
    }


_TICKS = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_DECADES = tuple(base * 10.0**decade for decade in range(-3, 6) for base in (1, 2, 5))


def percentiles(lines: Sequence[Latency]) -> Figure:
    """A colour per operation; from the request to the last byte as a full line, to the first byte as a broken one."""
    names = list(dict.fromkeys(line.name for line in lines))
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"{line.name}, {phase(line.phase)}",
                "x": [_slowest(found.percent) for found in line.percentiles],
                "y": [found.value * 1e3 for found in line.percentiles],
                "line": {
                    "color": SERIES[names.index(line.name) % len(SERIES)],
                    "width": 2,
                    "dash": DASHES[0 if line.phase == "total" else 2],
                },
                "marker": {"size": 6, "symbol": SYMBOLS[names.index(line.name) % len(SYMBOLS)]},
                "hovertext": [
                    f"<b>{line.name}, {phase(line.phase)}</b><br>"
                    f"{found.percent:g} % took {units.latency(found.value)} or less"
                    for found in line.percentiles
                ],
                "hoverinfo": "text",
            }
            for line in lines
        ],
        "layout": layout(
            showlegend=len(lines) > 1,
            margin={"l": 56, "r": 12, "t": 28, "b": 44},
            xaxis=axis(
                "percent of requests that took no longer",
                type="log",
                tickvals=[_slowest(percent) for percent in _TICKS],
                ticktext=[f"{percent:g}" for percent in _TICKS],
            ),
            yaxis=axis(
                "milliseconds, logarithmic", type="log", tickvals=_DECADES, ticktext=[f"{tick:g}" for tick in _DECADES]
            ),
        ),
    }


def phase(name: str) -> str:
    return {"first_byte": "to the first byte", "total": "to the last byte"}.get(name, name)


def _slowest(percent: float) -> float:
    """One request in so many is slower."""
    return 100 / (100 - percent)


_MB = 1e6

Values = Callable[[DiskTrack], Sequence[float]]


def busy_over_time(arms: Mapping[str, Sequence[DiskTrack]]) -> Figure:
    """How busy the disk was, in per cent: a line for each repetition of each arm, all of one arm in one colour."""
    lines = {name: (tracks, lambda track: track.busy_shares, _percent) for name, tracks in arms.items()}
    figure = _lines(lines, 100)
    figure["layout"]["yaxis"] = axis("busy, %", range=[0, 104])
    return figure


def rates_over_time(tracks: Sequence[DiskTrack]) -> Figure:
    """What was read and written in MB/s: a line for each repetition."""
    lines: dict[str, tuple[Sequence[DiskTrack], Values, Callable[[float], str]]] = {
        "read": (tracks, lambda track: track.read_rates, units.rate),
        "written": (tracks, lambda track: track.written_rates, units.rate),
    }
    figure = _lines(lines, 1 / _MB)
    figure["layout"]["yaxis"] = axis("MB/s", rangemode="tozero")
    return figure


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _lines(series: Mapping[str, tuple[Sequence[DiskTrack], Values, Callable[[float], str]]], scale: float) -> Figure:
    data: list[Figure] = []
    for index, (name, (tracks, values, write)) in enumerate(series.items()):
        for number, track in enumerate(tracks):
            # A figure holds for the interval that ends at its second; the first begins at none.
            seconds, shown = (0.0, *track.seconds), (values(track)[0], *values(track))
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "legendgroup": name,
                    "showlegend": number == 0,
                    "x": list(seconds),
                    "y": [value * scale for value in shown],
                    "line": {
                        "color": SERIES[index % len(SERIES)],
                        "width": 1.6,
                        "dash": DASHES[index % len(DASHES)],
                        "shape": "vh",
                    },
                    "opacity": 1 if number == 0 else 0.4,
                    "hovertext": [
                        f"<b>{name}</b>, repetition {track.repetition}, second {second:.0f}<br>{write(value)}"
                        for second, value in zip(seconds, shown, strict=True)
                    ],
                    "hoverinfo": "text",
                }
            )
    return {
        "data": data,
        "layout": layout(
            showlegend=len(series) > 1,
            margin={"l": 56, "r": 12, "t": 28, "b": 44},
            xaxis=axis("seconds since the start of the repetition", rangemode="tozero"),
        ),
    }
