"""Names and patterns of tables, and the SQL names of Spark's types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from penstock.catalog.tables import Column, Table, _spark_columns, _table, matches_table, sql_type

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
        spark.StringType("UTF8_LCASE"),
        spark.StringType("UNICODE_CI"),
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


def columns_of(schema: spark.StructType) -> tuple[Column, ...]:
    """The columns of a table for which Spark entered this schema into the metastore."""
    return _spark_columns({"spark.sql.sources.schema": schema.json()})


@given(all_types)
def test_a_type_reads_as_spark_itself_writes_it(kind: spark.DataType) -> None:
    (column,) = columns_of(spark.StructType([spark.StructField("c", kind)]))
    assert column.type == kind.simpleString()


def test_a_padded_text_keeps_its_collation() -> None:
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    kind = spark.StringType("UTF8_LCASE")
    (column,) = columns_of(spark.StructType([spark.StructField("c", kind, metadata=metadata)]))
    assert column.type == "char(3) collate UTF8_LCASE"
    assert sql_type("string") == "string"


@pytest.mark.parametrize(
    ("metadata", "default"),
    [
        ({}, None),
        ({"CURRENT_DEFAULT": "5"}, None),
        ({"CURRENT_DEFAULT": "6", "EXISTS_DEFAULT": "5"}, "5"),
        ({"EXISTS_DEFAULT": "'null'"}, "'null'"),
        ({"EXISTS_DEFAULT": " null "}, None),
        ({"EXISTS_DEFAULT": "CAST(NULL AS DECIMAL(7, 2))"}, None),
        ({"EXISTS_DEFAULT": "CAST(NULL AS STRUCT<a: INT>)"}, None),
        ({"EXISTS_DEFAULT": "CAST('NULL' AS STRING)"}, "CAST('NULL' AS STRING)"),
    ],
)
def test_a_column_has_the_default_of_files_without_it(metadata: dict[str, str], default: str | None) -> None:
    (column,) = columns_of(spark.StructType([spark.StructField("c", spark.StringType(), metadata=metadata)]))
    assert column.default == default


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


def test_a_table_s_json_has_all_of_its_columns_properties() -> None:
    found = table(Column("a", "int", default="5"), Column("b", "string", comment="b"))
    assert found.to_json()["columns"][0]["default"] == "5"
    assert Table.from_json(found.to_json()) == found


def test_the_statistics_of_a_table_are_said_to_be_no_better_than_they_are() -> None:
    assert table(Column("a", "int")).statistics == "none"
    assert table(Column("a", "int"), size=10).statistics == "table"
    assert table(Column("a", "int", analyzed=True), rows=0, size=0).statistics == "columns"


@pytest.mark.parametrize(
    ("parameters", "keeps"),
    [
        ({"table_type": "ICEBERG"}, False),
        ({"table_type": "ICEBERG", "external.table.purge": "TRUE"}, False),
        ({"table_type": "ICEBERG", "external.table.purge": "FALSE"}, True),
        ({"table_type": "ICEBERG", "gc.enabled": "false"}, True),
        ({"external.table.purge": "false"}, False),
    ],
)
def test_an_iceberg_table_that_shares_its_files_is_known_by_its_property(
    parameters: dict[str, str], *, keeps: bool
) -> None:
    row: Any = dict.fromkeys(("kind", "input_format", "path"), "") | dict.fromkeys(
        ("database", "name", "location"), "a"
    )
    assert _table(row, parameters, (), 0).keeps_files is keeps
    assert Table.from_json(_table(row, parameters, (), 0).to_json()).keeps_files is keeps
