"""The scalability law that was fitted: its constants with their intervals, and how well it describes the workload."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock import units
from penstock.lab.analysis import Interval
from penstock.lab.report.document import Part, Section, Table
from penstock.lab.scaling import Curve, Fit, Law, NoFit

_MISFIT = 0.10
"""The law is said not to describe a workload whose median it misses by more."""


def section(curve: Curve) -> Section:
    name = "The law"
    if isinstance(curve.fit, NoFit):
        return Section(name, curve.fit.reason)
    fit, law = curve.fit, curve.fit.law
    misses = {size.cores: law.seconds(size.cores) / size.seconds - 1 for size in curve.measured}
    worst = max(misses, key=lambda cores: abs(misses[cores]))
    note = (
        f"Of the {units.seconds(law.seconds(1))} on one core, {units.seconds(law.divided)} divide among the cores, "
        f"{units.seconds(law.undivided)} do not, and each further core adds {units.seconds(law.added)}. "
        f"The law misses the measured medians by at most {abs(misses[worst]):.1%} ({units.plural(worst, 'core')})"
        + (
            ": it does not describe this workload well, and its predictions deserve no trust."
            if abs(misses[worst]) > _MISFIT
            else "."
        )
    )

    rows = [
        ("λ", "runs per hour of one core", *constant(fit, lambda one: one.rate * 3600, units.number)),
        ("σ", "contention: the share that does not divide", *constant(fit, lambda one: one.contention, units.number)),
        ("κ", "coherency: what each pair of cores costs", *constant(fit, lambda one: one.coherency, units.number)),
        ("N*", "cores beyond which more make it slower", *constant(fit, lambda one: one.peak_cores, limit)),
    ]
    columns = ("constant", "what it is", "fitted", "95 % interval")
    parts: list[Part] = [Table(columns, rows, numeric=frozenset({2, 3}))]
    return Section(name, f"X(N) = λN / (1 + σ(N − 1) + κN(N − 1)), the Universal Scalability Law. {note}", parts)


def constant(fit: Fit, of: Callable[[Law], float], write: Callable[[float], str]) -> tuple[str, str]:
    return write(of(fit.law)), _interval(fit.interval(of), write)


def _interval(found: Interval | None, write: Callable[[float], str]) -> str:
    return f"{write(found.low)} to {write(found.high)}" if found else "noise unknown"


def limit(cores: float) -> str:
    return "no limit" if math.isinf(cores) else about(cores)


def about(cores: float) -> str:
    """Two digits: a fit knows no more."""
    digits = max(0, math.floor(math.log10(cores)) - 1)
    return units.count(round(cores / 10**digits) * 10**digits)
