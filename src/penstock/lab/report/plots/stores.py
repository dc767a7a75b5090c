"""Plots of stores set against one of them: bars of ratios, grouped by workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab.report.plots.base import NO_DIFFERENCE, SERIES, Figure, axis, layout

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
