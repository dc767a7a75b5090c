"""Skipping as users meet it: an index is built, queries read fewer files and answer the same, and it is dropped."""

from __future__ import annotations

import pytest

from penstock.cli import index
from penstock.home import Home
from tests.support.command import Answers, Command

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
NOWHERE = "BUILD SKIPPING INDEX ON skipping.nowhere"


@pytest.fixture(scope="module")
def queried(shared_home: Home) -> Answers:
    """An application that makes the tables, builds the index and queries by it."""
    return Command(shared_home).sql(f"{MAKE};{BUILD};{LITERAL};{JOIN}")


@pytest.fixture(scope="module")
def changed(shared_home: Home, queried: Answers) -> Answers:
    """The application after it, which changes the table, drops the index, and ends by a mistake."""
    statements = [INSERT, LITERAL, REFRESH, LITERAL, OFF, LITERAL, ON, DROP, LITERAL, NOWHERE]
    return Command(shared_home).sql(";".join(statements), fails=True)


def test_queries_of_an_indexed_table_skip_files_by_literals_and_joins(shared_home: Home, queried: Answers) -> None:
    change, columns = queried.results[3:5]
    assert index.records(change) == [{"files": FILES, "read": FILES, "obsolete": 0, "unreadable": 0, "unsettled": 0}]
    covered = {column["column"]: column for column in index.records(columns)}
    assert covered["day"]["files"] == FILES and covered["day"]["files_per_key"] < 0.2

    assert queried.rows[-2:] == [[[200, 719900]], [[1000, 7499500]]]
    skipped = queried.skipping
    assert (skipped["scans"], skipped["files"]) == (2, 2 * FILES)
    # A file holds ten days, give or take the sampling of their ranges: a week is in two files, perhaps three.
    assert skipped["files_skipped"] >= 2 * FILES - 6
    assert "of 32 files" in Command(shared_home).ok("show", queried.application.id)


def test_answers_stay_the_same_with_an_outdated_a_fresh_and_no_index(changed: Answers) -> None:
    answers = [result["rows"] for result in changed.results if result["statement"] == LITERAL]
    assert answers == [[[210, 719900 + 160045]]] * 4


def test_a_dropped_index_is_gone_and_skips_nothing(changed: Answers) -> None:
    dropped, shown = changed.results[-3:-1]
    assert index.records(dropped) == [{"dropped": True}]
    assert shown["rows"] == []
    # By the outdated index and the fresh one: the queries without one are no scans of an indexed table.
    assert changed.skipping["scans"] == 2


def test_a_mistake_is_told_by_its_cause_and_without_a_trace(changed: Answers) -> None:
    assert "cannot be found" in changed.errors
    assert "\tat " not in changed.errors and "Exception" not in changed.errors
