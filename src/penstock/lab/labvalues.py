"""What the values in a lab file mean: plans, launchers, profiles, sizes, settings. Pure.

Each function raises `InvalidInput` with the line and the key of what it cannot read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock import units
from penstock.errors import InvalidInput
from penstock.formats import Entry
from penstock.lab import caches, roundtrip
from penstock.lab.experiment import Plan
from penstock.lab.launcher import LAUNCHERS, PENSTOCK
from penstock.model import ClusterSize, ProcessSize
from penstock.profiles import workloads as profiles
from penstock.profiles.base import DISK


def plan(given: Mapping[str, Entry]) -> Plan:
    usual = Plan()
    return Plan(
        repetitions=given["repetitions"].whole(at_least=1) if "repetitions" in given else usual.repetitions,
        warmup=given["warmup"].whole(at_least=0) if "warmup" in given else usual.warmup,
        caches=given["caches"].one_of(caches.POLICIES) if "caches" in given else usual.caches,
    )


def launcher(own: Mapping[str, Entry]) -> str:
    return own["launcher"].one_of(LAUNCHERS) if "launcher" in own else PENSTOCK


def name(entry: Entry) -> str:
    if not isinstance(entry.value, str):
        entry.wrong("is not a name")
    return entry.value


def profile(entry: Entry, usual: str) -> str:
    """A profile, and variants of it: `tpcds+s3a-default`; `+s3a-default` is a variant of the workload's `usual` one."""
    chosen, *variants = name(entry).split("+")
    if chosen or not variants:
        replace(entry, value=chosen).one_of(profiles.names())
    for variant in variants:
        replace(entry, value=variant).one_of(profiles.variant_names())
    return "+".join([chosen or usual, *variants])


def size(own: Mapping[str, Entry], usual: ClusterSize) -> ClusterSize:
    def memory(key: str, otherwise: int) -> int:
        return _memory(own[key]) if key in own else otherwise

    def count(key: str, otherwise: int) -> int:
        return own[key].whole(at_least=1) if key in own else otherwise

    return ClusterSize(
        driver=ProcessSize(usual.driver.cores, memory("driver_memory", usual.driver.memory_bytes)),
        executor=ProcessSize(
            count("executor_cores", usual.executor.cores), memory("executor_memory", usual.executor.memory_bytes)
        ),
        executors=count("executors", usual.executors),
    )


def settings(
    given: Mapping[str, Entry], round_trip: Entry | None = None, scratch: Entry | None = None
) -> dict[str, str]:
    """Spark's, with those that make the store as far away as the file asks for, and shuffle where it says."""
    own = {key: _spark_value(entry) for key, entry in given.items()}
    if scratch is not None:
        own[DISK] = name(scratch)
    if round_trip is None:
        return own
    try:
        return roundtrip.added(own, name(round_trip))
    except InvalidInput:
        round_trip.wrong(f"cannot be {round_trip.value!r}", fix="write it as 5ms")


def _memory(entry: Entry) -> int:
    found = units.parse_size(entry.value) if isinstance(entry.value, str) else None
    if found is None or found <= 0:
        entry.wrong(f"is not a size but {entry.value!r}", fix="write it as 512m or 4g")
    return found


def _spark_value(entry: Entry) -> str:
    if entry.value is None or isinstance(entry.value, (list, dict)):
        entry.wrong("is not one value")
    return str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value)
