"""The report of the start-up benchmark: time from submission to the first task, one run per arm."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab.analysis.doubts import Doubt, doubts, unsaid
from penstock.lab.analysis.samples import SECONDS, Costs, measured_in_turns, measures_by_name, start_seconds
from penstock.lab.analysis.verdicts import FASTER, SLOWER, holm, ratio, spread
from penstock.lab.records import Run
from penstock.lab.report.elements import checks
from penstock.lab.report.elements.render import Document, KeyFigure, Plot, Section, Table
from penstock.lab.report.plots import base as base_plots


def document(runs: Sequence[Run]) -> Document:
    """Compare the runs with the first."""
    arms = {run.description.arm: start_seconds(run) for run in runs}
    starts = {run.description.arm: measure.costs(SECONDS) for run in runs for measure in measures_by_name(run).values()}
    measured = {arm: seconds for arm, seconds in arms.items() if seconds}
    spreads = {arm: spread(seconds) for arm, seconds in measured.items()}
    failures = {run.description.arm: len(run.of_kind("failure")) for run in runs}
    rows = [
        (
            arm,
            str(found.count),
            f"{found.median:.2f}",
            f"{found.quartile_low:.2f}–{found.quartile_high:.2f}",
            f"{found.low:.2f}–{found.high:.2f}",
            str(failures[arm]),
        )
        for arm, found in spreads.items()
    ]
    columns = ("arm", "starts", "median, s", "quartiles, s", "range, s", "failed")
    figures = [
        KeyFigure(arm, units.seconds(found.median), f"{found.low:.2f}–{found.high:.2f} s, {found.count} starts")
        for arm, found in spreads.items()
    ]
    text = "; ".join(f"{arm} {units.seconds(found.median)}" for arm, found in spreads.items())
    doubted = doubts(runs)
    return Document(
        kicker="Penstock lab · start-up",
        result=_headline(list(starts.items()), doubted, in_turns=measured_in_turns(runs)),
        doubts=doubted,
        key_figures=figures,
        sections=[
            *checks.failures(runs, [run.description.arm for run in runs]),
            Section(
                "From submission to the first task",
                "Time from the start of the command to the launch of the first task. The arms took turns.",
                [
                    Plot("starts", base_plots.starts(measured), text, height=110 + 70 * max(1, len(measured))),
                    Table(columns, rows, numeric=frozenset(range(1, len(columns)))),
                ],
                brief=True,
            ),
            checks.reproduction(runs),
        ],
        data={"seconds": arms},
    )


def _headline(arms: Sequence[tuple[str, Costs]], doubted: Sequence[Doubt], *, in_turns: bool) -> str:
    if not arms:
        return "No start succeeded."
    first, own = arms[0]
    compared = holm([ratio(name, starts, own, in_turns=in_turns) for name, starts in arms[1:]])
    took = units.seconds(spread(list(own.values())).median)
    sentence = f"{first[0].upper()}{first[1:]} launches its first task after {took}"
    open_why = ["" if part.verdict in (FASTER, SLOWER) else unsaid(part.verdict, doubted) for part in compared]
    others = [
        f"{part.name} after {units.seconds(part.baseline.median)}{f' ({why})' if why else ''}"
        for part, why in zip(compared, open_why, strict=True)
    ]
    return f"{sentence}; {', '.join(others)}." if others else f"{sentence}."
