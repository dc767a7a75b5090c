"""The README's demo, from an empty directory to the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.clusters import machine
from penstock.home import Home
from tests.support import quick_java


def test_the_demo_verifies_every_answer_and_writes_its_report(tmp_path: Path, class_archives: Path) -> None:
    home = Home(tmp_path / ".demo")
    quick_java.share_archives(home, class_archives)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "penstock.cli.main", "demo", "--scale", "0.01"],
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    finally:
        machine.remove_tiers(machine.page_cache(home))  # The demo keeps its cache for the next one.
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = " ".join(ended.stdout.split())
    assert "All 104 queries ran" in said
    assert "every answer is correct" in said
    assert "TPC-DS" in (tmp_path / "penstock-demo.html").read_text("utf-8")
    assert not (home.root / "demo.json").exists()
