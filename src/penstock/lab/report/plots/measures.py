"""Plots of timed work and of right-sizing: bars with their range, curves against clients, time against cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis.usl import Curve, Fit, Size
from penstock.lab.analysis.verdicts import Spread, spread
from penstock.lab.report.plots.base import DASHES, QUIET, SERIES, SYMBOLS, Figure, axis, box, layout

Write = Callable[[float], str]


def bars(values: Mapping[str, Spread], unit: str, write: Write) -> Figure:
    """Medians from zero, written beside them; the whisker is the range over the repetitions."""
    names = list(values)
    spreads = list(values.values())
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": [found.median for found in spreads],
                "width": 0.6,
                "marker": {"color": SERIES[0]},
                "error_x": _range(spreads, "var(--ink)"),
                "hovertext": [_text(name, found, write) for name, found in values.items()],
                "hoverinfo": "text",
            },
            {
                "type": "scatter",
                "mode": "text",
                "y": names,
                "x": [found.high for found in spreads],
                "text": [f"\u00a0\u00a0{write(found.median)}" for found in spreads],
                "textposition": "middle right",
                "cliponaxis": False,
                "hoverinfo": "skip",
            },
        ],
        "layout": layout(
            margin={"l": 48, "r": 112, "t": 8, "b": 44},
            xaxis=axis(unit, rangemode="tozero"),
            yaxis=axis(type="category", autorange="reversed", showgrid=False, dtick=1),
        ),
    }


def deviations(values: Mapping[str, Sequence[float]], write: Write) -> Figure:
    """A box a row with a dot for every repetition, each against the median of its row, in percent.

    Against the median, since on one axis of seconds the box of a short measure is a line.
    """
    data = []
    for name, found in values.items():
        median = spread(found).median
        labelled = {
            f"<b>{name}</b>, {number} of {len(found)}: {write(value)}": (value / median - 1) * 100
            for number, value in enumerate(found, start=1)
        }
        data.append(box(0, name, labelled, jitter=0.4, size=6, opacity=0.75))
    return {
        "data": data,
        "layout": layout(
            xaxis=axis("percent above the median", ticksuffix=" %", zeroline=True, zerolinecolor=QUIET),
            yaxis=axis(type="category", showgrid=False, autorange="reversed", dtick=1),
        ),
    }


def curves(series: Mapping[str, Mapping[int, Spread]], title: str, unit: str, write: Write) -> Figure:
    """A line per series through its medians at each number of clients, the range as a whisker."""
    ticks = sorted({clients for points in series.values() for clients in points})
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": list(points),
                "y": [found.median for found in points.values()],
                "line": {"color": SERIES[index % len(SERIES)], "width": 2, "dash": DASHES[index % len(DASHES)]},
                "marker": {"size": 7, "symbol": SYMBOLS[index % len(SYMBOLS)]},
                "error_y": _range(list(points.values()), QUIET),
                "hovertext": [_text(f"{name}, {title} {clients}", found, write) for clients, found in points.items()],
                "hoverinfo": "text",
            }
            for index, (name, points) in enumerate(series.items())
        ],
        "layout": layout(
            showlegend=len(series) > 1,
            margin={"l": 56, "r": 12, "t": 28, "b": 44},
            xaxis=axis(title, tickvals=ticks, ticktext=[str(tick) for tick in ticks], rangemode="tozero"),
            yaxis=axis(unit, rangemode="tozero"),
        ),
    }


def _range(spreads: Sequence[Spread], colour: str) -> Figure:
    return {
        "type": "data",
        "symmetric": False,
        "array": [found.high - found.median for found in spreads],
        "arrayminus": [found.median - found.low for found in spreads],
        "color": colour,
        "thickness": 1.2,
        "width": 4,
        "visible": any(found.count > 1 for found in spreads),
    }


def _text(name: str, found: Spread, write: Write) -> str:
    text = f"<b>{name}</b>  {write(found.median)}"
    return text if found.count == 1 else f"{text}<br>{write(found.low)} to {write(found.high)}, {found.count} times"


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
