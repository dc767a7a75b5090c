"""Plots of users at once: what each query took everyone, and who did what when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab.analysis import Execution, Life
from penstock.lab.report.plots.base import QUIET, SERIES, Figure, axis, layout, log_axis


def user_boxes(together: Mapping[str, Sequence[Execution]], alone: Mapping[str, float], mark: str) -> Figure:
    """For each query a box and whiskers over all users with a dot for each execution, and a mark of that name for what
    it takes alone."""
    dots = [execution for found in together.values() for execution in found]
    crowded: Figure = {"tickangle": -90, "tickfont": {"size": 9}} if len(together) > 24 else {}
    marks = {name: alone[name] for name in together if name in alone}
    return {
        "data": [
            {
                "type": "box",
                "name": "every user",
                "x": [dot.query for dot in dots],
                "y": [dot.seconds for dot in dots],
                "text": [f"<b>{dot.query}</b>, user {dot.user}: {units.seconds(dot.seconds)}" for dot in dots],
                "hoverinfo": "text",
                "hoveron": "points",
                "boxpoints": "all",
                "jitter": 0.5,
                "pointpos": 0,
                "fillcolor": "rgba(0,0,0,0)",
                "line": {"color": SERIES[0], "width": 1.2},
                "marker": {"size": 4, "opacity": 0.6, "color": SERIES[0]},
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": mark,
                "x": list(marks),
                "y": list(marks.values()),
                "hovertext": [f"<b>{name}</b>, alone: {units.seconds(value)}" for name, value in marks.items()],
                "hoverinfo": "text",
                "marker": {"size": 8, "symbol": "diamond", "color": SERIES[1]},
            },
        ],
        "layout": layout(
            showlegend=bool(marks),
            margin={"l": 48, "r": 12, "t": 28, "b": 44},
            xaxis=axis(
                type="category",
                categoryorder="array",
                categoryarray=list(together),
                showgrid=False,
                dtick=1,
                range=[-0.6, len(together) - 0.4],
                **crowded,
            ),
            yaxis=log_axis("seconds, logarithmic"),
        ),
    }


def timeline(lives: Sequence[Life]) -> Figure:
    """A row for each application: its queries as bars one after the other, and in grey what was not a query."""
    whole = {life.who: (life.submitted, life.ended) for life in lives}
    queries = [(life.who, name, start, seconds) for life in lives for name, start, seconds in life.queries]
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": "from submission to end",
                "y": list(whole),
                "base": [start for start, _ in whole.values()],
                "x": [end - start for start, end in whole.values()],
                "marker": {"color": QUIET, "opacity": 0.35},
                "hovertext": [
                    f"<b>{who}</b><br>{units.seconds(start)} to {units.seconds(end)}"
                    for who, (start, end) in whole.items()
                ],
                "hoverinfo": "text",
            },
            {
                "type": "bar",
                "orientation": "h",
                "name": "queries",
                "y": [who for who, *_ in queries],
                "base": [start for _, _, start, _ in queries],
                "x": [seconds for *_, seconds in queries],
                "marker": {"color": SERIES[0], "line": {"color": "var(--paper)", "width": 1}},
                "hovertext": [
                    f"<b>{who}, {name}</b><br>{units.seconds(seconds)}, from {units.seconds(start)}"
                    for who, name, start, seconds in queries
                ],
                "hoverinfo": "text",
            },
        ],
        "layout": layout(
            barmode="overlay",
            bargap=0.3,
            showlegend=True,
            margin={"l": 48, "r": 12, "t": 28, "b": 44},
            xaxis=axis("seconds since the first submission", rangemode="tozero"),
            yaxis=axis(type="category", autorange="reversed", showgrid=False),
        ),
    }
