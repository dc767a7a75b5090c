"""The last section of every report: everything needed to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab.records import Description
from penstock.lab.report import titles
from penstock.lab.report.document import Command, Part, Section, Table


def section(descriptions: Sequence[Description]) -> Section:
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
        (one.id, titles.title(one), one.arm, one.profile or one.launcher, one.created_at, outcome)
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
