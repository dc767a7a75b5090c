"""Concurrent users: each has a different order, all finish or none, and all answers are checked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.lab import conditions
from penstock.lab.workloads import concurrency, tpcds
from penstock.lab.workloads.concurrency import Streams
from penstock.model import CORES_PER_CORE, Capacity, Node, State, promised
from tests.unit.lab.tpcds_world import World

SUITE = Streams(scale=0.1, users=3, queries=("q1", "q2", "q3"))
GIB = 1 << 30


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def is_user(name: str, *numbers: int) -> bool:
    """Return whether the name is of one of these users among three concurrent ones."""
    return any(f"3 users: user {number}," in name for number in numbers)


def test_no_cluster_of_a_crowd_has_an_executor_larger_than_a_node() -> None:
    pods = Capacity(64, 512 * GIB, node=Node(4, 16 * GIB), elastic=True)
    assert conditions.equal_share(pods, 2).executor.cores == 3


def test_a_crowd_has_its_share_of_what_an_autoscaler_may_add_and_is_refused_beyond_that() -> None:
    now = Capacity(0, 0, elastic=True, most=Capacity(64, 64 * GIB, node=Node(8, 32 * GIB)))
    share = conditions.equal_share(now, 4)
    assert (share.executor.cores, promised(share).memory_bytes <= 16 * GIB) == (7, True)
    conditions.require_clusters_fit(share, 4, now)
    with pytest.raises(InvalidInput, match=r"64\.0 GiB can be promised"):
        conditions.require_clusters_fit(share, 20, now)
    conditions.require_clusters_fit(share, 20, replace(now, most=None))


some_queries = st.lists(st.sampled_from(tpcds.ALL), min_size=5, unique=True)


@given(st.integers(1, 20), some_queries, st.integers())
def test_each_user_asks_every_query_once_and_no_two_in_one_order(count: int, names: list[str], seed: int) -> None:
    drawn = concurrency.draw_users(count, names, seed)
    assert [user.number for user in drawn] == list(range(1, count + 1))
    assert all(sorted(user.order) == sorted(names) for user in drawn)
    assert len({user.order for user in drawn}) == count


@given(st.integers(1, 20), st.integers(1, 20), some_queries, st.integers())
def test_the_same_seed_gives_the_same_orders_to_however_many(
    count: int, more: int, names: list[str], seed: int
) -> None:
    assert concurrency.draw_users(count + more, names, seed)[:count] == concurrency.draw_users(count, names, seed)


def test_another_seed_gives_other_orders() -> None:
    assert concurrency.draw_users(5, tpcds.ALL, 1) != concurrency.draw_users(5, tpcds.ALL, 2)


def test_more_users_than_orders_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 users need different orders"):
        Streams(users=3, queries=("q1", "q2")).check_options()


@given(st.integers(1, 64), st.integers(2 * GIB, 512 * GIB), st.integers(1, 64))
def test_shares_fit_together_or_the_crowd_is_refused(cores: int, memory: int, count: int) -> None:
    capacity = Capacity(cores, memory)
    size = conditions.equal_share(capacity, count)
    promise = count * promised(size).memory_bytes
    least = count * 2 * (512 + 384 << 20)
    if memory >= least:
        assert promise <= memory
        conditions.require_clusters_fit(size, count, capacity)
    else:
        with pytest.raises(InvalidInput, match="do not fit"):
            conditions.require_clusters_fit(size, count, capacity)


def test_users_that_do_not_fit_are_refused_with_the_number_that_would(world: World) -> None:
    with pytest.raises(InvalidInput) as refused:
        world.measure(Streams(users=20, queries=tpcds.ALL))
    assert refused.value.fix == "--users 9"
    assert not (world.home.root / "lab").exists(), "nothing was recorded"


def test_one_user_alone_comes_first_and_then_all_at_once(world: World) -> None:
    run = world.measure(SUITE)
    assert run.outcome == "ok"
    users = [(sample["user"], sample["phase"]) for sample in run.of_kind("user")]
    assert users[0] == (1, "alone")
    assert sorted(users[1:]) == [(1, "together"), (2, "together"), (3, "together")]
    assert [sample["name"] for sample in run.of_kind("measure")] == ["1 user", "3 users"]


def test_what_each_user_asked_is_recorded_in_their_order(world: World) -> None:
    run = world.measure(SUITE)
    orders = {sample["user"]: tuple(sample["queries"]) for sample in run.of_kind("order")}
    assert orders == {user.number: user.order for user in concurrency.draw_users(3, SUITE.queries, SUITE.seed)}
    for number, order in orders.items():
        asked = [s["query"] for s in run.of_kind("query") if s["user"] == number and s["phase"] == "together"]
        assert tuple(asked) == order


def test_all_users_are_at_work_at_the_same_time(world: World) -> None:
    """A user who waits for another's end would hang until the time-out."""
    here = threading.Barrier(3, timeout=20)

    def meet(prefix: str) -> State:
        if "/3-users/" in prefix:
            here.wait()
        return State.FINISHED

    world.before = meet
    assert world.measure(SUITE).outcome == "ok"


def test_cores_are_promised_as_often_as_the_crowd_needs_and_no_oftener_to_others(world: World) -> None:
    world.measure(SUITE)
    load, alone, *crowded = (world.engine.cores_per_core[f"app-{n}"] for n in range(1, 6))
    assert load == alone == CORES_PER_CORE
    assert crowded == [3.0] * 3, "three users of two cores each, on two cores"


def test_a_wrong_answer_of_a_single_user_is_found(world: World) -> None:
    world.answers_to = {"3-users/2": {"q2": [["2.60"]]}}
    run = world.measure(SUITE)
    assert run.outcome == "wrong"
    (wrong,) = [sample for sample in run.of_kind("answer") if sample["verdict"] != "equal"]
    assert (wrong["query"], wrong["whose"]) == ("q2", ["user 2"])


def test_equal_answers_are_checked_once_for_everyone(world: World) -> None:
    run = world.measure(SUITE)
    everyone = ["the user alone", "user 1", "user 2", "user 3"]
    assert sorted(s["query"] for s in run.of_kind("answer")) == ["q1", "q2", "q3"]
    assert all(sample["whose"] == everyone for sample in run.of_kind("answer"))


def test_answers_in_another_order_of_rows_are_checked_apart_since_the_query_may_order_them() -> None:
    def line(*rows: list[int]) -> dict[str, object]:
        return {"query": "q1", "columns": ["x"], "types": ["int"], "rows": list(rows)}

    found = concurrency.distinct_answers({"a": [line([1], [2])], "b": [line([2], [1])], "c": [line([1], [2])]})
    assert [one["whose"] for one in found] == [["a", "c"], ["b"]]
    assert len(concurrency.distinct_answers({"a": [line([1], [1])], "b": [line([1])]})) == 2


def test_a_user_whose_query_failed_spoils_the_total_and_nobody_elses_time(world: World) -> None:
    world.failing = {"q1"}
    run = world.measure(SUITE)
    assert run.outcome == "failed"
    assert not run.of_kind("measure")
    assert {s["query"] for s in run.of_kind("query") if s["status"] == "ok"} == {"q2", "q3"}


def test_a_failed_cluster_stops_the_others_and_is_reported(world: World) -> None:
    world.before = lambda prefix: (
        State.FINISHED if "/1-user/" in prefix else State.FAILED if prefix.endswith("/3-users/2") else None
    )
    run = world.measure(SUITE)
    (repetition,) = run.of_kind("repetition")
    assert repetition["status"] == "failed"
    assert "3 users: user 2" in repetition["error"]
    others = {f"app-{n}" for n, spec in enumerate(world.engine.submitted, start=1) if is_user(spec.name, 1, 3)}
    assert others == set(world.engine.stopped)


def test_an_interruption_while_they_begin_leaves_nobody_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users that were not aborted would hang until the time-out."""

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            if self._max_workers > 1 and self._threads:
                raise KeyboardInterrupt
            return super().submit(*args, **kwargs)

    monkeypatch.setattr(conditions, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.measure(SUITE)
    assert world.mains() == ["LoadTables", "PowerRun"], "the load, and the user alone"


def test_interrupted_nothing_is_left_running(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work = threading.Semaphore(0)

    def work(prefix: str) -> State | None:
        if "/1-user/" in prefix:
            return State.FINISHED
        at_work.release()
        return None

    def interrupted(begun: Sequence[Future[None]], **how: Any) -> None:
        if len(begun) == 1:
            futures.wait(begun, **how)
            return
        for _each in begun:
            at_work.acquire(timeout=20)
        raise KeyboardInterrupt

    world.before = work
    monkeypatch.setattr(conditions, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.measure(SUITE)
    running = {f"app-{n}" for n, spec in enumerate(world.engine.submitted, start=1) if is_user(spec.name, 1, 2, 3)}
    assert len(running) == 3
    assert running == set(world.engine.stopped)
