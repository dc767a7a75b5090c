"""What cannot be measured is refused before anything is recorded."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from penstock import units
from penstock.clusters.launch import BUILT_IN
from penstock.errors import InvalidInput, MissingRequirement
from penstock.lab import caches, scratchdevice
from penstock.lab.bench import Bench
from penstock.lab.experiment import Arm, Plan
from penstock.lake import stores
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec


def require_sense(arms: Sequence[Arm], plan: Plan) -> None:
    if not arms or plan.repetitions < 1:
        raise InvalidInput("There is nothing to measure", fix="give at least one arm and one repetition")
    if len({arm.name for arm in arms}) < len(arms):
        raise InvalidInput("Two arms have one name", fix="give each arm a name of its own")
    caches.require(plan.caches)
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
    arm.suite.check_size(arm.size, bench.engine.capacity())
    arm.suite.check_lake(bench.lake)
    bench.engine.checked(ApplicationSpec(BUILT_IN, arm.size, arm.name, profile=profile, settings=settings))
    scratchdevice.require(bench, settings)
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
