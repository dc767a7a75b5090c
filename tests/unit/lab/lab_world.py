"""An in-memory lake and a suite that records its calls, for tests of the runner without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.errors import ClusterError, InvalidInput
from penstock.home import Home
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, Experiment, MeasurementPlan
from penstock.lab.records import Run
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lake.model import Lake
from penstock.model import ClusterSize, ProcessSize, State
from tests.unit.lab.lab_fakes import MemoryStore, PretendingEngine, Silent

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)

At = tuple[str, int]
"""A suite's letter and a repetition."""


@dataclass
class Lab:
    """Measures suites named by letters; `done` records their repetitions, other fields make them fail."""

    home: Home
    store: MemoryStore = field(default_factory=MemoryStore)
    engine: PretendingEngine = field(default_factory=lambda: PretendingEngine(lambda _: State.FINISHED))
    listener: Silent = field(default_factory=Silent)
    lake_kind: str = "s3"
    endpoints: tuple[str, ...] = ("http://127.0.0.1:1",)
    done: list[At] = field(default_factory=list)
    failing: set[At] = field(default_factory=set)
    unprepared: set[str] = field(default_factory=set)
    """Letters whose preparation fails."""
    wrong: set[At] = field(default_factory=set)
    interrupted: set[At] = field(default_factory=set)
    """Repetitions that are interrupted, each once."""
    during: Callable[[], object] = lambda: None
    """Called during a repetition."""
    during_session: Callable[[Session], object] = lambda _: None
    """Called during a repetition, with its session."""

    def measure(self, letters: str, plan: MeasurementPlan) -> list[Run]:
        return runner.measure(self.open_bench, self.arms(letters), plan, self.listener)

    def measure_all(self, *letters: str, plan: MeasurementPlan) -> list[list[Run]]:
        """Measure an experiment for each group of letters."""
        experiments = [Experiment(self.arms(group), plan) for group in letters]
        return runner.measure_all(self.open_bench, experiments, self.listener)

    def resume(self, name: str = "last") -> list[list[Run]]:
        return runner.resume(self.home, self.open_bench, name, self.listener)

    def arms(self, letters: str, *, bytes_needed: int = 0) -> list[Arm]:
        return [Arm(letter, Noted(letter, bytes_needed), SIZE) for letter in letters]

    def open_bench(self, _: str | None) -> Environment:
        lake = Lake("test", self.endpoints, "bucket", "environment", kind=self.lake_kind)
        self.home.create()
        return Environment(self.home, lake, self.store, self.engine)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Noted(Suite):
    workload: ClassVar[str] = "noted"
    title: ClassVar[str] = "Noted"
    profile: ClassVar[str] = "default"
    lab: ClassVar[Lab]
    letter: str = "a"
    bytes_needed: int = 0

    def check_options(self) -> None:
        if self.letter == "?":
            raise InvalidInput("no such letter")

    def needs_bytes(self) -> int:
        return self.bytes_needed

    def prepare(self, session: Session) -> None:
        if self.letter in self.lab.unprepared:
            raise ClusterError("there is no data")

    def repetition(self, session: Session) -> None:
        assert session.repetition is not None
        at, lab = (self.letter, session.repetition), self.lab
        lab.done.append(at)
        session.measure("work", elapsed_ms=len(lab.done))
        lab.store.put(f"{session.key('output')}/part-0", b"rows")
        lab.during()
        lab.during_session(session)
        if at in lab.interrupted:
            lab.interrupted.remove(at)
            raise KeyboardInterrupt
        if at in lab.failing:
            raise ClusterError("it broke")
        session.check("result", at not in lab.wrong)
