"""Reads: an arm's options reach its process, and the report compares Penstock with local files and S3A."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lab import environment as benches
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.records import Run
from penstock.lab.report import report
from penstock.lab.session import Session
from penstock.lab.workloads import base
from penstock.lab.workloads.overhead import Reads
from penstock.lab.workloads.registry import restore_suite
from penstock.lake.model import Lake
from penstock.model import State
from tests.unit.lab import lab_runs as made
from tests.unit.lab.lab_fakes import MemoryStore, PretendingEngine, Silent
from tests.unit.lab.lab_world import SIZE

MIB = 1 << 20


class World:
    """Fake programs that record their arguments and leave the files of the real ones."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.create()
        self.store = MemoryStore()
        self.started: list[tuple[str, dict[str, str]]] = []
        self.tiers: list[Path] = []
        lake = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment", kind="s3")
        self.bench = Environment(home, lake, self.store, PretendingEngine(lambda _: State.FINISHED))  # type: ignore[arg-type]
        monkeypatch.setattr(benches, "versions", dict)
        monkeypatch.setattr(base, "run_program", self.run)

    def run(self, _: Session, main_class: str, arguments: Sequence[str]) -> None:
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        self.started.append((main_class.rpartition(".")[2], given))
        if main_class.endswith("GenerateObjects"):
            if given["--location"].startswith("file:"):
                place = Path(given["--location"].removeprefix("file:"))
                place.mkdir(parents=True)
                (place / "_manifest.json").write_text("{}")
            else:
                self.store.put(f"{given['--location'].removeprefix('s3a://bucket/')}/_manifest.json", b"{}")
            return
        tier = Path(given["--tier"])
        assert tier.stat().st_mode & 0o777 == 0o700
        self.tiers.append(tier)
        samples = [made.measure("sequential, 1 thread", 0.5, bytes=MIB), made.check("contents")]
        Path(given["--report"].removeprefix("file:")).write_text("\n".join(map(json.dumps, samples)))

    def measure(self, *suites: Reads, repetitions: int = 1) -> list[Run]:
        arms = [Arm(f"arm {number}", suite, SIZE) for number, suite in enumerate(suites)]
        return runner.measure(lambda _: self.bench, arms, MeasurementPlan(repetitions), Silent())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(Home(tmp_path / "home"), monkeypatch)


def test_each_repetition_is_a_process_with_a_cache_of_its_own_that_is_gone_afterwards(world: World) -> None:
    (run,) = world.measure(
        Reads(size_bytes=16 * MIB, cache="cold", patterns=("small", "random"), threads=(1, 4), warmup_passes=5),
        repetitions=2,
    )
    assert run.outcome == "ok"
    assert [name for name, _ in world.started] == ["GenerateObjects", "Reads", "Reads"]
    asked = world.started[1][1]
    assert (asked["--cache"], asked["--threads"], asked["--raw"]) == ("cold", "1,4", "false")
    assert (asked["--patterns"], asked["--warmup-passes"]) == ("small,random", "5")
    assert len(set(world.tiers)) == 2
    assert not any(tier.exists() for tier in world.tiers)


def test_arms_of_the_lake_share_its_objects_and_local_arms_one_copy(world: World) -> None:
    size = 16 * MIB
    world.measure(*(Reads(size_bytes=size, source=source) for source in ("lake", "lake", "local", "raw")))
    places = [given["--location"] for name, given in world.started if name == "GenerateObjects"]
    assert len(places) == 2
    assert places[0].startswith("s3a://")
    assert places[1].startswith("file:/")
    assert [given["--raw"] for name, given in world.started if name == "Reads"] == ["false"] * 3 + ["true"]


@pytest.mark.parametrize(
    "wrong",
    [
        Reads(source="tape"),
        Reads(cache="hot"),
        Reads(medium="paper"),
        Reads(size_bytes=MIB),
        Reads(threads=()),
        Reads(threads=(0,)),
        Reads(threads=(2, 2)),
        Reads(patterns=()),
        Reads(patterns=("small", "backwards")),
        Reads(patterns=("small", "small")),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(world: World, wrong: Reads) -> None:
    with pytest.raises(InvalidInput):
        world.measure(wrong)
    assert not world.started


def test_a_recorded_run_gives_its_suite_again() -> None:
    suite = Reads(patterns=("vectored",), threads=(1, 8), cache="none", source="lake")
    assert restore_suite("reads", json.loads(json.dumps(suite.options()))) == suite


def arm(name: str, seconds: float, core_seconds: float, profile: str = "default", source: str = "lake") -> Run:
    samples: list[dict[str, Any]] = []
    for number in range(1, 4):
        one = made.measure(
            "sequential, 1 thread",
            seconds,
            bytes=made.GB,
            core_seconds=core_seconds,
            s3_requests={"GET": 7} if source == "lake" else {},
        )
        samples += made.repetition(number, [one])
    return made.run("reads", samples, arm=name, profile=profile, options={"source": source})


def test_the_report_tells_processor_time_against_local_files_and_time_against_the_best_of_s3a() -> None:
    page = report.as_markdown(
        [
            arm("shipped", 4, 4, "default+s3a-default"),
            arm("tuned", 2, 3, "default+s3a-tuned"),
            arm("warm", 1, 0.63),
            arm("local", 1, 0.6, source="local"),
            arm("raw", 1, 0.3, source="raw"),
        ]
    )
    (row,) = [line for line in page.splitlines() if line.startswith("| sequential, 1 thread | 1.05")]
    assert "0.5" in row.split("|")[3]
    (times,) = [line for line in page.splitlines() if "0.630 (0.630–0.630)" in line]
    assert "0.300 (0.300–0.300)" in times
