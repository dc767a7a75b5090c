"""Plots of timed work and of right-sizing: bars with their range, curves against clients, time against cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock import units
from penstock.lab.analysis.usl import Curve, Fit, Size
from penstock.lab.analysis.verdicts import Spread, spread
from penstock.lab.report.plots.base import (
    INK,
    QUIET,
    SERIES,
    SOFT,
    Figure,
    Write,
    axis,
    bar,
    end_labels,
    figure,
    margin,
    row_axis,
    row_box,
    scatter,
    stroke,
    symbol,
    whiskers,
    zero_axis,
)


def bars(values: Mapping[str, Spread], unit: str, write: Write) -> Figure:
    """Medians as bars from zero, labelled; the whisker is the range over the repetitions."""
    spreads = list(values.values())
    texts = [_text(name, found, write) for name, found in values.items()]
    medians = bar(
        values, [found.median for found in spreads], texts, SERIES[0], width=0.6, error_x=_range(spreads, INK)
    )
    labels = [f"\u00a0\u00a0{write(found.median)}" for found in spreads]
    return figure(
        [medians, end_labels(values, [found.high for found in spreads], labels)],
        margin=margin(right=112),
        xaxis=zero_axis(unit),
        yaxis=row_axis(),
    )


def deviations(values: Mapping[str, Sequence[float]], write: Write) -> Figure:
    """A box per row with a dot for every repetition, in percent above the median of its row.

    On one axis of seconds, the box of a short measure would be a line.
    """
    data = []
    for name, found in values.items():
        median = spread(found).median
        labelled = {
            f"<b>{name}</b>, {number} of {len(found)}: {write(value)}": (value / median - 1) * 100
            for number, value in enumerate(found, start=1)
        }
        data.append(row_box(0, name, labelled, jitter=0.4, size=6, opacity=0.75))
    percent = axis("percent above the median", ticksuffix=" %")
    return figure(data, xaxis={**percent, "zeroline": True, "zerolinecolor": QUIET}, yaxis=row_axis())


def curves(series: Mapping[str, Mapping[int, Spread]], title: str, unit: str, write: Write) -> Figure:
    """A line per series through its medians at each number of clients; the whisker is the range."""
    ticks = sorted({clients for points in series.values() for clients in points})
    return figure(
        (
            scatter(
                points,
                [found.median for found in points.values()],
                [_text(f"{name}, {title} {clients}", found, write) for clients, found in points.items()],
                mode="lines+markers",
                name=name,
                line=stroke(index, 2),
                marker={"size": 7, "symbol": symbol(index)},
                error_y=_range(points.values(), QUIET),
            )
            for index, (name, points) in enumerate(series.items())
        ),
        showlegend=len(series) > 1,
        margin=margin(left=56, top=28),
        xaxis=zero_axis(title, tickvals=ticks, ticktext=[str(tick) for tick in ticks]),
        yaxis=zero_axis(unit),
    )


def _range(spreads: Iterable[Spread], fill: str) -> Figure:
    known = list(spreads)
    ends = [(found.low, found.median, found.high) for found in known]
    return whiskers(ends, fill, thickness=1.2, width=4, visible=any(found.count > 1 for found in known))


def _text(name: str, found: Spread, write: Write) -> str:
    text = f"<b>{name}</b>  {write(found.median)}"
    return text if found.count == 1 else f"{text}<br>{write(found.low)} to {write(found.high)}, {found.count} times"


_STEPS = 60


def throughput(curve: Curve, rate: Callable[[float], float], unit: str) -> Figure:
    """Every repetition as a dot and the fitted law, which is dashed beyond the measured sizes.

    `rate` converts the seconds of a run to the value on the vertical axis, in `unit`.
    """
    fitted = _law(curve, curve.fit, rate) if isinstance(curve.fit, Fit) else []
    dots = [(cores, value) for cores, rounds in curve.times.items() for value in rounds.values()]
    measured = scatter(
        [cores for cores, _ in dots],
        [rate(value) for _, value in dots],
        [f"<b>{units.plural(cores, 'core')}</b>  {units.seconds(value)}" for cores, value in dots],
        mode="markers",
        name="measured",
        marker={"size": 8, "color": SERIES[0], "opacity": 0.75},
    )
    return figure(
        [*fitted, measured],
        showlegend=True,
        xaxis=zero_axis("executor cores", showgrid=False),
        yaxis=zero_axis(unit),
    )


def _law(curve: Curve, fit: Fit, rate: Callable[[float], float]) -> list[Figure]:
    first, last = min(curve.times), max(curve.times)
    end = max([last, *(size.cores for size in curve.predicted)])
    inside, outside = _grid(min(first, 1), last), _grid(last, end)
    traces = [_ideal(fit, rate, end)]
    if fit.has_band:
        traces.append(_band(fit, rate, [*inside, *outside[1:]]))
    for name, cores, dash in (("the law", inside, 0), ("predicted", outside, 1)):
        rates = [rate(fit.law.seconds(count)) for count in cores]
        texts = [_law_text(fit, count, name) for count in cores]
        traces.append(scatter(cores, rates, texts, name=name, line=stroke(0, 2, dash)))
    return traces


def _ideal(fit: Fit, rate: Callable[[float], float], end: int) -> Figure:
    """Linear scaling, cut off where it leaves the plot: a full line would flatten everything else."""
    best = max(rate(fit.law.seconds(cores)) for cores in _grid(1, end))
    one = rate(fit.law.seconds(1))
    reach = min(float(end), 1.15 * best / one)
    return scatter([0, reach], [0, one * reach], name="linear", line={"color": QUIET, "width": 1, "dash": "dot"})


def _band(fit: Fit, rate: Callable[[float], float], cores: Sequence[float]) -> Figure:
    bands = [(count, band) for count in cores if (band := fit.band(count))]
    return scatter(
        [count for count, _ in bands] + [count for count, _ in reversed(bands)],
        [rate(band.low) for _, band in bands] + [rate(band.high) for _, band in reversed(bands)],
        name="95 % band",
        fill="toself",
        fillcolor=SOFT,
        line={"width": 0},
    )


def _law_text(fit: Fit, cores: float, name: str) -> str:
    text = f"<b>{units.number(cores)} cores</b>, {name}: {units.seconds(fit.law.seconds(cores))}"
    band = fit.band(cores)
    return f"{text}<br>95 %: {units.seconds(band.low)} to {units.seconds(band.high)}" if band else text


def _grid(start: float, end: float) -> list[float]:
    return [start + (end - start) * step / _STEPS for step in range(_STEPS + 1)]


def time_against_cost(curve: Curve, write: Write, unit: str) -> Figure:
    """A dot per size, labelled with its cores; the line joins the sizes that no other size beats."""
    efficient = sorted((size for size in curve.measured if curve.is_efficient(size)), key=lambda size: size.cost)
    others = [size for size in curve.measured if not curve.is_efficient(size)]
    open_circle = {"size": 9, "color": SERIES[0], "symbol": "circle-open", "line": {"width": 1.5}}
    groups = (
        ("efficient", efficient, "lines+markers+text", {"size": 10, "color": SERIES[0]}),
        ("beaten in time and cost", others, "markers+text", {"size": 9, "color": QUIET}),
        ("predicted", curve.predicted, "markers+text", open_circle),
    )
    return figure(
        (
            scatter(
                [size.cost for size in sizes],
                [size.seconds for size in sizes],
                [_size_text(size, write) for size in sizes],
                mode=mode,
                name=name,
                text=[f"{size.cores}" for size in sizes],
                textposition="top right",
                textfont={"color": INK, "size": 12},
                cliponaxis=False,
                marker=marker,
                line={"color": SERIES[0], "width": 1.5},
            )
            for name, sizes, mode, marker in groups
            if sizes
        ),
        showlegend=True,
        xaxis=zero_axis(f"{unit} per run"),
        yaxis=zero_axis("seconds per run"),
    )


def _size_text(size: Size, write: Write) -> str:
    text = f"<b>{units.plural(size.cores, 'core')}</b>  {units.seconds(size.seconds)}, {write(size.cost)}"
    if size.measured is None and size.band:
        text += f"<br>predicted, 95 %: {units.seconds(size.band.low)} to {units.seconds(size.band.high)}"
    return text
