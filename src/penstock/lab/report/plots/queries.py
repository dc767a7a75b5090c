"""Plots of queries: times, their distribution, users side by side, and ratios with their intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis.resources import Execution, Timeline
from penstock.lab.analysis.verdicts import Ratio
from penstock.lab.report.plots.base import (
    BAD,
    DECADES,
    NO_DIFFERENCE,
    QUIET,
    SERIES,
    SOFT,
    Figure,
    axis,
    bar,
    box,
    colour,
    column_axis,
    end_labels,
    figure,
    log_axis,
    margin,
    row_axis,
    row_box,
    scatter,
    symbol,
    whiskers,
    zero_axis,
)


def query_bars(medians: Mapping[str, float], planning: Mapping[str, float]) -> Figure:
    """A row per query, the longest first; where planning was measured, it is the first part of the bar.

    Rows stay readable on a phone, where a hundred columns leave no room for their labels.
    """
    names = sorted(medians, key=lambda name: -medians[name])

    def text(name: str) -> str:
        planned = f"<br>planning {units.seconds(planning.get(name, 0))}" if planning else ""
        return f"<b>{name}</b>  {units.seconds(medians[name])}{planned}"

    parts = [("execution", [medians[name] - planning.get(name, 0.0) for name in names], SERIES[0])]
    if planning:
        parts.insert(0, ("planning", [planning.get(name, 0.0) for name in names], SERIES[1]))
    bars = [bar(names, values, map(text, names), fill, name=part) for part, values, fill in parts]
    times = [medians[name] for name in names]
    small = {"size": 10, "color": QUIET}
    ends = end_labels(names, times, [f" {units.seconds(time)}" for time in times], textfont=small, showlegend=False)
    return figure(
        [*bars, ends],
        barmode="stack",
        showlegend=bool(planning),
        margin=margin(right=56, top=28),
        # In shares of a plot as high as its queries are many, the usual distance would be wide.
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        xaxis=zero_axis("seconds"),
        # A range of its own: the room that Plotly adds above and below grows with the number of rows.
        yaxis=row_axis(autorange=False, range=[len(names) - 0.5, -0.5], tickfont={"size": 11}),
    )


def cumulative(seconds: Mapping[str, float]) -> Figure:
    """Elapsed time after each query, in the order they ran, from no query at zero seconds."""
    totals = list(itertools.accumulate(seconds.values(), initial=0.0))
    texts = ["start"] + [
        f"<b>{units.seconds(total)}</b> after {name}<br>query {index} of {len(seconds)}, {units.seconds(seconds[name])}"
        for index, (name, total) in enumerate(zip(seconds, totals[1:], strict=True), start=1)
    ]
    step = {"color": SERIES[0], "width": 2, "shape": "hv"}
    line = scatter(range(len(totals)), totals, texts, line=step, fill="tozeroy", fillcolor=SOFT)
    # Plotly ticks a short axis by fractions, and a query is done or not.
    whole: Figure = {"dtick": 1} if len(seconds) <= _LABELS else {}
    return figure([line], xaxis=zero_axis("queries done", **whole), yaxis=zero_axis("seconds"))


def distribution(groups: Mapping[str, Mapping[str, float]]) -> Figure:
    """Box and whiskers with a dot per query, one row per arm, on a logarithmic axis."""

    def labelled(seconds: Mapping[str, float]) -> dict[str, float]:
        return {f"<b>{name}</b>  {units.seconds(value)}": value for name, value in seconds.items()}

    return figure(
        (
            row_box(index, arm, labelled(seconds), jitter=0.6, size=5, opacity=0.55)
            for index, (arm, seconds) in enumerate(groups.items())
        ),
        xaxis=log_axis("seconds, logarithmic"),
        yaxis=axis(showticklabels=len(groups) > 1, showgrid=False, autorange="reversed"),
    )


def shares(parts: Mapping[str, float], unit: str) -> Figure:
    """One bar, divided into the parts of a whole; the first part has the colour of useful work."""
    whole = sum(parts.values()) or 1.0
    data = []
    for index, (name, value) in enumerate(parts.items()):
        text = f"<b>{name}</b><br>{units.count(value)} {unit}, {value / whole:.0%}"
        data.append({**bar([""], [value], [], colour(index), name=f"{name}  {value / whole:.0%}"), "hovertext": text})
    return figure(
        data,
        barmode="stack",
        showlegend=True,
        bargap=0.1,
        xaxis=axis(unit),
        yaxis=axis(showticklabels=False, showgrid=False),
    )


def user_boxes(together: Mapping[str, Sequence[Execution]], alone: Mapping[str, float], mark: str) -> Figure:
    """For each query a box over all users, with a dot per execution and a diamond for the time alone.

    `mark` is the name of the diamonds in the legend.
    """
    dots = [execution for found in together.values() for execution in found]
    marks = {name: alone[name] for name in together if name in alone}
    boxes = box(
        0,
        "every user",
        [f"<b>{dot.query}</b>, user {dot.user}: {units.seconds(dot.seconds)}" for dot in dots],
        jitter=0.5,
        size=4,
        opacity=0.6,
        width=1.2,
        x=[dot.query for dot in dots],
        y=[dot.seconds for dot in dots],
    )
    diamonds = scatter(
        marks,
        marks.values(),
        [f"<b>{name}</b>, alone: {units.seconds(value)}" for name, value in marks.items()],
        mode="markers",
        name=mark,
        marker={"size": 8, "symbol": "diamond", "color": SERIES[1]},
    )
    order = {"categoryorder": "array", "categoryarray": list(together), "range": [-0.6, len(together) - 0.4]}
    return figure(
        [boxes, diamonds],
        showlegend=bool(marks),
        margin=margin(top=28),
        xaxis=column_axis(len(together), **order),
        yaxis=log_axis("seconds, logarithmic"),
    )


def timeline(timelines: Sequence[Timeline]) -> Figure:
    """A row per application: its queries one after the other; grey is the time outside of queries."""
    spans = {one.name: (one.submitted, one.ended) for one in timelines}
    queries = [(one.name, name, start, seconds) for one in timelines for name, start, seconds in one.queries]
    lifetimes = bar(
        spans,
        [end - start for start, end in spans.values()],
        [f"<b>{user}</b><br>{units.seconds(start)} to {units.seconds(end)}" for user, (start, end) in spans.items()],
        QUIET,
        name="from submission to end",
        base=[start for start, _ in spans.values()],
        marker={"opacity": 0.35},
    )
    executions = bar(
        [user for user, *_ in queries],
        [seconds for *_, seconds in queries],
        [
            f"<b>{user}, {name}</b><br>{units.seconds(seconds)}, from {units.seconds(start)}"
            for user, name, start, seconds in queries
        ],
        SERIES[0],
        name="queries",
        base=[start for _, _, start, _ in queries],
        marker={"line": {"color": "var(--paper)", "width": 1}},
    )
    return figure(
        [lifetimes, executions],
        barmode="overlay",
        bargap=0.3,
        showlegend=True,
        margin=margin(top=28),
        xaxis=zero_axis("seconds since the first submission"),
        yaxis=axis(type="category", autorange="reversed", showgrid=False),
    )


_TICKS: tuple[Sequence[float], ...] = (
    [step / 20 for step in range(8, 41)],
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 5, 7, 10),
    DECADES,
    [10.0**decade for decade in range(-6, 7)],
)
"""Sets of ticks, from the densest to the sparsest."""
_LABELS = 20
"""The most labels that fit side by side."""
_LEAST_SPAN = 0.1
"""In powers of ten: on a shorter axis, ratios that are almost equal would look far apart."""


def ratios(parts: Sequence[Ratio], title: str = "candidate / baseline") -> Figure:
    """A dot with its interval per query; 1 is no difference, and the left side is faster."""
    colours = {"faster": SERIES[0], "slower": BAD}
    rows = sorted(parts, key=lambda part: part.ratio, reverse=True)
    fills = [colours.get(part.verdict, QUIET) for part in rows]
    dots = _ratio_dots(rows, [part.name for part in rows], map(_ratio_text, rows), color=fills)
    return figure(
        [dots],
        xaxis=_ratio_axis(title, rows),
        yaxis=axis(type="category", tickfont={"size": 10}, dtick=1, range=[-1, len(rows)]),
        shapes=[NO_DIFFERENCE],
    )


def ratio_groups(arms: Mapping[str, Sequence[Ratio]]) -> Figure:
    """For each name a dot with its interval per arm; every arm has a colour and a symbol of its own."""
    names = list(dict.fromkeys(part.name for parts in arms.values() for part in parts))
    data = []
    for index, (arm, parts) in enumerate(arms.items()):
        offset = (index + 1) / (len(arms) + 1) - 0.5
        positions = [names.index(part.name) + offset for part in parts]
        texts = [f"{arm}, {_ratio_text(part)}" for part in parts]
        dots = _ratio_dots(parts, positions, texts, color=colour(index), symbol=symbol(index))
        data.append({**dots, "name": arm})
    rows: Figure = {"tickvals": list(range(len(names))), "ticktext": names, "range": [len(names) - 0.5, -0.5]}
    return figure(
        data,
        showlegend=True,
        margin=margin(top=28),
        xaxis=_ratio_axis("arm / baseline", itertools.chain(*arms.values())),
        yaxis=axis(showgrid=False, **rows),
        shapes=[NO_DIFFERENCE],
    )


def _ratio_dots(parts: Sequence[Ratio], y: Sequence[object], texts: Iterable[str], **marker: object) -> Figure:
    ends = [
        (part.interval.low, part.ratio, part.interval.high) if part.interval else (part.ratio,) * 3 for part in parts
    ]
    interval = whiskers(ends, QUIET, thickness=1, width=0)
    x = [part.ratio for part in parts]
    return scatter(x, y, texts, mode="markers", marker={"size": 7, **marker}, error_x=interval)


def _ratio_axis(title: str, parts: Iterable[Ratio]) -> Figure:
    """A logarithmic axis that holds 1 and every ratio with its interval, with the densest ticks that fit."""
    ends = [1.0]
    for part in parts:
        ends += [part.ratio, part.interval.low, part.interval.high] if part.interval else [part.ratio]
    low, high = (math.log10(end(value for value in ends if 0 < value < math.inf)) for end in (min, max))
    room = max(0.04 * (high - low), (_LEAST_SPAN - (high - low)) / 2)
    shown = (low - room, high + room)
    ticks = next((found for found in (_within(each, shown) for each in _TICKS) if _have_room(found, shown)), [1.0])
    return {**log_axis(f"{title}, logarithmic", ticks), "range": list(shown)}


def _within(ticks: Sequence[float], shown: tuple[float, float]) -> list[float]:
    return [tick for tick in ticks if shown[0] <= math.log10(tick) <= shown[1]]


def _have_room(ticks: Sequence[float], shown: tuple[float, float]) -> bool:
    gaps = (math.log10(after / before) for before, after in itertools.pairwise(ticks))
    return min(gaps, default=math.inf) >= (shown[1] - shown[0]) / _LABELS


def _ratio_text(part: Ratio) -> str:
    text = f"<b>{part.name}</b>  {units.number(part.ratio)}×, {part.verdict}<br>"
    text += f"{units.seconds(part.baseline.median)} → {units.seconds(part.candidate.median)}"
    if part.interval:
        text += f"<br>95 % interval {units.number(part.interval.low)}–{units.number(part.interval.high)}"
    return text
