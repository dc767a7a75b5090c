"""A result of DuckDB reads as Spark's does: types by Spark's names, values in the same JSON form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.engine.engines.results import columns, rows, value
from penstock.errors import InvalidInput


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        yield connection


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("true", "boolean", True),
        ("1::TINYINT", "tinyint", 1),
        ("255::UTINYINT", "smallint", 255),
        ("1::BIGINT", "bigint", 1),
        ("18446744073709551615::UBIGINT", "decimal(20,0)", "18446744073709551615"),
        ("sum(9223372036854775807)", "decimal(38,0)", "9223372036854775807"),
        ("1.50::DECIMAL(9, 4)", "decimal(9,4)", "1.5000"),
        ("1e-7::DECIMAL(18, 7)", "decimal(18,7)", "0.0000001"),
        ("0.1::FLOAT", "float", 0.1),
        ("'nan'::DOUBLE", "double", "NaN"),
        ("'-inf'::FLOAT", "float", "-Infinity"),
        ("'ä'", "string", "ä"),
        ("'ab'::BLOB", "binary", "YWI="),
        ("DATE '2026-01-31'", "date", "2026-01-31"),
        ("TIMESTAMPTZ '2026-07-01 12:00:00+00'", "timestamp", "2026-07-01 14:00:00.0"),
        ("TIMESTAMPTZ '1969-12-31 23:59:59.25+00'", "timestamp", "1970-01-01 00:59:59.25"),
        ("TIMESTAMP '2026-07-01 12:00:00'", "timestamp_ntz", "2026-07-01T12:00"),
        ("TIMESTAMP '2026-07-01 12:00:01.5'", "timestamp_ntz", "2026-07-01T12:00:01.500"),
        ("[1::BIGINT, NULL]", "array<bigint>", [1, None]),
        ("{a: 1, b: [{c: 'x'}]}", "struct<a:int,b:array<struct<c:string>>>", {"a": 1, "b": [{"c": "x"}]}),
        ("MAP {1: 0.5::DECIMAL(2, 1)}", "map<int,decimal(2,1)>", {"1": "0.5"}),
        ("MAP {true: 1}", "map<boolean,int>", {"true": 1}),
        ("NULL::DECIMAL(9, 4)", "decimal(9,4)", None),
        ("'a'::ENUM ('a')", "string", "a"),
        ("'0a1b2c3d-0000-0000-0000-000000000000'::UUID", "string", "0a1b2c3d-0000-0000-0000-000000000000"),
        ("TIME '10:00:00'", "string", "10:00:00"),
    ],
)
def test_a_value_has_spark_s_form(database: duckdb.DuckDBPyConnection, expression: str, kind: str, value: Any) -> None:
    reader = database.execute(f"SELECT {expression} AS x").to_arrow_reader(10)
    assert columns(reader.schema) == [{"name": "x", "type": kind}]
    assert rows(reader, None) == ([[value]], False)


@pytest.mark.parametrize(
    "kind", [pa.duration("us"), pa.month_day_nano_interval(), pa.struct([("a", pa.list_(pa.duration("us")))])]
)
def test_an_interval_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="The result has an interval") as refused:
        columns(pa.schema([("x", kind)]))
    assert refused.value.fix.startswith("use --engine spark")


@pytest.mark.parametrize(("limit", "count", "truncated"), [(None, 5, False), (5, 5, False), (4, 4, True), (1, 1, True)])
def test_a_result_is_cut_at_its_limit(
    database: duckdb.DuckDBPyConnection, limit: int | None, count: int, truncated: bool
) -> None:
    found, more = rows(database.execute("SELECT * FROM range(5)").to_arrow_reader(2), limit)
    assert (len(found), more) == (count, truncated)


def test_fields_of_one_name_keep_their_values() -> None:
    fields = [pa.field(name, pa.int64()) for name in ("a", "a", "a_1", "a")]
    columns = [pa.array([number]) for number in range(4)]
    assert value(pa.StructArray.from_arrays(columns, fields=fields)[0]) == {"a": 0, "a_2": 1, "a_1": 2, "a_3": 3}
