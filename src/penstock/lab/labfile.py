"""Lab files: what is to be measured, as YAML that people write. Pure: text in, experiments out.

A file is one experiment, or a list of them under `experiments` with what they share beside it, their arms too. An
experiment names its `workload` with its `options`; `vary` gives several values to some of these or of the arms' own
choices, and every combination is an arm; or `arms` lists them. `each` multiplies the experiments themselves, for what
is not to be set against each other (two scales, say).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock.errors import InvalidInput
from penstock.formats import Entry
from penstock.lab import labvalues
from penstock.lab.experiment import Arm, Experiment
from penstock.lab.launcher import PENSTOCK, PLAIN
from penstock.lab.suites.base import Suite
from penstock.model import ClusterSize

_CHOICES = (
    "launcher",
    "lake",
    "gateways",
    "profile",
    "driver_memory",
    "executors",
    "executor_cores",
    "executor_memory",
    "round_trip",
    "scratch",
)
"""What an arm can choose beside its workload's options and Spark's settings."""
_PLAN = ("repetitions", "warmup", "caches")
_SHARED = (*_PLAN, *_CHOICES, "settings")
_EXPERIMENT = ("workload", "options", "each", "vary", "arms", *_SHARED)
_ARM = ("name", "options", *_CHOICES, "settings")
_SPARK = "spark."
_MOST_ARMS = 1000

_NAMES = {PENSTOCK: "Penstock", PLAIN: "plain Spark"}


class Workloads(Protocol):
    """The workloads there are, and their options by the names they have on the command line."""

    def names(self) -> Sequence[str]: ...

    def options(self, workload: str) -> Sequence[str]: ...

    def suite(self, workload: str, options: Mapping[str, Any]) -> Suite:
        """Raises `InvalidInput` for a value that cannot be."""
        ...


Usual = Callable[[Suite], ClusterSize]
"""The size of a workload's clusters where the file says nothing."""


def experiments(file: Entry, workloads: Workloads, usual: Usual) -> list[Experiment]:
    """What a file asks for, in its order.

    Raises `InvalidInput` with the line and the key of the first thing that is wrong.
    """
    given = file.mapping()
    shared: dict[str, Entry] = {}
    entries = [file]
    if "experiments" in given:
        _require_known(file, ("experiments", "arms", *_SHARED))
        shared = {name: entry for name, entry in given.items() if name != "experiments"}
        entries = _listed(given["experiments"])
    reader = _Reader(workloads, usual)
    found: list[Experiment] = []
    arms = 0
    for entry in entries:
        for experiment in reader.experiments(entry, shared):
            found.append(experiment)
            arms += len(experiment.arms)
            if arms > _MOST_ARMS:  # before a file makes millions of them
                entry.wrong(f"makes more than {_MOST_ARMS} arms", fix="vary less at once")
    return found


@dataclass(frozen=True)
class _Chosen:
    """What was chosen for an arm so far; `with_` puts another choice on top."""

    own: Mapping[str, Entry] = field(default_factory=dict)
    options: Mapping[str, Entry] = field(default_factory=dict)
    settings: Mapping[str, Entry] = field(default_factory=dict)

    def with_(self, other: _Chosen) -> _Chosen:
        return _Chosen(
            {**self.own, **other.own}, {**self.options, **other.options}, {**self.settings, **other.settings}
        )

    def title(self) -> str:
        """What tells this choice from others: `plain Spark, executor cores 2, object size 128m`."""
        parts = []
        for name, entry in {**self.own, **self.options, **self.settings}.items():
            shown = ", ".join(map(str, entry.plain())) if isinstance(entry.value, list) else str(entry.value)
            if name == "launcher":
                parts.append(_NAMES.get(shown, shown))
            elif name in ("lake", "profile"):
                parts.append(shown)
            else:
                parts.append(f"{name if name.startswith(_SPARK) else name.replace('_', ' ')} {shown}")
        return ", ".join(parts)


class _Reader:
    def __init__(self, workloads: Workloads, usual: Usual) -> None:
        self._workloads = workloads
        self._usual = usual

    def experiments(self, entry: Entry, shared: Mapping[str, Entry]) -> Iterator[Experiment]:
        """Those of one entry: one, or one for each combination of `each`."""
        _require_known(entry, _EXPERIMENT)
        own = entry.mapping()
        # An experiment with arms of its own, or that varies something, has none of the others'.
        given = {name: value for name, value in shared.items() if name != "arms" or "vary" not in own} | {**own}
        workload = self._workload(entry, given)
        known = self._workloads.options(workload)
        plan = labvalues.plan(given)
        common = _Chosen()
        for layer in (shared, entry.mapping()):
            common = common.with_(_chosen(layer, known))
        for title, each in _combinations(given.get("each"), known):
            arms = [
                replace(arm, name=", ".join(filter(None, (arm.name, title))))
                for arm in self._arms(entry, given, workload, common.with_(each))
            ]
            names = [arm.name for arm in arms]
            if twice := next((name for name in names if names.count(name) > 1), None):
                given.get("arms", given.get("vary", entry)).wrong(
                    f"has two arms called “{twice}”", fix="let each differ, or give it a name: of its own"
                )
            yield Experiment(arms, plan)

    def _workload(self, entry: Entry, given: Mapping[str, Entry]) -> str:
        if "workload" not in given:
            entry.wrong("names no workload", fix=f"workload: {self._workloads.names()[0]}")
        named = given["workload"]
        workload = str(named.value)
        if workload not in self._workloads.names():
            replace(named, key=f"workload {workload}").unknown(workload, self._workloads.names())
        return workload

    def _arms(self, entry: Entry, given: Mapping[str, Entry], workload: str, common: _Chosen) -> Iterator[Arm]:
        known = self._workloads.options(workload)
        if "arms" in given and "vary" in given:
            given["vary"].wrong("and arms exclude each other", fix="list every arm, or vary what differs")
        if "arms" not in given:
            for title, varied in _combinations(given.get("vary"), known):
                chosen = common.with_(varied)
                yield self._arm(title or _NAMES[labvalues.launcher(chosen.own)], workload, chosen, entry)
            return
        for listed in _listed(given["arms"]):
            _require_known(listed, _ARM)
            own = _chosen(listed.mapping(), known)
            chosen = common.with_(own)
            name = str(listed.mapping()["name"].value) if "name" in listed.mapping() else own.title()
            yield self._arm(name or _NAMES[labvalues.launcher(chosen.own)], workload, chosen, listed)

    def _arm(self, name: str, workload: str, chosen: _Chosen, at: Entry) -> Arm:
        suite = self._suite(workload, chosen.options, at)
        return Arm(
            name=name,
            suite=suite,
            size=labvalues.size(chosen.own, self._usual(suite)),
            lake=labvalues.name(chosen.own["lake"]) if "lake" in chosen.own else None,
            profile=labvalues.profile(chosen.own["profile"], suite.profile) if "profile" in chosen.own else None,
            settings=labvalues.settings(chosen.settings, chosen.own.get("round_trip"), chosen.own.get("scratch")),
            launcher=labvalues.launcher(chosen.own),
            gateways=chosen.own["gateways"].whole(at_least=1) if "gateways" in chosen.own else None,
        )

    def _suite(self, workload: str, options: Mapping[str, Entry], at: Entry) -> Suite:
        def made(chosen: Mapping[str, Entry]) -> Suite:
            suite = self._workloads.suite(workload, {name: entry.plain() for name, entry in chosen.items()})
            suite.check_options()
            return suite

        try:
            return made(options)
        except InvalidInput as error:
            place = _culprit(made, options, error) or at
            raise InvalidInput(
                f"{place.source}, line {place.line}: {error.problem}", why=error.why, fix=error.fix
            ) from error


def _culprit(
    made: Callable[[Mapping[str, Entry]], Suite], options: Mapping[str, Entry], error: InvalidInput
) -> Entry | None:
    """The option that is wrong by itself, in the same way; None where it takes several of them."""

    def problem(alone: Mapping[str, Entry]) -> str | None:
        try:
            made(alone)
        except InvalidInput as found:
            return found.problem
        return None

    return next((entry for name, entry in options.items() if problem({name: entry}) == error.problem), None)


def _require_known(entry: Entry, known: Sequence[str]) -> None:
    for name, inner in entry.items():
        if name not in known:
            inner.unknown(name, known)


def _listed(entry: Entry) -> list[Entry]:
    if not isinstance(entry.value, list) or not entry.value:
        entry.wrong("is not a list", fix="write one item a line, each after a dash")
    return list(entry.value)


def _chosen(given: Mapping[str, Entry], known: Sequence[str]) -> _Chosen:
    options = given["options"].mapping() if "options" in given else {}
    for name, entry in options.items():
        if name not in known:
            entry.unknown(name, known)
    settings = given["settings"].mapping() if "settings" in given else {}
    for name, entry in settings.items():
        if not name.startswith(_SPARK):
            entry.wrong("is no setting of Spark", fix=f"those begin with {_SPARK}")
    return _Chosen({name: given[name] for name in _CHOICES if name in given}, options, settings)


def _combinations(entry: Entry | None, known: Sequence[str]) -> Iterator[tuple[str, _Chosen]]:
    """Every combination of the values that each name of `vary` or `each` has, with what to call it.

    The first varies slowest. Where nothing varies, there is one, without a name.
    """
    if entry is None:
        yield "", _Chosen()
        return
    axes = []
    for name, listed in entry.items():
        if name in _CHOICES:
            place = "own"
        elif name in known:
            place = "options"
        elif name.startswith(_SPARK):
            place = "settings"
        else:
            listed.unknown(name, (*known, *_CHOICES))
        axes.append([_Chosen(**{place: {name: value}}) for value in _listed(listed)])
    combined = 1
    for axis in axes:
        combined *= len(axis)
    if combined > _MOST_ARMS:
        entry.wrong(f"makes {combined} combinations", fix=f"vary less at once; at most {_MOST_ARMS} are measured")
    for combination in itertools.product(*axes):
        chosen = _Chosen()
        for choice in combination:
            chosen = chosen.with_(choice)
        yield ", ".join(choice.title() for choice in combination), chosen
