"""The last section of every report: everything needed to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.lab.records import Description
from penstock.lab.report import words
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
            folded=f"{words.plural(len(description.settings), 'Spark setting')} of {description.arm}",
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


def _choices(description: Description) -> dict[str, str]:
    facts = _facts(description)
    kept = {
        label: facts[label]
        for label in ("cluster", "lake", "profile", "machine", "versions", "commit")
        if label in facts
    }
    return {
        "launcher": description.launcher,
        "scale": "" if description.scale is None else words.number(description.scale),
        **kept,
        **{name.replace("_", " "): _value(value) for name, value in sorted(description.options.items())},
        **{key: str(value) for key, value in sorted(description.settings.items())},
    }


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
        "lake": _lake(description.lake),
        "profile": description.profile or "",
        "machine": ", ".join(
            part
            for part in (
                str(machine.get("processor", "")),
                f"{machine['cores']} cores" if "cores" in machine else "",
                words.size(machine["memory_bytes"]) if "memory_bytes" in machine else "",
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
        f"driver {words.plural(driver['cores'], 'core')}, {words.size(driver['memory_bytes'])}; "
        f"{words.plural(size['executors'], 'executor')} of {words.plural(executor['cores'], 'core')}, "
        f"{words.size(executor['memory_bytes'])}"
    )


def _lake(lake: Mapping[str, Any]) -> str:
    return f"{lake['name']} ({lake['kind']}, {words.plural(len(lake['endpoints']), 'gateway')})" if lake else ""
