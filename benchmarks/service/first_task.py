"""Time from a submission to its first task: `python -m benchmarks.service.first_task HOME`.

The two arms alternate (A B A B …): `penstock run` alone, and the same command through `penstock serve`, which runs
during both. A run begins when its command is started; its first task begins when Spark reports its launch. The first
run of each arm is a warm-up and does not count. Times are seconds. HOME/first_task.jsonl has a line for each run, with
the time of each of its events. The exit code is 2 where the service takes longer: where the median of the paired
differences exceeds zero by more than their interquartile range.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.service.reporting import progress, report_result, spread
from benchmarks.service.served import Service, environment
from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.model import Application

PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print(spark.range(1000).selectExpr("sum(id)").collect())
spark.stop()
"""
_SMALL = ("--driver-memory", "512m", "--executor-memory", "512m", "--executor-cores", "2")


def started(engine: Engine, program: Path, *, server: str | None) -> dict[str, float]:
    """Run the program once; returns seconds from the start of its command to each event."""
    began = time.time()
    command = [sys.executable, "-m", "penstock.cli.main", "run", "--json", *_SMALL, str(program)]
    ran = subprocess.run(command, env=environment(engine.home, server), capture_output=True, text=True, check=False)
    took = time.time() - began
    if ran.returncode:
        raise SystemExit(ran.stderr)
    application = Application.from_json(json.loads(ran.stdout))
    launched = (application.summary or {})["first_task_launched_ms"] / 1000
    events = {str(one["event"]): one["at"].timestamp() - began for one in engine.applications.events(application.id)}
    return {"first task": launched - began, "command": took, **events}


def summary(runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    steps = ("Submitted", "Admitted", "ContextStarted", "first task", "command")
    return {"runs": len(runs), **{name: spread([run[name] for run in runs if name in run]) for name in steps}}


def run(home: Home, rounds: int) -> Mapping[str, Any]:
    engine = Engine(home)
    home.create()
    program = home.root / "first_task.py"
    program.write_text(PROGRAM)
    runs: dict[str, list[dict[str, float]]] = {"command line": [], "service": []}
    with Service(home) as service, (home.root / "first_task.jsonl").open("a", encoding="utf-8") as raw:
        for turn in range(rounds + 1):
            for arm, server in (("command line", None), ("service", service.url)):
                found = started(engine, program, server=server)
                raw.write(json.dumps({"arm": arm, "turn": turn, "at": time.time(), **found}) + "\n")
                raw.flush()
                progress(f"{turn} of {rounds}, {arm}: first task after {found['first task']:.2f} s")
                if turn:
                    runs[arm].append(found)
    both = zip(runs["command line"], runs["service"], strict=True)
    more = [through["first task"] - without["first task"] for without, through in both]
    longer = spread(more)
    beyond_noise = longer["median"] > longer["three quarters"] - longer["quarter"]
    return {
        **{arm: summary(found) for arm, found in runs.items()},
        "service takes longer by, paired": {**longer, "all": [round(x, 3) for x in more]},
        "missed": [f"through the service it takes {longer['median']:g} s longer"] if beyond_noise else [],
    }


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("home", type=Path)
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    place = Home(given.home.absolute())
    raise SystemExit(report_result(place, "first_task", run(place, given.rounds)))
