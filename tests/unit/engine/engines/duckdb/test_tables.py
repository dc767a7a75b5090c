"""A view in DuckDB reads what Spark would read, and is refused where it could not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.catalog.tables import Column, Table
from penstock.engine.engines.duckdb.tables import (
    PhysicalColumn,
    bare_files,
    check_readable,
    duckdb_type,
    named_tables,
    needs_footers,
    parquet_view,
)
from penstock.errors import InvalidInput

NOON = datetime(2026, 7, 1, 12, tzinfo=timezone.utc)


def a_table(*columns: Column, location: str = "s3a://lake/t", **more: Any) -> Table:
    partitioned = any(column.partition for column in columns)
    default: dict[str, Any] = {"kind": "managed", "format": "parquet", "rows": None, "size_bytes": None}
    return Table(
        "sales", "t", location=location, partitions=0 if partitioned else None, columns=columns, **default | more
    )


def asked(view: str, question: str = "SELECT * FROM v ORDER BY 1") -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'America/New_York'")
        database.execute(f"CREATE VIEW v AS {view}")
        return database.execute(question).fetchall()


def written(place: Path, name: str, columns: Mapping[str, Any], **how: Any) -> str:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(dict(columns)), place / name, **how)
    return name


@pytest.mark.parametrize(
    ("spark", "expected"),
    [
        ("string", "VARCHAR"),
        ("varchar(10)", "VARCHAR"),
        ("char(3)", "VARCHAR"),
        ("decimal(7, 2)", "DECIMAL(7,2)"),
        ("timestamp", "TIMESTAMP WITH TIME ZONE"),
        ("array<map<string,decimal(7,2)>>", "MAP(VARCHAR, DECIMAL(7,2))[]"),
        ("struct<a:int,b:struct<c:array<date>>>", 'STRUCT("a" INTEGER, "b" STRUCT("c" DATE[]))'),
        ("interval day", None),
        ("variant", None),
        ("struct<a:variant>", None),
        ("array<int", None),
        ("string collate UTF8_LCASE", None),
        ("map<string,array<string collate UNICODE_CI>>", None),
        ("char(3) collate UTF8_LCASE", None),
    ],
)
def test_spark_s_types_have_duckdb_s_names_or_none(spark: str, expected: str | None) -> None:
    assert duckdb_type(spark) == expected


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (a_table(Column("id", "int"), kind="view", format=""), "view"),
        (a_table(Column("id", "int"), format="orc"), "orc"),
        (a_table(Column("wait", "interval day")), "wait interval day"),
        (a_table(Column("id", "int"), Column("key", "binary", True)), "key is binary"),
        (a_table(Column("name", "string collate UTF8_LCASE")), "name string collate UTF8_LCASE"),
        (a_table(Column("since", "int", default="5")), "its column since has the default 5, which DuckDB would read"),
        (a_table(Column("since", "int", default="5"), format="iceberg"), "since has the default 5"),
    ],
)
def test_what_duckdb_cannot_read_is_refused_with_the_reason(table: Table, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_readable(table)
    assert why in refused.value.why
    assert refused.value.fix == "use --engine spark"


def view_of(table: Table, place: Path, files: Sequence[str], bare: Sequence[str] = ()) -> str:
    return parquet_view(table, f"{place}/", [*files, *bare], bare)


def test_columns_are_found_by_name_in_any_case_and_have_the_catalog_s_types(tmp_path: Path) -> None:
    first = written(tmp_path, "1.parquet", {"ID": pa.array([1], pa.int32()), "gone": ["x"]})
    second = written(tmp_path, "2.parquet", {"more": ["m"], "id": pa.array([2**40], pa.int64())})
    table = a_table(Column("Id", "bigint"), Column("more", "string"))
    assert asked(view_of(table, tmp_path, [first, second])) == [(1, None), (2**40, "m")]


def test_partitions_have_the_values_of_the_catalog_and_keep_files_from_being_opened(tmp_path: Path) -> None:
    places = ["Year=2026/place=a%3Ab+c", "Year=2025/place=null", "Year=__HIVE_DEFAULT_PARTITION__/place=x"]
    files = [written(tmp_path, f"{place}/1.parquet", {"id": [n]}) for n, place in enumerate(places)]
    table = a_table(Column("id", "bigint"), Column("Year", "int", True), Column("place", "string", True))
    view = view_of(table, tmp_path, files)
    assert asked(view) == [(0, 2026, "a:b+c"), (1, 2025, "null"), (2, None, "x")]
    ((_, plan),) = asked(view, "EXPLAIN SELECT id FROM v WHERE year = 2026")
    assert "1/3" in plan


def test_a_column_called_as_duckdb_s_own_is_the_table_s(tmp_path: Path) -> None:
    file = written(tmp_path, "y=1/1.parquet", {"filename": ["mine"]})
    table = a_table(Column("filename", "string"), Column("y", "int", True))
    assert asked(view_of(table, tmp_path, [file])) == [("mine", 1)]


def test_points_in_time_are_the_same_in_whichever_form_a_file_has_them(tmp_path: Path) -> None:
    moment = pa.array([NOON], pa.timestamp("us", "UTC"))
    named = written(tmp_path, "named.parquet", {"id": [1], "at": moment})
    bare = written(tmp_path, "bare.parquet", {"id": [2], "at": moment}, use_deprecated_int96_timestamps=True)
    table = a_table(Column("id", "bigint"), Column("at", "timestamp"))
    assert asked(view_of(table, tmp_path, [named], [bare]), 'SELECT DISTINCT epoch("at") FROM v') == [
        (NOON.timestamp(),)
    ]
    nested = a_table(Column("id", "bigint"), Column("all", "array<timestamp>"))
    with pytest.raises(InvalidInput, match="cannot be read by DuckDB"):
        view_of(nested, tmp_path, [], [bare])


def test_texts_that_a_file_calls_bytes_are_texts(tmp_path: Path) -> None:
    file = written(tmp_path, "1.parquet", {"name": pa.array(["ä".encode()], pa.binary())})
    assert asked(view_of(a_table(Column("name", "string")), tmp_path, [file])) == [("ä",)]
    both = a_table(Column("name", "string"), Column("bytes", "binary"))
    assert needs_footers(both)
    assert bare_files(both, [PhysicalColumn(file, "bytes", "BYTE_ARRAY")]) == set()
    with pytest.raises(InvalidInput, match="cannot be read by DuckDB"):
        bare_files(both, [PhysicalColumn(file, "name", "BYTE_ARRAY")])


def test_only_files_with_the_oldest_times_are_read_by_themselves() -> None:
    table = a_table(Column("at", "timestamp"), Column("y", "timestamp", True))
    found = [PhysicalColumn("a", "at", "INT96"), PhysicalColumn("b", "text", "BYTE_ARRAY")]
    assert needs_footers(table)
    assert bare_files(table, found) == {"a"}
    assert not needs_footers(a_table(Column("local", "timestamp_ntz"), Column("y", "timestamp", True)))


def test_a_padded_text_is_compared_without_its_padding(tmp_path: Path) -> None:
    file = written(tmp_path, "1.parquet", {"letter": ["a   "]})
    view = view_of(a_table(Column("letter", "char(4)")), tmp_path, [file])
    assert asked(view, "SELECT count(*) FROM v WHERE letter = 'a'") == [(1,)]


def test_a_padded_partition_is_compared_without_its_padding(tmp_path: Path) -> None:
    places = ["letter=a   ", "letter=__HIVE_DEFAULT_PARTITION__"]
    files = [written(tmp_path, f"{place}/1.parquet", {"id": [n]}) for n, place in enumerate(places)]
    view = view_of(a_table(Column("id", "bigint"), Column("letter", "char(4)", True)), tmp_path, files)
    assert asked(view) == [(0, "a"), (1, None)]
    assert asked(view, "SELECT id FROM v WHERE letter = 'a'") == [(0,)]


def test_a_table_without_files_has_its_columns_and_no_row(tmp_path: Path) -> None:
    view = view_of(a_table(Column("id", "int"), Column("at", "timestamp"), Column("y", "int", True)), tmp_path, [])
    assert asked(view) == []
    assert [name for name, *_ in asked(view, "DESCRIBE v")] == ["id", "at", "y"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("select x from sales . orders", [("sales", "orders")]),
        ("from SALES . Orders join items", [("sales", "orders"), ("default", "items")]),
        ("from spark_catalog . sales . orders", [("sales", "orders")]),
        ('from "sales" . "or""ders"', [("sales", 'or"ders')]),
        ("select items . sales from other", [("default", "items")]),
        ("from nosuch . orders", []),
    ],
)
def test_a_statement_may_name_the_tables_whose_names_it_has(words: str, expected: list[tuple[str, str]]) -> None:
    names = {"default": {"items"}, "sales": {"orders", 'or"ders'}}
    assert named_tables(words.split(" "), names, "default") == expected
