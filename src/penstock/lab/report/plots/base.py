"""Traces, axes and layout of every plot, in the colours of the style sheet, which follow light and dark.

A trace is built by `bar`, `scatter` or `box`; `figure` joins traces and layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock import units

Figure = dict[str, Any]
"""A Plotly figure, or a part of one, as plain data."""

Write = Callable[[float], str]
"""Formats a value with its unit."""

MB = 1e6

SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""In order of use. Readers with red-green colour blindness can distinguish them, too."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
"""Besides its colour each series has a dash and a symbol, so that plots can be read in black and white."""

SOFT = "var(--series-1-soft)"
INK = "var(--ink)"
QUIET = "var(--muted)"
BAD = "var(--bad)"

NO_DIFFERENCE: Figure = {
    "type": "line",
    "x0": 1,
    "x1": 1,
    "yref": "paper",
    "y0": 0,
    "y1": 1,
    "line": {"color": INK, "width": 1, "dash": "dot"},
}
"""A line through the whole plot where a ratio is 1."""

DECADES = tuple(base * 10.0**decade for decade in range(-3, 5) for base in (1, 2, 5))


def colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def symbol(index: int) -> str:
    return SYMBOLS[index % len(SYMBOLS)]


def stroke(index: int, width: float, dash: int | None = None) -> Figure:
    """The line of a series; `dash` is another series whose dash it has."""
    return {"color": colour(index), "width": width, "dash": DASHES[(index if dash is None else dash) % len(DASHES)]}


def hover(texts: Iterable[str]) -> Figure:
    """The texts that a trace shows under the pointer, one for each of its points."""
    return {"hovertext": list(texts), "hoverinfo": "text"}


def bar(names: Iterable[Any], values: Iterable[Any], texts: Iterable[str], fill: str, **more: Any) -> Figure:
    """Horizontal bars."""
    marker = {"color": fill, **more.pop("marker", {})}
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(names),
        "x": list(values),
        "marker": marker,
        **hover(texts),
        **more,
    }


def scatter(
    x: Iterable[Any], y: Iterable[Any], texts: Iterable[str] | None = None, *, mode: str = "lines", **more: Any
) -> Figure:
    """Lines, markers or texts. A trace without `texts` does not react to the pointer."""
    shown = {"hoverinfo": "skip"} if texts is None else hover(texts)
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **shown, **more}


def end_labels(rows: Iterable[str], ends: Iterable[float], texts: Iterable[str], **more: Any) -> Figure:
    """Texts to the right of horizontal bars."""
    return scatter(ends, rows, mode="text", text=list(texts), textposition="middle right", cliponaxis=False, **more)


def box(
    index: int,
    name: str,
    texts: Iterable[str],
    *,
    jitter: float,
    size: int,
    opacity: float,
    width: float = 1.5,
    **axes: Any,
) -> Figure:
    """Box and whiskers with every sample as a dot, which shows its text under the pointer."""
    return {
        "type": "box",
        "name": name,
        "text": list(texts),
        "hoverinfo": "text",
        "hoveron": "points",
        "boxpoints": "all",
        "jitter": jitter,
        "pointpos": 0,
        "fillcolor": "rgba(0,0,0,0)",
        "line": {"color": colour(index), "width": width},
        "marker": {"size": size, "opacity": opacity, "color": colour(index)},
        **axes,
    }


def row_box(
    index: int, name: str, labelled: Mapping[str, float], *, jitter: float, size: int, opacity: float
) -> Figure:
    """A horizontal `box` of the values of `labelled`, whose keys are the texts."""
    values = list(labelled.values())
    return box(index, name, labelled, jitter=jitter, size=size, opacity=opacity, x=values, orientation="h")


def whiskers(ranges: Iterable[tuple[float, float, float]], fill: str, **more: Any) -> Figure:
    """Error bars; each range is (low, value, high)."""
    ends = list(ranges)
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for _, value, high in ends],
        "arrayminus": [value - low for low, value, _ in ends],
        "color": fill,
        **more,
    }


def figure(data: Iterable[Figure], **more: Any) -> Figure:
    return {"data": list(data), "layout": layout(**more)}


def layout(**more: Any) -> Figure:
    return {
        "margin": margin(),
        "hovermode": "closest",
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "bargap": 0.28,
        **more,
    }


def margin(left: int = 48, right: int = 12, top: int = 8) -> Figure:
    return {"l": left, "r": right, "t": top, "b": 44}


def axis(title: str = "", **more: Any) -> Figure:
    return {"title": {"text": title, "standoff": 10}, "automargin": True, "zeroline": False, **more}


def zero_axis(title: str, **more: Any) -> Figure:
    """An axis that starts at zero."""
    return axis(title, rangemode="tozero", **more)


def row_axis(**more: Any) -> Figure:
    """A vertical axis with a label for every row, the first row at the top."""
    return axis(**{"type": "category", "showgrid": False, "autorange": "reversed", "dtick": 1, **more})


def column_axis(columns: int, **more: Any) -> Figure:
    """A horizontal axis with a label for every column; the labels of many columns are upright."""
    crowded: Figure = {"tickangle": -90, "tickfont": {"size": 9}} if columns > 24 else {}
    return axis(type="category", showgrid=False, dtick=1, **crowded, **more)


def log_axis(title: str, ticks: Sequence[float] = DECADES) -> Figure:
    return axis(title, type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])


def starts(arms: Mapping[str, Sequence[float]]) -> Figure:
    """Every start of every arm as a dot beside its box."""

    def labelled(arm: str, values: Sequence[float]) -> dict[str, float]:
        return {f"<b>{arm}</b>, start {number}: {units.seconds(v)}": v for number, v in enumerate(values, start=1)}

    return figure(
        (
            row_box(index, arm, labelled(arm, values), jitter=0.5, size=6, opacity=0.7)
            for index, (arm, values) in enumerate(arms.items())
        ),
        xaxis=zero_axis("seconds"),
        yaxis=axis(showgrid=False, autorange="reversed"),
    )


def stacked_costs(rows: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str, write: Write) -> Figure:
    """A bar per row, divided into its parts, with the sum at its end."""
    totals = [sum(values) for values in zip(*parts.values(), strict=True)]

    def texts(name: str, values: Sequence[float]) -> list[str]:
        return [
            f"<b>{row}</b><br>{name} {write(value)} of {write(total)}"
            for row, value, total in zip(rows, values, totals, strict=True)
        ]

    bars = [
        bar(rows, values, texts(name, values), colour(index), name=name)
        for index, (name, values) in enumerate(parts.items())
    ]
    sums = end_labels(rows, totals, [f" {write(total)}" for total in totals], showlegend=False)
    return figure(
        [*bars, sums],
        barmode="stack",
        showlegend=True,
        margin=margin(right=110),
        xaxis=zero_axis(unit),
        yaxis=row_axis(),
    )


_ROOM = 1.12
"""The length of the axis in longest bars: the rest is room for the labels at the ends of the bars."""


def ratio_bars(
    rows: Sequence[str],
    groups: Mapping[str, Sequence[float | None]],
    title: str,
    *,
    longest: float,
    first_colour: int = 0,
) -> Figure:
    """For each row a bar per group, from 0; the dotted line at 1 is the baseline. None leaves a bar out.

    `longest` is the longest bar of all plots that share a scale.
    """

    def shown(values: Sequence[float | None]) -> list[str]:
        return ["" if value is None else f"{units.number(value)}×" for value in values]

    bars = [
        bar(
            rows,
            values,
            [f"<b>{row}</b><br>{name}: {text}" if text else "" for row, text in zip(rows, shown(values), strict=True)],
            colour(index + first_colour),
            name=name,
            text=[f" {text}" if text else "" for text in shown(values)],
            textposition="outside",
            textfont={"size": 10, "color": QUIET},
            cliponaxis=False,
        )
        for index, (name, values) in enumerate(groups.items())
    ]
    return figure(
        bars,
        barmode="group",
        showlegend=len(groups) > 1,
        margin=margin(right=48, top=28),
        xaxis=axis(title, range=[0, max(1, longest) * _ROOM]),
        yaxis=row_axis(),
        shapes=[{**NO_DIFFERENCE, "layer": "below"}],
    )


def height(rows: int, groups: int) -> int:
    """Pixels that keep a bar as thick as a line of text."""
    return 108 + rows * (14 + 15 * groups)
