"""The files with a table's rows are those that Spark reads, and a partition is where its directory says so."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from penstock.catalog.tables import Column, Partition, Table
from penstock.engine.engines.table_files import Listing, data_files
from penstock.errors import InvalidInput
from penstock.lake.model import ObjectInfo

NOON = datetime(2026, 7, 1, 12, tzinfo=timezone.utc)


def a_table(*columns: Column) -> Table:
    return Table("sales", "t", "managed", "parquet", "s3a://lake/t", None, None, None, columns)


def an_object(key: str, size: int = 10) -> ObjectInfo:
    return ObjectInfo(key, size, NOON, "etag")


def test_files_are_those_that_spark_reads() -> None:
    keys = ["a.parquet", "_SUCCESS", ".part", "_temporary/0/b.parquet", "_year=1/c.parquet", "d._COPYING_", "y=1/.x"]
    listing = Listing.of([*(an_object(f"t/{key}") for key in keys), an_object("t/empty", 0)], "t/")
    assert {name: one.size for name, one in listing.files.items()} == {"a.parquet": 10, "_year=1/c.parquet": 10}
    assert not listing.unfinished


@pytest.mark.parametrize("place", ["", "year=1/"])
def test_a_commit_that_is_still_carried_out_is_seen(place: str) -> None:
    def listing(size: int) -> Listing:
        return Listing.of([an_object(f"t/{place}_penstock_commit/000000000007", size)], "t/")

    assert listing(200).unfinished
    assert not listing(0).unfinished


YEAR_AND_PLACE = (Column("id", "int"), Column("year", "int", partition=True), Column("Place", "string", partition=True))


def test_files_outside_of_the_catalog_s_partitions_are_left_out() -> None:
    table = a_table(*YEAR_AND_PLACE)
    known = [Partition("s3a://lake/t/year=2026/Place=a%3Ab", ("2026", "a:b"))]
    names = ("year=2026/Place=a%3Ab/1.parquet", "year=2026/Place=c/2.parquet", "3.parquet")
    files = {name: an_object(name) for name in names}
    found = data_files(table, known, Listing(files, unfinished=False), reader="DuckDB")
    assert found == {"year=2026/Place=a%3Ab/1.parquet": ("2026", "a:b")}


@pytest.mark.parametrize(
    "location", ["s3a://lake/elsewhere/2026", "s3a://lake/t/2026/a:b", "s3a://lake/t/year=2025/Place=a%3Ab"]
)
def test_a_partition_whose_directory_does_not_name_its_values_is_refused(location: str) -> None:
    table = a_table(*YEAR_AND_PLACE)
    with pytest.raises(InvalidInput, match="cannot be read by DuckDB"):
        data_files(table, [Partition(location, ("2026", "a:b"))], Listing({}, unfinished=False), reader="DuckDB")


def test_directories_below_a_table_without_partitions_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be read by DuckDB"):
        listing = Listing({name: an_object(name) for name in ("a.parquet", "more/b.parquet")}, unfinished=False)
        data_files(a_table(Column("id", "int")), [], listing, reader="DuckDB")
