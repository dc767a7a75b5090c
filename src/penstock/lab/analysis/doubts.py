"""Doubts about runs: the facts that a reader must know before any figure of them. Pure functions of the samples.

This module alone decides the colour and the first lines of a page, of whatever kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import units
from penstock.lab.analysis.samples import (
    counted,
    failed_checks,
    measured_in_turns,
    natural_key,
    validation_counts,
    working_cores,
)
from penstock.lab.analysis.verdicts import FEWEST
from penstock.lab.records import Description, Run, Sample

SIZE, LAKE = "size", "lake"
"""The possible subjects of a comparison, whose difference is no doubt."""

_BUSY_SHARE = 0.5
"""The share of the cores, as load average, above which a machine is busy before anything is measured."""

_MANY_FAILED = 0.01
"""The share of failed requests from which on figures of the others are no measure of the store."""

_REACHED = 0.95
"""The share of an asked rate that counts as reached: the last requests of a window may be late."""

EQUAL, UNCHECKED = "equal", "unchecked"
"""The verdicts of answers other than a difference."""


@dataclass(frozen=True)
class Doubt:
    """A doubt about the runs of one page; the sentence names the problem, and the remedy where there is one.

    Figures are not valid where a doubt is `wrong`; with any other, which is a caution, they stand.
    """

    kind: str
    sentence: str
    wrong: bool = False


def doubts(
    runs: Sequence[Run],
    *,
    names: Sequence[str] = (),
    comparisons: Iterable[Sequence[Run]] | None = None,
    subject: str = "",
) -> tuple[Doubt, ...]:
    """The doubts about these runs, the wrong ones first; equal doubts of several runs and rounds are one.

    `names` are those of the runs, in their order; by default those of their arms. The first of the runs of each
    comparison is its baseline; by default the runs of each workload are compared. `subject` is the property that a
    comparison is about, beyond the choices of an experiment that measured its arms in turns.
    """
    called = dict(
        zip([run.description.id for run in runs], names or [run.description.arm for run in runs], strict=True)
    )
    found = [doubt for rule in _RULES if (doubt := _about_runs(rule, runs, called))]
    groups = _by_workload(runs) if comparisons is None else [list(group) for group in comparisons]
    found += _about_comparisons([group for group in map(_with_rounds, groups) if len(group) > 1], called, subject)
    return tuple(sorted(dict.fromkeys(found), key=lambda doubt: not doubt.wrong))


def lead(found: Sequence[Doubt]) -> str:
    """`Failed query, too few rounds. `, the words that precede a headline; empty without a doubt."""
    kinds = ", ".join(dict.fromkeys(doubt.kind for doubt in found))
    return f"{units.capitalised(kinds)}. " if kinds else ""


def unsaid(reason: str, found: Sequence[Doubt]) -> str:
    """The reason why there is no verdict; empty where the `lead` of the page names it already."""
    return "" if any(reason.startswith(doubt.kind) for doubt in found) else reason


def valid(found: Sequence[Doubt]) -> bool:
    """Return whether figures are valid, if with cautions; only then may a headline speak of all and every."""
    return not any(doubt.wrong for doubt in found)


@dataclass(frozen=True)
class _Rule:
    """A kind of doubt about one run. `find` returns its details, which are empty where there is no doubt."""

    kind: str
    find: Callable[[Run], str]
    remedy: str
    wrong: bool = False


def _about_runs(rule: _Rule, runs: Sequence[Run], called: Mapping[str, str]) -> Doubt | None:
    details = _by_value(runs, called, rule.find)
    if not details:
        return None
    text = _by_arm(details) if len(runs) > 1 else units.capitalised(next(iter(details)))
    return Doubt(rule.kind, f"{text}. {rule.remedy}", rule.wrong)


def _by_value(runs: Sequence[Run], called: Mapping[str, str], value: Callable[[Run], str]) -> dict[str, list[str]]:
    """The names of the runs by their value, without runs whose value is empty."""
    found: dict[str, list[str]] = {}
    for run in runs:
        if text := value(run):
            found.setdefault(text, []).append(called[run.description.id])
    return found


def _by_arm(found: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{units.some(arms)}: {value}" for value, arms in found.items())


def _listed(names: Collection[str], one: str, many: str) -> str:
    """`2 queries failed (q3, q7)`; empty without names."""
    return f"{units.plural(len(names), one, many)} ({units.some(sorted(names, key=natural_key))})" if names else ""


def _wrong_answers(run: Run) -> str:
    wrong = {str(sample["query"]) for sample in run.of_kind("answer") if sample["verdict"] not in (EQUAL, UNCHECKED)}
    return _listed(wrong, "answer is wrong", "answers are wrong")


def _failed_checks(run: Run) -> str:
    return _listed({str(sample["name"]) for sample in failed_checks(run)}, "check failed", "checks failed")


def _failed_queries(run: Run) -> str:
    failed = [sample for sample in run.of_kind("query") if sample["status"] != "ok"]
    return _queries(failed, "query failed", "queries failed")


def _queries(samples: Sequence[Sample], one: str, many: str) -> str:
    """The queries of the samples, and the number of rounds where it is known."""
    found = _listed({str(sample["query"]) for sample in samples}, one, many)
    rounds = {sample["repetition"] for sample in samples if "repetition" in sample}
    return f"{found} in {units.plural(len(rounds), 'round')}" if rounds else found


def _many_failed_requests(run: Run) -> str:
    return _failed_requests(run, lambda share: share >= _MANY_FAILED)


def _few_failed_requests(run: Run) -> str:
    return _failed_requests(run, lambda share: share < _MANY_FAILED)


def _failed_requests(run: Run, concerns: Callable[[float], bool]) -> str:
    """The operations whose share of failed requests concerns, where any failed."""
    failed: Counter[str] = Counter()
    for sample in counted(run, "errors"):
        failed[str(sample["name"])] += sum(sample["errors"].values())
    done: Counter[str] = Counter()
    for sample in counted(run, "measure"):
        done[str(sample["name"])] += int(sample.get("operations") or 0) + int(sample.get("late") or 0)
    return "; ".join(
        f"{units.count(many)} of {units.plural(many + done[name], 'request')} failed ({name})"
        for name, many in failed.items()
        if many and concerns(many / (many + done[name]))
    )


def _missed_rates(run: Run) -> str:
    """The stages that made fewer requests a second than they were asked for, failed ones included."""
    made: dict[tuple[int, str, float], float] = {}
    for sample in counted(run, "measure"):
        if sample.get("asked_rate") and sample["elapsed_ms"]:
            requests = sample["operations"] + sample.get("late", 0) + sum((sample.get("errors") or {}).values())
            key = (int(sample.get("repetition", 1)), str(sample.get("stage", "")), float(sample["asked_rate"]))
            made[key] = made.get(key, 0.0) + requests / sample["elapsed_ms"] * 1000
    missed: dict[tuple[str, float], float] = {}
    for (_, stage, asked), rate in made.items():
        if rate < _REACHED * asked:
            missed[stage, asked] = min(rate, missed.get((stage, asked), rate))
    return "; ".join(
        f"{stage} made {units.operations(rate)} of the {units.operations(asked)} asked for"
        for (stage, asked), rate in missed.items()
    )


def _failed_rounds(run: Run) -> str:
    ended = {sample["repetition"]: sample["status"] == "ok" for sample in run.of_kind("repetition")}
    ended |= {sample["repetition"]: False for sample in run.of_kind("failure")}
    ended |= {sample.get("repetition", 1): True for sample in run.of_kind("start")}
    failed = sorted(number for number, succeeded in ended.items() if not succeeded)
    rounds, total = [str(number) for number in failed if number > 0], sum(number > 0 for number in ended)
    found = [f"{len(rounds)} of {units.plural(total, 'round')} failed (no. {units.some(rounds)})"] if rounds else []
    if warm_up := len(failed) - len(rounds):
        found.append(f"{units.plural(warm_up, 'warm-up')} failed")
    return " and ".join(found)


def _bad_end(run: Run) -> str:
    """The outcome of a run that ended badly for a reason that no sample names."""
    named = (_wrong_answers, _failed_checks, _failed_queries, _failed_rounds)
    if run.outcome in ("ok", "unfinished") or any(find(run) for find in named):
        return ""
    return f"the run ended as “{run.outcome}”"


def _damaged_lines(run: Run) -> str:
    return f"{units.plural(run.damaged_lines, 'line')} could not be read" if run.damaged_lines else ""


def _changed_machine(run: Run) -> str:
    if not run.description.on_this_machine:
        return ""
    return _changed(run, _machine(run.description.machine), lambda sample: _machine(sample.get("machine") or {}))


def _changed_commit(run: Run) -> str:
    return _changed(run, run.description.commit or "", lambda sample: str(sample.get("commit") or ""))


def _changed_versions(run: Run) -> str:
    later = [sample.get("versions") or {} for sample in run.of_kind("resumed")]
    return _different_values([run.description.versions, *later])


def _changed(run: Run, begun: str, resumed: Callable[[Sample], str]) -> str:
    values = dict.fromkeys([begun, *(resumed(sample) for sample in run.of_kind("resumed"))])
    first, *others = [value for value in values if value] or [""]
    return f"begun with {first}, resumed with {units.some(others)}" if others else ""


def _unfinished(run: Run) -> str:
    if run.outcome != "unfinished":
        return ""
    planned, done = run.description.plan.get("repetitions"), len(_rounds(run))
    return f"{done} of {units.plural(planned, 'round')} measured" if planned else "the run has no end"


def _unchecked(run: Run) -> str:
    if run.outcome == "unfinished" and not run.of_kind("repetition"):
        return ""  # answers are checked at the end of a repetition
    executed = [sample for sample in counted(run, "query") if sample["status"] == "ok"]
    if not executed:
        nothing = counted(run, "measure") and not validation_counts(run).total
        return "no result was checked" if nothing else ""
    checked = {(s["query"], s.get("repetition")) for s in run.of_kind("answer") if s["verdict"] != UNCHECKED}
    missing = [
        sample
        for sample in executed
        if checked.isdisjoint({(sample["query"], sample.get("repetition")), (sample["query"], None)})
    ]
    if missing and not checked:
        return "no answer was checked"
    return _queries(missing, "answer was not checked", "answers were not checked")


def _doubtful_times(run: Run) -> str:
    cores = run.description.machine.get("cores")
    used = counted(run, "usage")
    disturbed = [sample for sample in used if sample.get("disturbed", _disturbed(sample, cores))]
    if not disturbed:
        return ""
    shares = [sample["other_core_seconds"] / sample["elapsed_ms"] * 1000 for sample in disturbed if _is_metered(sample)]
    taken = f"up to {max(shares):.1f} of {cores} cores" if shares and cores else "a part of the cores"
    numbers = [str(sample.get("repetition", 1)) for sample in disturbed]
    total = units.plural(len(used), "round")
    return f"other programs used {taken} in {len(disturbed)} of {total} (no. {units.some(numbers)})"


def _disturbed(sample: Sample, cores: int | None) -> bool:
    """The rule for samples of older records, which lack `disturbed`."""
    from penstock.lab.metering import disturbance_warning  # noqa: PLC0415  it loads the database client

    return bool(cores and _is_metered(sample) and disturbance_warning(sample, cores))


def _is_metered(sample: Sample) -> bool:
    return bool(sample.get("elapsed_ms")) and "other_core_seconds" in sample


def _busy_machine(run: Run) -> str:
    """The load before the first turn of a command: before later ones, and after a preparation, it is the lab's own."""
    first = next((index for index, sample in enumerate(run.samples) if sample["kind"] == "begin"), None)
    if first is None or any(sample["kind"] == "application" for sample in run.samples[:first]):
        return ""
    begin, cores = run.samples[first], run.description.machine.get("cores")
    load = begin.get("load_1m")
    if run.description.place or begin.get("order", 1) > 1 or load is None or not cores or load < _BUSY_SHARE * cores:
        return ""
    return f"a load of {load:.1f} on {units.plural(cores, 'core')} before the first repetition"


def _busy_store(run: Run) -> str:
    """Requests just before a repetition, which are another client's; that client may go on meanwhile."""
    found = [sample for sample in counted(run, "usage") if sample.get("store_foreign_requests")]
    if not found:
        return ""
    most = max(sample["store_foreign_requests"] for sample in found)
    numbers = [str(sample.get("repetition", 1)) for sample in found]
    times = f"{len(numbers)} of {units.plural(len(counted(run, 'usage')), 'round')} (no. {units.some(numbers)})"
    return f"another client sent up to {units.plural(most, 'request')} in the second before {times}"


def _resumed(run: Run) -> str:
    times = len(run.of_kind("resumed"))
    return f"interrupted and resumed{f' {times} times' if times > 1 else ''}" if times else ""


_RULES = (
    _Rule("wrong answer", _wrong_answers, "The times are of wrong work; the rows are listed below.", wrong=True),
    _Rule("failed check", _failed_checks, "The results are wrong; the findings are listed below.", wrong=True),
    _Rule(
        "failed query",
        _failed_queries,
        "No figure includes a failed execution; the errors are listed below.",
        wrong=True,
    ),
    _Rule(
        "failed requests",
        _many_failed_requests,
        "No figure includes a failed request; the errors are listed below.",
        wrong=True,
    ),
    _Rule(
        "failed round", _failed_rounds, "No figure includes a failed round; the reasons are listed below.", wrong=True
    ),
    _Rule("failed run", _bad_end, "Measure again.", wrong=True),
    _Rule(
        "damaged record", _damaged_lines, "Figures lack these samples: restore the file or measure again.", wrong=True
    ),
    _Rule("changed machine", _changed_machine, "A median mixes both machines: measure again on one.", wrong=True),
    _Rule("some failed requests", _few_failed_requests, "No figure includes them; the errors are listed below."),
    _Rule("missed rate", _missed_rates, "Ask for less, or with more workers: latencies are of fewer requests."),
    _Rule("unfinished", _unfinished, "To continue an interrupted run: penstock lab resume."),
    _Rule("unchecked answer", _unchecked, "The work may be wrong: measure again with validation."),
    _Rule("doubtful time", _doubtful_times, "Measure again on an idle machine."),
    _Rule("busy machine", _busy_machine, "Stop other programs and measure again."),
    _Rule("busy store", _busy_store, "Counts of requests may include that client's: measure again without it."),
    _Rule("changed commit", _changed_commit, "A median mixes both programs: measure again with one."),
    _Rule("changed versions", _changed_versions, "A median mixes them: measure again with one set."),
    _Rule("resumed run", _resumed, "Caches and load may differ between its rounds."),
)
"""In the order in which a page states them."""


def _by_workload(runs: Sequence[Run]) -> list[list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.description.workload, []).append(run)
    return list(found.values())


def _rounds(run: Run) -> set[int]:
    """The numbers of the rounds that completed a measure."""
    samples = [sample for kind in ("query", "measure", "start") for sample in counted(run, kind)]
    return {int(sample.get("repetition", 1)) for sample in samples if sample.get("status", "ok") == "ok"}


def _with_rounds(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if _rounds(run)]


def _about_comparisons(groups: Sequence[Sequence[Run]], called: Mapping[str, str], subject: str) -> list[Doubt]:
    found = [doubt for group in groups for doubt in _differences(group, called, subject)]
    rounds = [min(len(_rounds(group[0]) & _rounds(run)) for run in group[1:]) for group in groups]
    if few := [number for number in rounds if number < FEWEST]:
        sentence = (
            f"The arms have {units.plural(few[0], 'round')} in common, and a verdict needs {FEWEST}. "
            if len(groups) == 1
            else f"{len(few)} of {len(groups)} comparisons have fewer than the {FEWEST} rounds that a verdict needs. "
        )
        found.append(Doubt("too few rounds", f"{sentence}Measure with --repetitions {FEWEST} or more."))
    if apart := sum(not measured_in_turns(group) for group in groups):
        which = "The arms" if len(groups) == 1 else f"The arms of {apart} of {len(groups)} comparisons"
        sentence = f"{which} are of several experiments, so time of day and caches may explain a difference. "
        found.append(Doubt("not measured in turns", f"{sentence}Measure them in one experiment for a verdict."))
    return found


def _differences(group: Sequence[Run], called: Mapping[str, str], subject: str) -> list[Doubt]:
    """Differences between the runs of one comparison that it is not about.

    An experiment is about what distinguishes its arms; but where clusters differ in size and in something else, a
    ratio shows neither.
    """
    described = [run.description for run in group]
    turns = measured_in_turns(group)
    found = [
        ("different machines", _values(group, called, _own_machine), "on one machine"),
        ("different versions", _different_values([one.versions for one in described]), "with the same versions"),
        ("changed commit", _values(group, called, lambda one: one.commit or ""), "with one commit"),
    ]
    if subject != SIZE and not (turns and len({_choices(one) for one in described}) == 1):
        # The memory of an engine of one process has no driver's beside it, which no choice of sizes would change.
        size = _cores if len({bool(_executors(one)) for one in described}) > 1 else _size
        found.append(("different cluster sizes", _values(group, called, size), "on clusters of one size"))
    if not turns or subject:
        profiles = _values(group, called, lambda one: one.profile or "")
        settings = sorted({name for one in described for name in one.settings if _differs(name, described)})
        listed = _listed(settings, "Spark setting differs", "Spark settings differ")
        found += [
            ("different profiles", profiles, "with one profile"),
            ("different settings", listed, "with the same settings"),
        ]
    return [
        Doubt(kind, f"{text}. A ratio includes this difference; to exclude it, measure all arms {remedy}.")
        for kind, text, remedy in found
        if text
    ]


def _differs(setting: str, described: Sequence[Description]) -> bool:
    return len({one.settings.get(setting) for one in described}) > 1


def _values(group: Sequence[Run], called: Mapping[str, str], value: Callable[[Description], str]) -> str:
    """`plain Spark: 1 core; Penstock: 2 cores`; empty where all known values are equal."""
    found = _by_value(group, called, lambda run: value(run.description))
    return _by_arm(found) if len(found) > 1 else ""


def _choices(described: Description) -> tuple[str, ...]:
    """The choices of an arm besides its size."""
    mappings = (described.settings, described.options)
    chosen = (described.launcher, described.profile or "", str(described.lake.get("name")))
    return (*chosen, *(repr(sorted(mapping.items())) for mapping in mappings))


def _executors(described: Description) -> int:
    return int(described.size.get("executors", 0))


def _cores(described: Description) -> str:
    return units.plural(working_cores(described.size), "core") if described.size else ""


def _size(described: Description) -> str:
    if not described.size:
        return ""
    driver, executor = described.size["driver"], described.size["executor"]
    memory = driver["memory_bytes"] + _executors(described) * executor["memory_bytes"]
    return f"{_cores(described)}, {units.size(memory)}"


def _own_machine(described: Description) -> str:
    return _machine(described.machine) if described.on_this_machine else ""


def _machine(machine: Mapping[str, Any]) -> str:
    """The machine in words; empty where it is unknown. The usable memory varies with the kernel, so it is rounded."""
    memory = round(machine["memory_bytes"] / 2**30) if "memory_bytes" in machine else None
    cores = units.plural(machine["cores"], "core") if "cores" in machine else ""
    return ", ".join(filter(None, (str(machine.get("processor", "")), cores, f"{memory} GiB" if memory else "")))


def _different_values(mappings: Sequence[Mapping[str, str]]) -> str:
    """`spark 4.1.1 and 4.1.2` for each name with several values."""
    values: dict[str, dict[str, None]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            values.setdefault(name, {})[str(value)] = None
    return ", ".join(f"{name} {' and '.join(found)}" for name, found in sorted(values.items()) if len(found) > 1)
