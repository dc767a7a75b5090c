"""The independent engine follows Spark's semantics: null order, casts, ties at a LIMIT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from penstock.lab.answers import Answer, compare, compare_top
from penstock.lab.validation import ReferenceEngine


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[ReferenceEngine]:
    values = "(1, 'a', 2.5), (2, 'b', 2.5), (3, 'c', 9.0), (NULL, 'd', 1.0)"
    sales = duckdb.sql(f"SELECT * FROM (VALUES {values}) t(item, name, price)")  # noqa: S608
    sales.to_parquet(str(tmp_path / "sales"), partition_by=["item"])
    engine = ReferenceEngine(tmp_path, scratch=tmp_path / "scratch")
    yield engine
    engine.close()


def answer(rows: list[tuple[object, ...]], *types: str) -> Answer:
    return Answer("q", tuple(f"c{i}" for i in range(len(types))), types, tuple(rows))


def test_a_hive_partition_column_is_a_column_and_its_default_partition_is_null(reference: ReferenceEngine) -> None:
    found = reference.answer("q", "SELECT item, name FROM sales")
    assert compare(found, answer([(1, "a"), (2, "b"), (3, "c"), (None, "d")], "int", "string")).same


def test_nulls_come_first_as_in_spark(reference: ReferenceEngine) -> None:
    found = reference.answer("q", "SELECT name FROM sales ORDER BY item LIMIT 1")
    assert found.rows == (("d",),)
    assert reference.answer("q", "SELECT name FROM sales ORDER BY item DESC LIMIT 1").rows == (("c",),)


def test_a_division_by_zero_is_null(reference: ReferenceEngine) -> None:
    assert reference.answer("q", "SELECT 1.0 / 0").rows == ((None,),)


def test_names_in_backticks_are_names(reference: ReferenceEngine) -> None:
    assert reference.answer("q", "SELECT count(*) AS `how many ` FROM sales").columns == ("how many ",)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM sales ORDER BY price, name LIMIT 2",
        "SELECT name AS n FROM sales ORDER BY sales.price LIMIT 2",
        "SELECT name, price * 2 AS doubled FROM sales ORDER BY CASE WHEN doubled > 3 THEN doubled END LIMIT 3",
        "SELECT name, sum(price) FROM sales GROUP BY name ORDER BY sum(price) DESC LIMIT 2",
        "SELECT price, count(*) FROM sales GROUP BY ROLLUP(price) ORDER BY grouping(price), 1 LIMIT 3",
        "WITH s AS (SELECT * FROM sales) SELECT * FROM s ORDER BY price, 2 LIMIT 2",
        "SELECT name, price FROM sales UNION ALL SELECT name, 0 FROM sales ORDER BY price, name LIMIT 3",
        "SELECT count(*) FROM sales LIMIT 100",
    ],
)
def test_the_whole_result_begins_with_the_limited_one(reference: ReferenceEngine, text: str) -> None:
    limited, whole = reference.answer("q", text), reference.whole("q", text)
    assert whole is not None
    assert whole.answer.columns == limited.columns
    assert compare_top(limited, whole).same


def test_an_engine_may_keep_another_of_the_tied_rows(reference: ReferenceEngine) -> None:
    whole = reference.whole("q", "SELECT name FROM sales ORDER BY price LIMIT 2")
    assert whole is not None
    assert compare_top(answer([("d",), ("a",)], "string"), whole).same
    assert compare_top(answer([("d",), ("b",)], "string"), whole).same
    assert not compare_top(answer([("a",), ("b",)], "string"), whole).same
    assert not compare_top(answer([("d",), ("c",)], "string"), whole).same


def test_a_query_without_a_limit_has_no_ties(reference: ReferenceEngine) -> None:
    assert reference.whole("q", "SELECT name FROM sales ORDER BY price") is None
