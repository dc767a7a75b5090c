"""Parquet tables in Iceberg's form have Spark's rows, for PyIceberg as an independent reader, or are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable

from penstock.catalog.tables import Column, Table
from penstock.engine.engines.iceberg.tables import ParquetFile, Reader, check_readable, describe
from penstock.errors import InvalidInput

READER = Reader("Sail", 3, re.compile(r"\w+://[\w.=/-]*", re.ASCII))
NOON = datetime(2026, 7, 1, 12, tzinfo=timezone.utc)


def a_table(*columns: Column, **more: Any) -> Table:
    default: dict[str, Any] = {"kind": "managed", "format": "parquet", "rows": None, "size_bytes": None}
    return Table("sales", "t", location="s3a://lake/t", partitions=None, columns=columns, **default | more)


def written(place: Path, columns: Mapping[str, Any], *values: str, **how: Any) -> ParquetFile:
    place.parent.mkdir(parents=True, exist_ok=True)
    content = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
    parquet.write_table(content, place, **how)
    return ParquetFile.of(place.as_uri(), place.stat().st_size, parquet.read_metadata(place), values)


def read(place: Path, table: Table, *files: ParquetFile, condition: str = "") -> list[dict[str, Any]]:
    described = describe(table, files, (place / "description").as_uri(), READER)
    (place / "description").mkdir()
    for address, content in described.files.items():
        Path(address.removeprefix("file://")).write_bytes(content)
    scan = StaticTable.from_metadata(described.address).scan(*[condition] if condition else [])
    return list(scan.to_arrow().to_pylist())


def test_the_rows_are_those_of_the_files_with_their_partitions_values(tmp_path: Path) -> None:
    table = a_table(
        Column("id", "bigint"), Column("year", "int", partition=True), Column("place", "string", partition=True)
    )
    files = (
        written(tmp_path / "1.parquet", {"id": [1, 2]}, "2026", "x/y"),
        written(tmp_path / "2.parquet", {"id": [3]}, "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
    )
    rows = read(tmp_path, table, *files)
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "year": 2026, "place": "x/y"},
        {"id": 2, "year": 2026, "place": "x/y"},
        {"id": 3, "year": None, "place": None},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("bigint", "-3", -3), ("boolean", "TRUE", True), ("date", "2026-02-28", date(2026, 2, 28)), ("string", "7", "7")],
)
def test_a_partition_s_value_has_the_column_s_type(tmp_path: Path, kind: str, text: str, value: Any) -> None:
    table = a_table(Column("id", "bigint"), Column("part", kind, partition=True))
    (row,) = read(tmp_path, table, written(tmp_path / "1.parquet", {"id": [1]}, text))
    assert row == {"id": 1, "part": value}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "abc"),
        ("int", "1_000"),
        ("int", "2147483648"),
        ("bigint", "9223372036854775808"),
        ("boolean", "yes"),
        ("date", "2026-02-30"),
        ("date", "20260228"),
    ],
)
def test_a_partition_whose_value_is_not_of_the_column_s_type_is_refused(tmp_path: Path, kind: str, text: str) -> None:
    table = a_table(Column("id", "bigint"), Column("part", kind, partition=True))
    with pytest.raises(InvalidInput, match=r"sales\.t cannot be read by Sail") as refused:
        describe(table, [written(tmp_path / "1.parquet", {"id": [1]}, text)], "s3a://lake/d", READER)
    assert f"part={text}" in (refused.value.why or "")
    assert refused.value.fix == "use --engine spark"


def test_columns_are_found_by_name_in_any_case_and_absent_ones_are_null(tmp_path: Path) -> None:
    table = a_table(Column("Id", "bigint"), Column("more", "string"))
    one = written(tmp_path / "1.parquet", {"ID": [1]})
    two = written(tmp_path / "2.parquet", {"more": ["m"], "id": pa.array([2], pa.int32())})
    rows = sorted(read(tmp_path, table, one, two), key=lambda row: row["Id"])
    assert rows == [{"Id": 1, "more": None}, {"Id": 2, "more": "m"}]


def test_a_table_without_files_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path, a_table(Column("id", "int"), Column("at", "timestamp"))) == []


def test_nested_columns_are_read(tmp_path: Path) -> None:
    table = a_table(Column("s", "struct<a:bigint,b:array<string>>"), Column("m", "map<string,decimal(7,2)>"))
    kinds = {
        "s": pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        "m": pa.map_(pa.string(), pa.decimal128(7, 2)),
    }
    values = {"s": [{"a": 1, "b": ["x", None]}], "m": [[("k", Decimal("1.50"))]]}
    content = pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()})
    (row,) = read(tmp_path, table, written(tmp_path / "1.parquet", content))
    assert row == {"s": {"a": 1, "b": ["x", None]}, "m": [("k", Decimal("1.50"))]}


def moments(unit: str, zone: str | None) -> pa.Array:
    return pa.array([NOON if zone else NOON.replace(tzinfo=None)], pa.timestamp(unit, zone))


@pytest.mark.parametrize(
    ("kind", "stored", "how"),
    [
        ("timestamp", moments("us", "UTC"), {}),
        ("timestamp", moments("us", "UTC"), {"use_deprecated_int96_timestamps": True}),
        ("timestamp_ntz", moments("us", None), {}),
        ("double", pa.array([1.5], pa.float32()), {}),
        ("decimal(9,2)", pa.array([Decimal("1.50")], pa.decimal128(7, 2)), {}),
        ("tinyint", pa.array([1], pa.int8()), {}),
        ("varchar(3)", pa.array(["abc"]), {}),
        ("binary", pa.array([b"abc"]), {}),
    ],
)
def test_a_form_that_keeps_every_value_is_read(
    tmp_path: Path, kind: str, stored: pa.Array, how: dict[str, Any]
) -> None:
    file = written(tmp_path / "1.parquet", {"c": stored}, **how)
    assert describe(a_table(Column("c", kind)), [file], "s3a://lake/d", READER).files


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("int", pa.array([1], pa.int64())),
        ("int", pa.array(["1"])),
        ("string", pa.array([b"1"])),
        ("decimal(7,2)", pa.array([Decimal("1.500")], pa.decimal128(7, 3))),
        ("decimal(7,2)", pa.array([1.5])),
        ("timestamp", moments("us", None)),
        ("timestamp_ntz", moments("us", "UTC")),
        ("date", moments("us", "UTC")),
        ("float", pa.array([1.5])),
        ("array<int>", pa.array([[1]], pa.list_(pa.int64()))),
        ("struct<a:int,b:int>", pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))),
        ("map<string,int>", pa.array([["a"]])),
    ],
)
def test_a_form_that_spark_would_read_otherwise_is_refused(tmp_path: Path, kind: str, stored: pa.Array) -> None:
    file = written(tmp_path / "1.parquet", {"c": stored})
    with pytest.raises(InvalidInput, match="cannot be read by Sail") as refused:
        describe(a_table(Column("c", kind)), [file], "s3a://lake/d", READER)
    assert file.address in refused.value.why


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("1.parquet", {"id": [1], "ID": [2]}),
        ("1.parquet", {"id": [1], "year": [2026]}),
        ("a b.parquet", {"id": [1]}),
        ("ä.parquet", {"id": [1]}),
    ],
)
def test_files_that_a_reader_would_take_for_others_are_refused(
    tmp_path: Path, name: str, columns: dict[str, Any]
) -> None:
    table = a_table(Column("id", "bigint"), Column("year", "int", partition=True))
    file = written(tmp_path / name, columns, "2026")
    with pytest.raises(InvalidInput, match="cannot be read by Sail"):
        describe(table, [file], "s3a://lake/d", READER)
    if list(columns) == ["id"]:
        assert describe(table, [file], "s3a://lake/d", Reader("Other", 2)).files


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (a_table(Column("id", "int"), kind="view", format=""), "view"),
        (a_table(Column("id", "int"), format="orc"), "orc"),
        (a_table(Column("letter", "char(3)")), "letter char(3)"),
        (a_table(Column("wait", "interval day")), "wait interval day"),
        (a_table(Column("name", "string collate UTF8_LCASE")), "name string collate UTF8_LCASE"),
        (a_table(Column("names", "array<string collate UNICODE_CI>")), "names array<string collate UNICODE_CI>"),
        (a_table(Column("since", "int", default="5")), "its column since has the default 5, which Sail would read"),
        (a_table(Column("since", "int", default="5"), format="iceberg"), "since has the default 5"),
        (a_table(Column("id", "int"), Column("part", "decimal(7,2)", True)), "part is decimal(7,2)"),
    ],
)
def test_what_a_reader_cannot_read_is_refused_with_the_reason(table: Table, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_readable(table, READER)
    assert why in refused.value.why
    assert refused.value.fix == "use --engine spark"


VALUES = {
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "decimal(9,2)": (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "date": (pa.date32(), st.dates()),
    "string": (pa.string(), st.text(st.characters(exclude_categories=("Cs",)), max_size=20)),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(timezone.utc))),
}


@pytest.mark.parametrize("kind", VALUES)
def test_no_value_lies_outside_of_its_file_s_bounds(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Bounds would leave out a file with the rows that a filter asks for."""
    arrow, strategy = VALUES[kind]

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.lists(st.none() | strategy, max_size=4), min_size=1, max_size=3))
    def check(groups: list[list[Any]]) -> None:
        place = tmp_path_factory.mktemp("bounds")
        table = a_table(Column("c", kind))
        with parquet.ParquetWriter(place / "1.parquet", pa.schema([("c", arrow)])) as writer:
            for group in groups:
                writer.write_table(pa.table({"c": pa.array(group, arrow)}))
        file = ParquetFile.of((place / "1.parquet").as_uri(), 1, parquet.read_metadata(place / "1.parquet"), ())
        described = describe(table, [file], (place / "d").as_uri(), READER)
        (place / "d").mkdir()
        for address, content in described.files.items():
            Path(address.removeprefix("file://")).write_bytes(content)
        iceberg = StaticTable.from_metadata(described.address)
        values = [value for group in groups for value in group]
        for value in {value for value in values if value is not None}:
            literal = value.isoformat() if kind in ("date", "timestamp") else value
            assert list(iceberg.scan(EqualTo("c", literal)).plan_files())
        (entry,) = iceberg.inspect.files().to_pylist()
        assert entry["record_count"] == len(values)
        assert dict(entry["null_value_counts"] or {}).get(1, values.count(None)) == values.count(None)

    check()
