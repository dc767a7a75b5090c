"""The report of right-sizing: times and costs by cluster size, the fitted law, and the formatting of costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from penstock import units
from penstock.lab.analysis import cost
from penstock.lab.analysis.cost import CORE_HOURS, Sizing
from penstock.lab.analysis.doubts import SIZE, Doubt, doubts, unsaid
from penstock.lab.analysis.samples import gb_per_core_hour
from penstock.lab.analysis.usl import WIDEST, Curve, Fit, Law, NoFit, Size, sizes_beyond
from penstock.lab.analysis.verdicts import Interval
from penstock.lab.records import Run
from penstock.lab.report.elements import checks, resources
from penstock.lab.report.elements.render import Document, KeyFigure, Part, Plot, Section, Table, workload_title
from penstock.lab.report.plots import measures as measure_plots
from penstock.prices import Prices

_MISFIT = 0.10
"""The relative error above which the law does not describe a workload well."""


def section(curve: Curve) -> Section:
    name = "Scalability law"
    if isinstance(curve.fit, NoFit):
        return Section(name, curve.fit.reason)
    fit, law = curve.fit, curve.fit.law
    misses = {size.cores: law.seconds(size.cores) / size.seconds - 1 for size in curve.measured}
    worst = max(misses, key=lambda cores: abs(misses[cores]))
    note = (
        f"Of the {units.seconds(law.seconds(1))} on one core, {units.seconds(law.divided)} divide among the cores and "
        f"{units.seconds(law.undivided)} do not; each further core adds {units.seconds(law.added)}. "
        f"The law misses the measured medians by at most {abs(misses[worst]):.1%} ({units.plural(worst, 'core')})"
        + (
            ": it does not describe this workload well, and its predictions are unreliable."
            if abs(misses[worst]) > _MISFIT
            else "."
        )
    )

    rows = [
        ("λ", "runs per hour of one core", *constant(fit, lambda one: one.rate * 3600, units.number)),
        ("σ", "contention: the share that does not divide", *constant(fit, lambda one: one.contention, units.number)),
        ("κ", "coherency: the cost of each pair of cores", *constant(fit, lambda one: one.coherency, units.number)),
        ("N*", "number of cores above which the work gets slower", *constant(fit, lambda one: one.peak_cores, limit)),
    ]
    columns = ("constant", "meaning", "fitted", "95 % interval")
    parts: list[Part] = [Table(columns, rows, numeric=frozenset({2, 3}))]
    return Section(name, f"X(N) = λN / (1 + σ(N − 1) + κN(N − 1)), the Universal Scalability Law. {note}", parts)


def constant(fit: Fit, of: Callable[[Law], float], write: Callable[[float], str]) -> tuple[str, str]:
    return write(of(fit.law)), _interval(fit.interval(of), write)


def _interval(found: Interval | None, write: Callable[[float], str]) -> str:
    return f"{write(found.low)} to {write(found.high)}" if found else "unknown"


def limit(cores: float) -> str:
    return "no limit" if math.isinf(cores) else about(cores)


def about(cores: float) -> str:
    """The number of cores to two digits, since the fit is no more precise."""
    digits = max(0, math.floor(math.log10(cores)) - 1)
    return units.count(round(cores / 10**digits) * 10**digits)


def amount(value: float, currency: str) -> str:
    """`USD 1.25`, `USD 0.00123`; without prices `0.25 core-hours`."""
    return f"{digits(value)} {currency}" if currency == CORE_HOURS else f"{currency} {digits(value)}"


def digits(value: float) -> str:
    """An amount of money with three significant digits or more, without an exponent."""
    if value >= 1000:
        return units.count(value)
    if value >= 1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.{2 - math.floor(math.log10(value))}f}"


def sources(prices: Prices, *sections: str) -> Section:
    """The prices in these sections of the price file, with their sources."""
    rows = [
        (key, f"{found.value:g}", found.source)
        for key, found in prices.sources.items()
        if key.partition(".")[0] in sections
    ]
    note = f"In {prices.currency}, as of {prices.date}. To use others, edit a copy of the file and pass --prices FILE."
    table = Table(("price", "value", "source"), rows, numeric=frozenset({1}), folded=units.plural(len(rows), "price"))
    return Section("Prices used", note, [table])


def document(runs: Sequence[Run], prices: Prices | None = None) -> Document:
    """The report of right-sizing. Raises `ValueError` where no repetition succeeded on any size."""
    sizing = cost.sizing(runs, prices)
    name, doubted = workload_title(runs[0].description), doubts(runs, subject=SIZE)
    return Document(
        kicker=f"Penstock lab · {name} · right-sizing over {units.plural(len(sizing.curve.measured), 'cluster size')}",
        result=headline(name, sizing, doubted),
        doubts=doubted,
        key_figures=_key_figures(sizing),
        sections=[
            *checks.failures(runs, [run.description.arm for run in runs]),
            *sections(sizing),
            *resources.compared_applications(runs, [run.description.arm for run in runs]),
            *([sources(prices, "compute", "power", "amortisation")] if prices else []),
            checks.reproduction(runs),
        ],
        data=data(sizing),
    )


def headline(name: str, sizing: Sizing, doubted: Sequence[Doubt]) -> str:
    curve = sizing.curve
    fastest, cheapest = curve.fastest, curve.cheapest
    time = f"{units.seconds(fastest.seconds)} {_per(sizing)}"
    if len(curve.measured) == 1:
        return f"{units.capitalised(name)} took {time} on {_cores(fastest)}; one size makes no curve."
    if fastest.cores == cheapest.cores:
        sentence = f"{units.capitalised(name)} is fastest and cheapest on {_cores(fastest)}: {time}"
    else:
        sentence = (
            f"{units.capitalised(name)} is fastest on {_cores(fastest)} ({time}) "
            f"and cheapest on {_cores(cheapest, bare=True)} ({_cost(sizing, cheapest)})"
        )
    if curve.as_fast.cores != fastest.cores:
        sentence += f"; {curve.as_fast.cores} are not shown to be slower"
    reason = unsaid(curve.doubt, doubted)
    doubt = f"; {reason}" if reason and isinstance(curve.fit, Fit) else ""
    return f"{sentence}; {_slowdown(sizing, reason)}{doubt}."


def _slowdown(sizing: Sizing, reason: str) -> str:
    curve = sizing.curve
    if (slower := curve.slower_from) is not None:
        factor = slower.seconds / curve.fastest.seconds
        return f"{slower.cores} cores are slower again, by {factor - 1:.0%}"
    return _by_law(curve, reason)


def _by_law(curve: Curve, reason: str) -> str:
    """The sentence on more cores; without a law, the `reason` why no size has a verdict."""
    if isinstance(curve.fit, NoFit):
        return reason or "no measured size is shown to be slower than a smaller one"
    likely = curve.fit.interval(lambda one: one.peak_cores)
    if likely is None:
        return "with no more measurements than unknowns, the noise is unknown"
    if math.isinf(likely.low):
        return "by the law, more cores never make it slower"
    if math.isinf(likely.high):
        return "whether more cores make it slower is open"
    most = curve.measured[-1].cores
    beyond = "every core beyond the first makes" if likely.high == 1 else f"cores beyond {_range(likely)} make"
    return f"{'by the law' if likely.high <= most else 'predicted, not measured'}: {beyond} it slower"


def _range(found: Interval) -> str:
    low, high = about(found.low), about(found.high)
    return low if low == high else f"some number from {low} to {high}"


def _key_figures(sizing: Sizing) -> list[KeyFigure]:
    curve = sizing.curve
    figures = [
        KeyFigure("Fastest", _cores(curve.fastest), units.seconds(curve.fastest.seconds)),
        KeyFigure("Cheapest", _cores(curve.cheapest), _cost(sizing, curve.cheapest)),
    ]
    if isinstance(curve.fit, Fit):
        fitted, largest = curve.fit.law, curve.measured[-1].cores
        figures += [
            KeyFigure("Slower above", *constant(curve.fit, lambda one: one.peak_cores, limit)),
            KeyFigure("Contention", *constant(curve.fit, lambda one: one.contention, "{:.1%}".format)),
            KeyFigure("Efficiency", f"{fitted.efficiency(largest):.0%}", f"on {units.plural(largest, 'core')}"),
        ]
    return figures


def sections(sizing: Sizing) -> list[Section]:
    """Throughput, time against cost, all sizes, and the law."""
    return [_throughput(sizing), _cost_and_time(sizing), _sizes(sizing), section(sizing.curve)]


def _throughput(sizing: Sizing) -> Section:
    curve = sizing.curve

    def rate(seconds: float) -> float:
        return sizing.bytes / 1e6 / seconds if sizing.bytes else 3600 / seconds

    unit = "MB/s" if sizing.bytes else "runs per hour"
    text = "; ".join(f"{_cores(size)}: {units.number(rate(size.seconds))} {unit}" for size in curve.measured)
    plot = Plot("throughput", measure_plots.throughput(curve, rate, unit), f"{text}.", height=380)
    if isinstance(curve.fit, NoFit):
        return Section("Throughput", curve.fit.reason, [plot])
    largest = units.plural(curve.measured[-1].cores, "core")
    note = (
        f"Measured up to {largest}; the dashed line, up to {curve.predicted[-1].cores}, is predicted by the law. "
        if curve.predicted
        else f"Measured up to {largest}. "
    )
    note += (
        "The band holds the law with at least 95 %, by Student's t over the repetitions; it does not cover the risk "
        "that the law fails beyond the measured sizes."
        if curve.fit.has_band
        else "There are no more measurements than unknowns, so the noise is unknown and there is no band."
    )
    predicted = {size.cores for size in curve.predicted}
    if refused := [cores for cores in sizes_beyond(curve.measured[-1].cores) if cores not in predicted]:
        note += f" {units.some([str(cores) for cores in refused])} cores are not predicted: " + (
            f"the band there spans more than a factor of {WIDEST:g}." if curve.fit.has_band else "there is no band."
        )
    return Section("Throughput", note, [plot])


def _cost_and_time(sizing: Sizing) -> Section:
    curve = sizing.curve
    efficient = [size for size in curve.measured if curve.is_efficient(size)]
    text = "; ".join(f"{_cores(s)}: {units.seconds(s.seconds)}, {_cost(sizing, s)}" for s in curve.measured)
    note = "Down is faster, left is cheaper; each dot is labelled with its cores. " + (
        f"{_cores(efficient[0])}: no other size is faster or cheaper."
        if len(efficient) == 1
        else f"The efficient sizes are {units.some([str(size.cores) for size in efficient], 12)} cores; "
        "each other size is beaten by one of them in time, cost or both."
        if len(efficient) < len(curve.measured)
        else "Each measured size is either faster or cheaper than any other."
    )
    figure = measure_plots.time_against_cost(curve, lambda cost: amount(cost, sizing.currency), sizing.currency)
    return Section("Time against cost", note, [Plot("time-against-cost", figure, f"{text}.", height=380)])


def _sizes(sizing: Sizing) -> Section:
    curve = sizing.curve
    columns = (
        "cores",
        f"seconds {_per(sizing)}",
        "range",
        "GB per core and hour" if sizing.bytes else "speedup",
        f"{sizing.currency} {_per(sizing)}",
        f"{sizing.currency} per hour saved",
        "verdict",
    )
    rows = [_row(sizing, size) for size in (*curve.measured, *curve.predicted)]
    table = Table(columns, rows, numeric=frozenset(range(len(columns) - 1)))
    at_once = (
        f" Up to {sizing.clusters} clusters of each size ran concurrently; the cost covers each of them, from the "
        "submission to the end of its application."
        if sizing.clusters > 1
        else ""
    )
    left_out = (
        f" Left out, because not every size completed them: {units.some(sizing.left_out)}." if sizing.left_out else ""
    )
    doubt = f" Between sizes: {curve.doubt}." if curve.doubt else ""
    note = (
        f"Times are medians. The cost covers the whole cluster for the duration of the work, without its start. "
        f"“{sizing.currency} per hour saved” is the price of each hour gained over the next cheaper efficient size. "
        f"A beaten size is neither faster nor cheaper than another; “as fast” is not shown to be slower than any."
        f"{doubt}{at_once}{left_out}"
    )
    return Section("All sizes", note, [table], brief=True)


def _row(sizing: Sizing, size: Size) -> tuple[str, ...]:
    curve = sizing.curve
    if size.measured is None:
        ranged = f"{units.digits(size.band.low)}–{units.digits(size.band.high)}" if size.band else ""
    else:
        ranged = f"{units.digits(size.measured.low)}–{units.digits(size.measured.high)}"
    saved = curve.price_per_hour_saved(size) if size.measured else None
    return (
        units.count(size.cores),
        units.digits(size.seconds),
        ranged,
        _pace(sizing, size),
        digits(size.cost),
        "" if saved is None else digits(saved),
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
    notes = []
    if size.cores == curve.fastest.cores:
        notes.append("fastest")
    elif size.cores == curve.as_fast.cores:
        notes.append("as fast")
    if size.cores == curve.cheapest.cores:
        notes.append("cheapest")
    if not curve.is_efficient(size):
        better = next(other for other in curve.measured if other.beats(size))
        notes.append(f"beaten by {better.cores}")
    return ", ".join(notes)


def _cores(size: Size, *, bare: bool = False) -> str:
    return units.count(size.cores) if bare else units.plural(size.cores, "core")


def _per(sizing: Sizing) -> str:
    return f"per {sizing.unit}"


def _cost(sizing: Sizing, size: Size) -> str:
    return amount(size.cost, sizing.currency)


def data(sizing: Sizing) -> dict[str, object]:
    """The numbers of the report, for JSON."""
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
                "measured_seconds": list(curve.times[size.cores].values()) if size.measured else None,
                "seconds": size.seconds,
                "band_seconds": [size.band.low, size.band.high] if size.band else None,
                "cost": size.cost,
                "worth_it": curve.is_efficient(size) if size.measured else None,
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
