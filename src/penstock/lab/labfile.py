"""Lab files: experiments written as YAML. Pure: text in, experiments out.

A file is one experiment, or a list of them under `experiments` beside the keys that they share, `arms` included. An
experiment names its `workload` and its `options`; `vary` gives several values to some of these or of the arms' own
keys, and every combination is an arm; or `arms` lists them. `each` multiplies the experiments themselves, for values
that are not compared (two scales, say). `InvalidInput` names the line and the key of an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock import units
from penstock.errors import InvalidInput
from penstock.formats import Entry
from penstock.lab import conditions
from penstock.lab.experiment import CACHE_POLICIES, Arm, Experiment, MeasurementPlan
from penstock.lab.launchers import LAUNCHERS, PENSTOCK, PLAIN, refused_by
from penstock.lab.workloads.base import Suite
from penstock.model import ClusterSize, ProcessSize
from penstock.profiles import workloads as profiles
from penstock.profiles.base import SCRATCH_DISK


def parse_plan(given: Mapping[str, Entry]) -> MeasurementPlan:
    usual = MeasurementPlan()
    return MeasurementPlan(
        repetitions=given["repetitions"].integer(at_least=1) if "repetitions" in given else usual.repetitions,
        warmup=given["warmup"].integer(at_least=0) if "warmup" in given else usual.warmup,
        caches=given["caches"].one_of(CACHE_POLICIES) if "caches" in given else usual.caches,
    )


def parse_launcher(own: Mapping[str, Entry]) -> str:
    return own["launcher"].one_of(LAUNCHERS) if "launcher" in own else PENSTOCK


def parse_name(entry: Entry) -> str:
    if not isinstance(entry.value, str):
        entry.fail("is not a name")
    return entry.value


def parse_profile(entry: Entry, usual: str) -> str:
    """Parse a profile with variants: `tpcds+s3a-default`; `+s3a-default` is a variant of the workload's `usual` one."""
    chosen, *variants = parse_name(entry).split("+")
    if chosen or not variants:
        replace(entry, value=chosen).one_of(profiles.profile_names())
    for variant in variants:
        replace(entry, value=variant).one_of(profiles.variant_names())
    return "+".join([chosen or usual, *variants])


def parse_size(own: Mapping[str, Entry], usual: ClusterSize) -> ClusterSize:
    def memory(key: str, otherwise: int) -> int:
        return _memory(own[key]) if key in own else otherwise

    def count(key: str, otherwise: int) -> int:
        return own[key].integer(at_least=1) if key in own else otherwise

    return ClusterSize(
        driver=ProcessSize(usual.driver.cores, memory("driver_memory", usual.driver.memory_bytes)),
        executor=ProcessSize(
            count("executor_cores", usual.executor.cores), memory("executor_memory", usual.executor.memory_bytes)
        ),
        executors=count("executors", usual.executors),
    )


def parse_settings(
    given: Mapping[str, Entry], round_trip: Entry | None = None, scratch: Entry | None = None
) -> dict[str, str]:
    """Return Spark's settings, with those of the file's round trip and scratch directory."""
    own = {key: _spark_value(entry) for key, entry in given.items()}
    if scratch is not None:
        own[SCRATCH_DISK] = parse_name(scratch)
    if round_trip is None:
        return own
    try:
        return conditions.with_round_trip(own, parse_name(round_trip))
    except InvalidInput:
        round_trip.fail(f"is not a time but {round_trip.value!r}", fix="write it as 5ms")


def _memory(entry: Entry) -> int:
    found = units.parse_size(entry.value) if isinstance(entry.value, str) else None
    if found is None or found <= 0:
        entry.fail(f"is not a size but {entry.value!r}", fix="write it as 512m or 4g")
    return found


def _spark_value(entry: Entry) -> str:
    if entry.value is None or isinstance(entry.value, (list, dict)):
        entry.fail("is not one value")
    return str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value)


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
"""The keys of an arm besides its workload's options and Spark's settings."""
_PLAN = ("repetitions", "warmup", "caches")
_SHARED = (*_PLAN, *_CHOICES, "settings")
_EXPERIMENT = ("workload", "options", "each", "vary", "arms", *_SHARED)
_ARM = ("name", "options", *_CHOICES, "settings")
_SPARK = "spark."
_MOST_ARMS = 1000

_NAMES = {PENSTOCK: "Penstock", PLAIN: "plain Spark"}


class Workloads(Protocol):
    """The available workloads, and their options by their names on the command line."""

    def names(self) -> Sequence[str]: ...

    def options(self, workload: str) -> Sequence[str]: ...

    def suite(self, workload: str, options: Mapping[str, Any]) -> Suite:
        """Raises `InvalidInput` for an invalid value."""
        ...


DefaultSize = Callable[[Suite], ClusterSize]
"""Returns the default size of a workload's clusters."""


def parse_experiments(file: Entry, workloads: Workloads, usual: DefaultSize) -> list[Experiment]:
    """Return the experiments of a file, in its order.

    Raises `InvalidInput` with the line and the key of the first error.
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
                entry.fail(f"makes more than {_MOST_ARMS} arms", fix="vary less at once")
    return found


@dataclass(frozen=True)
class _Chosen:
    """An arm's keys so far; `with_` overrides them."""

    own: Mapping[str, Entry] = field(default_factory=dict)
    options: Mapping[str, Entry] = field(default_factory=dict)
    settings: Mapping[str, Entry] = field(default_factory=dict)

    def with_(self, other: _Chosen) -> _Chosen:
        return _Chosen(
            {**self.own, **other.own}, {**self.options, **other.options}, {**self.settings, **other.settings}
        )

    def title(self) -> str:
        """Return the arm's name by its keys: `plain Spark, executor cores 2, object size 128m`."""
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
    def __init__(self, workloads: Workloads, usual: DefaultSize) -> None:
        self._workloads = workloads
        self._usual = usual

    def experiments(self, entry: Entry, shared: Mapping[str, Entry]) -> Iterator[Experiment]:
        """Yield the experiments of one entry: one, or one for each combination of `each`."""
        _require_known(entry, _EXPERIMENT)
        own = entry.mapping()
        # An experiment that lists its own arms, or varies something, does not use the shared arms.
        given = {name: value for name, value in shared.items() if name != "arms" or "vary" not in own} | {**own}
        workload = self._workload(entry, given)
        known = self._workloads.options(workload)
        plan = parse_plan(given)
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
                given.get("arms", given.get("vary", entry)).fail(
                    f"has two arms called “{twice}”", fix="let each differ, or give it a name: of its own"
                )
            yield Experiment(arms, plan)

    def _workload(self, entry: Entry, given: Mapping[str, Entry]) -> str:
        if "workload" not in given:
            entry.fail("names no workload", fix=f"workload: {self._workloads.names()[0]}")
        named = given["workload"]
        workload = str(named.value)
        if workload not in self._workloads.names():
            replace(named, key=f"workload {workload}").unknown(workload, self._workloads.names())
        return workload

    def _arms(self, entry: Entry, given: Mapping[str, Entry], workload: str, common: _Chosen) -> Iterator[Arm]:
        known = self._workloads.options(workload)
        if "arms" in given and "vary" in given:
            given["vary"].fail("and arms exclude each other", fix="list every arm, or vary what differs")
        if "arms" not in given:
            for title, varied in _combinations(given.get("vary"), known):
                chosen = common.with_(varied)
                yield self._arm(title, workload, chosen, entry)
            return
        for listed in _listed(given["arms"]):
            _require_known(listed, _ARM)
            own = _chosen(listed.mapping(), known)
            chosen = common.with_(own)
            name = str(listed.mapping()["name"].value) if "name" in listed.mapping() else own.title()
            yield self._arm(name, workload, chosen, listed)

    def _arm(self, name: str, workload: str, chosen: _Chosen, at: Entry) -> Arm:
        """Return the arm, named by its engine where the name is empty."""
        suite, launcher = self._suite(workload, chosen.options, at), parse_launcher(chosen.own)
        settings = parse_settings(chosen.settings, chosen.own.get("round_trip"), chosen.own.get("scratch"))
        for key in refused_by(launcher, settings):
            (chosen.settings.get(key) or chosen.own["scratch"]).fail(
                "is a choice of Penstock, which plain Spark cannot take", fix="list the arms, and give it to the others"
            )
        return Arm(
            name=name or (suite.usual_arm if launcher == PENSTOCK else _NAMES[launcher]),
            suite=suite,
            size=parse_size(chosen.own, self._usual(suite)),
            lake=parse_name(chosen.own["lake"]) if "lake" in chosen.own else None,
            profile=parse_profile(chosen.own["profile"], suite.profile) if "profile" in chosen.own else None,
            settings=settings,
            launcher=launcher,
            gateways=chosen.own["gateways"].integer(at_least=1) if "gateways" in chosen.own else None,
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
    """Return the option that causes the same error by itself; None where only a combination does."""

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
        entry.fail("is not a list", fix="write one item a line, each after a dash")
    return list(entry.value)


def _chosen(given: Mapping[str, Entry], known: Sequence[str]) -> _Chosen:
    options = given["options"].mapping() if "options" in given else {}
    for name, entry in options.items():
        if name not in known:
            entry.unknown(name, known)
    settings = given["settings"].mapping() if "settings" in given else {}
    for name, entry in settings.items():
        if not name.startswith(_SPARK):
            entry.fail("is not a setting of Spark", fix=f"they begin with {_SPARK}")
    return _Chosen({name: given[name] for name in _CHOICES if name in given}, options, settings)


def _combinations(entry: Entry | None, known: Sequence[str]) -> Iterator[tuple[str, _Chosen]]:
    """Yield every combination of the values of `vary` or `each`, with its title.

    The first name varies slowest. Without an entry there is one combination, without a title.
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
        entry.fail(f"makes {combined} combinations", fix=f"vary less at once; at most {_MOST_ARMS} are measured")
    for combination in itertools.product(*axes):
        chosen = _Chosen()
        for choice in combination:
            chosen = chosen.with_(choice)
        yield ", ".join(choice.title() for choice in combination), chosen
