"""Plots over time and of latency: rates in every second, percentiles, and block devices.

On the axis of percentiles the slowest tenth, hundredth and thousandth have equal room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis.latency import PERCENTILES, Latency, RateSeries
from penstock.lab.analysis.resources import DiskTrack
from penstock.lab.report.plots.base import (
    MB,
    SOFT,
    Figure,
    Write,
    axis,
    figure,
    log_axis,
    margin,
    scatter,
    stroke,
    symbol,
    zero_axis,
)


def over_time(lines: Sequence[RateSeries]) -> Figure:
    """A line per series and repetition. Either all series move bytes, or none does."""
    names = list(dict.fromkeys(line.series for line in lines))
    moves_bytes = lines[0].moves_bytes
    scale = MB if moves_bytes else 1
    data: list[Figure] = []
    for line in lines:
        index = names.index(line.series)
        first = not any(entry["name"] == line.series for entry in data)
        filled = {"fill": "tozeroy", "fillcolor": SOFT} if len(names) == 1 and first else {}
        seconds = range(line.first, line.first + len(line.amounts))
        data.append(
            scatter(
                seconds,
                [amount / scale for amount in line.amounts],
                _texts(line.series, line.repetition, seconds, line.amounts, _rate(moves_bytes)),
                line=stroke(index, 1.6),
                **filled,
                **_legend(line.series, first=first, opacity=0.45),
            )
        )
    short = max(line.first + len(line.amounts) for line in lines) <= 10
    whole_seconds = {"tickformat": ",d", **({"dtick": 1} if short else {})}
    return figure(
        data,
        showlegend=len(names) > 1,
        margin=margin(left=56, top=28),
        xaxis=zero_axis("seconds since the start", **whole_seconds),
        yaxis=zero_axis("MB/s" if moves_bytes else "operations/s"),
    )


def _rate(moves_bytes: bool) -> Write:
    return units.rate if moves_bytes else units.operations


def _texts(name: str, repetition: int, seconds: Iterable[float], values: Iterable[float], write: Write) -> list[str]:
    return [
        f"<b>{name}</b>, repetition {repetition}, second {second:.0f}<br>{write(value)}"
        for second, value in zip(seconds, values, strict=True)
    ]


def _legend(name: str, *, first: bool, opacity: float) -> Figure:
    """One entry of the legend for all repetitions of a series; the later ones are drawn fainter."""
    return {"name": name, "legendgroup": name, "showlegend": first, "opacity": 1 if first else opacity}


_DECADES = tuple(base * 10.0**decade for decade in range(-3, 6) for base in (1, 2, 5))


def percentiles(lines: Sequence[Latency]) -> Figure:
    """A colour per operation; the line to the last byte is solid, the one to the first byte broken."""
    names = list(dict.fromkeys(line.name for line in lines))
    data = []
    for line in lines:
        index, name = names.index(line.name), f"{line.name}, {phase(line.phase)}"
        data.append(
            scatter(
                [_slowest(found.percent) for found in line.percentiles],
                [found.value * 1e3 for found in line.percentiles],
                [
                    f"<b>{name}</b><br>{found.percent:g} % took {units.latency(found.value)} or less"
                    for found in line.percentiles
                ],
                mode="lines+markers",
                name=name,
                line=stroke(index, 2, 0 if line.phase == "total" else 2),
                marker={"size": 6, "symbol": symbol(index)},
            )
        )
    ticks = {"tickvals": list(map(_slowest, PERCENTILES)), "ticktext": [f"{percent:g}" for percent in PERCENTILES]}
    return figure(
        data,
        showlegend=len(lines) > 1,
        margin=margin(left=56, top=28),
        xaxis=axis("percent of requests that took no longer", type="log", **ticks),
        yaxis=log_axis("milliseconds, logarithmic", _DECADES),
    )


def phase(name: str) -> str:
    return {"first_byte": "to the first byte", "total": "to the last byte"}.get(name, name)


def _slowest(percent: float) -> float:
    """The number of requests of which one is slower."""
    return 100 / (100 - percent)


def busy_over_time(arms: Mapping[str, Sequence[DiskTrack]]) -> Figure:
    """The busy share of the disk, in percent: a line for each repetition, a colour for each arm."""
    lines = {name: (tracks, _busy, _percent) for name, tracks in arms.items()}
    return _disk_lines(lines, 100, axis("busy, %", range=[0, 104]))


def rates_over_time(tracks: Sequence[DiskTrack]) -> Figure:
    """Rates of reading and writing, in MB/s: a line for each repetition."""
    lines: dict[str, _DiskLine] = {
        "read": (tracks, lambda track: track.read_rates, units.rate),
        "written": (tracks, lambda track: track.written_rates, units.rate),
    }
    return _disk_lines(lines, 1 / MB, zero_axis("MB/s"))


_DiskLine = tuple[Sequence[DiskTrack], Callable[[DiskTrack], Sequence[float]], Write]


def _busy(track: DiskTrack) -> Sequence[float]:
    return track.busy_shares


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _disk_lines(series: Mapping[str, _DiskLine], scale: float, yaxis: Figure) -> Figure:
    data: list[Figure] = []
    for index, (name, (tracks, values, write)) in enumerate(series.items()):
        for number, track in enumerate(tracks):
            # A figure holds for the interval that ends at its second, so the line starts at zero with the first figure.
            seconds, shown = (0.0, *track.seconds), (values(track)[0], *values(track))
            data.append(
                scatter(
                    seconds,
                    [value * scale for value in shown],
                    _texts(name, track.repetition, seconds, shown, write),
                    line={**stroke(index, 1.6), "shape": "vh"},
                    **_legend(name, first=number == 0, opacity=0.4),
                )
            )
    return figure(
        data,
        showlegend=len(series) > 1,
        margin=margin(left=56, top=28),
        xaxis=zero_axis("seconds since the start of the repetition"),
        yaxis=yaxis,
    )
