"""Plots of queries: a bar each, time gone by, and how their times are distributed."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import units
from penstock.lab.report.plots.base import SERIES, Figure, axis, box, layout, log_axis


def query_bars(medians: Mapping[str, float], planning: Mapping[str, float]) -> Figure:
    """A bar per query; where planning was measured it is the lower part of the bar."""
    names = list(medians)
    hover = [f"<b>{name}</b>  {units.seconds(medians[name])}" for name in names]
    if planning:
        hover = [
            f"{text}<br>planning {units.seconds(planning.get(n, 0))}" for n, text in zip(names, hover, strict=True)
        ]
    parts = [("execution", [medians[name] - planning.get(name, 0.0) for name in names], SERIES[0])]
    if planning:
        parts.insert(0, ("planning", [planning.get(name, 0.0) for name in names], SERIES[1]))
    crowded: Figure = {"tickangle": -90, "tickfont": {"size": 9}} if len(names) > 24 else {}
    return {
        "data": [
            {
                "type": "bar",
                "name": title,
                "x": names,
                "y": values,
                "marker": {"color": colour},
                "hovertext": hover,
                "hoverinfo": "text",
            }
            for title, values, colour in parts
        ],
        "layout": layout(
            barmode="stack",
            showlegend=bool(planning),
            xaxis=axis(type="category", showgrid=False, dtick=1, **crowded),
            yaxis=axis("seconds"),
        ),
    }


def cumulative(seconds: Mapping[str, float]) -> Figure:
    """Time gone by as the queries ran one after the other."""
    totals: list[float] = []
    for value in seconds.values():
        totals.append((totals[-1] if totals else 0.0) + value)
    hover = [
        f"<b>{units.seconds(total)}</b> after {name}<br>query {index} of {len(totals)}, {units.seconds(seconds[name])}"
        for index, (name, total) in enumerate(zip(seconds, totals, strict=True), start=1)
    ]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "x": list(range(1, len(totals) + 1)),
                "y": totals,
                "line": {"color": SERIES[0], "width": 2, "shape": "hv"},
                "fill": "tozeroy",
                "fillcolor": "var(--series-1-soft)",
                "hovertext": hover,
                "hoverinfo": "text",
            }
        ],
        "layout": layout(xaxis=axis("queries done", rangemode="tozero"), yaxis=axis("seconds", rangemode="tozero")),
    }


def distribution(groups: Mapping[str, Mapping[str, float]]) -> Figure:
    """Box and whiskers with a dot per query, one row per arm, on a logarithmic axis."""
    return {
        "data": [
            box(
                index,
                arm,
                {f"<b>{name}</b>  {units.seconds(value)}": value for name, value in seconds.items()},
                jitter=0.6,
                size=5,
                opacity=0.55,
            )
            for index, (arm, seconds) in enumerate(groups.items())
        ],
        "layout": layout(
            xaxis=log_axis("seconds, logarithmic"),
            yaxis=axis(showticklabels=len(groups) > 1, showgrid=False, autorange="reversed"),
        ),
    }


def shares(parts: Mapping[str, float], unit: str) -> Figure:
    """One bar divided into the parts of a whole; the first part has the colour that means work."""
    whole = sum(parts.values()) or 1.0
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": f"{name}  {value / whole:.0%}",
                "y": [""],
                "x": [value],
                "marker": {"color": SERIES[index % len(SERIES)]},
                "hovertext": f"<b>{name}</b><br>{units.count(value)} {unit}, {value / whole:.0%}",
                "hoverinfo": "text",
            }
            for index, (name, value) in enumerate(parts.items())
        ],
        "layout": layout(
            barmode="stack",
            showlegend=True,
            bargap=0.1,
            xaxis=axis(unit),
            yaxis=axis(showticklabels=False, showgrid=False),
        ),
    }
