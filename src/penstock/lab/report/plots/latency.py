"""Plots of latency: percentiles on the axis that gives the slowest tenth, hundredth and thousandth equal room."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab.analysis import Latency
from penstock.lab.report.plots.base import DASHES, SERIES, SYMBOLS, Figure, axis, layout

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
