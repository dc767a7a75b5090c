"""Experiments: arms, their order, the state of the caches before a repetition, and preflight checks.

An experiment that cannot be measured is refused before anything is recorded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from penstock import units
from penstock.clusters import machine
from penstock.clusters.local import LocalBackend
from penstock.engine.engines.registry import SPARK
from penstock.errors import InvalidInput, MissingRequirement
from penstock.home import Home
from penstock.lab import conditions, launchers
from penstock.lab.environment import Environment
from penstock.lab.workloads.base import Suite
from penstock.lake import stores
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, ClusterSize

Item = TypeVar("Item")


def interleaved(arms: Sequence[Item], repetitions: int) -> Iterator[tuple[int, Item]]:
    """Yield (repetition, arm): every arm once in each repetition, and each equally often first.

    Drift over time (a filling disk, a warming machine) then affects all arms alike.
    """
    for repetition in range(1, repetitions + 1):
        shift = (repetition - 1) % len(arms)
        for arm in (*arms[shift:], *arms[:shift]):
            yield repetition, arm


KEEP = "keep"
DROP = "drop"
CACHE_POLICIES = (KEEP, DROP)

_SWITCH = Path("/proc/sys/vm/drop_caches")
_PAGES_AND_NAMES = "3\n"


def require_caches(policy: str) -> None:
    """Raise `InvalidInput` for an unknown policy, `MissingRequirement` where this process cannot drop caches."""
    if policy not in CACHE_POLICIES:
        raise InvalidInput(f"“{policy}” is not a cache policy", fix=f"choose one of {', '.join(CACHE_POLICIES)}")
    if policy == DROP:
        try:
            os.close(os.open(_SWITCH, os.O_WRONLY))
        except OSError as error:
            raise MissingRequirement(
                "The operating system's caches cannot be dropped here",
                why=f"{_SWITCH}: {error.strerror}; this needs root, and in a container the host's permission",
                fix="run the command as root, or measure with the caches as they are (caches: keep)",
            ) from error


def prepare_caches(policy: str, home: Home) -> None:
    """Drop every cache of this machine, or none, before a repetition.

    Caches are dropped nowhere else. Penstock's page cache is dropped first, both tiers. The operating system's cache
    holds the embedded store's data, tables and jars alike; dirty pages are written first, since only clean ones are
    dropped. Caches of a store on other machines are out of reach.

    Raises `StateError` where pages cannot be removed.
    """
    if policy == DROP:
        machine.drop_pages(machine.page_cache(home))
        os.sync()
        _SWITCH.write_text(_PAGES_AND_NAMES, encoding="ascii")


@dataclass(frozen=True)
class Arm:
    """One side of a comparison: a suite on one lake, cluster size, profile and launcher. It becomes one run."""

    name: str
    suite: Suite
    size: ClusterSize
    lake: str | None = None
    profile: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    launcher: str = launchers.PENSTOCK
    gateways: int | None = None
    """The number of the lake's gateways that it uses; None for all."""

    @property
    def on_spark(self) -> bool:
        return self.suite.query_engine is SPARK

    @property
    def applied_profile(self) -> str:
        return self.profile or (self.suite.profile if self.on_spark else self.suite.query_engine.profile)

    @property
    def applied_settings(self) -> dict[str, str]:
        """The settings of the suite and of the arm."""
        return {**self.suite.meaning, **self.settings} if self.on_spark else dict(self.settings)

    @property
    def applied_size(self) -> ClusterSize:
        """The size of the measured applications: another engine takes its own from that of a Spark cluster."""
        return self.suite.query_engine.usual_size(self.size)


@dataclass(frozen=True)
class MeasurementPlan:
    """The number of repetitions of each arm, and the policy for caches before each (`CACHE_POLICIES`).

    Warm-up repetitions are recorded and excluded from every result.
    """

    repetitions: int = 1
    warmup: int = 0
    caches: str = KEEP


@dataclass(frozen=True)
class Experiment:
    """Arms that are measured in turns and compared."""

    arms: Sequence[Arm]
    plan: MeasurementPlan

    def order(self) -> list[tuple[int, Arm]]:
        """Return (repetition, arm) in the order of measurement; repetitions of 0 and below are warm-up."""
        turns = interleaved(self.arms, self.plan.warmup + self.plan.repetitions)
        return [(repetition - self.plan.warmup, arm) for repetition, arm in turns]


def require_valid(arms: Sequence[Arm], plan: MeasurementPlan) -> None:
    if not arms or plan.repetitions < 1:
        raise InvalidInput("There is nothing to measure", fix="give at least one arm and one repetition")
    if len({arm.name for arm in arms}) < len(arms):
        raise InvalidInput("Two arms have the same name", fix="give each arm a name of its own")
    require_caches(plan.caches)
    for arm in arms:
        arm.suite.check_options()
        launchers.require_settings(arm.launcher, arm.settings)
        if not arm.on_spark:
            _require_foreign(arm)
        if arm.launcher == launchers.PLAIN and arm.suite.needs_iceberg:
            raise InvalidInput(
                f"{arm.name} cannot run {arm.suite.title} here",
                why="the tables are Iceberg's, whose jars and catalog plain Spark does not have",
                fix="omit this arm: without --against-plain, or with launcher: penstock",
            )


def _require_foreign(arm: Arm) -> None:
    """Refuse choices of an arm that only Spark has. The engine refuses settings itself."""
    chosen = {
        "launcher": None if arm.launcher == launchers.PENSTOCK else arm.launcher,
        "profile": arm.profile,
        "gateways": arm.gateways,
    }
    if key := next((key for key, value in chosen.items() if value is not None), None):
        raise InvalidInput(
            f"{arm.name} cannot have the {key} {chosen[key]}",
            why=f"its engine is {arm.suite.query_engine.title}, and this is a choice for Spark",
            fix=f"omit the {key} for this engine",
        )


def require_distinct_buckets(lakes: Sequence[Lake]) -> None:
    """Refuse stores whose buckets have the same name, since the page cache would mix up their pages.

    A page is identified by bucket, key, length and entity tag, and the lab's data sets are the same in every lake.
    """
    first: dict[str, Lake] = {}
    for lake in (lake for lake in lakes if lake.is_s3):
        other = first.setdefault(lake.root, lake)
        if set(lake.endpoints).isdisjoint(other.endpoints):
            raise InvalidInput(
                f"The lakes “{other.name}” and “{lake.name}” both have a bucket called {lake.bucket}",
                why="the page cache would serve pages of one for the other",
                fix="use another bucket for one of them: penstock lake add NAME --bucket BUCKET",
            )


def require_feasible(bench: Environment, arm: Arm) -> None:
    """Refuse settings and sizes that no cluster can start with here, and data for which the disk has no room.

    Free space is known only for stores on this machine; the data needs it once per copy that the store keeps.
    """
    if arm.launcher == launchers.PLAIN and bench.engine.backend.name != LocalBackend.name:
        raise InvalidInput(
            f"{arm.name} cannot be compared with Penstock here",
            why="plain Spark runs on this machine, and Penstock's clusters do not",
            fix="measure both on one machine: a home without a cluster file",
        )
    settings = arm.applied_settings
    arm.suite.check_size(arm.size, bench.engine.backend.capacity())
    arm.suite.check_lake(bench.lake)
    program, profile = arm.suite.query_engine.program, arm.applied_profile
    bench.engine.resolve(ApplicationSpec(program, arm.applied_size, arm.name, profile=profile, settings=settings))
    conditions.require_scratch(bench, settings)
    root = bench.home.root
    needed = 0.0
    if stores.store_of(bench.home, bench.lake) is not None:
        needed = arm.suite.needs_bytes() * (stores.store_facts(bench.home, bench.lake).raw_factor or 1)
    free = shutil.disk_usage(root).free if needed else 0
    if needed > free:
        raise MissingRequirement(
            f"{arm.suite.title} of this size needs about {units.size(needed)} of disk",
            why=f"the disk of {root} has {units.size(free)} free",
            fix="choose a smaller size, free some space, or use another state directory with PENSTOCK_HOME=/path",
        )
