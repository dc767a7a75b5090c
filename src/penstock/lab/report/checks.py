"""Sections of every report: what was validated and what failed, before any time; and the commands that reproduce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab.analysis.samples import all_right, checks, repetitions, warm_up, wrong_checks
from penstock.lab.records import Description, Run, Sample
from penstock.lab.report import render
from penstock.lab.report.render import Command, Part, Section, Table

_SHOWN = 12
"""More rows than a screen's worth are folded away: all of them are right, or they were listed before."""


def wrong(run: Run) -> list[Section]:
    found = wrong_checks(run)
    if not found:
        return []
    rows = [(_when(sample), str(sample["name"]), f"✗ {sample.get('note') or 'wrong'}") for sample in found]
    return [Section("Checks that are wrong", "", [Table(("repetition", "check", "found"), rows)], brief=True)]


def failed_repetitions(run: Run) -> list[Section]:
    errors = repetitions(run).errors
    if not errors:
        return []
    rows = [(str(repetition), f"✗ {error}") for repetition, error in sorted(errors.items())]
    return [
        Section(
            "Repetitions that failed",
            "They are part of no median.",
            [Table(("repetition", "why"), rows)],
            brief=True,
        )
    ]


def failures(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """Of several runs: which repetitions failed of what, each reason once."""
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
            "What failed",
            "Repetitions that failed are part of no median.",
            [Table(("run", "repetitions", "why"), rows)],
            brief=True,
        )
    ]


def checks_section(run: Run) -> list[Section]:
    """A row per check: how often it was made, how often it was right, and what it last said."""
    found: dict[str, list[Sample]] = {}
    for sample in checks(run):
        found.setdefault(str(sample["name"]), []).append(sample)
    if not found:
        return []
    rows = []
    for name, samples in found.items():
        right = sum(bool(sample["right"]) for sample in samples)
        verdict = "✓" if right == len(samples) else f"✗ {len(samples) - right} wrong"
        rows.append((name, units.count(len(samples)), verdict, str(samples[-1].get("note") or "")))
    folded = units.plural(len(rows), "check") if len(rows) > _SHOWN else ""
    table = Table(("check", "times", "right", "what it found last"), rows, numeric=frozenset({1}), folded=folded)
    return [Section("Checks", "", [table])]


def doubts(runs: Sequence[Run], names: Sequence[str]) -> str:
    """A sentence for each run whose times are not to be trusted as they stand; empty where there is none."""
    found = []
    for run, name in zip(runs, names, strict=True):
        if not all_right(run):
            found.append(f"Results of {name} are wrong. ")
        elif failed := repetitions(run).failed:
            found.append(f"{units.plural(failed, 'repetition')} of {name} failed. ")
    return "".join(found)


def unfinished(runs: Sequence[Run]) -> str:
    """A word before any figure where more of it may come; empty where all runs came to their end."""
    return "Unfinished. " if any(run.outcome == "unfinished" for run in runs) else ""


def _when(sample: Sample) -> str:
    repetition = sample.get("repetition")
    return "preparation" if repetition is None else "warm-up" if warm_up(sample) else str(repetition)


def reproduction(descriptions: Sequence[Description]) -> Section:
    commands = dict.fromkeys(description.command for description in descriptions)
    parts: list[Part] = [Command("\n".join(commands))]
    parts.append(
        Table(
            ("", *[description.arm for description in descriptions]) if len(descriptions) > 1 else ("what", "value"),
            [
                (label, *values)
                for label in _labels(descriptions)
                if any(values := [_facts(description).get(label, "") for description in descriptions])
            ],
        )
    )
    parts.extend(
        Table(
            ("setting", "value"),
            [(key, str(value)) for key, value in sorted(description.settings.items())],
            folded=f"{units.plural(len(description.settings), 'Spark setting')} of {description.arm}",
        )
        for description in descriptions
        if description.settings
    )
    return Section("Run it again", "The raw samples are kept; this page can be made from them at any time.", parts)


def differences(descriptions: Sequence[Description], names: Sequence[str]) -> Section:
    """What the arms of a comparison have not in common: what explains a difference, and what should not be one."""
    told = [_choices(description) for description in descriptions]
    rows = [
        (label, *values)
        for label in dict.fromkeys(label for choices in told for label in choices)
        if len(set(values := [choices.get(label, "") for choices in told])) > 1
    ]
    if not rows:
        return Section("What differs", "Nothing that was recorded: the same was measured again.")
    return Section("What differs", "Of all that was recorded about the arms.", [Table(("", *names), rows)])


def many(descriptions: Sequence[Description], outcomes: Sequence[str]) -> Section:
    """As `section`, for more runs than a table has columns for: a row each, and what all of them have in common."""
    facts: dict[str, list[str]] = {}
    for description in descriptions:
        for label, value in _facts(description).items():
            if label in ("machine", "cluster", "versions", "commit") and value not in facts.setdefault(label, []):
                facts[label].append(value)
    runs = [
        (one.id, render.title(one), one.arm, one.profile or one.launcher, one.created_at, outcome)
        for one, outcome in zip(descriptions, outcomes, strict=True)
    ]
    columns = ("run", "workload", "arm", "profile", "measured", "outcome")
    return Section(
        "Run it again",
        "The raw samples are kept; this page can be made from them at any time.",
        [
            Command("\n".join(dict.fromkeys(description.command for description in descriptions))),
            Table(("what", "value"), [(label, "; ".join(values)) for label, values in facts.items()]),
            Table(columns, runs, folded=units.plural(len(runs), "run")),
        ],
    )


def _choices(description: Description) -> dict[str, str]:
    facts = _facts(description)
    kept = {
        label: facts[label]
        for label in ("cluster", "lake", "profile", "machine", "versions", "commit")
        if label in facts
    }
    return {
        "launcher": description.launcher,
        "scale": "" if description.scale is None else units.number(description.scale),
        **kept,
        **{f"store, {name}": str(value) for name, value in sorted(_layout(description).items())},
        **{name.replace("_", " "): _value(value) for name, value in sorted(description.options.items())},
        **{key: str(value) for key, value in sorted(description.settings.items())},
    }


def _layout(description: Description) -> Mapping[str, Any]:
    """What the lake's store is made of, media among it."""
    found: Mapping[str, Any] = (description.lake.get("store") or {}).get("layout") or {}
    return found


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _labels(descriptions: Sequence[Description]) -> list[str]:
    return list(dict.fromkeys(label for description in descriptions for label in _facts(description)))


def _facts(description: Description) -> dict[str, str]:
    machine = description.machine
    facts = {
        "run": description.id,
        "measured": description.created_at,
        "cluster": cluster(description.size),
        "lake": lake(description.lake),
        "profile": description.profile or "",
        "machine": ", ".join(
            part
            for part in (
                str(machine.get("processor", "")),
                f"{machine['cores']} cores" if "cores" in machine else "",
                units.size(machine["memory_bytes"]) if "memory_bytes" in machine else "",
                str(machine.get("system", "")),
            )
            if part
        ),
        "versions": ", ".join(f"{name} {version}" for name, version in sorted(description.versions.items())),
        "commit": description.commit or "",
    }
    return {label: value for label, value in facts.items() if value}


def cluster(size: Mapping[str, Any]) -> str:
    """`driver 1 core 2.0 GiB; 1 executor of 2 cores 4.0 GiB`."""
    if not size:
        return ""
    driver, executor = size["driver"], size["executor"]
    return (
        f"driver {units.plural(driver['cores'], 'core')}, {units.size(driver['memory_bytes'])}; "
        f"{units.plural(size['executors'], 'executor')} of {units.plural(executor['cores'], 'core')}, "
        f"{units.size(executor['memory_bytes'])}"
    )


def lake(told: Mapping[str, Any]) -> str:
    """`ceph-erasure (ceph, Ceph 16.2.15, 2 gateways, 4+2)`."""
    if not told:
        return ""
    store = told.get("store") or {}  # runs of older releases do not tell what their store was
    gateways = 0 if store.get("software") == "HDFS" else len(told.get("endpoints", ()))
    parts = (
        told.get("kind", ""),
        " ".join(filter(None, (store.get("software"), store.get("version")))),
        units.plural(gateways, "gateway") if gateways else "",
        store.get("protection", ""),
    )
    return f"{told['name']} ({', '.join(part for part in dict.fromkeys(parts) if part)})"
