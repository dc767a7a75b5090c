"""Plots of timed work: a bar per measure with its range, repetitions against their median, curves against clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.lab.analysis.spread import Spread, spread
from penstock.lab.report.plots.base import DASHES, QUIET, SERIES, SYMBOLS, Figure, axis, box, layout

Write = Callable[[float], str]


def bars(values: Mapping[str, Spread], unit: str, write: Write) -> Figure:
    """Medians from zero, written beside them; the whisker is the range over the repetitions."""
    names = list(values)
    spreads = list(values.values())
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": [found.median for found in spreads],
                "width": 0.6,
                "marker": {"color": SERIES[0]},
                "error_x": _range(spreads, "var(--ink)"),
                "hovertext": [_text(name, found, write) for name, found in values.items()],
                "hoverinfo": "text",
            },
            {
                "type": "scatter",
                "mode": "text",
                "y": names,
                "x": [found.high for found in spreads],
                "text": [f"\u00a0\u00a0{write(found.median)}" for found in spreads],
                "textposition": "middle right",
                "cliponaxis": False,
                "hoverinfo": "skip",
            },
        ],
        "layout": layout(
            margin={"l": 48, "r": 112, "t": 8, "b": 44},
            xaxis=axis(unit, rangemode="tozero"),
            yaxis=axis(type="category", autorange="reversed", showgrid=False, dtick=1),
        ),
    }


def deviations(values: Mapping[str, Sequence[float]], write: Write) -> Figure:
    """A box a row with a dot for every repetition, each against the median of its row, in percent.

    Against the median, since on one axis of seconds the box of a short measure is a line.
    """
    data = []
    for name, found in values.items():
        median = spread(found).median
        labelled = {
            f"<b>{name}</b>, {number} of {len(found)}: {write(value)}": (value / median - 1) * 100
            for number, value in enumerate(found, start=1)
        }
        data.append(box(0, name, labelled, jitter=0.4, size=6, opacity=0.75))
    return {
        "data": data,
        "layout": layout(
            xaxis=axis("percent above the median", ticksuffix=" %", zeroline=True, zerolinecolor=QUIET),
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
                "error_y": _range(list(points.values()), QUIET),
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


def _range(spreads: Sequence[Spread], colour: str) -> Figure:
    return {
        "type": "data",
        "symmetric": False,
        "array": [found.high - found.median for found in spreads],
        "arrayminus": [found.median - found.low for found in spreads],
        "color": colour,
        "thickness": 1.2,
        "width": 4,
        "visible": any(found.count > 1 for found in spreads),
    }


def _text(name: str, found: Spread, write: Write) -> str:
    text = f"<b>{name}</b>  {write(found.median)}"
    return text if found.count == 1 else f"{text}<br>{write(found.low)} to {write(found.high)}, {found.count} times"
