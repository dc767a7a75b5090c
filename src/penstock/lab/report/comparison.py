"""What two runs of one workload say when set against each other."""

from __future__ import annotations

import statistics

from penstock.lab import analysis
from penstock.lab.analysis import Comparison, Ratio
from penstock.lab.records import Run
from penstock.lab.report import again, plots, words
from penstock.lab.report.document import Document, KeyFigure, Plot, Section, Table


def document(baseline: Run, candidate: Run) -> Document:
    """Raises `ValueError` when they have nothing in common."""
    found = analysis.compare(baseline, candidate)
    names = _names(found)
    wrong = [run for run in (baseline, candidate) if "different" in analysis.answer_verdicts(run).values()]
    sections = []
    if len(found.parts) > 1:
        sections += _per_part(found, names)
    sections.append(again.section([baseline.description, candidate.description]))
    return Document(
        kicker=f"Penstock lab · {_workload(baseline)} · {names[1]} against {names[0]}",
        headline=headline(found),
        good=not wrong,
        key_figures=_key_figures(found, names),
        sections=sections,
        data={
            "baseline": baseline.description.id,
            "candidate": candidate.description.id,
            "total": _ratio_data(found.total),
            "parts": {part.name: _ratio_data(part) for part in found.parts},
            "only_in_one": list(found.only_in_one),
        },
    )


def headline(found: Comparison) -> str:
    baseline, candidate = _names(found)
    total = found.total
    times = f"{words.seconds(total.candidate.median)} against {words.seconds(total.baseline.median)}"
    over = f" over {words.plural(len(found.parts), 'query', 'queries')}" if len(found.parts) > 1 else ""
    if total.verdict == "inside the noise":
        return f"No difference beyond the noise: {candidate} took {times} of {baseline}{over}."
    sentence = (
        f"{candidate[0].upper()}{candidate[1:]} took {words.number(total.ratio)}× the time of {baseline}{over}: {times}"
    )
    if total.interval is None:
        return f"{sentence}. One sample each, so the noise is unknown."
    slower = [part.name for part in found.parts if part.verdict == "slower" and part.ratio > 1.1]
    rest = (
        f"; {words.plural(len(slower), 'query is', 'queries are')} more than 10 % slower beyond the noise"
        if slower
        else "; no query is more than 10 % slower beyond the noise"
    )
    return f"{sentence}{rest if len(found.parts) > 1 else ''}."


def _per_part(found: Comparison, names: tuple[str, str]) -> list[Section]:
    verdicts = [part.verdict for part in found.parts]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    ratio_plot = Plot(
        "ratios", plots.ratios(found.parts), f"Ratio per query: {counts}.", height=80 + 17 * len(found.parts)
    )
    medians = {
        name: {part.name: side(part) for part in found.parts}
        for name, side in zip(reversed(names), (_candidate_median, _baseline_median), strict=True)
    }
    boxes = Plot("distribution", plots.distribution(medians), "Times of all queries, per arm.", height=250)
    rows = [
        (
            part.name,
            f"{part.baseline.median:.2f}",
            f"{part.candidate.median:.2f}",
            words.number(part.ratio),
            f"{words.number(part.interval.low)}–{words.number(part.interval.high)}" if part.interval else "",
            part.verdict,
        )
        for part in (found.total, *found.parts)
    ]
    columns = ("query", f"{names[0]}, s", f"{names[1]}, s", "ratio", "95 % interval", "verdict")
    left_out = f" Left out, as only one side has them: {', '.join(found.only_in_one)}." if found.only_in_one else ""
    return [
        Section(
            "Ratio per query",
            f"{names[1]} over {names[0]}, medians with their 95 % bootstrap interval; left of 1 is faster. {counts}.",
            [ratio_plot],
        ),
        Section("Distribution", "A dot per query: its median time in each arm.", [boxes]),
        Section("Every query", left_out.strip(), [Table(columns, rows, numeric=frozenset({1, 2, 3, 4}))], brief=True),
    ]


def _baseline_median(part: Ratio) -> float:
    return part.baseline.median


def _candidate_median(part: Ratio) -> float:
    return part.candidate.median


def _key_figures(found: Comparison, names: tuple[str, str]) -> list[KeyFigure]:
    total = found.total
    interval = total.interval
    figures = [
        KeyFigure(
            "Ratio",
            f"{words.number(total.ratio)}×",
            f"95 % interval {words.number(interval.low)}–{words.number(interval.high)}" if interval else total.verdict,
        )
    ]
    for name, side in zip(names, (total.baseline, total.candidate), strict=True):
        detail = f"{side.low:.1f}–{side.high:.1f} s, {words.plural(side.count, 'round')}"
        figures.append(KeyFigure(name, words.seconds(side.median), detail))
    for name, run in zip(names, (found.baseline, found.candidate), strict=True):
        cores = [sample["core_seconds"] for sample in run.of_kind("application") if sample.get("core_seconds")]
        if cores:
            figures.append(KeyFigure(f"Core-seconds, {name}", words.count(statistics.median(cores))))
    return figures


def _names(found: Comparison) -> tuple[str, str]:
    """The arms' names, or the runs' where both are of one arm."""
    one, other = found.baseline.description, found.candidate.description
    return (one.arm, other.arm) if one.arm != other.arm else (one.id, other.id)


def _workload(run: Run) -> str:
    scale = f", scale {words.number(run.description.scale)}" if run.description.scale else ""
    return (
        f"{ {'tpcds': 'TPC-DS', 'startup': 'start-up'}.get(run.description.workload, run.description.workload) }{scale}"
    )


def _ratio_data(part: Ratio) -> dict[str, object]:
    return {
        "baseline_seconds": part.baseline.median,
        "candidate_seconds": part.candidate.median,
        "ratio": part.ratio,
        "interval": [part.interval.low, part.interval.high] if part.interval else None,
        "verdict": part.verdict,
    }
