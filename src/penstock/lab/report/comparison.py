"""The comparison of two or more runs of one workload with the first, and the reads of each query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab.analysis.doubts import Doubt, doubts, unsaid
from penstock.lab.analysis.resources import QueryReads, core_seconds, query_reads
from penstock.lab.analysis.samples import failed_queries, natural_key
from penstock.lab.analysis.verdicts import (
    FASTER,
    FEWEST,
    NO_DIFFERENCE,
    NOT_IN_TURNS,
    SLOWER,
    TOO_FEW,
    Comparison,
    Ratio,
    Spread,
    compare_all,
)
from penstock.lab.records import Run
from penstock.lab.report.elements import checks, reads, resources
from penstock.lab.report.elements.render import (
    Document,
    KeyFigure,
    Part,
    Plot,
    Section,
    Table,
    range_text,
    workload_title,
)
from penstock.lab.report.plots import measures as measure_plots
from penstock.lab.report.plots import queries as query_plots

_GAINS = (0.05, 0.40)
_LOSS = 0.03
_NAMED = 12
"""The most queries that a line names: a hundred make a terminal's line unreadable, and the table has each."""

_FIGURES: Mapping[str, tuple[Callable[[QueryReads], float | None], Callable[[float], str]]] = {
    "files": (lambda reading: reading.all_files, units.count),
    "in files": (lambda reading: reading.all_file_bytes, units.data),
    "GETs": (lambda reading: reading.gets, units.count),
    "GETs per file": (lambda reading: reading.gets_per_file, units.number),
    "read": (lambda reading: reading.bytes_read, units.data),
}
_NOTE = (
    "“Files” are those that scans opened after partition pruning and skipping, and “in files” is their size. GETs and "
    "bytes read are totals of driver and executors while the query ran."
)


def read_sections(run: Run) -> list[Section]:
    """Reads per query of one run; empty where reads were not recorded."""
    found = query_reads(run)
    if not found:
        return []
    rows = [(name, *_cells(reading)) for name, reading in _with_total(found).items()]
    table = Table(
        ("query", *_FIGURES), rows, _numbers(1, len(_FIGURES)), folded=units.plural(len(found), "query", "queries")
    )
    return [Section("Reads per query", _NOTE, [table]), *_index([run])]


def _reads(runs: Sequence[Run], names: Sequence[str], found: Sequence[Comparison]) -> list[Section]:
    """Gains and reads of each run against the first; empty where reads were not recorded."""
    before, *others = (query_reads(run) for run in runs)
    found_reads: list[Section] = []
    for name, after, comparison in zip(names[1:], others, found, strict=True):
        both = [query for query in before if query in after]
        if both:
            found_reads += [
                _gains(names[0], name, comparison.parts),
                _side_by_side(
                    (names[0], name),
                    {query: before[query] for query in both},
                    {query: after[query] for query in both},
                    {part.name: part for part in comparison.parts},
                ),
            ]
    return [*found_reads, *_index(runs)] if found_reads else []


def _reads_data(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any]:
    """The reads of each run by query, for JSON."""
    return {
        name: {
            query: {
                "files": reading.files,
                "file_bytes": reading.file_bytes,
                "gets": reading.gets,
                "bytes_read": reading.bytes_read,
            }
            for query, reading in query_reads(run).items()
        }
        for run, name in zip(runs, names, strict=True)
    }


def _gains(baseline: str, candidate: str, parts: Iterable[Ratio]) -> Section:
    by_gain = sorted(parts, key=lambda part: part.ratio)
    rows = [
        _counted(f"gained more than {gain:.0%}", [part for part in by_gain if 1 - part.ratio > gain]) for gain in _GAINS
    ]
    lost = [part for part in reversed(by_gain) if part.ratio - 1 > _LOSS]
    rows.append(_counted(f"lost more than {_LOSS:.0%}", lost))
    slower = [part for part in lost if part.verdict == SLOWER]
    rows.append(_counted(f"lost more than {_LOSS:.0%}, verdict “{SLOWER}”", slower))
    note = f"{candidate} against {baseline}. {PAIRED}"
    return Section(
        f"Gains of {candidate}", note, [Table(("queries that", "count", "which"), rows, frozenset({1}))], brief=True
    )


def _counted(change: str, parts: Sequence[Ratio]) -> tuple[str, str, str]:
    gains = [f"{part.name} {(1 - part.ratio) * 100:+.0f} %" for part in parts]
    return change, str(len(parts)), units.some(gains, _NAMED)


def _side_by_side(
    names: tuple[str, str],
    before: Mapping[str, QueryReads],
    after: Mapping[str, QueryReads],
    times: Mapping[str, Ratio],
) -> Section:
    whole_before, whole_after = _with_total(before), _with_total(after)
    rows = []
    for query, one in whole_before.items():
        other = whole_after[query]
        pairs = zip(_cells(one), _cells(other), strict=True)
        took = times.get(query)
        rows.append(
            (
                query,
                *(cell if cell == same else f"{cell} → {same}" for cell, same in pairs),
                f"{units.digits(took.baseline.median)} → {units.digits(took.candidate.median)}" if took else "",
                units.number(took.ratio) if took else "",
                _fewer(one, other) if query in before else "",
            )
        )
    columns = ("query", *_FIGURES, "seconds", "ratio", "tables")
    note = f"{names[0]} → {names[1]}. {_NOTE}"
    return Section(f"Reads: {names[1]}", note, [Table(columns, rows, _numbers(1, len(_FIGURES) + 2)).filled()])


def _fewer(before: QueryReads, after: QueryReads) -> str:
    """The tables with a different number of opened files, by decreasing difference."""
    differences = [
        (count - after.files.get(table, 0), table, count)
        for table, count in before.files.items()
        if count != after.files.get(table, 0)
    ]
    return ", ".join(
        f"{table} {units.count(count)} → {units.count(after.files.get(table, 0))}"
        for _, table, count in sorted(differences, reverse=True)
    )


def _with_total(found: Mapping[str, QueryReads]) -> dict[str, QueryReads]:
    def total(figure: Callable[[QueryReads], float | None]) -> float | None:
        values = [value for reading in found.values() if (value := figure(reading)) is not None]
        return sum(values) if len(values) == len(found) else None

    total_reads = QueryReads(
        "total",
        files={"": sum(reading.all_files for reading in found.values())},
        file_bytes={"": sum(reading.all_file_bytes for reading in found.values())},
        gets=total(lambda reading: reading.gets),
        bytes_read=total(lambda reading: reading.bytes_read),
    )
    return {"total": total_reads, **found}


def _cells(reading: QueryReads) -> tuple[str, ...]:
    values = ((figure(reading), write) for figure, write in _FIGURES.values())
    return tuple("" if value is None else write(value) for value, write in values)


def _numbers(first: int, count: int) -> frozenset[int]:
    return frozenset(range(first, first + count))


def _index(runs: Sequence[Run]) -> list[Section]:
    """Build time of the skipping index, from the run that built it."""
    built = next((samples for run in runs if (samples := run.of_kind("index"))), [])
    if not built:
        return []

    def row(name: str, files: float, build_ms: float, refresh_ms: float) -> tuple[str, ...]:
        rate = units.digits(build_ms / files) if files else ""
        return (name, units.count(files), units.digits(build_ms / 1000), rate, units.digits(refresh_ms / 1000))

    rows = [row("total", *(sum(sample[figure] for sample in built) for figure in ("files", "build_ms", "refresh_ms")))]
    rows += [
        row(str(sample["table"]), sample["files"], sample["build_ms"], sample["refresh_ms"])
        for sample in sorted(built, key=lambda sample: -sample["files"])
    ]
    columns = ("table", "files", "built, s", "s per 1000 files", "refreshed, s")
    table = Table(columns, rows, _numbers(1, 4), folded=units.plural(len(built), "table"))
    return [Section("Skipping index", "Time to build the index, and to refresh it while nothing had changed.", [table])]


_CLEARLY_SLOWER = 1.1

_OWN: dict[str, Callable[[Sequence[Run], Sequence[str]], list[Section]]] = {
    "reads": reads.sections,
    "terasort": reads.cache_sections,
    "tpcds": reads.cache_sections,
}
"""Sections of workloads that compare more than times."""


def document(runs: Sequence[Run]) -> Document:
    """The comparison of two or more runs with the first, the baseline.

    Raises `ValueError` when the runs have nothing in common.
    """
    names, descriptions = arm_names(runs), [run.description for run in runs]
    found = compare_all(runs)
    arms = dict(zip(names[1:], found, strict=True))
    one = found[0] if len(found) == 1 else None
    subject = f"{names[1]} against {names[0]}" if one else units.plural(len(runs), "arm")
    own = _OWN.get(descriptions[0].workload)
    doubted = doubts(runs, names=names)
    return Document(
        kicker=f"Penstock lab · {workload_title(descriptions[0])} · {subject}",
        result=_headline(one, names, doubted) if one else _headline_of_arms(names[0], arms, doubted),
        doubts=doubted,
        key_figures=_key_figures(one, names) if one else _key_figures_of_arms(names[0], arms),
        sections=[
            *checks.failures(runs, names),
            *(
                [*_ratio_section(one, names), _table_section(one, runs, names)]
                if one
                else [_overview(runs, names[0], arms)]
            ),
            *resources.compared_applications(runs, names),
            *(own(runs, names) if own else []),
            *_reads(runs, names, found),
            *([] if one else _per_part(runs, names[0], arms)),
            *resources.compared(dict(zip(names, runs, strict=True))),
            checks.differences(descriptions, names),
            checks.reproduction(runs, names),
        ],
        data={
            "baseline": descriptions[0].id,
            "reads": _reads_data(runs, names),
            "resources": resources.compared_data(runs, names),
            **(
                {"candidate": descriptions[1].id, **_comparison_data(one)}
                if one
                else {
                    "arms": {
                        name: {"run": arm.candidate.description.id, **_comparison_data(arm)}
                        for name, arm in arms.items()
                    }
                }
            ),
        },
    )


def arm_names(runs: Sequence[Run]) -> list[str]:
    """The names of the arms.

    Where two runs are of one arm, the ends of the runs' ids are appended; "Reproduce" has the whole ids.
    """
    ids = [run.description.id for run in runs]
    arms = [run.description.arm for run in runs]
    numbered = [f"{arm} {run_id.rsplit('-', 1)[-1]}" for arm, run_id in zip(arms, ids, strict=True)]
    return next((names for names in (arms, numbered) if len(set(names)) == len(names)), ids)


def interval(part: Ratio) -> str:
    return f"{units.number(part.interval.low)}–{units.number(part.interval.high)}" if part.interval else ""


def nouns(run: Run) -> tuple[str, str]:
    """The singular and plural of a part of the comparison."""
    return ("query", "queries") if run.of_kind("query") else ("measure", "measures")


def _comparison_data(found: Comparison) -> dict[str, Any]:
    return {
        "total": ratio_data(found.total),
        "parts": {part.name: ratio_data(part) for part in found.parts},
        "only_in_one": list(found.only_in_one),
    }


def ratio_data(part: Ratio) -> dict[str, object]:
    return {
        "unit": part.unit,
        "baseline": part.baseline.median,
        "candidate": part.candidate.median,
        "ratio": part.ratio,
        "interval": [part.interval.low, part.interval.high] if part.interval else None,
        "rounds": part.rounds,
        "p_value": part.p_value,
        "verdict": part.verdict,
    }


PAIRED = (
    "A ratio is the geometric mean of the rounds' ratios, with Student's interval; below 1 is faster. A verdict needs "
    f"{FEWEST} rounds in turns, and is corrected for the number of queries or arms (Holm)."
)


def evidence(part: Ratio) -> str:
    """The rounds, the interval and the verdict behind a ratio."""
    if part.interval is None:
        return part.verdict
    return f"95 % interval of the paired ratios of {part.rounds} rounds {interval(part)}, {part.verdict}"


def _headline(found: Comparison, names: Sequence[str], doubted: Sequence[Doubt]) -> str:
    baseline, candidate = names
    total = found.total
    one, many = nouns(found.baseline)
    alone = total in found.parts
    parts = f" for {total.name}" if alone else f" over {units.plural(len(found.parts), one, many)}"
    over = f" in the geometric mean{parts}" if total.name == "geometric mean" else parts
    # A mean over several units is meaningful only as a ratio.
    sides = (
        f": {cost(total.candidate.median, total)} against {cost(total.baseline.median, total)}" if total.unit else ""
    )
    rounds = f" in {units.plural(total.rounds, 'round')}" if total.rounds else ""
    if total.verdict == NO_DIFFERENCE:
        return f"No difference shown{rounds}: {candidate} against {baseline}{over}{sides}."
    sentence = f"{units.capitalised(candidate)} took {units.number(total.ratio)}× the time of {baseline}{over}{rounds}"
    if total.verdict not in (FASTER, SLOWER):
        return f"{'; '.join(filter(None, (sentence + sides, unsaid(total.verdict, doubted))))}."
    if len(found.parts) == 1:
        return f"{sentence}{sides}."
    slower = [part.name for part in found.parts if part.verdict == SLOWER and part.ratio > _CLEARLY_SLOWER]
    which = units.plural(len(slower), f"{one} has", f"{many} have") if slower else f"no {one} has"
    return f"{sentence}{sides}; {which} the verdict “{SLOWER}” and a ratio above {_CLEARLY_SLOWER:g}."


def cost(value: float, part: Ratio) -> str:
    """Format a cost with its unit; a geometric mean over measures of different units has none."""
    if part.unit == "s":
        return units.seconds(value)
    return f"{units.number(value)} {part.unit}".strip()


def _ratio_section(found: Comparison, names: Sequence[str]) -> list[Section]:
    if len(found.parts) == 1:
        return []
    one, _ = nouns(found.baseline)
    counts = _counts(found)
    dots = query_plots.ratios(found.parts)
    parts: list[Part] = [Plot("ratios", dots, f"Ratio per {one}: {counts}.", height=80 + 17 * len(found.parts))]
    note = f"{names[1]} over {names[0]}, with its 95 % interval. {PAIRED} {counts}."
    sections = [Section(f"Ratio per {one}", note, parts)]
    if found.baseline.of_kind("query"):
        medians = {
            names[1]: {part.name: part.candidate.median for part in found.parts},
            names[0]: {part.name: part.baseline.median for part in found.parts},
        }
        boxes = Plot("distribution", query_plots.distribution(medians), "Times of all queries, per arm.", height=250)
        sections.append(Section("Distribution", "A dot per query, at its median time.", [boxes]))
    return sections


def _counts(found: Comparison) -> str:
    verdicts = [part.verdict for part in found.parts]
    return ", ".join(f"{verdicts.count(verdict)} × {verdict}" for verdict in dict.fromkeys(verdicts))


def _table_section(found: Comparison, runs: Sequence[Run], names: Sequence[str]) -> Section:
    one, many = nouns(found.baseline)
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
    return Section(f"All {many}", _left_out(found, runs, names), [table], brief=True)


def _left_out(found: Comparison, runs: Sequence[Run], names: Sequence[str]) -> str:
    failed = [failed_queries(run) for run in runs]

    def named(measure: str) -> str:
        arms = [name for name, own in zip(names, failed, strict=True) if measure in own]
        return f"{measure} (failed in {units.some(arms)})" if arms else measure

    lost = ", ".join(map(named, found.only_in_one))
    return f"Left out of the total, because not every arm completed them: {lost}." if lost else ""


def _key_figures(found: Comparison, names: Sequence[str]) -> list[KeyFigure]:
    total = found.total
    figures = [KeyFigure("Ratio", f"{units.number(total.ratio)}×", evidence(total))]
    for name, side in zip(names, (total.baseline, total.candidate), strict=True):
        details = filter(None, (range_text(side), units.plural(side.count, "round")))
        figures.append(KeyFigure(name, cost(side.median, total), ", ".join(details)))
    for name, run in zip(names, (found.baseline, found.candidate), strict=True):
        if (cores := core_seconds(run)) is not None:
            figures.append(KeyFigure(f"Core-seconds, {name}", units.number(cores), "drivers and executors"))
    return figures


def _headline_of_arms(baseline: str, arms: Mapping[str, Comparison], doubted: Sequence[Doubt]) -> str:
    totals = {name: arm.total for name, arm in arms.items()}
    verdicts = {name: total.verdict for name, total in totals.items()}
    rounds = min(total.rounds for total in totals.values())
    over = f" in {units.plural(rounds, 'round')}" if rounds else ""
    least = min(totals, key=lambda name: totals[name].ratio)
    faster = [name for name in totals if verdicts[name] == FASTER]
    best = min(faster or [least], key=lambda name: totals[name].ratio)
    ratio = units.number(totals[best].ratio)
    first = f", the least of {len(arms) + 1} arms" if best == least else ""
    if faster:
        sentence = f"{units.capitalised(best)} is faster than {baseline}{over}: {ratio}× its time{first}"
    elif all(verdict == SLOWER for verdict in verdicts.values()):
        sentence = f"{units.capitalised(baseline)} is the fastest of {len(arms) + 1} arms{over}"
    elif NO_DIFFERENCE in verdicts.values():
        sentence = f"No arm is shown to be faster than {baseline}{over}"
    elif totals[best].ratio < 1:
        sentence = f"{units.capitalised(best)} took {ratio}× the time of {baseline}{over}{first}"
    else:
        sentence = f"{units.capitalised(baseline)} took the least time of {len(arms) + 1} arms{over}"
    for verdict in filter(None, (NO_DIFFERENCE, unsaid(TOO_FEW, doubted), unsaid(NOT_IN_TURNS, doubted))):
        if names := [name for name in verdicts if verdicts[name] == verdict]:
            sentence += f"; {verdict}" + (f" ({units.some(names)})" if len(names) < len(arms) else "")
    return f"{sentence}."


def _key_figures_of_arms(baseline: str, arms: Mapping[str, Comparison]) -> list[KeyFigure]:
    totals = {name: arm.total for name, arm in arms.items()}
    first = next(iter(totals.values()))
    figures = [KeyFigure(baseline, cost(first.baseline.median, first), "the baseline")]
    for name, total in totals.items():
        detail = f"{units.number(total.ratio)}×, {total.verdict}"
        figures.append(KeyFigure(name, cost(total.candidate.median, total), detail))
    return figures


def _overview(runs: Sequence[Run], baseline: str, arms: Mapping[str, Comparison]) -> Section:
    first = next(iter(arms.values()))
    total, unit = first.total, first.total.unit
    spreads: dict[str, Spread] = {baseline: total.baseline}
    spreads |= {name: arm.total.candidate for name, arm in arms.items()}
    text = "; ".join(f"{name} {cost(found.median, total)}" for name, found in spreads.items())
    bars = measure_plots.bars(spreads, "seconds" if unit == "s" else unit, lambda value: cost(value, total))
    plot = Plot("arms", bars, f"{text}.", height=64 + 34 * len(spreads))
    rows = [_row(baseline, first.baseline, total.baseline, ("", "", "baseline"))]
    for name, arm in arms.items():
        verdict = (units.number(arm.total.ratio), interval(arm.total), arm.total.verdict)
        rows.append(_row(name, arm.candidate, arm.total.candidate, verdict))
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
    note = f"Ratios to {baseline}, with their 95 % interval. {PAIRED} {_left_out(first, runs, (baseline, *arms))}"
    return Section("Arms", note.rstrip(), [plot, table], brief=True)


def _row(name: str, run: Run, found: Spread, verdict: tuple[str, str, str]) -> tuple[str, ...]:
    cores = core_seconds(run)
    costs = units.number(cores) if cores is not None else ""
    return (name, str(found.count), units.digits(found.median), range_text(found), *verdict, costs)


def _per_part(runs: Sequence[Run], baseline: str, arms: Mapping[str, Comparison]) -> list[Section]:
    """Every measure of every arm, also one that failed in some: an arm shows its ratio where the pair completed it."""
    by_arm = {name: {part.name: part for part in arm.parts} for name, arm in arms.items()}
    names = [*dict.fromkeys(name for parts in by_arm.values() for name in parts)]
    if any(run.of_kind("query") for run in runs):
        names.sort(key=natural_key)
    lost = next(iter(arms.values())).only_in_one
    names += [name for name in lost if name not in names]
    if len(names) < 2:
        return []
    failed = [failed_queries(run) for run in runs]
    one, many = nouns(runs[0])
    rows = []
    for name in names:
        found = [parts.get(name) for parts in by_arm.values()]
        known = next((part for part in found if part), None)
        cells = [units.digits(known.baseline.median) if known else ""]
        cells += [f"{units.digits(own.candidate.median)} ({units.number(own.ratio)}×)" if own else "" for own in found]
        shown = ["✗ failed" if name in own else cell for cell, own in zip(cells, failed, strict=True)]
        rows.append((name, known.unit if known else "", *shown))
    columns = (one, "unit", baseline, *by_arm)
    table = Table(columns, rows, numeric=frozenset(range(2, len(columns))))
    figure = query_plots.ratio_groups({name: arm.parts for name, arm in arms.items()})
    text = "; ".join(f"{name}: {_counts(arm)}" for name, arm in arms.items())
    plot = Plot("ratios", figure, f"{text}.", height=96 + (8 + 12 * len(arms)) * len(names))
    note = f"Ratios to {baseline}, with their 95 % interval; left of 1 is faster."
    return [Section(f"Ratio per {one}", note, [plot]), Section(f"All {many}", "", [table])]
