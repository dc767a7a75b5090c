"""Plots of what a block device did over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis import DiskTrack
from penstock.lab.report.plots.base import DASHES, SERIES, Figure, axis, layout

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
