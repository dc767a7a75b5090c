"""A table's layout as users meet it: queries are noted, advice is asked for and applied, and answers stay the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from penstock.home import Home

SMALL = ["--driver-memory", "512m", "--executors", "1", "--executor-cores", "1", "--executor-memory", "512m"]
OBJECTS = ["--object-size", "16k"]

# Eight days, in no order: each is in every file.
MAKE = """
CREATE DATABASE layout;
CREATE TABLE layout.sales USING parquet AS
  SELECT /*+ REPARTITION(4) */ id, CAST(id % 8 AS int) AS day, uuid() AS note FROM range(8000);
CREATE TABLE layout.days USING parquet AS SELECT CAST(id AS int) AS day, id DIV 2 AS week FROM range(8);
ANALYZE TABLE layout.sales COMPUTE STATISTICS FOR COLUMNS day
"""
LITERAL = "SELECT count(*), sum(id) FROM layout.sales WHERE day = 3"
JOIN = "SELECT count(*), sum(id) FROM layout.sales JOIN layout.days USING (day) WHERE week = 1"
ANSWERS = [[1000, 3999000], [2000, 7997000]]


def penstock(home: Home, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    environment = {**os.environ, "PENSTOCK_HOME": str(home.root)}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == code, done.stderr
    return done


def sql(home: Home, statements: str) -> list[list[Any]]:
    """The rows of all answers."""
    answered = json.loads(penstock(home, "sql", *SMALL, "--format", "json", statements).stdout)
    return [row for result in answered for row in result["rows"]]


def test_a_table_is_laid_out_for_its_queries_and_answers_as_before(shared_home: Home) -> None:
    assert sql(shared_home, f"{MAKE};{LITERAL};{JOIN}") == ANSWERS

    advice = json.loads(penstock(shared_home, "index", "advise", "layout.sales", *OBJECTS, "--json").stdout)
    assert advice["layout"] == "PARTITIONED BY (`day`)" and advice["scans"] == 2
    assert advice["bytes_then"] < advice["bytes_now"] / 4
    assert any("asked for in 2 scans by joins and filters" in reason for reason in advice["why"])

    done = json.loads(
        penstock(shared_home, "table", "rewrite", "layout.sales", "--advised", *OBJECTS, *SMALL, "--json").stdout
    )
    assert done["files_before"] == 4 and done["files"] == 8 and done["rows"] == 8000
    table = json.loads(penstock(shared_home, "tables", "show", "layout.sales", "--json").stdout)
    assert table["partitions"] == 8 and table["rows"] == 8000
    assert [column["name"] for column in table["columns"] if column["analyzed"]] == ["day"]

    # In place this time: the partition columns stay, on a lake whose commits are atomic.
    again = "REWRITE TABLE layout.sales PARTITIONED BY (day) RANGED BY (id INTO 2)"
    rewritten, *answers = sql(shared_home, f"{again};{LITERAL};{JOIN};SHOW SKIPPING INDEX ON layout.sales")
    assert rewritten[2:] == [8, rewritten[3], 16, rewritten[5], 8000]
    assert answers[:2] == ANSWERS and {row[0]: row[3] for row in answers[2:]}["id"] == 16
    moved = json.loads(penstock(shared_home, "tables", "show", "layout.sales", "--json").stdout)
    assert moved["location"] == table["location"]


def test_no_history_and_no_table_are_told_by_their_cause(shared_home: Home) -> None:
    failed = penstock(shared_home, "table", "rewrite", "layout.nowhere", "--partition-by", "day", *SMALL, code=1)
    assert "layout.nowhere was not rewritten" in failed.stderr and "cannot be found" in failed.stderr
    assert "\tat " not in failed.stderr
