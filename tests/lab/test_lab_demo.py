"""The README's demo, from an empty directory to the report, and the engines over the tables that it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.clusters import machine
from penstock.engine.engines.registry import ENGINES
from penstock.home import Home
from tests.support import quick_java

# Whichever test is first waits for the whole demo, seven minutes on a slow machine.
pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Demo:
    """A directory in which the demo ran, and how it ended."""

    directory: Path
    ended: subprocess.CompletedProcess[str]

    @property
    def home(self) -> Home:
        return Home(self.directory / ".demo")

    def lab(self, *arguments: str) -> str:
        """Run `penstock lab` in the demo's home, which is down again afterwards, and return its output."""
        home = str(self.home.root)
        try:
            ended = penstock(self.directory, "lab", *arguments, PENSTOCK_HOME=home)
        finally:
            penstock(self.directory, "down", PENSTOCK_HOME=home)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return " ".join(ended.stdout.split())

    def runs(self) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """The descriptions of all runs, with their samples."""
        return [
            (
                json.loads(run.read_text("utf-8")),
                [json.loads(line) for line in (run.parent / "samples.jsonl").read_text("utf-8").splitlines()],
            )
            for run in (self.home.root / "lab").glob("*/run.json")
        ]


def penstock(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *arguments],
        cwd=directory,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, class_archives: Path) -> Iterator[Demo]:
    directory = tmp_path_factory.mktemp("demo")
    quick_java.share_archives(Home(directory / ".demo"), class_archives)
    try:
        found = Demo(directory, penstock(directory, "demo", "--scale", "0.01"))
        yield found
    finally:
        # The demo keeps its cache for the next one.
        machine.remove_tiers(machine.page_cache(Home(directory / ".demo")))


def test_the_demo_verifies_every_answer_and_writes_its_report(demo: Demo) -> None:
    ended = demo.ended
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = " ".join(ended.stdout.split())
    assert "All 104 queries ran" in said
    assert "every answer is correct" in said
    assert "TPC-DS" in (demo.directory / "penstock-demo.html").read_text("utf-8")
    assert not (demo.home.root / "demo.json").exists()


def test_every_engine_answers_the_same_queries_over_the_same_tables(demo: Demo) -> None:
    # q9 has scalar subqueries, q39b reads two months, q90 divides by zero at this scale.
    demo.lab("engines", "--scale", "0.01", "--queries", "q3,q9,q39b,q90", "--repetitions", "1")
    compared = [(run, samples) for run, samples in demo.runs() if run["experiment"]]
    assert {run["arm"]: run["options"]["engine"] for run, _ in compared} == {
        engine.title: name for name, engine in ENGINES.items()
    }
    for run, samples in compared:
        assert [one["verdict"] for one in samples if one["kind"] == "answer"] == ["equal"] * 4, run["arm"]
        (power,) = [one for one in samples if one["kind"] == "application"]
        assert power["core_seconds"] > 0
        assert power["peak_memory_bytes"] > 0


def test_iceberg_tables_of_the_same_files_give_the_same_answers(demo: Demo) -> None:
    said = demo.lab("tpcds", "--scale", "0.01", "--layout", "iceberg", "--queries", "q3,q9")
    assert "Iceberg tables of TPC-DS data of scale 0.01" in said
    assert "every answer is correct" in said
    (samples,) = [samples for run, samples in demo.runs() if run["options"]["layout"] == "iceberg"]
    # Spark counts no files of Iceberg's scans, and none is not their number.
    assert ["reads" in one for one in samples if one["kind"] == "query"] == [False, False]
