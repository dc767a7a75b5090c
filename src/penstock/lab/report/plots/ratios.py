"""Plots of comparisons: ratios with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.lab.analysis import Ratio
from penstock.lab.report import words
from penstock.lab.report.plots.base import BAD, NO_DIFFERENCE, QUIET, SERIES, SYMBOLS, Figure, axis, layout, log_axis

_RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 3, 5, 10, 20)


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
            xaxis=log_axis(f"{title}, logarithmic", _RATIOS),
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
            xaxis=log_axis("arm / baseline, logarithmic", _RATIOS),
            yaxis=axis(
                tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5], showgrid=False
            ),
            shapes=[NO_DIFFERENCE],
        ),
    }


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
    text = f"<b>{part.name}</b>  {words.number(part.ratio)}×, {part.verdict}<br>"
    text += f"{words.seconds(part.baseline.median)} → {words.seconds(part.candidate.median)}"
    if part.interval:
        text += f"<br>95 % interval {words.number(part.interval.low)}–{words.number(part.interval.high)}"
    return text
