"""`penstock lab engines`: every engine over the same tables, in turns, every answer verified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.clusters import machine
from penstock.engine.engines.registry import ENGINES
from penstock.home import Home
from tests.support import quick_java


def test_every_engine_answers_the_same_queries_rightly(tmp_path: Path, class_archives: Path) -> None:
    home = Home(tmp_path / "home")
    quick_java.share_archives(home, class_archives)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}

    def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli.main", *arguments],
            cwd=tmp_path,
            env={**own, "PENSTOCK_HOME": str(home.root)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    try:
        # q9 is one of scalar subqueries, q39b reads two months, q90 divides by zero at this scale.
        ended = penstock("lab", "engines", "--scale", "0.01", "--queries", "q3,q9,q39b,q90", "--repetitions", "1")
    finally:
        penstock("down")
        machine.remove_tiers(machine.page_cache(home))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    descriptions = [json.loads(file.read_text("utf-8")) for file in (home.root / "lab").glob("*/run.json")]
    assert {one["arm"]: one["options"]["engine"] for one in descriptions} == {
        engine.title: name for name, engine in ENGINES.items()
    }
    for one in descriptions:
        lines = (home.root / "lab" / one["id"] / "samples.jsonl").read_text("utf-8").splitlines()
        verdicts = [sample["verdict"] for sample in map(json.loads, lines) if sample["kind"] == "answer"]
        assert verdicts == ["equal"] * 4, one["arm"]
        (power,) = [
            sample for sample in map(json.loads, lines) if sample["kind"] == "application" and sample["role"] == "power"
        ]
        assert power["core_seconds"] > 0
        assert power["peak_memory_bytes"] > 0
