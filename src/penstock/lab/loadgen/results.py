"""Results of a stage for the records: rates, latencies, errors, and acknowledged objects read back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import LakeError
from penstock.lab.loadgen.processes import StageResult
from penstock.lab.loadgen.statistics import RELATIVE_ERROR, WRONG_CONTENT, WRONG_LENGTH, Histogram, OperationStats
from penstock.lab.loadgen.workload import Limit, Numbers, Operation, OperationKind, Stage, Targets, Work

_WITH_CONTENTS = (OperationKind.GET, OperationKind.RANGE, OperationKind.LIST)
"""The operations whose responses have contents; those of a PUT are read back later."""


@dataclass(frozen=True)
class MeasuredOperation:
    """One operation of one work of a stage, with the name by which reports and comparisons group it."""

    name: str
    work: Work
    operation: Operation
    tally: OperationStats
    elapsed: float
    """The seconds of its rate: the work's time limit, or the time until its last end where it ended before."""

    @property
    def operations_per_second(self) -> float:
        return self.tally.operations / self.elapsed if self.elapsed else 0.0

    @property
    def fruitless(self) -> bool:
        """Whether requests were made and none succeeded in time."""
        return not self.tally.operations and bool(self.tally.late or self.tally.errors.total())


def measured_operations(result: StageResult) -> list[MeasuredOperation]:
    """Return each operation, in the workload's order. The work's name, then a number, makes a repeated name unique."""
    found: list[MeasuredOperation] = []
    taken: set[str] = set()
    for work, tallies, ran_out in zip(result.stage.works, result.tallies, result.ran_out, strict=True):
        last = max(tally.elapsed for tally in tallies)
        elapsed = last if ran_out or work.limit.seconds is None else work.limit.seconds
        for operation, tally in zip(work.operations, tallies, strict=True):
            name = _free(_name(result.stage.name, work, operation), work, taken)
            taken.add(name)
            found.append(MeasuredOperation(name, work, operation, tally, elapsed))
    return found


def samples(result: StageResult, ceilings: Mapping[str, float], processes: int) -> Iterator[dict[str, Any]]:
    """Yield the samples of a stage.

    `ceilings` are the generator's own operations per second against a null store, by name, where measured.
    """
    stage_seconds = 0.0
    for one in measured_operations(result):
        tally = one.tally
        stage_seconds = max(stage_seconds, one.elapsed)
        if tally.operations:
            yield _measure(one, result, ceilings, processes)
            yield from _points(one)
        for phase, histogram in (("first_byte", tally.first_byte), ("total", tally.total)):
            if len(histogram):
                yield _latency(one.name, phase, histogram)
        if tally.slowest:
            slowest = [vars(slow) for slow in sorted(tally.slowest, reverse=True)]
            yield {"kind": "slowest", "name": one.name, "requests": slowest}
        if tally.errors:
            first = dict(tally.first_error)
            yield {"kind": "errors", "name": one.name, "errors": dict(tally.errors), "first": first}
        if one.operation.kind in _WITH_CONTENTS and (tally.operations or tally.late or tally.wrong):
            yield _check(one)
    yield {
        "kind": "generator",
        "stage": result.stage.name,
        "elapsed_ms": round(stage_seconds * 1000),
        "core_seconds": round(result.core_seconds, 3),
        "operations": result.operations,
        "processes": processes,
    }


def _measure(
    one: MeasuredOperation, result: StageResult, ceilings: Mapping[str, float], processes: int
) -> dict[str, Any]:
    tally = one.tally
    sample: dict[str, Any] = {
        "kind": "measure",
        "name": one.name,
        "basis": "rate",
        "elapsed_ms": round(one.elapsed * 1000, 3),
        "operations": tally.operations,
        "stage": result.stage.name,
        "operation": one.operation.kind.value,
        "workers": one.work.workers,
        "processes": processes,
        "late": tally.late,
        "errors": dict(tally.errors),
    }
    if tally.bytes:
        sample["bytes"] = tally.bytes
    if one.work.rate is not None:
        sample["asked_rate"] = one.work.rate
    if ceiling := ceilings.get(one.name):
        sample["of_ceiling"] = round(one.operations_per_second / ceiling, 4)
    return sample


def _points(one: MeasuredOperation) -> Iterator[dict[str, Any]]:
    """Yield a point for each full second, including those without operations, so that stalls show."""
    for second in range(int(one.elapsed)):
        operations, count = one.tally.seconds.get(second, (0, 0))
        yield {"kind": "point", "series": one.name, "second": second, "operations": operations, "bytes": count}


def _latency(name: str, phase: str, histogram: Histogram) -> dict[str, Any]:
    scale = {"unit": "us", "relative_error": RELATIVE_ERROR}
    return {"kind": "latency", "name": name, "phase": phase, **scale, "histogram": histogram.pairs()}


def _check(one: MeasuredOperation) -> dict[str, Any]:
    tally = one.tally
    if tally.wrong:
        note = "; ".join(tally.first_error[kind] for kind in sorted(tally.first_error) if kind.startswith("wrong"))
        note = f"{tally.wrong} responses were wrong, the first: {note}"
    elif one.operation.kind in (OperationKind.GET, OperationKind.RANGE):
        note = f"{tally.verified_bytes} bytes compared"
    else:
        note = f"{tally.operations + tally.late} complete listings"
    return {"kind": "check", "name": f"contents, {one.name}", "right": not tally.wrong, "note": note}


def _name(stage: str, work: Work, operation: Operation) -> str:
    where = "" if stage == "main" else f"{stage}: "
    rate = f", {work.rate:g} a second" if work.rate is not None else ""
    return f"{where}{operation}, {work.workers} worker{'s' if work.workers > 1 else ''}{rate}"


def _free(name: str, work: Work, taken: set[str]) -> str:
    if name not in taken:
        return name
    name = f"{name}, {work.name}"
    candidates = [name, *(f"{name} ({number})" for number in range(2, 1000))]
    return next(candidate for candidate in candidates if candidate not in taken)


_MOST_OBJECTS = 10_000
_MISSING = "missing object"
_NONE = Targets(Numbers(1, 1), Numbers(1, 1))


def read_back_stage(result: StageResult) -> Stage | None:
    """Return a stage that reads the written objects, at most 10,000, evenly chosen; None if none were written."""
    names = sorted(result.written)
    if not names:
        return None
    names = names[:: -(-len(names) // _MOST_OBJECTS)]
    workers = min(len(names), result.stage.workers)
    read = Operation(OperationKind.GET, 1.0, _NONE, names=tuple(names))
    return Stage(f"reading back {result.stage.name}", (Work("read back", workers, (read,), Limit()),), measured=False)


def read_back_check(written: StageResult, read: StageResult) -> dict[str, Any]:
    """Return the `check` sample. Raises `LakeError` where the store's failures leave the result unknown."""
    tally = read.tallies[0][0]
    lost = tally.errors[_MISSING]
    clear = (_MISSING, WRONG_CONTENT, WRONG_LENGTH)
    if unclear := {kind: count for kind, count in tally.errors.items() if count and kind not in clear}:
        kinds = ", ".join(f"{count} times “{kind}”" for kind, count in unclear.items())
        raise LakeError(
            f"The objects of the stage “{written.stage.name}” could not be read back",
            why=f"{kinds}; the first: {tally.first_error[next(iter(unclear))]}",
            fix="penstock lake check shows what the store can do",
        )
    read_back = len(read.stage.works[0].operations[0].names)
    note = f"{read_back} of {len(written.written)} written objects read back, {tally.verified_bytes} bytes compared"
    if lost or tally.wrong:
        first = next(iter(tally.first_error.values()))
        note = f"of {read_back} acknowledged objects {lost} are missing and {tally.wrong} wrong, the first: {first}"
    name = f"written objects, {written.stage.name}, {written.stage.workers} workers"
    return {"kind": "check", "name": name, "right": not lost and not tally.wrong, "note": note}
