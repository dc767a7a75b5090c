"""The load of the command line's options."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from penstock.errors import InvalidInput
from penstock.lab.loadgen.workload import (
    OperationKind,
    SimpleOptions,
    SizeBucket,
    Sizes,
    parse_mix,
    parse_object_sizes,
    simple_workload,
)
from penstock.lab.workloads.objects import Objects
from penstock.lab.workloads.registry import restore_suite

USUAL = SimpleOptions(
    mixes=({OperationKind.GET: 1.0},),
    sizes=Sizes.constant(1 << 20),
    objects=200,
    containers=1,
    workers=(16,),
    seconds=30,
    range_bytes=65536,
)


def test_reading_is_prepared_and_writing_is_not() -> None:
    assert [stage.name for stage in simple_workload(USUAL).stages] == ["prepare", "main"]
    assert [stage.name for stage in simple_workload(replace(USUAL, mixes=({OperationKind.PUT: 1.0},))).stages] == [
        "main"
    ]


def test_what_deletes_finds_its_objects_there_at_each_stage() -> None:
    mixes = ({OperationKind.GET: 9.0, OperationKind.DELETE: 1.0}, {OperationKind.DELETE: 1.0})
    stages = simple_workload(replace(USUAL, mixes=mixes, workers=(1, 2))).stages
    assert [stage.name for stage in stages] == ["prepare", *["prepare to delete", "main"] * 4]
    assert [stage.workers for stage in stages if stage.measured] == [1, 2, 1, 2]


def test_no_get_is_of_an_object_that_is_written_or_deleted_beside_it() -> None:
    mixed = simple_workload(replace(USUAL, mixes=(dict.fromkeys(OperationKind, 1.0),))).stages[-1].works[0]
    prefixes = {operation.kind: operation.targets.object_prefix for operation in mixed.operations}
    assert prefixes[OperationKind.GET] == prefixes[OperationKind.RANGE]
    assert prefixes[OperationKind.PUT] == prefixes[OperationKind.DELETE] != prefixes[OperationKind.GET]


@pytest.mark.parametrize("workers", [1, 3, 500])
def test_no_two_writers_share_an_object(workers: int) -> None:
    writing = (
        simple_workload(replace(USUAL, mixes=({OperationKind.PUT: 1.0},), workers=(workers,), containers=3))
        .stages[-1]
        .works[0]
    )
    shares = [writing.operations[0].targets.share(index, workers).objects for index in range(workers)]
    assert all(left.high < right.low for left, right in itertools.pairwise(shares))


def test_the_space_needed_is_that_of_both_sets() -> None:
    writing = simple_workload(replace(USUAL, mixes=({OperationKind.GET: 1.0, OperationKind.PUT: 1.0},)))
    assert writing.written_bytes == 400 << 20


def test_mixes() -> None:
    assert parse_mix("get") == {OperationKind.GET: 1.0}
    assert parse_mix("get=80, put=15,list=4,delete=1") == {
        OperationKind.GET: 80,
        OperationKind.PUT: 15,
        OperationKind.LIST: 4,
        OperationKind.DELETE: 1,
    }


@pytest.mark.parametrize("text", ["", "head", "get=", "get=0", "get=-1", "get=nan", "get=1,get=2", "get=inf"])
def test_what_is_no_mix_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_mix(text)


def test_sizes_of_the_command_line_are_powers_of_two() -> None:
    assert parse_object_sizes("64k") == Sizes.constant(65536)
    assert parse_object_sizes("4k-1m") == Sizes((SizeBucket(4096, 1 << 20, 1),))
    assert parse_object_sizes("c(64)KB").largest == 64_000


@pytest.mark.parametrize("text", ["", "0", "-1m", "x", "1m-4k", "4k-", "6g", "1m-1m-1m"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_object_sizes(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"objects": 0}, {"containers": 0}, {"seconds": 0.0}, {"rate": -1.0}, {"rampup": -1.0}, {"workers": (0,)},
        {"workers": (5000,)}, {"workers": ()}, {"mixes": ("head",)}, {"size": "0"}, {"range_size": "x"},
        {"seconds": float("nan")}, {"mixes": ()},
    ],
)  # fmt: skip
def test_impossible_options_are_refused_before_anything_starts(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(Objects(), **wrong).check_options()  # type: ignore[arg-type]


def test_a_recorded_run_can_be_gone_on_with() -> None:
    suite = Objects(mixes=("get", "put"), workers=(1, 4))
    assert restore_suite("objects", suite.options()) == suite
