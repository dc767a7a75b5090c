"""The usual load without a workload file: prepare objects, then one or more mixes at one or more worker counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock import units
from penstock.lab.objects.distributions import Numbers, Sizes, checked_sizes, parse_sizes
from penstock.lab.objects.workload import Division, Kind, Limit, Operation, Stage, Targets, Work, Workload

_PREPARING_WORKERS = 16


@dataclass(frozen=True)
class Simple:
    """Options of the command line. `mixes` run one after another, each with each of `workers`."""

    mixes: tuple[Mapping[Kind, float], ...]
    sizes: Sizes
    objects: int
    containers: int
    workers: tuple[int, ...]
    seconds: float
    range_bytes: int
    rampup_seconds: float = 0.0
    rate: float | None = None


def workload(options: Simple) -> Workload:
    """GET, range GET and LIST work on one set of objects, PUT and DELETE on a second one of the same size.

    So no GET misses an object because of a DELETE beside it, and a store is never filled by more than both sets,
    however long it is written to.
    """
    containers = Numbers(1, options.containers)
    each = -(-options.objects // options.containers)
    read = Targets(containers, Numbers(1, each))
    churned_each = max(each, *options.workers)  # whoever writes has an object of its own
    churned = Targets(containers, Numbers(1, churned_each), object_prefix="w", division=Division.OBJECT)
    stages: list[Stage] = []
    if {kind for mix in options.mixes for kind in mix} - {Kind.PUT, Kind.DELETE}:
        stages.append(_prepare("prepare", options, read))
    for mix in options.mixes:
        for workers in options.workers:
            if Kind.DELETE in mix:
                stages.append(_prepare("prepare to delete", options, churned))
            stages.append(_main(options, mix, workers, read, churned))
    return Workload("objects", tuple(stages))


def _main(options: Simple, mix: Mapping[Kind, float], workers: int, read: Targets, churned: Targets) -> Stage:
    operations = tuple(
        Operation(
            kind,
            ratio,
            churned if kind in (Kind.PUT, Kind.DELETE) else read,
            None if kind in (Kind.LIST, Kind.DELETE) else options.sizes,
            options.range_bytes if kind is Kind.RANGE else 0,
            churn=kind in (Kind.PUT, Kind.DELETE),
        )
        for kind, ratio in mix.items()
    )
    limit = Limit(seconds=options.seconds)
    work = Work("main", workers, operations, limit, rampup_seconds=options.rampup_seconds, rate=options.rate)
    return Stage("main", (work,))


def _prepare(name: str, options: Simple, targets: Targets) -> Stage:
    put = Operation(Kind.PUT, 1.0, targets, options.sizes)
    workers = min(_PREPARING_WORKERS, targets.count)
    return Stage(name, (Work(name, workers, (put,)),), measured=False)


def parse_mix(text: str) -> dict[Kind, float]:
    """`get=80,put=15,list=4,delete=1`, or one kind alone; `ValueError` says what is wrong."""
    mix: dict[Kind, float] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if name not in [kind.value for kind in Kind]:
            raise ValueError(f"“{name}” is none of {', '.join(kind.value for kind in Kind)}")
        ratio = units.parse_number(number) if equals else 1.0
        if ratio is None or not 0 < ratio < 1e9:
            raise ValueError(f"the share of {name} should be a number above zero")
        if Kind(name) in mix:
            raise ValueError(f"{name} is given twice")
        mix[Kind(name)] = ratio
    return mix


def parse_object_sizes(text: str) -> Sizes:
    """`1m` (powers of two), `4k-1m` (uniform), or COSBench's `c(64)KB`, `u(1,64)KB`, `h(…)KB` (powers of ten)."""
    if "(" in text:
        return parse_sizes(text)
    low, dash, high = text.partition("-")
    found = [units.parse_size(end) for end in ([low, high] if dash else [low])]
    if any(end is None for end in found):
        raise ValueError(f"“{text[:60]}” is no size such as 64k, 1m, 4k-1m or u(1,64)KB")
    ends: Sequence[int] = [end for end in found if end is not None]
    sizes = Sizes.constant(ends[0])
    if dash:
        sizes = Sizes((replace(sizes.buckets[0], high=ends[1]),))
    return checked_sizes(sizes)
