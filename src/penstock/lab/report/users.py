"""Sections about users at once: each query over all of them, the slow-down, who did what when, and every user."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import ALONE, TOGETHER, Execution, Ratio
from penstock.lab.records import Run
from penstock.lab.report import plots
from penstock.lab.report.document import Plot, Section, Table

_MANY = 30


def sections(run: Run, group: str | None = None) -> list[Section]:
    """Of the users of one group, where a run has several; nothing where none of their queries succeeded."""
    together = analysis.by_query(analysis.executions(run, TOGETHER, group))
    if not together:
        return []
    slower = analysis.slow_downs(run, group)
    return [_boxes(run, together, group), *_slow_downs(slower, group), _users(run, group), _table(run, together, group)]


def timeline(run: Run) -> list[Section]:
    """Every application of the last repetition on one axis of time."""
    lives = analysis.lives(run)
    if not lives:
        return []
    last = max(lives, key=lambda life: life.ended)
    text = f"{units.capitalised(last.who)} was the last to end, after {units.seconds(last.ended)}."
    plot = Plot("timeline", plots.timeline(lives), text, height=90 + 26 * len(lives), wide=True)
    note = "Each row is an application on a cluster of its own; grey is what is no query, as the start of the cluster."
    return [Section("Who did what when", f"{note} {text}", [plot])]


def _boxes(run: Run, together: Mapping[str, list[Execution]], group: str | None) -> Section:
    dots = sum(len(found) for found in together.values())
    alone = {
        name: statistics.median(one.seconds for one in found)
        for name, found in analysis.by_query(analysis.executions(run, ALONE, group)).items()
    }
    mark = "without the others" if group else "one user alone"
    spread = max(together, key=lambda name: _width(together[name]))
    widest = [one.seconds for one in together[spread]]
    text = f"{units.plural(dots, 'execution')} of {units.plural(len(together), 'query', 'queries')}. "
    if len(widest) > 1:
        text += f"{spread} differs most: {units.seconds(min(widest))} to {units.seconds(max(widest))}."
    figure = plots.user_boxes(together, alone, mark)
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
    figure = plots.ratios(slower, "in company / alone")
    plot = Plot(_name("slow-down", group), figure, text, height=90 + 15 * len(slower))
    return [Section(_title("Slow-down per query", group), f"{text} Medians over users and repetitions.", [plot])]


def _users(run: Run, group: str | None) -> Section:
    """A row per user; medians over the repetitions in which all of their queries succeeded."""
    alone = {
        user: statistics.median(sample["elapsed_ms"] for sample in found) / 1000
        for user, found in analysis.totals(run, ALONE, group).items()
    }
    rows = []
    for user, found in analysis.totals(run, TOGETHER, group).items():
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
    verdicts = analysis.answer_verdicts(run)
    slower = {part.name: part for part in analysis.slow_downs(run, group)}
    failed = analysis.failed_queries(run)
    rows = []
    for name, found in together.items():
        times = analysis.spread([one.seconds for one in found])
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
