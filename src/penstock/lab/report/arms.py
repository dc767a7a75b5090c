"""What an experiment of more than two arms says: every arm set against the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import Comparison, Spread
from penstock.lab.records import Run
from penstock.lab.report import again, checks, comparison, devices, plots, reading, reads, warmth
from penstock.lab.report.document import Document, KeyFigure, Plot, Section, Table
from penstock.lab.report.titles import title

_OWN: dict[str, Callable[[Sequence[Run], Sequence[str]], list[Section]]] = {
    "reads": reads.sections,
    "terasort": warmth.sections,
    "tpcds": warmth.sections,
}
"""Workloads that say more of their arms than how long each took."""


@dataclass(frozen=True)
class _Arm:
    name: str
    run: Run
    against_first: Comparison


def document(runs: Sequence[Run]) -> Document:
    """The first run is the baseline. Raises `ValueError` when the arms have nothing in common."""
    names = comparison.arm_names(runs)
    found = analysis.compare_all(runs)
    arms = [_Arm(name, one.candidate, one) for name, one in zip(names[1:], found, strict=True)]
    doubts = checks.doubts(runs, names)
    return Document(
        kicker=f"Penstock lab · {title(runs[0].description)} · {units.plural(len(runs), 'arm')}",
        headline=f"{doubts}{_headline(names[0], arms)}",
        good=not doubts,
        key_figures=_key_figures(names[0], arms),
        sections=[
            _overview(names[0], runs[0], arms),
            *(own(runs, names) if (own := _OWN.get(runs[0].description.workload)) else []),
            *reading.sections(runs, names, found),
            *_per_part(names[0], arms),
            *devices.compared(dict(zip(names, runs, strict=True))),
            again.differences([run.description for run in runs], names),
            again.section([run.description for run in runs]),
        ],
        data={
            "baseline": runs[0].description.id,
            "reads": reading.data(runs, names),
            "arms": {
                arm.name: {
                    "run": arm.run.description.id,
                    "total": comparison.ratio_data(arm.against_first.total),
                    "parts": {part.name: comparison.ratio_data(part) for part in arm.against_first.parts},
                    "only_in_one": list(arm.against_first.only_in_one),
                }
                for arm in arms
            },
        },
    )


def _headline(baseline: str, arms: Sequence[_Arm]) -> str:
    known = all(arm.against_first.total.interval for arm in arms)
    noise = [arm.name for arm in arms if arm.against_first.total.verdict not in ("faster", "slower")]
    if known and len(noise) == len(arms):
        return f"No arm differs from {baseline} beyond the noise."
    same = f"; {units.some(noise)} {'is' if len(noise) == 1 else 'are'} within its noise" if known and noise else ""
    unknown = "" if known else f"; with fewer than {analysis.FEWEST} rounds of each the noise is unknown"
    faster = [arm for arm in arms if arm.against_first.total.ratio < 1 and not (known and arm.name in noise)]
    if not faster:
        return f"{units.capitalised(baseline)} is the fastest of {len(arms) + 1} arms{same}{unknown}."
    best = min(faster, key=_ratio)
    ratio = units.number(_ratio(best))
    if best is min(arms, key=_ratio):
        said = f"is the fastest of {len(arms) + 1} arms: {ratio}× the time of {baseline}"
    else:
        said = f"is faster than {baseline}: {ratio}× its time"
    return f"{units.capitalised(best.name)} {said}{same}{unknown}."


def _ratio(arm: _Arm) -> float:
    return arm.against_first.total.ratio


def _key_figures(baseline: str, arms: Sequence[_Arm]) -> list[KeyFigure]:
    first = arms[0].against_first.total
    figures = [KeyFigure(baseline, comparison.cost(first.baseline.median, first), "the baseline")]
    for arm in arms:
        total = arm.against_first.total
        detail = f"{units.number(total.ratio)}×, {total.verdict}"
        figures.append(KeyFigure(arm.name, comparison.cost(total.candidate.median, total), detail))
    return figures


def _overview(baseline: str, first: Run, arms: Sequence[_Arm]) -> Section:
    totals = [arm.against_first.total for arm in arms]
    spreads: dict[str, Spread] = {baseline: totals[0].baseline}
    spreads |= {arm.name: total.candidate for arm, total in zip(arms, totals, strict=True)}
    unit = totals[0].unit
    text = "; ".join(f"{name} {comparison.cost(found.median, totals[0])}" for name, found in spreads.items())
    bars = plots.bars(spreads, "seconds" if unit == "s" else unit, lambda value: comparison.cost(value, totals[0]))
    plot = Plot("arms", bars, f"{text}.", height=64 + 34 * len(spreads))
    rows = [_row(baseline, first, spreads[baseline], ("", "", "baseline"))]
    rows += [
        _row(
            arm.name,
            arm.run,
            total.candidate,
            (units.number(total.ratio), comparison.interval(total), total.verdict),
        )
        for arm, total in zip(arms, totals, strict=True)
    ]
    columns = (
        "arm",
        "repetitions",
        f"median, {unit}".rstrip(", "),
        "range",
        "ratio",
        "95 % interval",
        "verdict",
        "core-seconds",
    )
    table = Table(columns, rows, numeric=frozenset({1, 2, 3, 4, 5, 7})).filled()
    note = f"Each arm over {baseline}: medians with their 95 % bootstrap interval. Below 1 is faster."
    return Section("Arms", note, [plot, table], brief=True)


def _row(name: str, run: Run, found: Spread, verdict: tuple[str, str, str]) -> tuple[str, ...]:
    cores = analysis.core_seconds(run)
    ranged = f"{units.digits(found.low)}–{units.digits(found.high)}" if found.count > 1 else ""
    costs = units.number(cores) if cores is not None else ""
    return (name, str(found.count), units.digits(found.median), ranged, *verdict, costs)


def _per_part(baseline: str, arms: Sequence[_Arm]) -> list[Section]:
    names = list(dict.fromkeys(part.name for arm in arms for part in arm.against_first.parts))
    if len(names) < 2:
        return []
    one, _ = comparison.nouns(arms[0].run)
    by_arm = {arm.name: {part.name: part for part in arm.against_first.parts} for arm in arms}
    before = {part.name: part for arm in arms for part in arm.against_first.parts}
    rows = [
        (
            name,
            before[name].unit,
            units.digits(before[name].baseline.median),
            *(
                f"{units.digits(part.candidate.median)} ({units.number(part.ratio)}×)" if part else ""
                for part in (parts.get(name) for parts in by_arm.values())
            ),
        )
        for name in names
    ]
    columns = (one, "unit", baseline, *by_arm)
    table = Table(columns, rows, numeric=frozenset(range(2, len(columns))))
    figure = plots.ratio_groups({arm.name: arm.against_first.parts for arm in arms})
    text = "; ".join(
        f"{arm.name}: {sum(part.verdict == 'faster' for part in arm.against_first.parts)} faster, "
        f"{sum(part.verdict == 'slower' for part in arm.against_first.parts)} slower"
        for arm in arms
    )
    plot = Plot("ratios", figure, f"{text}.", height=96 + (8 + 12 * len(arms)) * len(names))
    note = f"Over {baseline}, with the 95 % bootstrap interval; left of 1 is faster."
    return [Section(f"Ratio per {one}", note, [plot]), Section(f"Every {one}", "", [table])]
