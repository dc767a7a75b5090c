"""The measurement behind a report: in sentences, and as one command that repeats it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.analysis.samples import is_warm_up, measured_in_turns
from penstock.lab.experiment import DROP, MeasurementPlan
from penstock.lab.records import Description, Run, Sample
from penstock.lab.workloads.options import options_given
from penstock.lab.workloads.registry import WORKLOADS, restore_suite

_WIDTH = 110
"""Characters of a line of the command."""


def command(descriptions: Sequence[Description]) -> str:
    """Return one command that repeats the measurement: a lab file that leaves no choice to a default.

    The recorded commands replace it where a lab file cannot describe a run: the start-up benchmark has no workload, and
    older records lack a plan or have options that no longer exist.
    """
    together: dict[str, list[Description]] = {}
    for one in descriptions:
        together.setdefault(one.experiment or one.id, []).append(one)
    try:
        experiments = [_experiment(arms) for arms in together.values()]
    except (InvalidInput, KeyError, TypeError):
        return "\n".join(dict.fromkeys(one.command for one in descriptions))
    content = experiments[0] if len(experiments) == 1 else {"experiments": experiments}
    file = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH)
    return f"penstock lab run /dev/stdin <<'END'\n{file}END"


def _experiment(arms: Sequence[Description]) -> dict[str, Any]:
    """Return an experiment as lab files have it. Keys that are equal in all arms are not repeated."""
    shared: dict[str, Any] = {}
    own: list[dict[str, Any]] = [{"name": one.arm} for one in arms]
    for part, given in (("", _choices), ("options", _options), ("settings", _settings)):
        values = [given(one) for one in arms]
        common = {key: value for key, value in values[0].items() if all(_has(one, key, value) for one in values)}
        _add(shared, part, common)
        for arm, one in zip(own, values, strict=True):
            _add(arm, part, {key: value for key, value in one.items() if key not in common})
    return {"workload": arms[0].workload, **asdict(_measurement_plan(arms[0])), **shared, "arms": own}


def _measurement_plan(one: Description) -> MeasurementPlan:
    """Restore the plan; fields of a newer release are ignored. Raises `KeyError` for a record without one."""
    known = {name: value for name, value in one.plan.items() if name in MeasurementPlan.__dataclass_fields__}
    return MeasurementPlan(known.pop("repetitions"), **known)


def _has(values: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in values and bool(values[key] == value)


def _add(entry: dict[str, Any], part: str, values: dict[str, Any]) -> None:
    """Add the values to the entry itself, or as its part of that name."""
    if values:
        entry.update({part: values} if part else values)


def _options(one: Description) -> dict[str, Any]:
    return options_given(restore_suite(one.workload, one.options))


def _settings(one: Description) -> dict[str, Any]:
    return dict(one.settings) if WORKLOADS[one.workload].spark else {}


def _choices(one: Description) -> dict[str, Any]:
    found = {"lake": one.lake["name"], "gateways": one.lake.get("gateways")}
    if WORKLOADS[one.workload].spark:
        driver, executor = one.size["driver"], one.size["executor"]
        found |= {
            "launcher": one.launcher,
            "profile": one.profile,
            "driver_memory": units.short_size(driver["memory_bytes"]),
            "executors": one.size["executors"] or None,
            "executor_cores": executor["cores"],
            "executor_memory": units.short_size(executor["memory_bytes"]),
        }
    return {name: value for name, value in found.items() if value is not None}


def sentences(runs: Sequence[Run], names: Sequence[str]) -> str:
    """Describe how the runs were measured: order, rounds, warm-up, caches, machine, versions, commit, load."""
    described = [(name, run.description) for run, name in zip(runs, names, strict=True)]
    found = [
        _order(runs, names),
        *(_stated(described, state) for state in (_plan, _machine, _versions, _commit)),
        *_load(runs),
        *(sentence for run, name in zip(runs, names, strict=True) for sentence in _exceptions(run, name)),
    ]
    return " ".join(filter(None, found))


def _stated(described: Sequence[tuple[str, Description]], state: Callable[[Description], str]) -> str:
    """State for all runs at once what is the same for all of them."""
    stated: dict[str, dict[str, None]] = {}
    for name, one in described:
        stated.setdefault(state(one), {})[name] = None
    if len(stated) == 1:
        return next(iter(stated))
    return " ".join(f"{units.capitalised(units.some([*names]))}: {text}" for text, names in stated.items() if text)


def _order(runs: Sequence[Run], names: Sequence[str]) -> str:
    if len(runs) == 1:
        turns = [str(one["order"]) for one in _begins(runs[0]) if "order" in one]
        if not runs[0].description.experiment or not turns:
            return ""
        return f"The run is one arm of an experiment, in which its repetitions were turns {', '.join(turns)}."
    experiments = Counter(run.description.experiment or run.description.id for run in runs)
    if len(experiments) > 1 and min(experiments.values()) > 1:
        return f"Each of {len(experiments)} experiments measured its arms in turns, one experiment after the other."
    if not measured_in_turns(runs):
        return "The runs were not measured in turns, so their differences include changes of the machine over time."
    rounds: dict[int, list[tuple[int, str]]] = {}
    for run, name in zip(runs, names, strict=True):
        for one in _begins(run):
            rounds.setdefault(one["repetition"], []).append((one.get("order") or one.get("at_ms", 0), name))
    listed = "; ".join(
        f"{f'round {number}' if number > 0 else 'warm-up'} {', '.join(name for _, name in sorted(turns))}"
        for number, turns in sorted(rounds.items())
    )
    return f"The arms were measured in turns{': ' if listed else ''}{listed}."


def _plan(one: Description) -> str:
    if not one.plan:
        return "The record has no plan of repetitions."
    plan = _measurement_plan(one)
    before = f" after {plan.warmup} for warm-up, which no figure includes" if plan.warmup else " without warm-up"
    dropped = "dropped" if plan.caches == DROP else "left as they were"
    return (
        f"The plan has {units.plural(plan.repetitions, 'round')}{before}. "
        f"Penstock's and the operating system's caches were {dropped} before each."
    )


def machine_text(machine: Mapping[str, Any]) -> str:
    """`Intel Xeon, 2 cores, 7.8 GiB, Debian 12, Linux 6.1`."""
    parts = (
        str(machine.get("processor", "")),
        units.plural(machine["cores"], "core") if "cores" in machine else "",
        units.size(machine["memory_bytes"]) if "memory_bytes" in machine else "",
        str(machine.get("system", "")),
    )
    return ", ".join(filter(None, parts))


def _machine(one: Description) -> str:
    text = machine_text(one.machine)
    if not one.on_this_machine:
        return (
            f"The applications ran on Kubernetes; processors and load of its nodes are unknown. The lab ran on {text}."
        )
    return f"The machine was {text}." if text else "The record does not describe the machine."


def versions_text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _versions(one: Description) -> str:
    return f"The versions were {versions_text(one.versions)}." if one.versions else ""


def _commit(one: Description) -> str:
    return f"The source was at commit {one.commit}." if one.commit else "The commit is unknown."


def _load(runs: Sequence[Run]) -> list[str]:
    here = [run for run in runs if run.description.on_this_machine]
    before = [one["load_1m"] for run in here for one in _begins(run) if one.get("load_1m") is not None]
    if not before:
        return ["The load of the machine was not recorded."] if here else []
    found = [f"The load average before a repetition, which includes the previous one, was {_range(before)}."]
    others = [
        one["other_core_seconds"] / one["elapsed_ms"] * 1000
        for run in here
        for one in run.of_kind("usage")
        if one.get("other_core_seconds") is not None and one.get("elapsed_ms")
    ]
    if others:
        found.append(f"During a repetition other programs used {_range(others)} cores.")
    return found


def _range(values: Iterable[float]) -> str:
    low, high = min(found := sorted(values)), found[-1]
    return f"{low:.2f} to {high:.2f}" if f"{low:.2f}" != f"{high:.2f}" else f"{low:.2f}"


def _exceptions(run: Run, name: str) -> list[str]:
    found = []
    for one in run.of_kind("resumed"):
        changed = [
            key for key in ("commit", "machine", "versions") if key in one and one[key] != getattr(run.description, key)
        ]
        how = f"with another {' and '.join(changed)}" if changed else "with the same commit, machine and versions"
        found.append(f"{units.capitalised(name)} was interrupted and resumed {how}.")
    disturbed = sum(bool(one.get("disturbed")) for one in run.of_kind("usage") if not is_warm_up(one))
    if disturbed:
        found.append(f"Other programs disturbed {units.plural(disturbed, 'repetition')} of {name}.")
    if run.damaged_lines:
        found.append(
            f"{units.capitalised(units.plural(run.damaged_lines, 'line'))} of {name}'s samples could not be read."
        )
    return found


def _begins(run: Run) -> list[Sample]:
    return [one for one in run.of_kind("begin") if "repetition" in one]
