"""The plots, as Plotly figures in plain data. Colours are the style sheet's, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.lab.analysis import Ratio
from penstock.lab.report import words

Figure = dict[str, Any]

SERIES = ("var(--series-1)", "var(--series-2)", "var(--series-3)", "var(--series-4)")
_QUIET = "var(--muted)"
_BAD = "var(--bad)"


def _box(
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


def _layout(**more: Any) -> Figure:
    return {
        "margin": {"l": 48, "r": 12, "t": 8, "b": 44},
        "hovermode": "closest",
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "bargap": 0.28,
        **more,
    }


def _axis(title: str = "", **more: Any) -> Figure:
    return {"title": {"text": title, "standoff": 10}, "automargin": True, "zeroline": False, **more}


_DECADES = tuple(base * 10.0**decade for decade in range(-3, 5) for base in (1, 2, 5))
_RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 3, 5, 10, 20)


def _log_axis(title: str, ticks: Sequence[float] = _DECADES) -> Figure:
    return _axis(title, type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])


def query_bars(medians: Mapping[str, float], planning: Mapping[str, float]) -> Figure:
    """A bar per query; where planning was measured it is the lower part of the bar."""
    names = list(medians)
    hover = [f"<b>{name}</b>  {words.seconds(medians[name])}" for name in names]
    if planning:
        hover = [
            f"{text}<br>planning {words.seconds(planning.get(n, 0))}" for n, text in zip(names, hover, strict=True)
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
        "layout": _layout(
            barmode="stack",
            showlegend=bool(planning),
            xaxis=_axis(type="category", showgrid=False, dtick=1, **crowded),
            yaxis=_axis("seconds"),
        ),
    }


def cumulative(seconds: Mapping[str, float]) -> Figure:
    """Time gone by as the queries ran one after the other."""
    totals: list[float] = []
    for value in seconds.values():
        totals.append((totals[-1] if totals else 0.0) + value)
    hover = [
        f"<b>{words.seconds(total)}</b> after {name}<br>query {index} of {len(totals)}, {words.seconds(seconds[name])}"
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
        "layout": _layout(xaxis=_axis("queries done", rangemode="tozero"), yaxis=_axis("seconds", rangemode="tozero")),
    }


def distribution(groups: Mapping[str, Mapping[str, float]]) -> Figure:
    """Box and whiskers with a dot per query, one row per arm, on a logarithmic axis."""
    return {
        "data": [
            _box(
                index,
                arm,
                {f"<b>{name}</b>  {words.seconds(value)}": value for name, value in seconds.items()},
                jitter=0.6,
                size=5,
                opacity=0.55,
            )
            for index, (arm, seconds) in enumerate(groups.items())
        ],
        "layout": _layout(
            xaxis=_log_axis("seconds, logarithmic"),
            yaxis=_axis(showticklabels=len(groups) > 1, showgrid=False, autorange="reversed"),
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
                "hovertext": f"<b>{name}</b><br>{words.count(value)} {unit}, {value / whole:.0%}",
                "hoverinfo": "text",
            }
            for index, (name, value) in enumerate(parts.items())
        ],
        "layout": _layout(
            barmode="stack",
            showlegend=True,
            bargap=0.1,
            xaxis=_axis(unit),
            yaxis=_axis(showticklabels=False, showgrid=False),
        ),
    }


def ratios(parts: Sequence[Ratio]) -> Figure:
    """A dot with its interval per query; 1 is no difference, the left side is faster."""
    colours = {"faster": SERIES[0], "slower": _BAD}
    rows = sorted(parts, key=lambda part: part.ratio, reverse=True)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "y": [part.name for part in rows],
                "x": [part.ratio for part in rows],
                "marker": {"size": 7, "color": [colours.get(part.verdict, _QUIET) for part in rows]},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [part.interval.high - part.ratio if part.interval else 0 for part in rows],
                    "arrayminus": [part.ratio - part.interval.low if part.interval else 0 for part in rows],
                    "color": _QUIET,
                    "thickness": 1,
                    "width": 0,
                },
                "hovertext": [_ratio_text(part) for part in rows],
                "hoverinfo": "text",
            }
        ],
        "layout": _layout(
            xaxis=_log_axis("candidate / baseline, logarithmic", _RATIOS),
            yaxis=_axis(type="category", tickfont={"size": 10}, dtick=1, range=[-1, len(rows)]),
            shapes=[
                {
                    "type": "line",
                    "x0": 1,
                    "x1": 1,
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": "var(--ink)", "width": 1, "dash": "dot"},
                }
            ],
        ),
    }


def starts(arms: Mapping[str, Sequence[float]]) -> Figure:
    """Every start of every arm as a dot beside its box."""
    return {
        "data": [
            _box(
                index,
                arm,
                {f"<b>{arm}</b>, start {number}: {words.seconds(v)}": v for number, v in enumerate(values, start=1)},
                jitter=0.5,
                size=6,
                opacity=0.7,
            )
            for index, (arm, values) in enumerate(arms.items())
        ],
        "layout": _layout(
            xaxis=_axis("seconds", rangemode="tozero"), yaxis=_axis(showgrid=False, autorange="reversed")
        ),
    }


def _ratio_text(part: Ratio) -> str:
    text = f"<b>{part.name}</b>  {words.number(part.ratio)}×, {part.verdict}<br>"
    text += f"{words.seconds(part.baseline.median)} → {words.seconds(part.candidate.median)}"
    if part.interval:
        text += f"<br>95 % interval {words.number(part.interval.low)}–{words.number(part.interval.high)}"
    return text
