"""The `penstock` command as users type it, and the applications that tests run with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from penstock.engine.engine import Engine
from penstock.home import Home, read_json
from penstock.model import Application
from tests.support.waiting import processes_of, within

SMALL = ["--driver-memory", "512m", "--executors", "1", "--executor-cores", "1", "--executor-memory", "512m"]

PATIENCE_SECONDS = 300.0
"""The time a command may take on a busy machine, in seconds."""

# Counts, reports the count, and ends on request.
WAITS = """
import os, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
count = lambda: spark.sparkContext.parallelize(range(10), 2).count()
print("counted", count(), sys.argv[2:], flush=True)
print("a word to err", file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
print("counted again", count(), flush=True)
spark.stop()
"""


@dataclass(frozen=True)
class Answers:
    """The results of statements that succeeded, as `penstock sql --format json` prints them, and their application."""

    results: list[dict[str, Any]]
    application: Application
    errors: str

    @property
    def rows(self) -> list[list[list[Any]]]:
        """Return the rows of each result that has any."""
        return [result["rows"] for result in self.results if result["rows"]]

    @property
    def skipping(self) -> dict[str, int]:
        assert self.application.summary is not None
        counts: dict[str, int] = self.application.summary["skipping"]
        return counts


@dataclass
class Command:
    """Run `penstock` with this home, as users type it."""

    home: Home

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PENSTOCK_HOME": str(self.home.root), "COLUMNS": "200"}
        command = [sys.executable, "-m", "penstock.cli.main", *arguments]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, out, err

    def ok(self, *arguments: str) -> str:
        """Return the standard output of a command that has to succeed."""
        code, out, err = self.run(*arguments)
        assert code == 0, err
        return out

    def sql(self, statements: str, *options: str, fails: bool = False) -> Answers:
        """Run statements on a small cluster. With `fails` the last one has to fail."""
        engine = Engine(self.home)
        before = {one.id for one in engine.list()}
        code, out, err = self.run("sql", *SMALL, *options, "--format", "json", statements)
        assert code == (1 if fails else 0), err
        (application,) = [one for one in engine.list() if one.id not in before]
        return Answers(json.loads(out), application, err)


def running(engine: Engine, name: str) -> Application:
    """Return the application of this name, once its first job is done."""
    within(lambda: bool(named(engine, name)))
    (application,) = named(engine, name)
    within(lambda: b"counted 10" in engine.artifacts.read(application, "driver.out", 0))
    return engine.get(application.id)


def named(engine: Engine, name: str) -> list[Application]:
    return [one for one in engine.list() if one.spec.name == name]


def executors(home: Home, application: Application) -> set[str]:
    """Return the numbers of all executors that the cluster has had."""
    return set(read_json(home.application(application.id) / "cluster" / "status.json")["executors"])


def pid_of(home: Home, application: Application, *path: str) -> int:
    found = read_json(home.application(application.id) / "cluster" / "status.json")
    for part in path:
        found = found[part]
    return int(found["pid"])


def nothing_is_left(home: Home, application: Application) -> None:
    within(lambda: processes_of(application.id) == [], 20)
    assert not home.application(application.id).exists()
