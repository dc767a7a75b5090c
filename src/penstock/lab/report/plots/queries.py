"""Plots of queries: times, their distribution, users side by side, and ratios with their intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis import Execution, Life, Ratio
from penstock.lab.report.plots.base import (
    BAD,
    DECADES,
    NO_DIFFERENCE,
    QUIET,
    SERIES,
    SYMBOLS,
    Figure,
    axis,
    box,
    layout,
    log_axis,
)


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


_TICKS: tuple[Sequence[float], ...] = (
    [step / 20 for step in range(8, 41)],
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 5, 7, 10),
    DECADES,
    [10.0**decade for decade in range(-6, 7)],
)
"""From the closest to the farthest apart."""
_LABELS = 20
"""As many have room beside each other."""
_LEAST_SPAN = 0.1
"""In powers of ten: below it, what is all but equal would look far apart."""


def ratios(parts: Sequence[Ratio], title: str = "candidate / baseline") -> Figure:
    """A dot with its interval per query; 1 is no difference, the left side is faster."""
    colours = {"faster": SERIES[0], "slower": BAD}
    rows = sorted(parts, key=lambda part: part.ratio, reverse=True)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "y": [part.name for part in rows],
                "x": [part.ratio for part in rows],
                "marker": {"size": 7, "color": [colours.get(part.verdict, QUIET) for part in rows]},
                "error_x": _error(rows),
                "hovertext": [_ratio_text(part) for part in rows],
                "hoverinfo": "text",
            }
        ],
        "layout": layout(
            xaxis=_ratio_axis(title, rows),
            yaxis=axis(type="category", tickfont={"size": 10}, dtick=1, range=[-1, len(rows)]),
            shapes=[NO_DIFFERENCE],
        ),
    }


def ratio_groups(arms: Mapping[str, Sequence[Ratio]]) -> Figure:
    """For each name a dot with its interval per arm; every arm has its colour and its symbol."""
    names = list(dict.fromkeys(part.name for parts in arms.values() for part in parts))
    offsets = {arm: (index + 1) / (len(arms) + 1) - 0.5 for index, arm in enumerate(arms)}
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": arm,
                "y": [names.index(part.name) + offsets[arm] for part in parts],
                "x": [part.ratio for part in parts],
                "marker": {"size": 7, "color": SERIES[index % len(SERIES)], "symbol": SYMBOLS[index % len(SYMBOLS)]},
                "error_x": _error(parts),
                "hovertext": [f"{arm}, {_ratio_text(part)}" for part in parts],
                "hoverinfo": "text",
            }
            for index, (arm, parts) in enumerate(arms.items())
        ],
        "layout": layout(
            showlegend=True,
            margin={"l": 48, "r": 12, "t": 28, "b": 44},
            xaxis=_ratio_axis("arm / baseline", (part for parts in arms.values() for part in parts)),
            yaxis=axis(
                tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5], showgrid=False
            ),
            shapes=[NO_DIFFERENCE],
        ),
    }


def _ratio_axis(title: str, parts: Iterable[Ratio]) -> Figure:
    """As wide as the ratios, their intervals and 1 take, with the closest ticks whose labels do not run together."""
    ends = [1.0]
    for part in parts:
        ends += [part.ratio, part.interval.low, part.interval.high] if part.interval else [part.ratio]
    low, high = (math.log10(end(value for value in ends if 0 < value < math.inf)) for end in (min, max))
    margin = max(0.04 * (high - low), (_LEAST_SPAN - (high - low)) / 2)
    shown = (low - margin, high + margin)
    ticks = next((found for found in (_within(each, shown) for each in _TICKS) if _have_room(found, shown)), [1.0])
    return {**log_axis(f"{title}, logarithmic", ticks), "range": list(shown)}


def _within(ticks: Sequence[float], shown: tuple[float, float]) -> list[float]:
    return [tick for tick in ticks if shown[0] <= math.log10(tick) <= shown[1]]


def _have_room(ticks: Sequence[float], shown: tuple[float, float]) -> bool:
    gaps = (math.log10(after / before) for before, after in itertools.pairwise(ticks))
    return min(gaps, default=math.inf) >= (shown[1] - shown[0]) / _LABELS


def _error(parts: Sequence[Ratio]) -> Figure:
    return {
        "type": "data",
        "symmetric": False,
        "array": [part.interval.high - part.ratio if part.interval else 0 for part in parts],
        "arrayminus": [part.ratio - part.interval.low if part.interval else 0 for part in parts],
        "color": QUIET,
        "thickness": 1,
        "width": 0,
    }


def _ratio_text(part: Ratio) -> str:
    text = f"<b>{part.name}</b>  {units.number(part.ratio)}×, {part.verdict}<br>"
    text += f"{units.seconds(part.baseline.median)} → {units.seconds(part.candidate.median)}"
    if part.interval:
        text += f"<br>95 % interval {units.number(part.interval.low)}–{units.number(part.interval.high)}"
    return text
