"""The keeper ends what is left of a cluster, and knows what every process has cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.clusters import keeper

# The kernel shows no environment of a process that it is taking apart, so the keeper cannot find it by that.
_OUT_OF_SIGHT = """
import pathlib, sys
from penstock.clusters import keeper
keeper.members = lambda *_, **__: []
keeper.main(pathlib.Path(sys.argv[1]))
"""


def test_an_executor_that_takes_its_time_to_die_still_tells_what_it_cost(tmp_path: Path) -> None:
    for name in ("artefacts", "cluster", "private", "scratch"):
        (tmp_path / name).mkdir()
    plan = {
        "application_id": tmp_path.name,
        "driver": ["/bin/true"],
        "executor": ["/bin/sleep", "2"],
        "executors": 1,
        "lost_executors_limit": 0,
        "environment": {keeper.APPLICATION_VARIABLE: tmp_path.name, "PATH": os.defpath},
    }
    (tmp_path / "private" / "plan.json").write_text(json.dumps(plan))
    subprocess.run([sys.executable, "-c", _OUT_OF_SIGHT, str(tmp_path)], check=True, timeout=60)
    status = json.loads((tmp_path / "cluster" / "status.json").read_text())
    assert status["ended"]
    assert status["executors"]["1"]["exit_code"] == 0
    assert status["executors"]["1"]["cpu_seconds"] is not None


def test_the_keeper_gives_the_memory_of_a_lost_executor_back_and_in_the_end_all(tmp_path: Path) -> None:
    """The executor leaves a file and fails; the driver says what is left of it when another one has been started."""
    for name in ("artefacts", "cluster", "private", "scratch", "memory"):
        (tmp_path / name).mkdir()
    (tmp_path / "cluster" / "endpoint").write_text("")
    seen, place = tmp_path / "seen", tmp_path / "memory"
    executor = f"mkdir {place}/{keeper.EXECUTOR_TOKEN} && touch {place}/{keeper.EXECUTOR_TOKEN}/spilt && "
    executor += f"if [ {keeper.EXECUTOR_TOKEN} = 1 ]; then exit 9; else sleep 60; fi"
    driver = f"while [ ! -e {place}/2/spilt ]; do sleep 0.05; done; ls {place} > {seen}"
    plan = {
        "application_id": tmp_path.name,
        "driver": ["/bin/sh", "-c", driver],
        "executor": ["/bin/sh", "-c", executor],
        "executors": 1,
        "lost_executors_limit": 3,
        "environment": {keeper.APPLICATION_VARIABLE: tmp_path.name, "PATH": os.defpath},
        "memory": str(place),
    }
    (tmp_path / "private" / "plan.json").write_text(json.dumps(plan))
    subprocess.run([sys.executable, keeper.__file__, str(tmp_path)], check=True, timeout=60)
    assert seen.read_text().split() == ["2"]
    assert not place.exists()
