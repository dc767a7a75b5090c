"""The runner takes arms in turns, records what failed, and repeats nothing after an interruption."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from lab_fakes import MemoryStore, PretendingEngine, Silent

from penstock.engine.application import ClusterSize, ProcessSize, State
from penstock.errors import ClusterError, InvalidInput, MissingRequirement, StateError
from penstock.home import Home
from penstock.lab import bench as benches
from penstock.lab import runner
from penstock.lab.bench import Bench
from penstock.lab.records import Run
from penstock.lab.runner import Arm, Plan
from penstock.lab.session import Session
from penstock.lab.suites import registry
from penstock.lab.suites.base import Suite
from penstock.lake.base import Lake

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)


@dataclass
class Events:
    """What the suites did, and what is to go wrong: the name of an arm and its repetition."""

    done: list[tuple[str, int | None]] = field(default_factory=list)
    failing: set[tuple[str, int]] = field(default_factory=set)
    wrong: set[tuple[str, int]] = field(default_factory=set)
    interrupted: set[tuple[str, int]] = field(default_factory=set)


EVENTS = Events()


@dataclass(frozen=True)
class Noted(Suite):
    workload: ClassVar[str] = "noted"
    title: ClassVar[str] = "Noted"
    profile: ClassVar[str] = "default"
    letter: str = "a"
    bytes_needed: int = 0

    def check_options(self) -> None:
        if self.letter == "?":
            raise InvalidInput("no such letter")

    def needs_bytes(self) -> int:
        return self.bytes_needed

    def repetition(self, session: Session) -> None:
        assert session.repetition is not None
        at = (self.letter, session.repetition)
        EVENTS.done.append(at)
        session.measure("work", elapsed_ms=len(EVENTS.done))
        if at in EVENTS.interrupted:
            EVENTS.interrupted.remove(at)
            raise KeyboardInterrupt
        if at in EVENTS.failing:
            raise ClusterError("it broke")
        session.check("result", at not in EVENTS.wrong)


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "suite_class", lambda _: Noted)
    monkeypatch.setattr(benches, "versions", dict)
    EVENTS.__init__()  # type: ignore[misc]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def open_bench(home: Home, kind: str = "s3") -> Bench:
    lake = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment", kind=kind)
    home.create()
    return Bench(home, lake, MemoryStore(), PretendingEngine(lambda _: State.FINISHED))  # type: ignore[arg-type]


def measure(home: Home, *letters: str, plan: Plan) -> list[Run]:
    arms = [Arm(letter, Noted(letter), SIZE) for letter in letters]
    return runner.measure(lambda _: open_bench(home), arms, plan, Silent())


def resume(home: Home) -> list[Run]:
    return runner.resume(home, lambda _: open_bench(home), "last", Silent())


def measured(run: Run) -> list[tuple[int, float]]:
    return [(sample["repetition"], sample["elapsed_ms"]) for sample in run.of_kind("measure")]


def test_arms_are_measured_in_turns_and_each_is_first_equally_often(home: Home) -> None:
    measure(home, "a", "b", plan=Plan(repetitions=2))
    assert EVENTS.done == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


def test_warm_up_is_recorded_and_marked_as_such(home: Home) -> None:
    (run,) = measure(home, "a", plan=Plan(repetitions=1, warmup=1))
    assert [(s["repetition"], s.get("warmup", False)) for s in run.of_kind("measure")] == [(0, True), (1, False)]


def test_a_repetition_that_failed_is_recorded_as_failed_and_the_others_go_on(home: Home) -> None:
    EVENTS.failing = {("a", 1)}
    (run,) = measure(home, "a", plan=Plan(repetitions=2))
    assert [sample["status"] for sample in run.of_kind("repetition")] == ["failed", "ok"]
    assert run.outcome == "failed"


def test_a_wrong_result_makes_the_run_wrong_even_where_something_else_failed(home: Home) -> None:
    EVENTS.failing, EVENTS.wrong = {("a", 1)}, {("a", 2)}
    (run,) = measure(home, "a", plan=Plan(repetitions=2))
    assert run.outcome == "wrong"


def test_interrupted_it_goes_on_without_repeating_what_is_done(home: Home) -> None:
    EVENTS.interrupted = {("b", 2)}
    with pytest.raises(KeyboardInterrupt):
        measure(home, "a", "b", plan=Plan(repetitions=2))
    first, second = resume(home)
    assert EVENTS.done == [("a", 1), ("b", 1), ("b", 2), ("b", 2), ("a", 2)]
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert measured(second) == [(1, 2), (2, 4)], "the interrupted attempt is seen by nobody"


def test_what_came_to_its_end_is_not_resumed(home: Home) -> None:
    measure(home, "a", plan=Plan())
    with pytest.raises(StateError, match="was not interrupted"):
        resume(home)


def test_an_impossible_option_is_refused_before_anything_is_recorded(home: Home) -> None:
    with pytest.raises(InvalidInput, match="no such letter"):
        measure(home, "a", "?", plan=Plan())
    assert EVENTS.done == []
    assert not (home.root / "lab").exists()


def test_a_disk_too_small_is_refused_before_the_work_starts(home: Home) -> None:
    arm = Arm("a", Noted("a", bytes_needed=1 << 60), SIZE)
    with pytest.raises(MissingRequirement, match=r"needs about 1\S* "):
        runner.measure(lambda _: open_bench(home, "embedded"), [arm], Plan(), Silent())
    assert EVENTS.done == []
