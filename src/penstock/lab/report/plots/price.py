"""Plots of what things cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.lab.report.plots.base import SERIES, Figure, axis, layout


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
