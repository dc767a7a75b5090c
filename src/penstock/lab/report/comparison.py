"""What two runs of one workload say when set against each other."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import Comparison, Ratio
from penstock.lab.records import Run
from penstock.lab.report import again, checks, devices, plots, reading
from penstock.lab.report.document import Document, KeyFigure, Part, Plot, Section, Table
from penstock.lab.report.titles import title

_CLEARLY_SLOWER = 1.1


def document(baseline: Run, candidate: Run) -> Document:
    """Raises `ValueError` when they have nothing in common."""
    runs = (baseline, candidate)
    found = analysis.compare(baseline, candidate)
    names = arm_names(runs)
    return Document(
        kicker=f"Penstock lab · {title(baseline.description)} · {names[1]} against {names[0]}",
        headline=f"{checks.doubts(runs, names)}{_headline(found, names)}",
        good=not checks.doubts(runs, names),
        key_figures=_key_figures(found, names),
        sections=[
            *(_ratio_section(found, names) if len(found.parts) > 1 else []),
            _table_section(found, names),
            *checks.failures(runs, names),
            *reading.sections(runs, names, [found]),
            *devices.compared(dict(zip(names, runs, strict=True))),
            again.differences([run.description for run in runs], names),
            again.section([run.description for run in runs]),
        ],
        data={
            "baseline": baseline.description.id,
            "candidate": candidate.description.id,
            "total": ratio_data(found.total),
            "parts": {part.name: ratio_data(part) for part in found.parts},
            "only_in_one": list(found.only_in_one),
            "reads": reading.data(runs, names),
        },
    )


def arm_names(runs: Sequence[Run]) -> list[str]:
    """The arms' names; where two runs are of one arm, with the ends of the runs' ids, which `again` tells whole."""
    ids = [run.description.id for run in runs]
    arms = [run.description.arm for run in runs]
    told = [f"{arm} {run_id.rsplit('-', 1)[-1]}" for arm, run_id in zip(arms, ids, strict=True)]
    return next((names for names in (arms, told) if len(set(names)) == len(names)), ids)


def interval(part: Ratio) -> str:
    return f"{units.number(part.interval.low)}–{units.number(part.interval.high)}" if part.interval else ""


def nouns(run: Run) -> tuple[str, str]:
    """What the parts of a comparison are."""
    return ("query", "queries") if run.of_kind("query") else ("measure", "measures")


def ratio_data(part: Ratio) -> dict[str, object]:
    return {
        "unit": part.unit,
        "baseline": part.baseline.median,
        "candidate": part.candidate.median,
        "ratio": part.ratio,
        "interval": [part.interval.low, part.interval.high] if part.interval else None,
        "verdict": part.verdict,
    }


def _headline(found: Comparison, names: Sequence[str]) -> str:
    baseline, candidate = names
    total = found.total
    one, many = nouns(found.baseline)
    alone = total in found.parts
    parts = f" for {total.name}" if alone else f" over {units.plural(len(found.parts), one, many)}"
    over = f" in the geometric mean{parts}" if total.name == "geometric mean" else parts
    # A mean over several units says something as a ratio only.
    sides = (
        f": {cost(total.candidate.median, total)} against {cost(total.baseline.median, total)}" if total.unit else ""
    )
    if total.verdict == "inside the noise":
        return f"No difference beyond the noise: {candidate} against {baseline}{over}{sides}."
    sentence = f"{units.capitalised(candidate)} took {units.number(total.ratio)}× the time of {baseline}{over}{sides}"
    if total.interval is None:
        return f"{sentence}. With fewer than {analysis.FEWEST} rounds of each the noise is unknown."
    if len(found.parts) == 1:
        return f"{sentence}."
    slower = [part.name for part in found.parts if part.verdict == "slower" and part.ratio > _CLEARLY_SLOWER]
    which = units.plural(len(slower), f"{one} is", f"{many} are") if slower else f"no {one} is"
    return f"{sentence}; {which} more than 10 % slower beyond the noise."


def cost(value: float, part: Ratio) -> str:
    """With its unit. A geometric mean over measures of different units has none."""
    if part.unit == "s":
        return units.seconds(value)
    return f"{units.number(value)} {part.unit}".strip()


def _ratio_section(found: Comparison, names: Sequence[str]) -> list[Section]:
    one, _ = nouns(found.baseline)
    counts = _counts(found)
    dots = plots.ratios(found.parts)
    parts: list[Part] = [Plot("ratios", dots, f"Ratio per {one}: {counts}.", height=80 + 17 * len(found.parts))]
    note = f"{names[1]} over {names[0]}, medians with their 95 % bootstrap interval; left of 1 is faster. {counts}."
    made = [Section(f"Ratio per {one}", note, parts)]
    if found.baseline.of_kind("query"):
        medians = {
            names[1]: {part.name: part.candidate.median for part in found.parts},
            names[0]: {part.name: part.baseline.median for part in found.parts},
        }
        boxes = Plot("distribution", plots.distribution(medians), "Times of all queries, per arm.", height=250)
        made.append(Section("Distribution", "A dot per query: its median time in each arm.", [boxes]))
    return made


def _counts(found: Comparison) -> str:
    verdicts = [part.verdict for part in found.parts]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))


def _table_section(found: Comparison, names: Sequence[str]) -> Section:
    one, _ = nouns(found.baseline)
    parts = found.parts if found.total in found.parts else (found.total, *found.parts)
    rows = [
        (
            part.name,
            part.unit,
            units.digits(part.baseline.median),
            units.digits(part.candidate.median),
            units.number(part.ratio),
            interval(part),
            part.verdict,
        )
        for part in parts
    ]
    columns = (one, "unit", *names, "ratio", "95 % interval", "verdict")
    table = Table(columns, rows, numeric=frozenset({2, 3, 4, 5})).filled()
    left_out = f"Left out, as only one side has them: {', '.join(found.only_in_one)}." if found.only_in_one else ""
    return Section(f"Every {one}", left_out, [table], brief=True)


def _key_figures(found: Comparison, names: Sequence[str]) -> list[KeyFigure]:
    total = found.total
    detail = f"95 % interval {interval(total)}" if total.interval else total.verdict
    figures = [KeyFigure("Ratio", f"{units.number(total.ratio)}×", detail)]
    for name, side in zip(names, (total.baseline, total.candidate), strict=True):
        ranged = f"{units.digits(side.low)}–{units.digits(side.high)}, " if side.count > 1 else ""
        figures.append(KeyFigure(name, cost(side.median, total), f"{ranged}{units.plural(side.count, 'round')}"))
    for name, run in zip(names, (found.baseline, found.candidate), strict=True):
        if (cores := analysis.core_seconds(run)) is not None:
            figures.append(KeyFigure(f"Core-seconds, {name}", units.number(cores), "drivers and executors"))
    return figures
