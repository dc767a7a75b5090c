"""What runs of one workload on clusters of several sizes say: which to choose, and what more cores bring."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock import units
from penstock.lab import rightsizing
from penstock.lab.analysis import gb_per_core_hour
from penstock.lab.records import Run
from penstock.lab.report import again, checks, law, money, plots
from penstock.lab.report.document import Document, KeyFigure, Plot, Section, Table
from penstock.lab.report.titles import title
from penstock.lab.rightsizing import Sizing
from penstock.lab.scaling import Curve, Fit, NoFit, Size
from penstock.prices import Prices


def document(runs: Sequence[Run], prices: Prices | None = None) -> Document:
    """Raises `ValueError` where nothing was measured with success."""
    sizing = rightsizing.sizing(runs, prices)
    doubts = checks.doubts(runs, [run.description.arm for run in runs])
    name = title(runs[0].description)
    return Document(
        kicker=f"Penstock lab · {name} · right-sizing over {units.plural(len(sizing.curve.measured), 'cluster size')}",
        headline=f"{doubts}{checks.unfinished(runs)}{headline(name, sizing)}",
        good=not doubts and all(run.outcome in ("ok", "unfinished") for run in runs),
        key_figures=_key_figures(sizing),
        sections=[
            *sections(sizing),
            *([money.sources(prices, "compute", "power", "amortisation")] if prices else []),
            again.section([run.description for run in runs]),
        ],
        data=data(sizing),
    )


def headline(name: str, sizing: Sizing) -> str:
    curve = sizing.curve
    fastest, cheapest = curve.fastest, curve.cheapest
    time = f"{units.seconds(fastest.seconds)} {_per(sizing)}"
    if len(curve.measured) == 1:
        return f"{units.capitalised(name)} took {time} on {_cores(fastest)}; one size is no curve."
    if fastest.cores == cheapest.cores:
        sentence = f"{units.capitalised(name)} is fastest and cheapest on {_cores(fastest)}: {time}"
    else:
        sentence = (
            f"{units.capitalised(name)} is fastest on {_cores(fastest)} ({time}) "
            f"and cheapest on {_cores(cheapest, bare=True)} ({_cost(sizing, cheapest)})"
        )
    if curve.as_fast.cores != fastest.cores:
        sentence += f"; {curve.as_fast.cores} are as fast within the noise"
    return f"{sentence}; {_where_more_harm(sizing)}."


def _where_more_harm(sizing: Sizing) -> str:
    curve = sizing.curve
    if (slower := curve.slower_from) is not None:
        factor = slower.seconds / curve.fastest.seconds
        return f"{slower.cores} cores are slower again, by {factor - 1:.0%}"
    return _by_law(curve)


def _by_law(curve: Curve) -> str:
    if isinstance(curve.fit, NoFit):
        if all(len(seconds) == 1 for seconds in curve.times.values()):
            return "with one repetition a size, the noise is unknown"
        return "no size measured is slower than a smaller one beyond the noise"
    peak, largest = curve.fit.law.peak_cores, curve.measured[-1].cores
    likely = curve.fit.interval(lambda one: one.peak_cores)
    if likely and likely.low <= largest and math.isinf(likely.high):
        return "whether more cores make it slower is inside the noise"
    if math.isinf(peak):
        return "more cores never make it slower, as far as the law sees"
    beyond = "every core beyond the first makes" if peak == 1 else f"more than {law.about(peak)} cores make"
    return f"{'by the law' if peak <= largest else 'predicted, not measured'}: {beyond} it slower"


def _key_figures(sizing: Sizing) -> list[KeyFigure]:
    curve = sizing.curve
    figures = [
        KeyFigure("Fastest", _cores(curve.fastest), units.seconds(curve.fastest.seconds)),
        KeyFigure("Cheapest", _cores(curve.cheapest), _cost(sizing, curve.cheapest)),
    ]
    if isinstance(curve.fit, Fit):
        fitted, largest = curve.fit.law, curve.measured[-1].cores
        figures += [
            KeyFigure("More cores harm beyond", *law.constant(curve.fit, lambda one: one.peak_cores, law.limit)),
            KeyFigure("Does not divide", *law.constant(curve.fit, lambda one: one.contention, "{:.1%}".format)),
            KeyFigure("Efficiency", f"{fitted.efficiency(largest):.0%}", f"on {units.plural(largest, 'core')}"),
        ]
    return figures


def sections(sizing: Sizing) -> list[Section]:
    """Throughput, time against cost, every size, and the law; with what was left out, if anything."""
    return [_throughput(sizing), _cost_and_time(sizing), _sizes(sizing), law.section(sizing.curve)]


def _throughput(sizing: Sizing) -> Section:
    curve = sizing.curve

    def rate(seconds: float) -> float:
        return sizing.bytes / 1e6 / seconds if sizing.bytes else 3600 / seconds

    unit = "MB/s" if sizing.bytes else "runs an hour"
    text = "; ".join(f"{_cores(size)}: {units.number(rate(size.seconds))} {unit}" for size in curve.measured)
    plot = Plot("throughput", plots.throughput(curve, rate, unit), f"{text}.", height=380)
    if isinstance(curve.fit, NoFit):
        return Section("Throughput", curve.fit.reason, [plot])
    end = curve.predicted[-1].cores
    note = (
        f"Measured to {units.plural(curve.measured[-1].cores, 'core')}; dashed, to {end}, is what the law predicts. "
        + (
            "The band is where 95 % of resampled measurements put the law; it does not cover that the law may not hold "
            "out there."
            if curve.fit.resampled
            else "There are no more measurements than unknowns, so nothing is known of the noise and there is no band."
        )
    )
    return Section("Throughput", note, [plot])


def _cost_and_time(sizing: Sizing) -> Section:
    curve = sizing.curve
    worthy = [size for size in curve.measured if curve.worth_it(size)]
    text = "; ".join(f"{_cores(s)}: {units.seconds(s.seconds)}, {_cost(sizing, s)}" for s in curve.measured)
    note = "Down is faster, left is cheaper; each dot is labelled with its cores. " + (
        f"{_cores(worthy[0])}: no other size is faster or cheaper."
        if len(worthy) == 1
        else f"Worth having are {units.some([str(size.cores) for size in worthy], 12)} cores; "
        "any other size is beaten by one of them in time, cost or both."
        if len(worthy) < len(curve.measured)
        else "Every size measured buys time with money."
    )
    figure = plots.time_against_cost(curve, lambda cost: money.amount(cost, sizing.currency), sizing.currency)
    return Section("Time against cost", note, [Plot("time-against-cost", figure, f"{text}.", height=380)])


def _sizes(sizing: Sizing) -> Section:
    curve = sizing.curve
    columns = (
        "cores",
        f"seconds {_per(sizing)}",
        "range",
        "GB per core and hour" if sizing.bytes else "speed-up",
        f"{sizing.currency} {_per(sizing)}",
        f"{sizing.currency} an hour saved",
        "verdict",
    )
    rows = [_row(sizing, size) for size in (*curve.measured, *curve.predicted)]
    table = Table(columns, rows, numeric=frozenset(range(len(columns) - 1)))
    at_once = f" {sizing.clusters} clusters of each size ran at once; all are counted." if sizing.clusters > 1 else ""
    left_out = f" Left out, as not every size completed it: {units.some(sizing.left_out)}." if sizing.left_out else ""
    note = (
        f"Medians; the cost is that of the whole cluster while the work went on, without its start. “An hour saved” "
        f"is what it costs to be that much faster than with the next cheaper size worth having. What is beaten is "
        f"neither faster nor cheaper than another size; what is as fast is so within the noise.{at_once}{left_out}"
    )
    return Section("Every size", note, [table], brief=True)


def _row(sizing: Sizing, size: Size) -> tuple[str, ...]:
    curve = sizing.curve
    if size.measured is None:
        ranged = f"{units.digits(size.band.low)}–{units.digits(size.band.high)}" if size.band else ""
    else:
        ranged = f"{units.digits(size.measured.low)}–{units.digits(size.measured.high)}"
    saved = curve.hour_saved(size) if size.measured else None
    return (
        units.count(size.cores),
        units.digits(size.seconds),
        ranged,
        _pace(sizing, size),
        money.digits(size.cost),
        "" if saved is None else money.digits(saved),
        _verdict(sizing, size),
    )


def _pace(sizing: Sizing, size: Size) -> str:
    if sizing.bytes:
        return units.number(gb_per_core_hour(sizing.bytes, size.seconds, sizing.clusters * size.cores))
    return f"{units.number(sizing.curve.measured[0].seconds / size.seconds)}×"


def _verdict(sizing: Sizing, size: Size) -> str:
    curve = sizing.curve
    if size.measured is None:
        return "predicted"
    said = []
    if size.cores == curve.fastest.cores:
        said.append("fastest")
    elif size.cores == curve.as_fast.cores:
        said.append("as fast")
    if size.cores == curve.cheapest.cores:
        said.append("cheapest")
    if not curve.worth_it(size):
        better = next(other for other in curve.measured if other.beats(size))
        said.append(f"beaten by {better.cores}")
    return ", ".join(said)


def _cores(size: Size, *, bare: bool = False) -> str:
    return units.count(size.cores) if bare else units.plural(size.cores, "core")


def _per(sizing: Sizing) -> str:
    return f"a {sizing.unit}"


def _cost(sizing: Sizing, size: Size) -> str:
    return money.amount(size.cost, sizing.currency)


def data(sizing: Sizing) -> dict[str, object]:
    """The numbers behind it, for the JSON form."""
    curve = sizing.curve
    found: dict[str, object] = {
        "unit": sizing.unit,
        "bytes": sizing.bytes,
        "currency": sizing.currency,
        "fastest_cores": curve.fastest.cores,
        "cheapest_cores": curve.cheapest.cores,
        "sizes": [
            {
                "cores": size.cores,
                "measured_seconds": list(curve.times[size.cores]) if size.measured else None,
                "seconds": size.seconds,
                "band_seconds": [size.band.low, size.band.high] if size.band else None,
                "cost": size.cost,
                "worth_it": curve.worth_it(size) if size.measured else None,
            }
            for size in (*curve.measured, *curve.predicted)
        ],
    }
    if isinstance(curve.fit, NoFit):
        return {**found, "law": None, "no_law_because": curve.fit.reason}
    fitted, peak = curve.fit.law, curve.fit.law.peak_cores
    return {
        **found,
        "law": {
            "lambda_per_second": fitted.rate,
            "sigma": fitted.contention,
            "kappa": fitted.coherency,
            "peak_cores": None if math.isinf(peak) else peak,
            "divided_seconds": fitted.divided,
            "undivided_seconds": fitted.undivided,
            "added_seconds_per_core": fitted.added,
        },
    }
