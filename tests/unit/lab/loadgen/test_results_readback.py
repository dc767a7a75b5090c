"""Acknowledged objects are read back and compared."""

from __future__ import annotations

import pytest

from penstock.errors import LakeError
from penstock.lab.loadgen import results
from penstock.lab.loadgen.processes import StageResult
from penstock.lab.loadgen.schedule import RequestSequence
from penstock.lab.loadgen.statistics import WRONG_CONTENT, OperationStats
from penstock.lab.loadgen.workload import Limit, Numbers, Operation, OperationKind, Sizes, Stage, Targets, Work

PUT = Operation(OperationKind.PUT, 1, Targets(Numbers(1, 1), Numbers(1, 9)), Sizes.constant(1000))
STAGE = Stage("main", (Work("w", 3, (PUT,), Limit(seconds=3)),))


def written(*names: str) -> StageResult:
    return StageResult(STAGE, [[OperationStats()]], [False], frozenset(names), 0.0)


def read(before: StageResult, **errors: int) -> StageResult:
    stage = results.read_back_stage(before)
    assert stage is not None
    tally = OperationStats(verified_bytes=3000)
    for kind, count in errors.items():
        for _ in range(count):
            tally.failed(kind.replace("_", " "), f"c1/o2: {kind}")
    return StageResult(stage, [[tally]], [False], frozenset(), 0.0)


def test_each_object_written_is_read_once() -> None:
    stage = results.read_back_stage(written("c1/o1", "c1/o2", "c1/o3", "c1/o4"))
    assert stage is not None
    (work,) = stage.works
    names = [request.name for index in range(work.workers) for request in RequestSequence(work, index, seed=1)]
    assert sorted(names) == ["c1/o1", "c1/o2", "c1/o3", "c1/o4"]
    assert not stage.measured


def test_of_very_many_objects_some_are_read_evenly_chosen() -> None:
    stage = results.read_back_stage(written(*(f"c1/o{number:06}" for number in range(25_000))))
    assert stage is not None
    names = stage.works[0].operations[0].names
    assert 8000 <= len(names) <= 10_000
    assert (names[0], names[-1] > "c1/o024900") == ("c1/o000000", True)


def test_nothing_is_read_where_nothing_was_written() -> None:
    assert results.read_back_stage(written()) is None


def test_everything_there_is_right() -> None:
    before = written("c1/o1", "c1/o2")
    found = results.read_back_check(before, read(before))
    assert found["right"]
    assert found["note"] == "2 of 2 written objects read back, 3000 bytes compared"


@pytest.mark.parametrize("errors", [{"missing_object": 1}, {WRONG_CONTENT.replace(" ", "_"): 1}])
def test_a_lost_or_a_wrong_object_is_wrong(errors: dict[str, int]) -> None:
    before = written("c1/o1", "c1/o2")
    found = results.read_back_check(before, read(before, **errors))
    assert not found["right"]
    assert "c1/o2" in found["note"]


def test_a_store_that_fails_meanwhile_is_no_wrong_store() -> None:
    before = written("c1/o1", "c1/o2")
    with pytest.raises(LakeError, match="could not be read back"):
        results.read_back_check(before, read(before, overloaded=2, missing_object=1))
