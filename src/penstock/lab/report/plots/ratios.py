"""Plots of comparisons: ratios with their intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis import Ratio
from penstock.lab.report.plots.base import (
    BAD,
    DECADES,
    NO_DIFFERENCE,
    QUIET,
    SERIES,
    SYMBOLS,
    Figure,
    axis,
    layout,
    log_axis,
)

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
