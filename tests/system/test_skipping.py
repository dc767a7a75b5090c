"""Skipping as users meet it: an index is built, queries read fewer files and answer the same, and it is dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from penstock.home import Home

SMALL = ["--driver-memory", "512m", "--executors", "1", "--executor-cores", "1", "--executor-memory", "512m"]
FILES = 16

# Sixteen files, each with a sixteenth of the days.
MAKE = """
CREATE DATABASE skipping;
CREATE TABLE skipping.facts USING parquet AS
  SELECT /*+ REPARTITION_BY_RANGE(16, day) */ id, id DIV 100 AS day FROM range(16000);
CREATE TABLE skipping.days USING parquet AS SELECT id AS day, id DIV 10 AS week FROM range(160)
"""
LITERAL = "SELECT count(*), sum(id) FROM skipping.facts WHERE day BETWEEN 35 AND 36"
JOIN = "SELECT count(*), sum(id) FROM skipping.facts JOIN skipping.days USING (day) WHERE week = 7"


def penstock(home: Home, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    environment = {**os.environ, "PENSTOCK_HOME": str(home.root)}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == code, done.stderr
    return done


def sql(home: Home, statements: str) -> tuple[list[list[Any]], dict[str, int]]:
    """The first row of each answer that has one, and what was skipped."""
    answered = json.loads(penstock(home, "sql", *SMALL, "--format", "json", statements).stdout)
    skipped: dict[str, int] = json.loads(penstock(home, "show", "last", "--json").stdout)["summary"]["skipping"]
    return [result["rows"][0] for result in answered if result["rows"]], skipped


def test_an_index_is_built_used_outdated_refreshed_and_dropped_and_answers_stay_the_same(shared_home: Home) -> None:
    penstock(shared_home, "sql", *SMALL, MAKE)

    built = json.loads(penstock(shared_home, "index", "build", *SMALL, "skipping.facts", "--json").stdout)
    assert built["change"] == {"files": FILES, "read": FILES, "obsolete": 0, "unreadable": 0, "unsettled": 0}
    covered = {column["column"]: column for column in built["columns"]}
    assert covered["day"]["files"] == FILES and covered["day"]["files_per_key"] < 0.2

    answers, skipped = sql(shared_home, f"{LITERAL};{JOIN}")
    assert answers == [[200, 719900], [1000, 7499500]]
    assert (skipped["scans"], skipped["files"]) == (2, 2 * FILES)
    # A file holds ten days, give or take the sampling of their ranges: a week is in two files, perhaps three.
    assert skipped["files_skipped"] >= 2 * FILES - 6
    assert "of 32 files" in penstock(shared_home, "show", "last").stdout

    new = "INSERT INTO skipping.facts SELECT id + 16000, 35 FROM range(10)"
    off = "SET spark.penstock.skipping.enabled = false"
    refresh = "REFRESH SKIPPING INDEX ON skipping.facts"
    outdated, fresh, plain = sql(shared_home, f"{new};{LITERAL};{refresh};{LITERAL};{off};{LITERAL}")[0][0::2]
    assert outdated == fresh == plain == [210, 719900 + 160045]

    assert penstock(shared_home, "index", "drop", "skipping.facts").stdout == "The index of skipping.facts is gone\n"
    answers, skipped = sql(shared_home, f"{LITERAL};SHOW SKIPPING INDEX ON skipping.facts")
    assert answers == [plain] and not any(skipped.values())


def test_a_mistake_is_told_by_its_cause_and_without_a_trace(shared_home: Home) -> None:
    failed = penstock(shared_home, "index", "build", *SMALL, "skipping.nowhere", code=1)
    assert "The index of skipping.nowhere was not built" in failed.stderr
    assert "cannot be found" in failed.stderr and "fix" in failed.stderr
    assert "\tat " not in failed.stderr and "Exception" not in failed.stderr
