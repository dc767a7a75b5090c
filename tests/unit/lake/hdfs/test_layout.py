"""The shape of an HDFS and the next step of its start, decided without a process."""

from __future__ import annotations

import pytest

from penstock.errors import Conflict, InvalidInput
from penstock.lake.hdfs.layout import (
    NAMENODE,
    Action,
    Shape,
    ShapeRequest,
    StartupState,
    StartupStep,
    is_serving,
    next_step,
    resolve_shape,
    validate_name,
    validate_namenode,
)

TWO = Shape(2, 2)
ALL = frozenset(TWO.daemons())


class TestShape:
    def test_without_a_word_it_is_as_hdfs_is_shipped_and_co_located(self) -> None:
        assert resolve_shape(None, ShapeRequest(), running=False) == Shape(3, 3, remote=False)

    @pytest.mark.parametrize(("datanodes", "replication"), [(1, 1), (2, 2), (5, 3)])
    def test_there_are_three_copies_where_there_are_datanodes_for_them(self, datanodes: int, replication: int) -> None:
        assert resolve_shape(None, ShapeRequest(datanodes=datanodes), running=False).replication == replication

    def test_what_is_not_said_again_stays(self) -> None:
        before = Shape(4, 2, remote=True)
        assert resolve_shape(before, ShapeRequest(), running=False) == before

    def test_datanodes_can_be_added_and_never_taken_away(self) -> None:
        assert resolve_shape(TWO, ShapeRequest(datanodes=4), running=True) == Shape(4, 2)
        with pytest.raises(InvalidInput, match="cannot shrink to 1"):
            resolve_shape(TWO, ShapeRequest(datanodes=1), running=False)

    def test_another_replication_holds_from_then_on_also_while_it_runs(self) -> None:
        assert resolve_shape(TWO, ShapeRequest(replication=1), running=True) == Shape(2, 1)

    @pytest.mark.parametrize(
        "asked",
        [
            ShapeRequest(datanodes=0),
            ShapeRequest(datanodes=17),
            ShapeRequest(datanodes=2, replication=3),
            ShapeRequest(replication=0),
        ],
    )
    def test_what_cannot_be_is_the_users_mistake(self, asked: ShapeRequest) -> None:
        with pytest.raises(InvalidInput):
            resolve_shape(None, asked, running=False)

    def test_only_a_stopped_one_moves_nearer_or_farther(self) -> None:
        assert resolve_shape(TWO, ShapeRequest(remote=True), running=False).remote
        with pytest.raises(Conflict):
            resolve_shape(TWO, ShapeRequest(remote=True), running=True)
        assert resolve_shape(TWO, ShapeRequest(remote=False), running=True) == TWO


@pytest.mark.parametrize(
    ("shape", "missing", "right"),
    [
        (Shape(3, 3), {"datanode.1", "datanode.2"}, True),
        (Shape(3, 2), {"datanode.1"}, True),
        (Shape(3, 2), {"datanode.1", "datanode.3"}, False),
        (Shape(3, 1), {"datanode.2"}, False),
        (Shape(3, 1), set(), True),
        (Shape(3, 3), {NAMENODE}, False),
        (Shape(3, 3), {NAMENODE, "datanode.1", "datanode.2", "datanode.3"}, False),
    ],
)
def test_as_many_datanodes_can_be_spared_as_there_are_further_copies(
    shape: Shape, missing: set[str], right: bool
) -> None:
    assert is_serving(shape, set(shape.daemons()) - missing) is right


class TestNextStep:
    def test_nothing_starts_before_it_is_formatted(self) -> None:
        assert next_step(TWO, StartupState(formatted=False, running=ALL)).action is Action.FORMAT

    def test_all_that_is_missing_is_started_at_once(self) -> None:
        assert next_step(TWO, StartupState(True, frozenset())) == StartupStep(
            Action.START, (NAMENODE, "datanode.1", "datanode.2")
        )

    def test_one_that_was_killed_is_started_and_the_others_are_left_alone(self) -> None:
        seen = StartupState(True, ALL - {"datanode.2"}, listening=ALL - {"datanode.2"}, live=2, safe_mode=False)
        assert next_step(TWO, seen) == StartupStep(Action.START, ("datanode.2",))

    def test_one_that_was_started_and_is_gone_again_is_not_started_for_ever(self) -> None:
        seen = StartupState(True, ALL - {"datanode.1"}, started=frozenset({"datanode.1"}))
        assert next_step(TWO, seen) == StartupStep(Action.FAILED, ("datanode.1",))

    @pytest.mark.parametrize(
        ("seen", "reason"),
        [
            (StartupState(True, ALL), "does not answer"),
            (
                StartupState(True, ALL, listening=ALL - {"datanode.2"}, live=2, safe_mode=False),
                "not listening yet: datanode.2",
            ),
            (StartupState(True, ALL, listening=ALL, live=1, safe_mode=False), "1 of 2"),
            (StartupState(True, ALL, listening=ALL, live=2, safe_mode=True), "which blocks"),
            (StartupState(True, ALL, listening=ALL, live=2, safe_mode=False, missing=1), "which blocks"),
        ],
    )
    def test_it_is_not_ready_before_it_takes_writes_on_every_datanode(self, seen: StartupState, reason: str) -> None:
        step = next_step(TWO, seen)
        assert step.action is Action.WAIT
        assert reason in step.reason

    def test_it_is_ready_when_every_datanode_is_known_and_blocks_are_too(self) -> None:
        assert next_step(TWO, StartupState(True, ALL, listening=ALL, live=2, safe_mode=False)) == StartupStep(
            Action.READY
        )


@pytest.mark.parametrize("name", ["", "a", "HDFS", "with_underscore", "9lives", "a/b", "..", "end-", "x" * 33])
def test_a_name_that_cannot_begin_an_address_or_leaves_the_home_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        validate_name(name)


@pytest.mark.parametrize("address", ["nn", "nn:", ":8020", "hdfs://nn:8020", "nn:8020,other:8020", "n n:1"])
def test_a_namenode_is_a_host_and_a_port(address: str) -> None:
    assert validate_namenode("nn-1.example:8020") == "nn-1.example:8020"
    with pytest.raises(InvalidInput):
        validate_namenode(address)
