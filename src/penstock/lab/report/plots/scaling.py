"""Plots of right-sizing: throughput against cores, and time against cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock import units
from penstock.lab.report.plots.base import QUIET, SERIES, Figure, axis, layout
from penstock.lab.scaling import Curve, Fit, Size

_STEPS = 60
_INK = "var(--ink)"


def throughput(curve: Curve, rate: Callable[[float], float], unit: str) -> Figure:
    """Every repetition as a dot, the law through them, dashed and with its band where nothing was measured.

    `rate` turns the seconds of a run into what the vertical axis shows, in `unit`.
    """
    fitted = _law(curve, curve.fit, rate) if isinstance(curve.fit, Fit) else []
    dots = [(cores, value) for cores, seconds in curve.times.items() for value in seconds]
    measured = {
        "type": "scatter",
        "mode": "markers",
        "name": "measured",
        "x": [cores for cores, _ in dots],
        "y": [rate(value) for _, value in dots],
        "marker": {"size": 8, "color": SERIES[0], "opacity": 0.75},
        "hovertext": [f"<b>{units.plural(cores, 'core')}</b>  {units.seconds(value)}" for cores, value in dots],
        "hoverinfo": "text",
    }
    return {
        "data": [*fitted, measured],
        "layout": layout(
            showlegend=True,
            xaxis=axis("executor cores", rangemode="tozero", showgrid=False),
            yaxis=axis(unit, rangemode="tozero"),
        ),
    }


def _law(curve: Curve, fit: Fit, rate: Callable[[float], float]) -> list[Figure]:
    first, last = min(curve.times), max(curve.times)
    end = max([last, *(size.cores for size in curve.predicted)])
    inside, outside = _grid(min(first, 1), last), _grid(last, end)
    traces = [_ideal(fit, rate, end)]
    if fit.resampled:
        traces.append(_band(fit, rate, [*inside, *outside[1:]]))
    for name, cores, dash in (("the law", inside, "solid"), ("predicted", outside, "dash")):
        seconds = [fit.law.seconds(count) for count in cores]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": cores,
                "y": [rate(value) for value in seconds],
                "line": {"color": SERIES[0], "width": 2, "dash": dash},
                "hovertext": [_hover(fit, count, name) for count in cores],
                "hoverinfo": "text",
            }
        )
    return traces


def _ideal(fit: Fit, rate: Callable[[float], float], end: int) -> Figure:
    """Up to where it leaves the plot: a line to the top would flatten everything else."""
    best = max(rate(fit.law.seconds(cores)) for cores in _grid(1, end))
    one = rate(fit.law.seconds(1))
    reach = min(float(end), 1.15 * best / one)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "linear",
        "x": [0, reach],
        "y": [0, one * reach],
        "line": {"color": QUIET, "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _band(fit: Fit, rate: Callable[[float], float], cores: Sequence[float]) -> Figure:
    bands = [(count, band) for count in cores if (band := fit.band(count))]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "95 % band",
        "x": [count for count, _ in bands] + [count for count, _ in reversed(bands)],
        "y": [rate(band.low) for _, band in bands] + [rate(band.high) for _, band in reversed(bands)],
        "fill": "toself",
        "fillcolor": "var(--series-1-soft)",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _hover(fit: Fit, cores: float, name: str) -> str:
    text = f"<b>{units.number(cores)} cores</b>, {name}: {units.seconds(fit.law.seconds(cores))}"
    band = fit.band(cores)
    return f"{text}<br>95 %: {units.seconds(band.low)} to {units.seconds(band.high)}" if band else text


def _grid(start: float, end: float) -> list[float]:
    return [start + (end - start) * step / _STEPS for step in range(_STEPS + 1)]


def time_against_cost(curve: Curve, money: Callable[[float], str], unit: str) -> Figure:
    """A dot per size, labelled with its cores; down and left is better. The line joins the sizes worth having."""
    worthy = sorted((size for size in curve.measured if curve.worth_it(size)), key=lambda size: size.cost)
    others = [size for size in curve.measured if not curve.worth_it(size)]
    groups = (
        ("worth having", worthy, "lines+markers+text", {"size": 10, "color": SERIES[0]}),
        ("beaten in time and cost", others, "markers+text", {"size": 9, "color": QUIET}),
        (
            "predicted",
            list(curve.predicted),
            "markers+text",
            {"size": 9, "color": SERIES[0], "symbol": "circle-open", "line": {"width": 1.5}},
        ),
    )
    return {
        "data": [
            {
                "type": "scatter",
                "mode": mode,
                "name": name,
                "x": [size.cost for size in sizes],
                "y": [size.seconds for size in sizes],
                "text": [f"{size.cores}" for size in sizes],
                "textposition": "top right",
                "textfont": {"color": _INK, "size": 12},
                "cliponaxis": False,
                "marker": marker,
                "line": {"color": SERIES[0], "width": 1.5},
                "hovertext": [_size_text(size, money) for size in sizes],
                "hoverinfo": "text",
            }
            for name, sizes, mode, marker in groups
            if sizes
        ],
        "layout": layout(
            showlegend=True,
            xaxis=axis(f"{unit} a run", rangemode="tozero"),
            yaxis=axis("seconds a run", rangemode="tozero"),
        ),
    }


def _size_text(size: Size, money: Callable[[float], str]) -> str:
    text = f"<b>{units.plural(size.cores, 'core')}</b>  {units.seconds(size.seconds)}, {money(size.cost)}"
    if size.measured is None and size.band:
        text += f"<br>predicted, 95 %: {units.seconds(size.band.low)} to {units.seconds(size.band.high)}"
    return text
