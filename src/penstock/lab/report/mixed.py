"""What a run of the mixed workload says: how much longer each part takes beside the others."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import ALONE, TOGETHER, Measure, Ratio
from penstock.lab.records import Run
from penstock.lab.report import again, checks, plots, resources, surroundings, tpcds, users
from penstock.lab.report.document import Document, KeyFigure, Plot, Section, Table
from penstock.lab.report.streams import checked, differences, trouble
from penstock.lab.report.titles import title


def document(run: Run) -> Document:
    parts = _parts(run)
    together, alone = _measures(run, TOGETHER), _measures(run, ALONE)
    slower = {name: _ratio(name, alone[name], together[name]) for name in parts if name in alone and name in together}
    failed = sorted(analysis.failed_queries(run), key=analysis.natural)
    sections = [
        *differences(run),
        *checks.wrong(run),
        *checks.failed_repetitions(run),
        *_every_part(parts, alone, together, slower),
        *users.timeline(run),
        *(section for group in parts for section in users.sections(run, group)),
        *checks.section(run),
        *resources.sections(run),
        *surroundings.sections(run),
    ]
    # The first is TPC-DS's; the clicks, which come after it, are one table.
    sections += [tpcds.dataset(sample["manifest"]) for sample in run.of_kind("dataset")[:1]]
    sections.append(again.section([run.description]))
    return Document(
        kicker=f"Penstock lab · {title(run.description)} · {run.description.arm}",
        headline=f"{_wrong(run)}{trouble(run, failed)}{_took(together, slower)}{checked(run)}.",
        good=run.outcome == "ok",
        key_figures=[_key_figure(name, measure, slower.get(name)) for name, measure in together.items()],
        sections=sections,
        data={
            "seconds": {
                name: {
                    phase: found[name].seconds
                    for phase, found in ((ALONE, alone), (TOGETHER, together))
                    if name in found
                }
                for name in parts
            },
            "slow_down": {name: part.ratio for name, part in slower.items()},
            "answers": dict(analysis.answer_verdicts(run)),
        },
    )


def _parts(run: Run) -> list[str]:
    """As they were begun: the users' groups, then the enrichment."""
    return list(dict.fromkeys(str(sample["group"]) for sample in run.samples if sample.get("group")))


def _measures(run: Run, phase: str) -> dict[str, Measure]:
    found = analysis.measured(run)
    return {part: found[f"{part}, {phase}"] for part in _parts(run) if f"{part}, {phase}" in found}


def _ratio(name: str, alone: Measure, together: Measure) -> Ratio:
    return analysis.ratio(name, alone.seconds, together.seconds)


def _wrong(run: Run) -> str:
    wrong = list(dict.fromkeys(str(sample["name"]) for sample in analysis.wrong_checks(run)))
    return f"{units.plural(len(wrong), 'check is', 'checks are')} wrong: {units.some(wrong)}. " if wrong else ""


def _took(together: Mapping[str, Measure], slower: Mapping[str, Ratio]) -> str:
    if slower:
        each = ", ".join(f"{name} {units.number(part.ratio)}×" for name, part in slower.items())
        return f"At the same time, of the time each takes alone: {each}"
    if together:
        return "All at once: " + ", ".join(f"{name} {units.seconds(m.median)}" for name, m in together.items())
    return "Nothing of it came to its end"


def _key_figure(name: str, measure: Measure, part: Ratio | None) -> KeyFigure:
    detail = (
        f"{units.number(part.ratio)}× of {units.seconds(part.baseline.median)} alone" if part else "with the others"
    )
    return KeyFigure(units.capitalised(name), units.seconds(measure.median), detail)


def _every_part(
    parts: list[str], alone: Mapping[str, Measure], together: Mapping[str, Measure], slower: Mapping[str, Ratio]
) -> list[Section]:
    if not together:
        return []

    def cell(found: Mapping[str, Measure], name: str) -> str:
        return units.digits(found[name].median) if name in found else ""

    rows = [
        (
            name,
            cell(alone, name),
            cell(together, name),
            f"{units.number(slower[name].ratio)}×" if name in slower else "",
        )
        for name in parts
    ]
    table = Table(("", "alone, s", "with the others, s", "slow-down"), rows, numeric=frozenset({1, 2, 3}))
    drawn: list[Plot] = []
    if slower:
        text = "; ".join(f"{name} {units.number(part.ratio)}×" for name, part in slower.items()) + "."
        figure = plots.ratios(list(slower.values()), "with the others / alone")
        drawn.append(Plot("parts", figure, text, height=90 + 30 * len(slower)))
    note = "From the first submission of each part to the end of its last application."
    return [Section("Every part", note, [*drawn, table], brief=True)]
