"""A preview has rows of the table's smallest object in the table's columns, with the partition values of its path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

from penstock.catalog.tables import Column, Table
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake, ObjectInfo, ObjectStore
from penstock.lake.registry import Lakes
from penstock.service.api import data
from penstock.service.api.data import partition_values

LAKE = Lake("lake", ("http://127.0.0.1:1",), "lake", "file:lake")
TABLE = Table(
    database="db",
    name="sales",
    kind="EXTERNAL_TABLE",
    format="parquet",
    location="s3a://lake/db/sales",
    partitions=2,
    rows=None,
    size_bytes=None,
    columns=(Column("item", "int"), Column("Price", "double"), Column("day", "string", partition=True)),
)


class Objects:
    """A store of local files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, key: str, query: str) -> None:
        path = self._directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        duckdb.sql(query).write_parquet(str(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for path in sorted(self._directory.rglob("*")):
            key = path.relative_to(self._directory).as_posix()
            if path.is_file() and key.startswith(prefix):
                yield ObjectInfo(key, path.stat().st_size, datetime.now(timezone.utc), "")

    def download(self, key: str, target: Path) -> None:
        target.write_bytes((self._directory / key).read_bytes())


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path)


def shown(objects: Objects, table: Table = TABLE, rows: int = 50) -> dict[str, Any]:
    return data.read_preview(table, lambda _: (LAKE, cast(ObjectStore, objects)), rows=rows).model_dump(mode="json")


def test_rows_are_in_the_tables_columns_with_those_of_the_path(objects: Objects) -> None:
    objects.put("db/sales/day=2026-01-01/part-0.parquet", "SELECT 1 AS item, 2.5::DOUBLE AS price")
    found = shown(objects)
    assert [column["name"] for column in found["columns"]] == ["item", "Price", "day"]
    assert (found["rows"], found["truncated"]) == ([[1, 2.5, "2026-01-01"]], False)


def test_a_truncated_preview_is_marked(objects: Objects) -> None:
    objects.put("db/sales/part-0.parquet", "SELECT i::INT AS item FROM range(100) t(i)")
    found = shown(objects, rows=3)
    assert (len(found["rows"]), found["truncated"]) == (3, True)
    assert found["rows"][0][1:] == [None, None]


def test_the_smallest_object_is_read_and_none_that_is_hidden(objects: Objects) -> None:
    objects.put("db/sales/_temporary/part-0.parquet", "SELECT 0 AS item")
    objects.put("db/sales/big.parquet", "SELECT 1 AS item, repeat(uuid()::TEXT, 100) AS x FROM range(1000)")
    objects.put("db/sales/small.parquet", "SELECT 2 AS item")
    objects.put("db/sales2/part-0.parquet", "SELECT 3 AS item")
    found = shown(objects)
    assert (found["rows"][0][0], found["truncated"]) == (2, True)


def test_what_json_has_no_form_for_is_text(objects: Objects) -> None:
    objects.put(
        "db/sales/part-0.parquet",
        "SELECT 'nan'::DOUBLE AS price, DATE '2026-01-02' AS item",
    )
    assert shown(objects)["rows"] == [["2026-01-02", "nan", None]]


def test_an_empty_table_has_no_rows(objects: Objects) -> None:
    assert shown(objects)["rows"] == []


@pytest.mark.parametrize("change", [{"format": "orc"}, {"location": ""}, {"location": "file:///etc"}])
def test_only_parquet_in_a_lake_has_a_preview(objects: Objects, change: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="no preview"):
        shown(objects, replace(TABLE, **change))  # type: ignore[arg-type]


def test_a_path_is_read_as_hive_writes_it() -> None:
    key = "Day=2026-01-01/place=K%C3%B6ln%2FS%C3%BCd/none=__HIVE_DEFAULT_PARTITION__/a=b.parquet"
    assert partition_values(key) == {"day": "2026-01-01", "place": "Köln/Süd", "none": None}


def test_a_preview_is_read_with_no_submissions_keys(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    lakes = Lakes(home)
    registered = lakes.add(Lake("z", ("http://127.0.0.1:1",), "lake", "environment"))
    keys = Credentials("access", "secret")
    lakes.add(replace(registry.credential_scoped(registered, keys, "theirs"), name="a.0123456789abcdef"), keys)
    asked: list[str | None] = []

    class Engine:
        lake = store = asked.append

    data.lake_opener(cast(Any, Engine), home)("s3a://lake/db/sales")
    assert asked == ["z", "z"]
