"""The report of a TPC-DS run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from penstock import units
from penstock.lab.analysis.doubts import EQUAL, UNCHECKED, doubts, valid
from penstock.lab.analysis.resources import Role, core_seconds, peak_memory, roles
from penstock.lab.analysis.samples import (
    answer_verdicts,
    counted,
    failed_queries,
    natural_key,
    query_seconds,
)
from penstock.lab.analysis.verdicts import spread
from penstock.lab.records import Run, Sample
from penstock.lab.report import comparison
from penstock.lab.report.elements import checks, reads, resources
from penstock.lab.report.elements.render import Document, KeyFigure, Part, Plot, Section, Table
from penstock.lab.report.plots import queries as query_plots


def document(run: Run) -> Document:
    seconds = query_seconds(run)
    names = sorted(seconds, key=natural_key)
    medians = {name: statistics.median(seconds[name]) for name in names}
    verdicts = answer_verdicts(run)
    doubted = doubts([run])
    sections = [*checks.failures([run]), *_times(run, medians), _queries(run, seconds, verdicts)]
    sections += comparison.read_sections(run)
    sections += [
        *reads.cache_sections([run], [run.description.arm]),
        *resources.resource_sections(run),
        *resources.machine_sections(run),
    ]
    if manifests := run.of_kind("dataset"):
        sections.append(dataset(manifests[-1]["manifest"]))
    sections.append(checks.reproduction([run]))
    return Document(
        kicker=f"Penstock lab · TPC-DS, scale {units.number(run.description.scale or 0)} · {run.description.arm}",
        result=_result(run, medians, verdicts, sound=valid(doubted)),
        doubts=doubted,
        key_figures=_key_figures(run, medians, verdicts),
        sections=sections,
        data={
            "total_seconds": sum(medians.values()),
            "queries": {name: seconds[name] for name in names},
            "answers": dict(verdicts),
            "failed": sorted(failed_queries(run), key=natural_key),
        },
    )


def _result(run: Run, medians: Mapping[str, float], verdicts: Mapping[str, str], *, sound: bool) -> str:
    if not medians:
        return "No query was measured."
    cores = run.description.size.get("executors", 0) * run.description.size.get("executor", {}).get("cores", 0)
    where = f" on {units.plural(cores, 'core')}" if cores else ""
    queries = units.plural(len(medians), "query", "queries")
    took = f"{queries} ran in {units.seconds(sum(medians.values()))}{where}"
    correct = sum(verdicts.get(name) == EQUAL for name in medians)
    if not correct:
        return f"{took}; no answer is known to be correct."
    if correct < len(medians) or not sound:
        return f"{took}; {correct} of the answers are known to be correct."
    return f"All {took}, and every answer is correct." if len(medians) > 1 else f"{took}, and its answer is correct."


def _key_figures(run: Run, medians: Mapping[str, float], verdicts: Mapping[str, str]) -> list[KeyFigure]:
    figures = []
    if medians:
        figures.append(KeyFigure("All queries", units.seconds(sum(medians.values()))))
        longest = max(medians, key=lambda name: medians[name])
        typical = statistics.median(medians.values())
        figures.append(KeyFigure("Median query", units.seconds(typical)))
        figures.append(KeyFigure("Longest query", units.seconds(medians[longest]), longest))
    if verdicts:
        right = sum(verdict == EQUAL for verdict in verdicts.values())
        figures.append(KeyFigure("Correct answers", f"{right} of {len(verdicts)}", "verified with DuckDB"))
    if cores := core_seconds(run):
        figures.append(KeyFigure("Core-seconds", units.count(cores), "driver and executors, per repetition"))
    if peak := peak_memory(run):
        figures.append(KeyFigure("Peak memory", units.size(peak), "driver and executors, per repetition"))
    return figures


def _times(run: Run, medians: Mapping[str, float]) -> list[Section]:
    if not medians:
        return []
    planning = _planning(run)
    longest = sorted(medians, key=lambda name: -medians[name])[:3]
    slow = ", ".join(f"{name} {units.seconds(medians[name])}" for name in longest)
    total = sum(medians.values())
    share = sum(medians[name] for name in longest) / total if total else 0
    bars = Plot(
        "time-per-query",
        query_plots.query_bars(medians, planning),
        f"The longest: {slow}.",
        height=80 + 16 * len(medians),
    )
    sections = [
        Section("Time per query", f"The longest are {slow}: {share:.0%} of the total.", [bars]),
        Section(
            "Time breakdown",
            _breakdown_note(run, medians, planning),
            _breakdown(run, medians, planning),
        ),
    ]
    if len(medians) > 1:
        typical = spread(list(medians.values()))
        half = f"Half of the queries take {units.seconds(typical.median)} or less, three quarters "
        half += f"{units.seconds(typical.quartile_high)} or less."
        dots = Plot("distribution", query_plots.distribution({run.description.arm: medians}), half, height=200)
        order = _in_order(run, medians)
        line = Plot("cumulative", query_plots.cumulative(order), f"{units.seconds(total)} in total.", height=300)
        sections += [
            Section("Distribution", half, [dots]),
            Section("Cumulative time", "One query after the other, in the order they ran.", [line]),
        ]
    return sections


def _planning(run: Run) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for sample in counted(run, "query"):
        if sample["status"] == "ok" and sample.get("planning_ms") is not None:
            found.setdefault(sample["query"], []).append(sample["planning_ms"] / 1000)
    return {name: statistics.median(values) for name, values in found.items()}


def _breakdown(run: Run, medians: Mapping[str, float], planning: Mapping[str, float]) -> list[Part]:
    parts: list[Part] = []
    if planning:
        plan = sum(planning.values())
        elapsed = {"execution": max(0.0, sum(medians.values()) - plan), "planning": plan}
        text = f"Planning {units.seconds(plan)} of {units.seconds(sum(medians.values()))}."
        parts.append(Plot("elapsed-shares", query_plots.shares(elapsed, "seconds of elapsed time"), text, height=130))
    if cores := _core_seconds(run):
        text = ", ".join(f"{name} {units.count(value)}" for name, value in cores.items()) + " core-seconds."
        parts.append(Plot("core-shares", query_plots.shares(cores, "core-seconds"), text, height=130))
    return parts


def _breakdown_note(run: Run, medians: Mapping[str, float], planning: Mapping[str, float]) -> str:
    notes = []
    if planning:
        notes.append(f"Planning took {sum(planning.values()) / sum(medians.values()):.0%} of the elapsed time.")
    if _core_seconds(run):
        notes.append("Time outside of tasks goes to compilation, planning and the work of the driver.")
    return " ".join(notes) or "This run measured neither planning nor core-seconds."


def _core_seconds(run: Run) -> dict[str, float]:
    """Processor time of a power run, in core-seconds: the medians of that of tasks, and of the rest."""
    power = next((role for role in roles(run) if role.name == "power"), Role("power", ()))
    total, tasks = power.median("core_seconds"), (power.median("executor_cpu_ms") or 0) / 1000
    if not total or not tasks:
        return {}
    return {"tasks": tasks, "everything else": max(0.0, total - tasks)}


def _in_order(run: Run, medians: Mapping[str, float]) -> dict[str, float]:
    started: dict[str, int] = {}
    for sample in run.of_kind("query"):
        started.setdefault(sample["query"], sample["started_ms"])
    return {name: medians[name] for name in sorted(medians, key=lambda name: started[name])}


def _queries(run: Run, seconds: Mapping[str, list[float]], verdicts: Mapping[str, str]) -> Section:
    executions: dict[str, Sample] = {}
    failed: dict[str, Sample] = {}
    for sample in run.of_kind("query"):
        (executions if sample["status"] == "ok" else failed)[sample["query"]] = sample
    rows = []
    repeated = any(len(values) > 1 for values in seconds.values())
    for name in sorted({**executions, **failed}, key=natural_key):
        row = [name]
        if name in seconds:
            times = spread(seconds[name])
            row.append(f"{times.median:.2f}")
            if repeated:
                row.append(f"{times.low:.2f}–{times.high:.2f}")
            row.append(units.count(executions[name]["rows"]))
        else:
            row += ["", *([""] if repeated else []), ""]
        row.append(_answer_cell(failed.get(name), verdicts.get(name)))
        rows.append(row)
    columns = ["query", "median, s" if repeated else "seconds", *(["range, s"] if repeated else []), "rows", "answer"]
    return Section("All queries", "", [Table(columns, rows, numeric=frozenset(range(1, len(columns) - 1)))], brief=True)


def _answer_cell(failed: Sample | None, verdict: str | None) -> str:
    return f"✗ {checks.first_line(failed)}" if failed else verdict_cell(verdict)


def verdict_cell(verdict: str | None) -> str:
    return {None: "not checked", UNCHECKED: "not checked", EQUAL: "✓"}.get(verdict, "✗ differs")


def dataset(manifest: Mapping[str, Any]) -> Section:
    tables = manifest["tables"]
    rows = [
        (
            table["table"],
            units.count(table["rows"]),
            units.size(table["bytes"]),
            units.count(table["files"]),
            table["layout"],
        )
        for table in sorted(tables, key=lambda table: -table["bytes"])
    ]
    columns = ("table", "rows", "bytes", "objects", "layout")
    table = Table(columns, rows, numeric=frozenset({1, 2, 3}), folded=units.plural(len(rows), "table"))
    return Section(
        "Data", "A Spark application generated the data; a scale factor always gives the same rows.", [table]
    )
