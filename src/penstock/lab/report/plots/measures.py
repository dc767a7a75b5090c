"""Plots of timed work: a bar per measure with its spread, every repetition in a box, and curves against clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.lab.analysis import Spread
from penstock.lab.report.plots.base import DASHES, QUIET, SERIES, SYMBOLS, Figure, axis, box, layout

Write = Callable[[float], str]


def bars(values: Mapping[str, Spread], unit: str, write: Write) -> Figure:
    """Medians from zero; the whisker is the range over the repetitions."""
    names = list(values)
    spreads = list(values.values())
    repeated = any(found.count > 1 for found in spreads)
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": [found.median for found in spreads],
                "width": 0.62,
                "marker": {"color": SERIES[0]},
                "text": [write(found.median) for found in spreads],
                "textposition": "outside",
                "cliponaxis": False,
                "hovertext": [_text(name, found, write) for name, found in values.items()],
                "hoverinfo": "text",
            },
            *(
                [
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "y": names,
                        "x": [found.median for found in spreads],
                        "marker": {"size": 1, "color": "var(--ink)"},
                        "error_x": {
                            "type": "data",
                            "symmetric": False,
                            "array": [found.high - found.median for found in spreads],
                            "arrayminus": [found.median - found.low for found in spreads],
                            "color": "var(--ink)",
                            "thickness": 1.2,
                            "width": 4,
                        },
                        "hoverinfo": "skip",
                    }
                ]
                if repeated
                else []
            ),
        ],
        "layout": layout(
            margin={"l": 48, "r": 96, "t": 8, "b": 44},
            xaxis=axis(unit, rangemode="tozero"),
            yaxis=axis(type="category", autorange="reversed", showgrid=False, dtick=1),
        ),
    }


def boxes(values: Mapping[str, Sequence[float]], unit: str, write: Write) -> Figure:
    """A box a row, with a dot for every repetition."""
    return {
        "data": [
            box(
                0,
                name,
                {f"<b>{name}</b>, {number} of {len(found)}: {write(v)}": v for number, v in enumerate(found, start=1)},
                jitter=0.4,
                size=6,
                opacity=0.75,
            )
            for name, found in values.items()
        ],
        "layout": layout(
            xaxis=axis(unit, rangemode="tozero"),
            yaxis=axis(type="category", showgrid=False, autorange="reversed", dtick=1),
        ),
    }


def curves(series: Mapping[str, Mapping[int, Spread]], title: str, unit: str, write: Write) -> Figure:
    """A line per series through its medians at each number of clients, the range as a whisker."""
    ticks = sorted({clients for points in series.values() for clients in points})
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": list(points),
                "y": [found.median for found in points.values()],
                "line": {"color": SERIES[index % len(SERIES)], "width": 2, "dash": DASHES[index % len(DASHES)]},
                "marker": {"size": 7, "symbol": SYMBOLS[index % len(SYMBOLS)]},
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [found.high - found.median for found in points.values()],
                    "arrayminus": [found.median - found.low for found in points.values()],
                    "color": QUIET,
                    "thickness": 1,
                    "width": 3,
                },
                "hovertext": [_text(f"{name}, {title} {clients}", found, write) for clients, found in points.items()],
                "hoverinfo": "text",
            }
            for index, (name, points) in enumerate(series.items())
        ],
        "layout": layout(
            showlegend=len(series) > 1,
            margin={"l": 56, "r": 12, "t": 28, "b": 44},
            xaxis=axis(title, tickvals=ticks, ticktext=[str(tick) for tick in ticks], rangemode="tozero"),
            yaxis=axis(unit, rangemode="tozero"),
        ),
    }


def _text(name: str, found: Spread, write: Write) -> str:
    text = f"<b>{name}</b>  {write(found.median)}"
    return text if found.count == 1 else f"{text}<br>{write(found.low)} to {write(found.high)}, {found.count} times"
