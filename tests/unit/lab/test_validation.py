"""The independent engine follows Spark's semantics: null order, casts, ties at a LIMIT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from penstock.home import Home
from penstock.lab.answers import Answer, compare, compare_ordered
from penstock.lab.validation import AnswerKey, ReferenceEngine, check_answers
from tests.unit.lab.lab_fakes import MemoryStore


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
    found = reference.answer("q", "SELECT item, name FROM sales").answer
    assert compare(found, answer([(1, "a"), (2, "b"), (3, "c"), (None, "d")], "int", "string")).same


def test_nulls_come_first_as_in_spark(reference: ReferenceEngine) -> None:
    found = reference.answer("q", "SELECT name FROM sales ORDER BY item LIMIT 1").answer
    assert found.rows == (("d",),)
    assert reference.answer("q", "SELECT name FROM sales ORDER BY item DESC LIMIT 1").answer.rows == (("c",),)


def test_a_division_by_zero_is_null(reference: ReferenceEngine) -> None:
    assert reference.answer("q", "SELECT 1.0 / 0").answer.rows == ((None,),)


def test_a_quotient_is_rounded_by_its_decimal_digits_as_in_spark(reference: ReferenceEngine) -> None:
    text = "SELECT round(a / (coalesce(b, 1)), 2) FROM (VALUES (201, 200), (1, 8), (-1, 8)) t(a, b)"
    assert reference.answer("q78", text).answer.rows == ((1.01,), (0.13,), (-0.13,))


def test_names_in_backticks_are_names(reference: ReferenceEngine) -> None:
    assert reference.answer("q", "SELECT count(*) AS `how many ` FROM sales").answer.columns == ("how many ",)


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
    limited, whole = reference.answer("q", text), reference.answer("q", text, whole=True)
    assert limited.answer.rows == limited.extended.rows or limited.visible < len(limited.extended.columns)
    assert len(limited.extended.rows) <= int(text.rsplit(maxsplit=1)[1]) == whole.limit
    assert compare_ordered(limited.answer, limited).same
    assert compare_ordered(limited.answer, whole).same


def test_an_engine_may_keep_another_of_the_tied_rows(reference: ReferenceEngine) -> None:
    whole = reference.answer("q", "SELECT name FROM sales ORDER BY price LIMIT 2", whole=True)
    assert compare_ordered(answer([("d",), ("a",)], "string"), whole).same
    assert compare_ordered(answer([("d",), ("b",)], "string"), whole).same
    assert not compare_ordered(answer([("a",), ("b",)], "string"), whole).same
    assert not compare_ordered(answer([("d",), ("c",)], "string"), whole).same
    assert not compare_ordered(answer([("a",), ("d",)], "string"), whole).same


def test_rows_are_in_the_querys_order_without_a_limit_too(reference: ReferenceEngine) -> None:
    by_price = reference.answer("q", "SELECT name FROM sales ORDER BY price")
    assert by_price.limit is None
    assert compare_ordered(answer([("d",), ("b",), ("a",), ("c",)], "string"), by_price).same
    assert not compare_ordered(answer([("b",), ("d",), ("a",), ("c",)], "string"), by_price).same
    in_any_order = reference.answer("q", "SELECT name FROM sales")
    assert compare_ordered(answer([("b",), ("d",), ("a",), ("c",)], "string"), in_any_order).same


@pytest.fixture
def key(tmp_path: Path) -> Iterator[AnswerKey]:
    store = MemoryStore()
    file = tmp_path / "item.parquet"
    duckdb.sql("SELECT * FROM (VALUES ('a', 2.5), ('b', 2.5), ('c', 9.0)) t(name, price)").write_parquet(str(file))
    store.put("data/item/part-0.parquet", file)
    found = AnswerKey(Home(tmp_path / "home"), store, "data/", b'{"scale": 1, "tables": []}')
    yield found
    found.close()


TEXTS = {
    "tied": "SELECT name FROM item ORDER BY price LIMIT 1",
    "none": "SELECT name FROM item WHERE price > 10",
    "broken": "SELECT name FROM nowhere",
    "lost": "SELECT name FROM item",
}


def line(query: str, *names: str) -> dict[str, object]:
    return {"query": query, "columns": ["name"], "types": ["string"], "rows": [[name] for name in names]}


def checked(key: AnswerKey, *lines: dict[str, object]) -> list[tuple[object, ...]]:
    samples = list(check_answers(key, lines, TEXTS, lambda _: None))
    return [(sample["query"], sample["verdict"], sample["rows"], sample["note"]) for sample in samples]


def test_a_verdict_says_how_many_rows_were_compared(key: AnswerKey) -> None:
    for _ in range(2):  # from the engine, then from the file
        assert checked(key, line("tied", "b"), line("tied", "c"), line("none")) == [
            ("tied", "equal", 1, "equal"),
            ("tied", "different", 1, "0 rows missing, 1 row unexpected"),
            ("none", "equal", 0, "equal: neither engine returned a row"),
        ]


def test_an_answer_that_could_not_be_checked_is_recorded_with_the_reason(key: AnswerKey) -> None:
    broken, lost, tied = checked(key, line("broken", "a"), {"query": "lost"}, line("tied", "a"))
    assert broken[:3] == ("broken", "unchecked", 0)
    assert "nowhere" in str(broken[3])
    assert lost == ("lost", "unchecked", 0, "the application left no answer")
    assert tied[1] == "equal"


def test_data_that_cannot_be_read_leaves_answers_unchecked_after_one_attempt(tmp_path: Path) -> None:
    store = MemoryStore()
    attempts = []
    store.list = lambda prefix: attempts.append(prefix) or ()  # type: ignore[assignment, func-returns-value, return-value]
    empty = AnswerKey(Home(tmp_path / "home"), store, "data/", b'{"scale": 1, "tables": []}')
    assert [verdict for _, verdict, *_ in checked(empty, line("tied", "a"), line("none"))] == ["unchecked"] * 2
    assert attempts == ["data/"]
