"""Axes, layout, boxes and bars of every plot, in the colours of the style sheet, which follow light and dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock import units

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


def starts(arms: Mapping[str, Sequence[float]]) -> Figure:
    """Every start of every arm as a dot beside its box."""
    return {
        "data": [
            box(
                index,
                arm,
                {f"<b>{arm}</b>, start {number}: {units.seconds(v)}": v for number, v in enumerate(values, start=1)},
                jitter=0.5,
                size=6,
                opacity=0.7,
            )
            for index, (arm, values) in enumerate(arms.items())
        ],
        "layout": layout(xaxis=axis("seconds", rangemode="tozero"), yaxis=axis(showgrid=False, autorange="reversed")),
    }


def stacked_costs(
    rows: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str, write: Callable[[float], str]
) -> Figure:
    """A bar per row, made of its parts; at its end, what they come to."""
    totals = [sum(values) for values in zip(*parts.values(), strict=True)]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(rows),
            "x": list(values),
            "marker": {"color": SERIES[index % len(SERIES)]},
            "hovertext": [
                f"<b>{row}</b><br>{name} {write(value)} of {write(total)}"
                for row, value, total in zip(rows, values, totals, strict=True)
            ],
            "hoverinfo": "text",
        }
        for index, (name, values) in enumerate(parts.items())
    ]
    ends = {
        "type": "scatter",
        "mode": "text",
        "y": list(rows),
        "x": totals,
        "text": [f" {write(total)}" for total in totals],
        "textposition": "middle right",
        "cliponaxis": False,
        "showlegend": False,
        "hoverinfo": "skip",
    }
    return {
        "data": [*bars, ends],
        "layout": layout(
            barmode="stack",
            showlegend=True,
            margin={"l": 48, "r": 110, "t": 8, "b": 44},
            xaxis=axis(unit, rangemode="tozero"),
            yaxis=axis(type="category", showgrid=False, autorange="reversed", dtick=1),
        ),
    }


_ROOM = 1.12
"""Beyond the longest bar, for what is written at its end."""


def ratio_bars(
    rows: Sequence[str],
    groups: Mapping[str, Sequence[float | None]],
    title: str,
    *,
    longest: float,
    first_colour: int = 0,
) -> Figure:
    """For each row a bar per group, from 0; the dotted line at 1 is the baseline. None leaves a bar out.

    `longest` is the longest bar of all plots that are to have one scale.
    """
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": list(rows),
                "x": list(values),
                "marker": {"color": SERIES[(index + first_colour) % len(SERIES)]},
                "text": [f" {units.number(value)}×" if value is not None else "" for value in values],
                "textposition": "outside",
                "textfont": {"size": 10, "color": "var(--muted)"},
                "cliponaxis": False,
                "hovertext": [
                    f"<b>{row}</b><br>{name}: {units.number(value)}×" if value is not None else ""
                    for row, value in zip(rows, values, strict=True)
                ],
                "hoverinfo": "text",
            }
            for index, (name, values) in enumerate(groups.items())
        ],
        "layout": layout(
            barmode="group",
            showlegend=len(groups) > 1,
            margin={"l": 48, "r": 48, "t": 28, "b": 44},
            xaxis=axis(title, range=[0, max(1, longest) * _ROOM]),
            yaxis=axis(type="category", showgrid=False, autorange="reversed", dtick=1),
            shapes=[{**NO_DIFFERENCE, "layer": "below"}],
        ),
    }


def height(rows: int, groups: int) -> int:
    """Pixels that keep a bar as thick as a line of text."""
    return 108 + rows * (14 + 15 * groups)
