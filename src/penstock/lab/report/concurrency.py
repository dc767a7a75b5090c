"""Reports of concurrent users: TPC-DS streams and the mixed workload, each query over all users, and the slow-down."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab.analysis.resources import ALONE, TOGETHER, Execution, by_query, executions, lives, slow_downs, totals
from penstock.lab.analysis.samples import (
    Measure,
    answer_verdicts,
    failed_queries,
    measured,
    natural,
    repetitions,
    wrong_checks,
)
from penstock.lab.analysis.verdicts import Ratio, ratio, spread
from penstock.lab.records import Run
from penstock.lab.report import checks, queries, resources
from penstock.lab.report.plots import queries as query_plots
from penstock.lab.report.render import Document, KeyFigure, Plot, Section, Table, title

_MANY = 30


def users_sections(run: Run, group: str | None = None) -> list[Section]:
    """Of the users of one group, where a run has several; nothing where none of their queries succeeded."""
    together = by_query(executions(run, TOGETHER, group))
    if not together:
        return []
    slower = slow_downs(run, group)
    return [_boxes(run, together, group), *_slow_downs(slower, group), _users(run, group), _table(run, together, group)]


def timeline(run: Run) -> list[Section]:
    """Every application of the last repetition on one axis of time."""
    timelines = lives(run)
    if not timelines:
        return []
    last = max(timelines, key=lambda one: one.ended)
    text = f"{units.capitalised(last.who)} was the last to end, after {units.seconds(last.ended)}."
    plot = Plot("timeline", query_plots.timeline(timelines), text, height=90 + 26 * len(timelines), wide=True)
    note = "Each row is an application on a cluster of its own; grey is what is no query, as the start of the cluster."
    return [Section("Who did what when", f"{note} {text}", [plot])]


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
        text += f"{widest} differs most: {units.seconds(min(seconds))} to {units.seconds(max(seconds))}."
    figure = query_plots.user_boxes(together, alone, mark)
    plot = Plot(_name("users-per-query", group), figure, text, height=400, wide=len(together) > _MANY)
    return Section(_title("Every query of every user", group), text, [plot])


def _width(found: list[Execution]) -> float:
    """How many times longer the slowest was than the fastest."""
    return max(one.seconds for one in found) / min(one.seconds for one in found)


def _slow_downs(slower: list[Ratio], group: str | None) -> list[Section]:
    if not slower:
        return []
    middle = statistics.median(part.ratio for part in slower)
    ends = min(slower, key=lambda part: part.ratio), max(slower, key=lambda part: part.ratio)
    text = f"The median query takes {units.number(middle)} times as long in company as alone"
    text += ", from " + " to ".join(f"{units.number(part.ratio)} ({part.name})" for part in ends) + "."
    figure = query_plots.ratios(slower, "in company / alone")
    plot = Plot(_name("slow-down", group), figure, text, height=90 + 15 * len(slower))
    return [Section(_title("Slow-down per query", group), f"{text} Medians over users and repetitions.", [plot])]


def _users(run: Run, group: str | None) -> Section:
    """A row per user; medians over the repetitions in which all of their queries succeeded."""
    alone = {
        user: statistics.median(sample["elapsed_ms"] for sample in found) / 1000
        for user, found in totals(run, ALONE, group).items()
    }
    rows = []
    for user, found in totals(run, TOGETHER, group).items():
        elapsed = statistics.median(sample["elapsed_ms"] for sample in found) / 1000
        until = statistics.median(sample["until_first_query_ms"] for sample in found) / 1000
        # Where only one was measured alone, everyone is set against that one.
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
    columns = (group or "", "queries", "until the first query, s", "in all, s", "against alone")
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
    note = "From submission to the end of the application; only users all of whose queries succeeded."
    return Section(_title("Users", group), note, [table], brief=True)


def _table(run: Run, together: Mapping[str, list[Execution]], group: str | None) -> Section:
    verdicts = answer_verdicts(run)
    slower = {part.name: part for part in slow_downs(run, group)}
    failed = failed_queries(run)
    rows = []
    for name, found in together.items():
        times = spread([one.seconds for one in found])
        part = slower.get(name)
        verdict = {None: "not checked", "equal": "✓"}.get(verdicts.get(name), "✗ differs")
        rows.append(
            (
                name,
                units.count(times.count),
                units.digits(times.median),
                f"{units.digits(times.quartile_low)}–{units.digits(times.quartile_high)}",
                f"{units.digits(times.low)}–{units.digits(times.high)}",
                units.digits(part.baseline.median) if part else "",
                f"{units.number(part.ratio)}×" if part else "",
                "✗ failed for somebody" if name in failed else verdict,
            )
        )
    columns = ("query", "times", "median, s", "middle half, s", "range, s", "alone, s", "slow-down", "answers")
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns) - 1)), folded=_folded(rows))
    return Section(_title("Every query", group), "", [table])


def _folded(rows: Sequence[object]) -> str:
    return units.plural(len(rows), "query", "queries") if len(rows) > _MANY else ""


def _title(title: str, group: str | None) -> str:
    return f"{title}: {group}" if group else title


def _name(name: str, group: str | None) -> str:
    """Names of plots are letters and dashes only."""
    return f"{name}-{''.join(c for c in group if c.isalpha())}" if group else name


def streams_document(run: Run) -> Document:
    found = measured(run)
    single, crowd = found.get("1 user"), found.get(f"{run.description.options['users']} users")
    slower = ratio("elapsed", single.seconds, crowd.seconds) if single and crowd else None
    failed = sorted(failed_queries(run), key=natural)
    sections = [
        *differences(run),
        *checks.failed_repetitions(run),
        *users_sections(run),
        *timeline(run),
        *resources.resource_sections(run),
        *resources.surroundings_sections(run),
    ]
    if manifests := run.of_kind("dataset"):
        sections.append(queries.dataset(manifests[-1]["manifest"]))
    sections.append(checks.reproduction([run.description]))
    return Document(
        kicker=f"Penstock lab · {title(run.description)} · {run.description.arm}",
        headline=f"{trouble(run, failed)}{_took(run, crowd, slower)}{checked(run)}.",
        good=run.outcome == "ok",
        key_figures=_key_figures(run, single, crowd, slower),
        sections=sections,
        data=_data(run, single, crowd, slower),
    )


def differences(run: Run) -> list[Section]:
    wrong = any(verdict != "equal" for verdict in answer_verdicts(run).values())
    return [queries.differences(run)] if wrong else []


def trouble(run: Run, failed: list[str]) -> str:
    """What must be said before any time is; empty where all is well."""
    verdicts = answer_verdicts(run)
    if different := sorted((name for name, v in verdicts.items() if v != "equal"), key=natural):
        return f"{units.plural(len(different), 'query has', 'queries have')} a wrong answer: {units.some(different)}. "
    if failed:
        return f"{units.plural(len(failed), 'query', 'queries')} failed for somebody: {units.some(failed)}. "
    if broken := repetitions(run).failed:
        return f"{units.plural(broken, 'repetition')} failed. "
    return "Unfinished. " if run.outcome == "unfinished" else ""


def checked(run: Run) -> str:
    verdicts = answer_verdicts(run).values()
    if not verdicts:
        return "; no answer was checked"
    return "; every answer of everyone is right" if all(verdict == "equal" for verdict in verdicts) else ""


def _took(run: Run, crowd: Measure | None, slower: Ratio | None) -> str:
    count = run.description.options["users"]
    if crowd is None:
        return f"{count} users at once have no time: not all of their queries succeeded"
    took = units.seconds(crowd.median)
    if slower is None:
        return f"{count} users at once took {took}"
    noise = " (inside the noise)" if slower.verdict == "inside the noise" else ""
    alone = units.seconds(slower.baseline.median)
    return f"{count} users at once took {units.number(slower.ratio)}× the time of one alone{noise}: {took}, not {alone}"


def _key_figures(run: Run, single: Measure | None, crowd: Measure | None, slower: Ratio | None) -> list[KeyFigure]:
    figures = []
    each = len(run.description.options["queries"])
    count = run.description.options["users"]
    if slower:
        known = slower.interval
        sure = f"{units.number(known.low)}–{units.number(known.high)}" if known else "one repetition"
        figures.append(KeyFigure("Slow-down", f"{units.number(slower.ratio)}×", sure))
    for label, measure, asked in ((f"{count} users", crowd, count * each), ("One user alone", single, each)):
        if measure:
            per_hour = asked / measure.median * 3600
            queries = units.plural(asked, "query", "queries")
            figures.append(KeyFigure(label, units.seconds(measure.median), queries))
            figures.append(KeyFigure("Queries per hour", units.count(per_hour), label))
    verdicts = run.of_kind("answer")
    if verdicts:
        right = sum(sample["verdict"] == "equal" for sample in verdicts)
        figures.append(KeyFigure("Right answers", f"{right} of {len(verdicts)}", "different ones, checked with DuckDB"))
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
        "slow_downs": {part.name: part.ratio for part in slow_downs(run)},
        "answers": dict(answer_verdicts(run)),
    }


def mixed_document(run: Run) -> Document:
    parts = _parts(run)
    together, alone = _measures(run, TOGETHER), _measures(run, ALONE)
    slower = {name: _ratio(name, alone[name], together[name]) for name in parts if name in alone and name in together}
    failed = sorted(failed_queries(run), key=natural)
    sections = [
        *differences(run),
        *checks.wrong(run),
        *checks.failed_repetitions(run),
        *_every_part(parts, alone, together, slower),
        *timeline(run),
        *(section for group in parts for section in users_sections(run, group)),
        *checks.checks_section(run),
        *resources.resource_sections(run),
        *resources.surroundings_sections(run),
    ]
    # The first is TPC-DS's; the clicks, which come after it, are one table.
    sections += [queries.dataset(sample["manifest"]) for sample in run.of_kind("dataset")[:1]]
    sections.append(checks.reproduction([run.description]))
    return Document(
        kicker=f"Penstock lab · {title(run.description)} · {run.description.arm}",
        headline=f"{_wrong(run)}{trouble(run, failed)}{_mixed_took(together, slower)}{checked(run)}.",
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
            "answers": dict(answer_verdicts(run)),
        },
    )


def _parts(run: Run) -> list[str]:
    """As they were begun: the users' groups, then the enrichment."""
    return list(dict.fromkeys(str(sample["group"]) for sample in run.samples if sample.get("group")))


def _measures(run: Run, phase: str) -> dict[str, Measure]:
    found = measured(run)
    return {part: found[f"{part}, {phase}"] for part in _parts(run) if f"{part}, {phase}" in found}


def _ratio(name: str, alone: Measure, together: Measure) -> Ratio:
    return ratio(name, alone.seconds, together.seconds)


def _wrong(run: Run) -> str:
    wrong = list(dict.fromkeys(str(sample["name"]) for sample in wrong_checks(run)))
    return f"{units.plural(len(wrong), 'check is', 'checks are')} wrong: {units.some(wrong)}. " if wrong else ""


def _mixed_took(together: Mapping[str, Measure], slower: Mapping[str, Ratio]) -> str:
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
        figure = query_plots.ratios(list(slower.values()), "with the others / alone")
        drawn.append(Plot("parts", figure, text, height=90 + 30 * len(slower)))
    note = "From the first submission of each part to the end of its last application."
    return [Section("Every part", note, [*drawn, table], brief=True)]
