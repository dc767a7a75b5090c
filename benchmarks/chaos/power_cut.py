"""Jobs that are cut short, each there whole or not at all: `python -m benchmarks.chaos.power_cut HOME --cuts 200`.

One application after the other writes jobs of 64 files each, alternately an RDD as text and a query's rows, with tasks
that end before their files are uploaded, through a slow gateway. At a random moment of each job a process is killed: an
executor, the driver, the process that keeps the cluster (the node's), or the store. When the job is over, and the sweep
has carried out what was decided, its output must have every row once or no file; that of a job that was reported done
must be whole before any sweep. The exit code is 1 where one is not.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.chaos import schedule, supervisor_process
from benchmarks.chaos.process_faults import victims
from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.engine.installation import Installation
from penstock.engine.repository.applications import CONNECTION_LOST
from penstock.engine.supervision.supervisor import is_released
from penstock.home import Home
from penstock.lab.conditions import throttled_gateways
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import Lakes
from penstock.lake.s3 import open_store
from penstock.lake.sweep import sweep
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.processes import wait_until

FILES = 64
ROWS = FILES * 8_000
LAKE = "cut"

APPLICATION = f"""
import json, os, sys, time
from pyspark.sql import SparkSession

root, journal, number = sys.argv[1], open(sys.argv[2], "a"), int(sys.argv[3])

def record(event, why=""):
    journal.write(json.dumps({{"job": number, "event": event, "why": why}}) + "\\n")
    journal.flush()

spark = SparkSession.builder.getOrCreate()
spark.range(0, {FILES}, 1, {FILES}).count()
while True:
    while not os.path.exists(f"{{sys.argv[2]}}.{{number}}"):
        time.sleep(0.02)
    record("began")
    try:
        if number % 2:
            spark.sparkContext._jsc.sc().range(0, {ROWS}, 1, {FILES}).saveAsTextFile(f"{{root}}/{{number}}")
        else:
            spark.range(0, {ROWS}, 1, {FILES}).selectExpr("CAST(id AS STRING)").write.text(f"{{root}}/{{number}}")
    except Exception as error:
        # Only the JVM knows what has become of the job.
        is_known = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        record("failed" if is_known else "lost", str(error)[:4000])
    else:
        record("done")
    number += 1
"""

SETTINGS = {
    "spark.hadoop.fs.s3a.penstock.write.behind.size": "64m",
    # The store is away for a while: requests are repeated until it is back.
    "spark.task.maxFailures": "8",
}
BYTES_PER_SECOND = 2 << 20

VICTIMS = {schedule.EXECUTOR: 5, schedule.DRIVER: 3, schedule.SHIM: 2, schedule.STORE: 4}
"""How often each is killed, relative to the others; a driver's death costs the start of another application."""

_SIZE = ProcessSize(1, 512 << 20)
_PATIENCE_SECONDS = 240.0
_LOOK_SECONDS = 0.05
_STORE_AWAY_SECONDS = 1.0
_USUAL_SECONDS = 3.0


@dataclass(frozen=True)
class Cut:
    """What became of a job: `reported` is `done`, `failed` or `silent`, `output` `whole`, `none` or what is wrong."""

    job: int
    victim: str
    after_seconds: float
    reported: str
    output: str
    why: str = ""

    @property
    def holds(self) -> bool:
        if self.output not in {"whole", "none"}:
            return False
        if self.reported == "done":
            return self.output == "whole"
        # A driver that does not learn the outcome says so.
        return self.reported == "silent" or self.output == "none" or "CommitInterrupted" in self.why


class Cuts:
    """Applications, one after the other, until enough jobs were cut."""

    def __init__(self, home: Home, directory: Path, chance: random.Random) -> None:
        self._home = home
        self._directory = directory
        self._chance = chance
        self._lake = Lakes(home).get()
        self._store = open_store(home, self._lake)
        self._engine = Engine(home, supervisor_process.SpreadBackend(home))
        self._prefix = f"cut/{directory.name}"
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._application = ""
        self._journal = directory / "journal"
        self._journal.touch()
        self._usual = _USUAL_SECONDS

    def run(self, count: int) -> list[Cut]:
        cuts: list[Cut] = []
        job = 0
        try:
            while len(cuts) < count:
                if self._is_over():
                    job = max((line["job"] for line in self._lines()), default=-1) + 1
                    self._start(job)
                self._directory.joinpath(f"journal.{job}").touch()
                self._await(functools.partial(self._has_begun_or_never_will, job))
                if self._has(job, "began"):
                    cuts.append(self._cut(job))
                    _say(len(cuts), count, cuts[-1])
                job += 1
        finally:
            self._stop()
        return cuts

    def _start(self, job: int) -> None:
        script = self._directory / "application.py"
        script.write_text(APPLICATION, encoding="utf-8")
        self._application = self._engine.submit(
            ApplicationSpec(
                application=str(script),
                size=ClusterSize(_SIZE, _SIZE, 2),
                name="power-cut",
                arguments=(f"{self._lake.root}/{self._prefix}", str(self._journal), str(job)),
                lake=LAKE,
                settings=SETTINGS,
            )
        ).id
        log = self._directory / "supervisors.log"
        self._supervisor = supervisor_process.start(self._home, self._application, log)

    def _cut(self, job: int) -> Cut:
        victim = self._chance.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        after = self._chance.uniform(0.0, self._usual)
        began = time.monotonic()
        time.sleep(after)
        self._kill(victim)
        self._await(lambda: self._outcome(job)[0] != "silent" or self._is_over())
        reported, why = self._outcome(job)
        if reported == "done":
            self._usual += (min(time.monotonic() - began, 2 * _USUAL_SECONDS) - self._usual) / 8
        else:
            # The application begins nothing before it may.
            now = datetime.now(timezone.utc)
            credentials = Lakes(self._home).credentials_of(self._lake)
            sweep(self._lake, credentials, f"{self._prefix}/{job}/", before=now, dry_run=False)
        return Cut(job, victim, round(after, 2), reported, self._output(job), why)

    def _kill(self, victim: str) -> None:
        found = [process for name, process in victims(self._home, victim) if name in {"", self._application}]
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._chance.choice(found).pid, signal.SIGKILL)
        if victim == schedule.STORE:
            time.sleep(_STORE_AWAY_SECONDS)
            EmbeddedLake(self._home).up()

    def _outcome(self, job: int) -> tuple[str, str]:
        ends = [line for line in self._lines() if line["job"] == job and line["event"] in {"done", "failed"}]
        return (ends[-1]["event"], ends[-1]["why"]) if ends else ("silent", "")

    def _output(self, job: int) -> str:
        files = [one.key for one in self._store.list(f"{self._prefix}/{job}/") if "/part-" in one.key]
        rows = Counter(int(line) for key in files for line in self._store.get(key).split())
        if not files:
            return "none"
        if len(files) == FILES and len(rows) == ROWS and set(rows.values()) == {1} and max(rows) == ROWS - 1:
            return "whole"
        return f"{len(files)} files, {rows.total()} rows, {len(rows)} of them different"

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._journal.read_text("utf-8").splitlines() if line.endswith("}")]

    def _has(self, job: int, event: str) -> bool:
        return any(line["job"] == job and line["event"] == event for line in self._lines())

    def _has_begun_or_never_will(self, job: int) -> bool:
        return self._has(job, "began") or self._is_over()

    def _is_over(self) -> bool:
        if not self._application:
            return True
        try:
            if self._supervisor is not None and self._supervisor.poll() is not None:
                self._engine.reconcile()
            return is_released(self._engine.get(self._application))
        except CONNECTION_LOST:
            Database(self._home).up()
            return False

    def _await(self, holds: Callable[[], bool]) -> None:
        if not wait_until(holds, _PATIENCE_SECONDS, pause_seconds=_LOOK_SECONDS):
            raise TimeoutError(f"{self._application} did nothing for {_PATIENCE_SECONDS:.0f} s")

    def _stop(self) -> None:
        if self._application and not self._is_over():
            self._engine.stop(self._application)
            with contextlib.suppress(TimeoutError):
                self._await(self._is_over)


def _say(number: int, count: int, cut: Cut) -> None:
    mark = "" if cut.holds else "  BROKEN"
    said = f"{cut.victim} killed after {cut.after_seconds:.2f} s: job {cut.job} {cut.reported}, output {cut.output}"
    print(f"{number} of {count}: {said}{mark}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, help="home of a running installation, with the embedded lake")
    parser.add_argument("--cuts", type=int, default=200, help="jobs to cut (200)")
    parser.add_argument("--seed", default="1", help="of the victims and moments")
    options = parser.parse_args(arguments)
    home = Home(options.home.absolute())
    Installation(home).lake_up()
    lakes = Lakes(home)
    lake = lakes.get()
    with (
        throttled_gateways(lake, 1, BYTES_PER_SECOND) as slow,
        tempfile.TemporaryDirectory(prefix="power-cut-") as scratch,
    ):
        through = replace(lake, name=LAKE, kind="external", sts=None, endpoints=tuple(slow.endpoints))
        lakes.add(through, lakes.credentials_of(lake))
        try:
            cuts = Cuts(home, Path(scratch), random.Random(options.seed)).run(options.cuts)
        finally:
            lakes.remove(LAKE)
    broken = [cut for cut in cuts if not cut.holds]
    ends = Counter(f"{cut.victim}: {cut.reported}, {cut.output}" for cut in cuts)
    result = {"cuts": len(cuts), "held": len(cuts) - len(broken), "ends": ends, "broken": list(map(asdict, broken))}
    print(json.dumps(result, indent=2))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
