"""The names of Spark's types are taken apart as Spark writes them, and anything else is refused."""

from __future__ import annotations

import pytest

from penstock.engine.engines.spark_types import SparkType, parse

INT = SparkType("int")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT", SparkType("bigint")),
        ("timestamp_ntz", SparkType("timestamp_ntz")),
        ("decimal(7, 2)", SparkType("decimal", (7, 2))),
        ("char(3)", SparkType("char", (3,))),
        ("array<int>", SparkType("array", fields=(("element", INT),))),
        ("map<int,array<int>>", SparkType("map", fields=(("key", INT), ("value", parse("array<int>"))))),
        (
            "struct<A b:int,c:map<int,decimal(7,2)>>",
            SparkType("struct", fields=(("A b", INT), ("c", parse("map<int,decimal(7,2)>")))),
        ),
    ],
)
def test_a_type_is_taken_apart(text: str, expected: SparkType) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "array<int", "array<int,int>", "map<int>", "struct<int>", "interval day", "int>"])
def test_what_is_no_type_of_columns_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse(text)


def test_a_type_tells_what_is_within_it() -> None:
    assert parse("array<struct<a:timestamp>>").contains("timestamp")
    assert not parse("array<struct<a:timestamp_ntz>>").contains("timestamp", "binary")
