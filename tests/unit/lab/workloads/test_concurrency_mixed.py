"""The mixed workload: every part by itself, then all at the same time, each recorded with its phase."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidInput
from penstock.lab import environment, launchers
from penstock.lab.analysis import cost
from penstock.lab.analysis.samples import measures_by_name
from penstock.lab.report import report
from penstock.lab.session import Session
from penstock.lab.workloads.concurrency import Mixed
from penstock.lab.workloads.pipelines import Enrichment
from penstock.model import Application, State
from tests.unit.lab.tpcds_world import World

SUITE = Mixed(scale=0.1, users=2, queries=("q1", "q2"), users_queries=("q2", "q3"))
GIB = 1 << 30


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def only_sales(suite: Enrichment, session: Session) -> None:
        suite.sales.ensure(session)

    monkeypatch.setattr(Enrichment, "prepare", only_sales)
    return World(tmp_path, monkeypatch)


def test_each_part_is_measured_by_itself_and_then_with_the_others(world: World) -> None:
    run = world.measure(SUITE)
    assert run.outcome == "ok"
    of_parts = [sample for sample in run.of_kind("measure") if "group" in sample]
    measures = [(sample["name"], sample["group"], sample["phase"]) for sample in of_parts]
    parts = [("single user", "single user"), ("2 users", "2 users"), ("enrich", "enrichment"), ("enrichment",) * 2]
    for phase in ("alone", "together"):
        own = [(name, group) for name, group, of in measures if of == phase]
        assert sorted(own) == sorted((f"{name}, {phase}", group) for name, group in parts)
    assert [phase for *_, phase in measures] == ["alone"] * 4 + ["together"] * 4


def test_concurrent_parts_are_counted_once(world: World) -> None:
    run = world.measure(SUITE)
    counted = {name for name, piece in measures_by_name(run).items() if not piece.excluded_from_total}
    assert counted == {"single user, alone", "2 users, alone", "enrichment, alone", "all parts, together"}
    assert {"single user, together", "2 users, together", "enrichment, together"} < measures_by_name(run).keys()


def test_the_phase_of_all_parts_ends_with_the_last_of_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total has no second twice, while each application pays for all of its own."""
    seconds = {"single user": 3, "2 users: user 1": 5, "2 users: user 2": 7, "Enrichment": 11}

    def sample(application: Application, role: str, **more: Any) -> dict[str, Any]:
        took = next((took for part, took in seconds.items() if part in application.spec.name), 1)
        times = {"submitted_ms": 1_000_000, "elapsed_ms": took * 1000}
        return {**environment.application_sample(application, role), **times}

    monkeypatch.setattr(launchers, "application_sample", sample)
    run = world.measure(replace(SUITE, alone=False))
    assert cost.completed_work(run).seconds == (11.0,)
    assert cost.mean_clusters(run) == pytest.approx((3 + 5 + 7 + 11) / 11)


def test_a_failed_query_leaves_the_phase_of_all_parts_without_a_time(world: World) -> None:
    world.failing = {"q1"}
    run = world.measure(SUITE)
    assert "all parts, together" not in {sample["name"] for sample in run.of_kind("measure")}


def test_all_parts_are_at_work_at_the_same_time(world: World) -> None:
    """A part that waits for another's end would time out."""
    here = threading.Barrier(4, timeout=20)

    def meet(prefix: str) -> State:
        if "/together/" in prefix:
            here.wait()
        return State.FINISHED

    world.before = meet
    assert world.measure(SUITE).outcome == "ok"


def test_the_groups_ask_their_own_queries_and_every_answer_is_checked(world: World) -> None:
    world.answers_to = {"together/2-users/2": {"q3": [["0.60"]]}}
    run = world.measure(SUITE)
    asked = {(sample["group"], sample["query"]) for sample in run.of_kind("query")}
    assert asked == {("single user", "q1"), ("single user", "q2"), ("2 users", "q2"), ("2 users", "q3")}
    (wrong,) = [sample for sample in run.of_kind("answer") if sample["verdict"] != "equal"]
    assert wrong["whose"] == ["user 2, together"]
    assert run.outcome == "wrong"


def test_an_enrichment_that_breaks_stops_the_users(world: World) -> None:
    def breaks(prefix: str) -> State | None:
        if "/together/" not in prefix:
            return State.FINISHED
        return State.FAILED if "enrich" in prefix else None

    world.before = breaks
    run = world.measure(SUITE)
    (repetition,) = run.of_kind("repetition")
    assert "Enrichment, scale 0.1 ended as" in repetition["error"]
    assert len(world.engine.stopped) == 3


def test_the_enrichment_and_the_single_user_need_room_too(world: World) -> None:
    with pytest.raises(InvalidInput, match="20 clusters do not fit") as refused:
        world.measure(Mixed(users=18))
    assert refused.value.fix == "--users 7"


def test_without_the_parts_alone_only_the_mix_is_measured(world: World) -> None:
    run = world.measure(Mixed(scale=0.1, users=2, queries=("q1",), users_queries=("q2", "q3"), alone=False))
    assert {sample["phase"] for sample in run.of_kind("measure")} == {"together"}


def test_the_page_tells_the_slow_down_of_each_part(world: World) -> None:
    run = world.measure(SUITE)
    document = report.document([run])
    assert document.headline.startswith("Time together, relative to each part alone: single user ")
    assert [figure.label for figure in document.key_figures] == ["Single user", "2 users", "Enrichment"]
    titles = [section.title for section in document.sections]
    assert titles[0] == "Parts"
    assert "Queries of all users: 2 users" in titles
    assert "Parts" in report.as_markdown([run])
