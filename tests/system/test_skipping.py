"""Skipping and layout from the user's side, in two applications, and a third that is disturbed.

An index is built, queries read fewer files, and it is dropped; queries are recorded, and advice on a table's layout is
requested and followed; answers stay the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.catalog import index
from penstock.home import Home
from tests.support.command import SMALL, Answers, Command

FILES = 16

# Sixteen files, each with a sixteenth of the days.
MAKE = """
CREATE DATABASE skipping;
CREATE TABLE skipping.facts USING parquet AS
  SELECT /*+ REPARTITION_BY_RANGE(16, day) */ id, id DIV 100 AS day FROM range(16000);
CREATE TABLE skipping.days USING parquet AS SELECT id AS day, id DIV 10 AS week FROM range(160)
"""
BUILD = "BUILD SKIPPING INDEX ON skipping.facts; SHOW SKIPPING INDEX ON skipping.facts"
LITERAL = "SELECT count(*), sum(id) FROM skipping.facts WHERE day BETWEEN 35 AND 36"
JOIN = "SELECT count(*), sum(id) FROM skipping.facts JOIN skipping.days USING (day) WHERE week = 7"

INSERT = "INSERT INTO skipping.facts SELECT id + 16000, 35 FROM range(10)"
REFRESH = "REFRESH SKIPPING INDEX ON skipping.facts"
OFF = "SET spark.penstock.skipping.enabled = false"
ON = "SET spark.penstock.skipping.enabled = true"
DROP = "DROP SKIPPING INDEX ON skipping.facts; SHOW SKIPPING INDEX ON skipping.facts"
BUILD_NOWHERE = "BUILD SKIPPING INDEX ON skipping.nowhere"

OBJECTS = ("--conf", "spark.penstock.skipping.layout.object.size=16384b")

# Eight days in random order: every file contains each of them.
MAKE_SALES = """
CREATE DATABASE layout;
CREATE TABLE layout.sales USING parquet AS
  SELECT /*+ REPARTITION(4) */ id, CAST(id % 8 AS int) AS day, uuid() AS note FROM range(8000);
CREATE TABLE layout.days USING parquet AS SELECT CAST(id AS int) AS day, id DIV 2 AS week FROM range(8);
ANALYZE TABLE layout.sales COMPUTE STATISTICS FOR COLUMNS day
"""
SALES_OF_A_DAY = "SELECT count(*), sum(id) FROM layout.sales WHERE day = 3"
SALES_OF_A_WEEK = "SELECT count(*), sum(id) FROM layout.sales JOIN layout.days USING (day) WHERE week = 1"
SALES = [[[1000, 3999000]], [[2000, 7997000]]]

ADVICE = "SHOW SKIPPING ADVICE ON layout.sales"
ADVISED = "REWRITE TABLE layout.sales AS ADVISED"
# This rewrite is in place: the partition columns stay, on a lake whose commits are atomic.
IN_PLACE = "REWRITE TABLE layout.sales PARTITIONED BY (day) RANGED BY (id INTO 2)"
SHOW_INDEX = "SHOW SKIPPING INDEX ON layout.sales"
SHOW_TABLE = ("SHOW PARTITIONS layout.sales", "DESCRIBE TABLE EXTENDED layout.sales")
REWRITE_NOWHERE = "REWRITE TABLE layout.nowhere PARTITIONED BY (day)"

# Another job keeps adding rows during the rewrite.
MEANWHILE = """
import json
import threading
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sql("CREATE DATABASE grown")
spark.sql("CREATE TABLE grown.sales USING parquet AS SELECT id, CAST(id % 4 AS int) AS day FROM range(4000)")
outcome = []

def rewrite():
    try:
        spark.sql("REWRITE TABLE grown.sales RANGED BY (id INTO 4)").collect()
        outcome.append("rewritten")
    except Exception as error:
        outcome.append(str(error))

def rows():
    spark.sql("REFRESH TABLE grown.sales")
    return spark.sql("SELECT count(*) FROM grown.sales").first()[0]

rewriting = threading.Thread(target=rewrite)
rewriting.start()
added = 0
while rewriting.is_alive():
    spark.sql(f"INSERT INTO grown.sales SELECT {9000 + added}, 1")
    added += 1
rewriting.join()
kept = rows()
rewrite()
print("RESULT", json.dumps({"outcome": outcome, "added": added, "kept": kept, "at rest": rows()}))
"""


@pytest.fixture(scope="module")
def queried(shared_home: Home) -> Answers:
    """An application that makes the tables, and ends with an error.

    It builds an index of one table, queries by it, adds rows, and drops it; queries of the other table are recorded.
    """
    of_facts = [BUILD, LITERAL, JOIN, INSERT, LITERAL, REFRESH, LITERAL, OFF, LITERAL, ON, DROP, LITERAL]
    of_sales = [MAKE_SALES, SALES_OF_A_DAY, SALES_OF_A_WEEK, REWRITE_NOWHERE]
    return Command(shared_home).sql(";".join([MAKE, *of_facts, *of_sales]), fails=True)


@pytest.fixture(scope="module")
def laid_out(shared_home: Home, queried: Answers) -> Answers:
    """The next application, which also ends with an error.

    It requests advice on a table, follows it, and lays the table out once more.
    """
    statements = [ADVICE, ADVISED, *SHOW_TABLE, IN_PLACE, SALES_OF_A_DAY, SALES_OF_A_WEEK, SHOW_INDEX, BUILD_NOWHERE]
    return Command(shared_home).sql(";".join(statements), *OBJECTS, fails=True)


def of(answers: Answers, statement: str) -> list[list[Any]]:
    """Return the rows of a statement that was run once."""
    (result,) = [result for result in answers.results if result["statement"] == statement]
    rows: list[list[Any]] = result["rows"]
    return rows


def test_queries_of_an_indexed_table_skip_files_by_literals_and_joins(shared_home: Home, queried: Answers) -> None:
    change, columns = queried.results[3:5]
    assert index.records(change) == [{"files": FILES, "read": FILES, "obsolete": 0, "unreadable": 0, "unsettled": 0}]
    covered = {column["column"]: column for column in index.records(columns)}
    assert covered["day"]["files"] == FILES and covered["day"]["files_per_key"] < 0.2

    first, *later = [result["rows"] for result in queried.results if result["statement"] in (LITERAL, JOIN)]
    assert (first, later[0]) == ([[200, 719900]], [[1000, 7499500]])
    (added,) = [files for (_, files, *_) in of(queried, REFRESH)]
    skipped = queried.skipping
    # Two scans use the first index, one uses it outdated, and one uses the fresh index: queries without an index are no
    # scans of an indexed table.
    assert (skipped["scans"], skipped["files"]) == (4, 4 * FILES + 2 * added)
    # A file holds about ten days, since ranges are sampled: a week is in two files, perhaps three. Added files contain
    # a requested day.
    assert skipped["files_skipped"] >= 4 * FILES - 12
    assert f"of {skipped['files']} files" in Command(shared_home).ok("show", queried.application.id)


def test_answers_stay_the_same_with_an_outdated_a_fresh_and_no_index(queried: Answers) -> None:
    answers = [result["rows"] for result in queried.results if result["statement"] == LITERAL]
    assert answers[1:] == [[[210, 719900 + 160045]]] * 4


def test_a_dropped_index_is_gone(queried: Answers) -> None:
    dropped = [result["statement"] for result in queried.results].index("DROP SKIPPING INDEX ON skipping.facts")
    assert index.records(queried.results[dropped]) == [{"dropped": True}]
    assert queried.results[dropped + 1]["rows"] == []


def test_a_mistake_is_reported_with_its_cause_and_without_a_stack_trace(laid_out: Answers) -> None:
    assert "cannot be found" in laid_out.errors
    assert "\tat " not in laid_out.errors and "Exception" not in laid_out.errors


def test_advice_follows_from_the_queries_that_an_earlier_application_noted(queried: Answers, laid_out: Answers) -> None:
    assert queried.rows[-2:] == SALES
    items = [(row["item"], row["value"]) for row in index.records(laid_out.results[0])]
    advice = dict(items)
    assert advice["layout"] == "PARTITIONED BY (`day`)" and advice["scans"] == "2"
    assert int(advice["bytes then"]) < int(advice["bytes now"]) / 4
    assert any("in conditions of 2 scans by joins and filters" in value for item, value in items if item == "why")


def test_a_table_is_laid_out_as_advised(laid_out: Answers) -> None:
    (done,) = index.records(laid_out.results[1])
    assert done["files_before"] == 4 and done["files"] == 8 and done["rows"] == 8000
    partitions, described = (of(laid_out, statement) for statement in SHOW_TABLE)
    assert partitions == [[f"day={day}"] for day in range(8)]
    assert {row[0]: row[1] for row in described}["Statistics"].endswith("8000 rows")


def test_a_table_is_laid_out_anew_in_place_and_answers_as_before(shared_home: Home, laid_out: Answers) -> None:
    (rewritten,) = of(laid_out, IN_PLACE)
    assert rewritten[2:] == [8, rewritten[3], 16, rewritten[5], 8000]
    assert [*of(laid_out, SALES_OF_A_DAY), *of(laid_out, SALES_OF_A_WEEK)] == [row for rows in SALES for row in rows]
    assert {row[0]: row[3] for row in of(laid_out, SHOW_INDEX)}["id"] == 16
    table: dict[str, Any] = json.loads(Command(shared_home).ok("tables", "show", "layout.sales", "--json"))
    assert table["location"] == {row[0]: row[1] for row in of(laid_out, SHOW_TABLE[1])}["Location"]
    assert table["partitions"] == 8 and table["rows"] == 8000
    assert [column["name"] for column in table["columns"] if column["analyzed"]] == ["day"]


def test_a_missing_table_is_reported_with_its_cause(queried: Answers) -> None:
    assert "`layout`.`nowhere`" in queried.errors and "cannot be found" in queried.errors
    assert "\tat " not in queried.errors


def test_rows_that_another_job_adds_while_a_table_is_rewritten_in_place_are_not_lost(
    shared_home: Home, tmp_path: Path
) -> None:
    script = tmp_path / "meanwhile.py"
    script.write_text(MEANWHILE)
    printed = Command(shared_home).ok("run", *SMALL, *OBJECTS, str(script))
    (result,) = [json.loads(line.split(" ", 1)[1]) for line in printed.splitlines() if line.startswith("RESULT ")]
    (first, second) = result["outcome"]
    assert result["added"] > 0 and result["kept"] == 4000 + result["added"]
    assert first == "rewritten" or "another job has committed to it" in first
    assert second == "rewritten" and result["at rest"] == result["kept"]
