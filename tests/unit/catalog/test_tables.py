"""Names and patterns of tables, and the SQL names of Spark's types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from penstock.catalog.tables import Column, Table, matches_table, sql_type

atoms = st.sampled_from(
    [
        spark.IntegerType(),
        spark.LongType(),
        spark.ShortType(),
        spark.ByteType(),
        spark.StringType(),
        spark.DateType(),
        spark.TimestampType(),
        spark.BooleanType(),
        spark.DoubleType(),
        spark.BinaryType(),
        spark.DecimalType(7, 2),
    ]
)
all_types = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(spark.ArrayType),
        st.tuples(inner, inner).map(lambda pair: spark.MapType(*pair)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: spark.StructType([spark.StructField(f"f{i}", kind) for i, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=5,
)


@given(all_types)
def test_a_type_reads_as_spark_itself_writes_it(kind: spark.DataType) -> None:
    assert sql_type(kind.jsonValue()) == kind.simpleString()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, True),
        ("store_sales", True),
        ("STORE_*", True),
        ("tpcds*.store_*", True),
        ("tpcds_sf1.*", True),
        ("*.store", False),
        ("sales", False),
        ("tpcds_sf1", False),
        ("other.store_sales", False),
    ],
)
def test_a_pattern_means_a_table_in_any_database_unless_it_names_one(pattern: str | None, *, found: bool) -> None:
    assert matches_table(pattern, "tpcds_sf1", "store_sales") is found


def table(*columns: Column, rows: int | None = None, size: int | None = None) -> Table:
    return Table("d", "t", "managed", "parquet", "s3a://b/t", None, rows, size, columns)


def test_the_statistics_of_a_table_are_said_to_be_no_better_than_they_are() -> None:
    assert table(Column("a", "int")).statistics == "none"
    assert table(Column("a", "int"), size=10).statistics == "table"
    assert table(Column("a", "int", analyzed=True), rows=0, size=0).statistics == "columns"
