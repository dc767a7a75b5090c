"""Experiments: arms, the order in which they are measured, the caches a repetition finds, and preflight.

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
from penstock.clusters.settings import BUILT_IN
from penstock.errors import InvalidInput, MissingRequirement
from penstock.home import Home
from penstock.lab import conditions, launchers
from penstock.lab.environment import Bench
from penstock.lab.workloads.base import Suite
from penstock.lake import stores
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, ClusterSize

Item = TypeVar("Item")


def interleaved(arms: Sequence[Item], repetitions: int) -> Iterator[tuple[int, Item]]:
    """(repetition, arm): every arm once in each repetition, and each first equally often.

    What drifts over time (a filling disk, a warming machine) then falls on all arms alike.
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
    """Raise where this process could not do as the policy says: `InvalidInput` or `MissingRequirement`."""
    if policy not in CACHE_POLICIES:
        raise InvalidInput(f"“{policy}” is nothing to do with caches", fix=f"choose one of {', '.join(CACHE_POLICIES)}")
    if policy == DROP:
        try:
            os.close(os.open(_SWITCH, os.O_WRONLY))
        except OSError as error:
            raise MissingRequirement(
                "The operating system's caches cannot be dropped here",
                why=f"{_SWITCH}: {error.strerror}; it takes root, and in a container the host's consent",
                fix="run the command as root, or measure with the caches as they are (caches: keep)",
            ) from error


def prepare_caches(policy: str, home: Home) -> None:
    """Before a repetition: drop every cache of this machine, or none.

    This is the one place where caches are dropped. Penstock's page cache goes first, both tiers. The operating system's
    holds the embedded store's data, tables and jars alike; what is not written yet is written first, since only clean
    pages are dropped. What a store on other machines keeps in memory is out of reach.

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
    """How many of its lake's gateways it uses; None for all."""


@dataclass(frozen=True)
class Plan:
    """How often each arm is measured, and what a repetition finds in the caches (`caches.POLICIES`).

    Warm-up repetitions are recorded and counted in nothing.
    """

    repetitions: int = 1
    warmup: int = 0
    caches: str = KEEP


@dataclass(frozen=True)
class Experiment:
    """Arms that are measured in turns, to be set against each other."""

    arms: Sequence[Arm]
    plan: Plan

    def order(self) -> list[tuple[int, Arm]]:
        """(repetition, arm) as they will be measured; 0 and below are warm-up."""
        turns = interleaved(self.arms, self.plan.warmup + self.plan.repetitions)
        return [(repetition - self.plan.warmup, arm) for repetition, arm in turns]


def require_sense(arms: Sequence[Arm], plan: Plan) -> None:
    if not arms or plan.repetitions < 1:
        raise InvalidInput("There is nothing to measure", fix="give at least one arm and one repetition")
    if len({arm.name for arm in arms}) < len(arms):
        raise InvalidInput("Two arms have one name", fix="give each arm a name of its own")
    require_caches(plan.caches)
    for arm in arms:
        arm.suite.check_options()


def require_lakes_apart(lakes: Sequence[Lake]) -> None:
    """Refuse stores whose buckets have one name: what was read of one would be in the page cache for the other.

    A page is known by bucket, key, length and entity tag, and the lab's data sets are the same in every lake.
    """
    first: dict[str, Lake] = {}
    for lake in (lake for lake in lakes if lake.is_s3):
        other = first.setdefault(lake.root, lake)
        if set(lake.endpoints).isdisjoint(other.endpoints):
            raise InvalidInput(
                f"The lakes “{other.name}” and “{lake.name}” both have a bucket called {lake.bucket}",
                why="the page cache would answer for the one with what it read from the other",
                fix="give one of them a bucket of another name: penstock lake add NAME --bucket BUCKET",
            )


def require_room(bench: Bench, arm: Arm) -> None:
    """Refuse settings and a size that no cluster could be started with here, and data that the disk has no room for.

    What is free is known of stores on this machine alone; data is on its disk as often as the store keeps it.
    """
    settings = {**arm.suite.meaning, **arm.settings}
    profile = arm.profile or arm.suite.profile
    arm.suite.check_size(arm.size, bench.engine.backend.capacity())
    arm.suite.check_lake(bench.lake)
    bench.engine.resolve(ApplicationSpec(BUILT_IN, arm.size, arm.name, profile=profile, settings=settings))
    conditions.require(bench, settings)
    root = bench.home.root
    needed = 0.0
    if stores.store_of(bench.home, bench.lake) is not None:
        needed = arm.suite.needs_bytes() * (stores.facts(bench.home, bench.lake).raw_factor or 1)
    free = shutil.disk_usage(root).free if needed else 0
    if needed > free:
        raise MissingRequirement(
            f"{arm.suite.title} of this size needs about {units.size(needed)} of disk",
            why=f"{units.size(free)} are free where {root} is",
            fix="choose a smaller size, free space, or use another state directory with PENSTOCK_HOME=/path",
        )
