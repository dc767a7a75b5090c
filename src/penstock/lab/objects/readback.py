"""Whether what a store has acknowledged is there and right: objects written in a stage are read once after it. Pure."""

from __future__ import annotations

from typing import Any

from penstock.errors import LakeError
from penstock.lab.objects.coordinate import Result
from penstock.lab.objects.distributions import Numbers
from penstock.lab.objects.tally import WRONG_CONTENT, WRONG_LENGTH
from penstock.lab.objects.workload import Kind, Limit, Operation, Stage, Targets, Work

_MOST_OBJECTS = 10_000
_MISSING = "missing object"
_NONE = Targets(Numbers(1, 1), Numbers(1, 1))


def stage_after(result: Result) -> Stage | None:
    """A stage that reads what was written, evenly chosen where it is very much; None where nothing was."""
    names = sorted(result.written)
    if not names:
        return None
    names = names[:: -(-len(names) // _MOST_OBJECTS)]
    workers = min(len(names), result.stage.workers)
    read = Operation(Kind.GET, 1.0, _NONE, names=tuple(names))
    return Stage(f"reading back {result.stage.name}", (Work("read back", workers, (read,), Limit()),), measured=False)


def check(written: Result, read: Result) -> dict[str, Any]:
    """The `check` sample. Raises `LakeError` where it cannot be told, since the store failed while it was asked."""
    tally = read.tallies[0][0]
    lost = tally.errors[_MISSING]
    clear = (_MISSING, WRONG_CONTENT, WRONG_LENGTH)
    if unclear := {kind: count for kind, count in tally.errors.items() if count and kind not in clear}:
        kinds = ", ".join(f"{count} times “{kind}”" for kind, count in unclear.items())
        raise LakeError(
            f"What was written in the stage “{written.stage.name}” could not be read back",
            why=f"{kinds}; the first: {tally.first_error[next(iter(unclear))]}",
            fix="penstock lake check shows what the store can do",
        )
    asked = len(read.stage.works[0].operations[0].names)
    note = f"{asked} of {len(written.written)} objects written read back, {tally.verified_bytes} bytes compared"
    if lost or tally.wrong:
        first = next(iter(tally.first_error.values()))
        note = f"of {asked} acknowledged objects {lost} are missing and {tally.wrong} wrong, the first: {first}"
    name = f"written objects, {written.stage.name}, {written.stage.workers} workers"
    return {"kind": "check", "name": name, "right": not lost and not tally.wrong, "note": note}
