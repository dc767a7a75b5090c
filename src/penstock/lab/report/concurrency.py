"""Reports of concurrent users: TPC-DS streams and the mixed workload, with times over all users and slowdowns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab.analysis.doubts import EQUAL, doubts, valid
from penstock.lab.analysis.resources import (
    ALONE,
    TOGETHER,
    Execution,
    by_query,
    executions,
    slowdowns,
    timelines,
    user_samples,
)
from penstock.lab.analysis.samples import (
    SECONDS,
    Measure,
    answer_verdicts,
    failed_queries,
    measures_by_name,
)
from penstock.lab.analysis.verdicts import FASTER, SLOWER, Ratio, holm, ratio, spread
from penstock.lab.records import Run
from penstock.lab.report import queries
from penstock.lab.report.comparison import PAIRED, evidence
from penstock.lab.report.elements import checks, resources
from penstock.lab.report.elements.render import Document, KeyFigure, Plot, Section, Table, workload_title
from penstock.lab.report.plots import queries as query_plots

_MANY = 30


def users_sections(run: Run, group: str | None = None) -> list[Section]:
    """Sections on the users, or on those of one group; empty where none of their queries succeeded."""
    together = by_query(executions(run, TOGETHER, group))
    if not together:
        return []
    slower = slowdowns(run, group)
    return [_boxes(run, together, group), *_slowdowns(slower, group), _users(run, group), _table(run, together, group)]


def timeline(run: Run) -> list[Section]:
    """Every application of the last repetition on one axis of time."""
    found = timelines(run)
    if not found:
        return []
    last = max(found, key=lambda one: one.ended)
    text = f"{units.capitalised(last.name)} ended last, after {units.seconds(last.ended)}."
    plot = Plot("timeline", query_plots.timeline(found), text, height=90 + 26 * len(found), wide=True)
    note = (
        "Each row is an application on a cluster of its own; grey is time without a query, such as the cluster's start."
    )
    return [Section("Timeline", f"{note} {text}", [plot])]


def _boxes(run: Run, together: Mapping[str, list[Execution]], group: str | None) -> Section:
    dots = sum(len(found) for found in together.values())
    alone = {
        name: statistics.median(one.seconds for one in found)
        for name, found in by_query(executions(run, ALONE, group)).items()
    }
    mark = "without the others" if group else "one user alone"
    widest = max(together, key=lambda name: _width(together[name]))
    seconds = [one.seconds for one in together[widest]]
    text = f"{units.plural(dots, 'execution')} of {units.plural(len(together), 'query', 'queries')}. "
    if len(seconds) > 1:
        text += f"{widest} varies most: {units.seconds(min(seconds))} to {units.seconds(max(seconds))}."
    figure = query_plots.user_boxes(together, alone, mark)
    plot = Plot(_name("users-per-query", group), figure, text, height=400, wide=len(together) > _MANY)
    return Section(_title("Queries of all users", group), text, [plot])


def _width(found: list[Execution]) -> float:
    """The slowest execution over the fastest."""
    return max(one.seconds for one in found) / min(one.seconds for one in found)


def _slowdowns(slower: Sequence[Ratio], group: str | None) -> list[Section]:
    if not slower:
        return []
    middle = statistics.median(part.ratio for part in slower)
    ends = min(slower, key=lambda part: part.ratio), max(slower, key=lambda part: part.ratio)
    text = f"The median query takes {units.number(middle)} times as long under concurrency as alone"
    text += ", from " + " to ".join(f"{units.number(part.ratio)} ({part.name})" for part in ends) + "."
    figure = query_plots.ratios(slower, "concurrent / alone")
    plot = Plot(_name("slowdown", group), figure, text, height=90 + 15 * len(slower))
    return [Section(_title("Slowdown per query", group), f"{text} {PAIRED}", [plot])]


def _users(run: Run, group: str | None) -> Section:
    """A row per user: medians over the repetitions in which all queries of the user succeeded."""
    alone = {
        user: statistics.median(sample["elapsed_ms"] for sample in found) / 1000
        for user, found in user_samples(run, ALONE, group).items()
    }
    rows = []
    for user, found in user_samples(run, TOGETHER, group).items():
        elapsed = statistics.median(sample["elapsed_ms"] for sample in found) / 1000
        until = statistics.median(sample["until_first_query_ms"] for sample in found) / 1000
        # Where only one user was measured alone, that user is the baseline of all.
        base = alone.get(user, next(iter(alone.values())) if len(alone) == 1 else None)
        rows.append(
            (
                f"user {user}",
                units.count(found[0]["queries"]),
                units.digits(until),
                units.digits(elapsed),
                f"{units.number(elapsed / base)}×" if base else "",
            )
        )
    columns = (group or "", "queries", "until first query, s", "total, s", "relative to alone")
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
    note = "Times from submission to the end of the application, for users whose queries all succeeded."
    return Section(_title("Users", group), note, [table], brief=True)


def _table(run: Run, together: Mapping[str, list[Execution]], group: str | None) -> Section:
    verdicts = answer_verdicts(run)
    slower = {part.name: part for part in slowdowns(run, group)}
    failed = failed_queries(run)
    rows = []
    for name, found in together.items():
        times = spread([one.seconds for one in found])
        part = slower.get(name)
        verdict = queries.verdict_cell(verdicts.get(name))
        rows.append(
            (
                name,
                units.count(times.count),
                units.digits(times.median),
                f"{units.digits(times.quartile_low)}–{units.digits(times.quartile_high)}",
                f"{units.digits(times.low)}–{units.digits(times.high)}",
                units.digits(part.baseline.median) if part else "",
                f"{units.number(part.ratio)}×" if part else "",
                "✗ failed for a user" if name in failed else verdict,
            )
        )
    columns = ("query", "executions", "median, s", "quartiles, s", "range, s", "alone, s", "slowdown", "answers")
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns) - 1)), folded=_folded(rows))
    return Section(_title("All queries", group), "", [table])


def _folded(rows: Sequence[object]) -> str:
    return units.plural(len(rows), "query", "queries") if len(rows) > _MANY else ""


def _title(title: str, group: str | None) -> str:
    return f"{title}: {group}" if group else title


def _name(name: str, group: str | None) -> str:
    """The name of a plot, which consists of letters and dashes."""
    return f"{name}-{''.join(c for c in group if c.isalpha())}" if group else name


def streams_document(run: Run) -> Document:
    found = measures_by_name(run)
    single, crowd = found.get("1 user"), found.get(f"{run.description.options['users']} users")
    slower = ratio("elapsed", single.costs(SECONDS), crowd.costs(SECONDS)) if single and crowd else None
    doubted = doubts([run])
    sections = [
        *checks.failures([run]),
        *users_sections(run),
        *timeline(run),
        *resources.resource_sections(run),
        *resources.machine_sections(run),
    ]
    if manifests := run.of_kind("dataset"):
        sections.append(queries.dataset(manifests[-1]["manifest"]))
    sections.append(checks.reproduction([run]))
    return Document(
        kicker=f"Penstock lab · {workload_title(run.description)} · {run.description.arm}",
        result=f"{_took(run, crowd, slower)}{_checked(run, sound=valid(doubted))}.",
        doubts=doubted,
        key_figures=_key_figures(run, single, crowd, slower),
        sections=sections,
        data=_data(run, single, crowd, slower),
    )


def _checked(run: Run, *, sound: bool) -> str:
    verdicts = answer_verdicts(run).values()
    if not verdicts:
        return "; no answer was checked"
    correct = all(verdict == EQUAL for verdict in verdicts) and sound
    return "; all answers of all users are correct" if correct else ""


def _took(run: Run, crowd: Measure | None, slower: Ratio | None) -> str:
    count = run.description.options["users"]
    if crowd is None:
        return f"{count} concurrent users have no time, because not all of their queries succeeded"
    took = units.seconds(crowd.median)
    if slower is None:
        return f"{count} concurrent users took {took}"
    doubt = "" if slower.verdict in (FASTER, SLOWER) else f" ({slower.verdict})"
    alone = units.seconds(slower.baseline.median)
    return (
        f"{count} concurrent users took {units.number(slower.ratio)}× the time of one{doubt}: {took} instead of {alone}"
    )


def _key_figures(run: Run, single: Measure | None, crowd: Measure | None, slower: Ratio | None) -> list[KeyFigure]:
    figures = []
    each = len(run.description.options["queries"])
    count = run.description.options["users"]
    if slower:
        figures.append(KeyFigure("Slowdown", f"{units.number(slower.ratio)}×", evidence(slower)))
    for label, measure, executed in ((f"{count} users", crowd, count * each), ("One user alone", single, each)):
        if measure:
            per_hour = executed / measure.median * 3600
            queries = units.plural(executed, "query", "queries")
            figures.append(KeyFigure(label, units.seconds(measure.median), queries))
            figures.append(KeyFigure("Queries per hour", units.count(per_hour), label))
    verdicts = run.of_kind("answer")
    if verdicts:
        right = sum(sample["verdict"] == "equal" for sample in verdicts)
        figures.append(
            KeyFigure("Correct answers", f"{right} of {len(verdicts)}", "distinct answers, verified with DuckDB")
        )
    return figures


def _data(run: Run, single: Measure | None, crowd: Measure | None, slower: Ratio | None) -> dict[str, object]:
    return {
        "users": run.description.options["users"],
        "seconds": {"alone": single.seconds if single else [], "together": crowd.seconds if crowd else []},
        "slow_down": slower.ratio if slower else None,
        "queries": {
            phase: {
                name: [{"user": one.user, "seconds": one.seconds} for one in found]
                for name, found in by_query(executions(run, phase)).items()
            }
            for phase in (ALONE, TOGETHER)
        },
        "slow_downs": {part.name: part.ratio for part in slowdowns(run)},
        "answers": dict(answer_verdicts(run)),
    }


def mixed_document(run: Run) -> Document:
    parts = _parts(run)
    together, alone = _measures(run, TOGETHER), _measures(run, ALONE)
    measured = [name for name in parts if name in alone and name in together]
    slower = {part.name: part for part in holm([_ratio(name, alone[name], together[name]) for name in measured])}
    doubted = doubts([run])
    sections = [
        *checks.failures([run]),
        *_every_part(parts, alone, together, slower),
        *timeline(run),
        *(section for group in parts for section in users_sections(run, group)),
        *checks.checks_section(run),
        *resources.resource_sections(run),
        *resources.machine_sections(run),
    ]
    # The first data set is that of TPC-DS; the clicks after it are a single table.
    sections += [queries.dataset(sample["manifest"]) for sample in run.of_kind("dataset")[:1]]
    sections.append(checks.reproduction([run]))
    return Document(
        kicker=f"Penstock lab · {workload_title(run.description)} · {run.description.arm}",
        result=f"{_mixed_took(together, slower)}{_checked(run, sound=valid(doubted))}.",
        doubts=doubted,
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
            "answers": dict(answer_verdicts(run)),
        },
    )


def _parts(run: Run) -> list[str]:
    """The parts in the order of their start: the users' groups, then the enrichment."""
    return list(dict.fromkeys(str(sample["group"]) for sample in run.samples if sample.get("group")))


def _measures(run: Run, phase: str) -> dict[str, Measure]:
    found = measures_by_name(run)
    return {part: found[f"{part}, {phase}"] for part in _parts(run) if f"{part}, {phase}" in found}


def _ratio(name: str, alone: Measure, together: Measure) -> Ratio:
    return ratio(name, alone.costs(SECONDS), together.costs(SECONDS))


def _mixed_took(together: Mapping[str, Measure], slower: Mapping[str, Ratio]) -> str:
    if slower:
        each = ", ".join(f"{name} {units.number(part.ratio)}×" for name, part in slower.items())
        return f"Time together, relative to each part alone: {each}"
    if together:
        return "Together: " + ", ".join(f"{name} {units.seconds(m.median)}" for name, m in together.items())
    return "No part completed"


def _key_figure(name: str, measure: Measure, part: Ratio | None) -> KeyFigure:
    detail = (
        f"{units.number(part.ratio)}× the {units.seconds(part.baseline.median)} alone" if part else "with the others"
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
    table = Table(("", "alone, s", "with the others, s", "slowdown"), rows, numeric=frozenset({1, 2, 3}))
    drawn: list[Plot] = []
    if slower:
        text = "; ".join(f"{name} {units.number(part.ratio)}×" for name, part in slower.items()) + "."
        figure = query_plots.ratios(list(slower.values()), "with the others / alone")
        drawn.append(Plot("parts", figure, text, height=90 + 30 * len(slower)))
    note = "Time from the first submission of each part to the end of its last application."
    return [Section("Parts", note, [*drawn, table], brief=True)]
