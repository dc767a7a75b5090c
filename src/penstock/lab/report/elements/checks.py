"""Sections of every report: failures, which precede any time, and the commands to reproduce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab.analysis.doubts import EQUAL, UNCHECKED
from penstock.lab.analysis.samples import checks, counted, failed_checks, is_warm_up, natural_key, repetitions
from penstock.lab.records import Description, Run, Sample
from penstock.lab.report.elements import render
from penstock.lab.report.elements.render import Command, Paragraph, Part, Section, Table
from penstock.lab.report.elements.reproduction import command, machine_text, sentences, versions_text

_SHOWN = 12
"""The most rows that are not folded: rows beyond it have passed, or were listed among the failed checks."""


def failures(runs: Sequence[Run], names: Sequence[str] = ()) -> list[Section]:
    """Wrong answers, failed checks, queries, requests and rounds of the runs, by their names if any."""
    named = list(zip(names or [""] * len(runs), runs, strict=True))
    found = (
        ("Wrong answers", "Expected rows are marked -, actual rows +.", ("query", "users", "difference"), _differences),
        ("Failed checks", "", ("repetition", "check", "finding"), _findings),
        (
            "Failed queries",
            "Failed executions are excluded from every median.",
            ("query", "repetitions", "reason"),
            _query_errors,
        ),
        (
            "Errors",
            "Failed requests are excluded from throughput and latency.",
            ("operation", "error", "count", "first message"),
            _request_errors,
        ),
        ("Failures", "Failed repetitions are excluded from every median.", ("repetitions", "reason"), _round_errors),
    )
    sections = []
    for title, note, columns, find in found:
        if rows := [(name, *row) for name, run in named for row in find(run)]:
            sections.append(Section(title, note, [Table(("run", *columns), rows).filled()], brief=True))
    return sections


def _differences(run: Run) -> list[tuple[str, ...]]:
    return [
        (
            sample["query"],
            units.some(sample.get("whose", ())),
            "✗ " + "\n".join(sample.get("lines") or [sample.get("note", "")]),
        )
        for sample in run.of_kind("answer")
        if sample["verdict"] not in (EQUAL, UNCHECKED)
    ]


def _findings(run: Run) -> list[tuple[str, ...]]:
    return [
        (_when(sample), str(sample["name"]), f"✗ {sample.get('note') or 'failed'}") for sample in failed_checks(run)
    ]


def _request_errors(run: Run) -> list[tuple[str, ...]]:
    """The failed requests of a load, by operation and kind of error."""
    counts: dict[str, Counter[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for sample in counted(run, "errors"):
        name = str(sample["name"])
        counts.setdefault(name, Counter()).update(sample["errors"])
        message = sample.get("first") or {}
        # A program on the JVM keeps one message for all kinds.
        texts = message if isinstance(message, dict) else dict.fromkeys(sample["errors"], message)
        for kind, text in texts.items():
            first.setdefault((name, kind), str(text))
    return [
        (name, kind, units.count(many), f"✗ {first.get((name, kind), '')}".rstrip())
        for name, kinds in counts.items()
        for kind, many in kinds.most_common()
    ]


def _query_errors(run: Run) -> list[tuple[str, ...]]:
    """A row for each query and reason: the same query may fail in every round, and for every user."""
    found: dict[tuple[str, str], list[str]] = {}
    for sample in run.of_kind("query"):
        if sample["status"] != "ok":
            found.setdefault((str(sample["query"]), first_line(sample)), []).append(_when(sample))
    return [
        (query, ", ".join(dict.fromkeys(rounds)), f"✗ {error}")
        for (query, error), rounds in sorted(found.items(), key=lambda item: natural_key(item[0][0]))
    ]


def first_line(failed: Sample) -> str:
    """The first line of the error of a failed query."""
    return (str(failed.get("error") or "").splitlines() or ["failed"])[0][:200]


def _round_errors(run: Run) -> list[tuple[str, ...]]:
    errors = {**repetitions(run).errors, **{one["repetition"]: one["error"] for one in run.of_kind("failure")}}
    by_reason: dict[str, list[str]] = {}
    for repetition, error in sorted(errors.items()):
        by_reason.setdefault(str(error), []).append(str(repetition))
    return [(", ".join(which), f"✗ {error}") for error, which in by_reason.items()]


def checks_section(run: Run) -> list[Section]:
    """A row per check: how often it ran, whether it always passed, and its last finding."""
    found: dict[str, list[Sample]] = {}
    for sample in checks(run):
        found.setdefault(str(sample["name"]), []).append(sample)
    if not found:
        return []
    rows = []
    for name, samples in found.items():
        right = sum(bool(sample["right"]) for sample in samples)
        verdict = "✓" if right == len(samples) else f"✗ {len(samples) - right} failed"
        rows.append((name, units.count(len(samples)), verdict, str(samples[-1].get("note") or "")))
    folded = units.plural(len(rows), "check") if len(rows) > _SHOWN else ""
    table = Table(("check", "times", "result", "last finding"), rows, numeric=frozenset({1}), folded=folded)
    return [Section("Checks", "", [table])]


def _when(sample: Sample) -> str:
    repetition = sample.get("repetition")
    return "preparation" if repetition is None else "warm-up" if is_warm_up(sample) else str(repetition)


_KEPT = "The command measures again. This report follows from the stored samples alone."


_MOST_COLUMNS = 4
"""The most runs that stand beside each other; of more, each is a row."""


def reproduction(runs: Sequence[Run], names: Sequence[str] = ()) -> Section:
    """The command that repeats the measurement, and how it was measured. The runs have the names of their arms."""
    described = [run.description for run in runs]
    names = names or [one.arm for one in described]
    facts = {
        "run": [one.id for one in described],
        "workload": [render.workload_title(one) for one in described],
        "arm": names,
        "profile": [one.profile or one.launcher for one in described],
        "cluster": [cluster_text(one.size) for one in described],
        "lake": [lake_text(one.lake) for one in described],
        "measured": [one.created_at for one in described],
        "outcome": [run.outcome for run in runs],
    }
    if len(runs) > _MOST_COLUMNS:
        rows = list(zip(*facts.values(), strict=True))
        table = Table(list(facts), rows, folded=units.plural(len(runs), "run")).filled()
    else:
        of_runs = [(label, *values) for label, values in facts.items() if label != "arm" and any(values)]
        table = Table(("", *names), of_runs)
    parts: list[Part] = [Command(command(described)), Paragraph(sentences(runs, names), "How it was measured"), table]
    return Section("Reproduce", _KEPT, parts)


def differences(descriptions: Sequence[Description], names: Sequence[str]) -> Section:
    """The recorded properties in which the arms differ, whether they explain a result or are an accident."""
    recorded = [_choices(description) for description in descriptions]
    rows = [
        (label, *values)
        for label in dict.fromkeys(label for choices in recorded for label in choices)
        if len(set(values := [choices.get(label, "") for choices in recorded])) > 1
    ]
    if not rows:
        return Section("Differences", "No recorded property differs: the runs repeat one measurement.")
    return Section("Differences", "Every recorded property in which the arms differ.", [Table(("", *names), rows)])


def _choices(description: Description) -> dict[str, str]:
    return {
        "launcher": description.launcher,
        "scale": "" if description.scale is None else units.number(description.scale),
        "cluster": cluster_text(description.size),
        "lake": lake_text(description.lake),
        "profile": description.profile or "",
        "machine": machine_text(description.machine),
        "versions": versions_text(description.versions),
        "commit": description.commit or "",
        **{f"store, {name}": str(value) for name, value in sorted(_layout(description).items())},
        **{name.replace("_", " "): _value(value) for name, value in sorted(description.options.items())},
        **{key: str(value) for key, value in sorted(description.settings.items())},
    }


def _layout(description: Description) -> Mapping[str, Any]:
    """The layout of the lake's store, including its media."""
    found: Mapping[str, Any] = (description.lake.get("store") or {}).get("layout") or {}
    return found


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def cluster_text(size: Mapping[str, Any]) -> str:
    """`driver 1 core, 2.0 GiB; 1 executor of 2 cores, 4.0 GiB`."""
    if not size:
        return ""
    driver, executor = size["driver"], size["executor"]
    if not size["executors"]:
        return f"1 process of {units.plural(driver['cores'], 'core')}, {units.size(driver['memory_bytes'])}"
    return (
        f"driver {units.plural(driver['cores'], 'core')}, {units.size(driver['memory_bytes'])}; "
        f"{units.plural(size['executors'], 'executor')} of {units.plural(executor['cores'], 'core')}, "
        f"{units.size(executor['memory_bytes'])}"
    )


def lake_text(recorded: Mapping[str, Any]) -> str:
    """`ceph-erasure (ceph, Ceph 16.2.15, 2 gateways, 4+2)`."""
    if not recorded:
        return ""
    store = recorded.get("store") or {}  # runs of older releases did not record their store
    gateways = 0 if store.get("software") == "HDFS" else len(recorded.get("endpoints", ()))
    parts = (
        recorded.get("kind", ""),
        " ".join(filter(None, (store.get("software"), store.get("version")))),
        units.plural(gateways, "gateway") if gateways else "",
        store.get("protection", ""),
    )
    return f"{recorded['name']} ({', '.join(part for part in dict.fromkeys(parts) if part)})"
