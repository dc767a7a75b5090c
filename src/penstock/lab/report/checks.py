"""Sections of every report: failed checks and repetitions, which precede any time, and the commands to reproduce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab.analysis.samples import all_passed, checks, failed_checks, is_warm_up, repetitions
from penstock.lab.records import Description, Run, Sample
from penstock.lab.report import render
from penstock.lab.report.render import Command, Paragraph, Part, Section, Table
from penstock.lab.report.reproduction import command, machine_text, sentences, versions_text

_SHOWN = 12
"""The most rows that are not folded: rows beyond it have passed, or were listed among the failed checks."""


def wrong(run: Run) -> list[Section]:
    found = failed_checks(run)
    if not found:
        return []
    rows = [(_when(sample), str(sample["name"]), f"✗ {sample.get('note') or 'failed'}") for sample in found]
    return [Section("Failed checks", "", [Table(("repetition", "check", "finding"), rows)], brief=True)]


def failed_repetitions(run: Run) -> list[Section]:
    errors = repetitions(run).errors
    if not errors:
        return []
    rows = [(str(repetition), f"✗ {error}") for repetition, error in sorted(errors.items())]
    return [
        Section(
            "Failed repetitions",
            "They are excluded from every median.",
            [Table(("repetition", "reason"), rows)],
            brief=True,
        )
    ]


def failures(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """The failed repetitions of several runs, grouped by reason."""
    rows = []
    for run, name in zip(runs, names, strict=True):
        errors = repetitions(run).errors
        for error in dict.fromkeys(errors.values()):
            which = [str(repetition) for repetition, why in sorted(errors.items()) if why == error]
            rows.append((name, ", ".join(which), f"✗ {error}"))
    if not rows:
        return []
    return [
        Section(
            "Failures",
            "Failed repetitions are excluded from every median.",
            [Table(("run", "repetitions", "reason"), rows)],
            brief=True,
        )
    ]


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


def warnings(runs: Sequence[Run], names: Sequence[str]) -> str:
    """A sentence for each run with wrong results or failed repetitions; empty where there is none."""
    found = []
    for run, name in zip(runs, names, strict=True):
        if not all_passed(run):
            found.append(f"Results of {name} are wrong. ")
        elif failed := repetitions(run).failed:
            found.append(f"{units.plural(failed, 'repetition')} of {name} failed. ")
    return "".join(found)


def unfinished(runs: Sequence[Run]) -> str:
    """A word that precedes the headline while a run is unfinished; empty where all runs have ended."""
    return "Unfinished. " if any(run.outcome == "unfinished" for run in runs) else ""


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
