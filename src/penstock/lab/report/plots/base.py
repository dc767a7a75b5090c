"""What every plot is made of: axes, layout, boxes, and the colours of the style sheet, which follow light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Figure = dict[str, Any]
"""A Plotly figure as plain data: `data` and `layout`."""

SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""In the order they are to be used; told apart by people who cannot tell red from green, too."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
"""Beside the colour: series are told apart in black and white, too."""

QUIET = "var(--muted)"
BAD = "var(--bad)"

NO_DIFFERENCE: Figure = {
    "type": "line",
    "x0": 1,
    "x1": 1,
    "yref": "paper",
    "y0": 0,
    "y1": 1,
    "line": {"color": "var(--ink)", "width": 1, "dash": "dot"},
}
"""A line through the whole plot where a ratio is 1."""


def box(
    index: int, arm: str, labelled: Mapping[str, float], *, jitter: float, size: int, opacity: float
) -> dict[str, Any]:
    """One arm's box and whiskers with every sample as a dot, `labelled` by what shows on hovering over it."""
    colour = SERIES[index % len(SERIES)]
    return {
        "type": "box",
        "orientation": "h",
        "name": arm,
        "x": list(labelled.values()),
        "text": list(labelled),
        "hoverinfo": "text",
        "hoveron": "points",
        "boxpoints": "all",
        "jitter": jitter,
        "pointpos": 0,
        "fillcolor": "rgba(0,0,0,0)",
        "line": {"color": colour, "width": 1.5},
        "marker": {"size": size, "opacity": opacity, "color": colour},
    }


def layout(**more: Any) -> Figure:
    return {
        "margin": {"l": 48, "r": 12, "t": 8, "b": 44},
        "hovermode": "closest",
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "bargap": 0.28,
        **more,
    }


def axis(title: str = "", **more: Any) -> Figure:
    return {"title": {"text": title, "standoff": 10}, "automargin": True, "zeroline": False, **more}


DECADES = tuple(base * 10.0**decade for decade in range(-3, 5) for base in (1, 2, 5))


def log_axis(title: str, ticks: Sequence[float] = DECADES) -> Figure:
    return axis(title, type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
