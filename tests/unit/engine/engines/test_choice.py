"""`--engine auto` takes Sail where it is known to answer as Spark does, and Spark wherever anything is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.catalog.tables import Column, Table
from penstock.engine.engines.choice import Choice, Tables, choose, named

MOST = 10 << 20


def a_table(name: str, *types: str, **more: Any) -> Table:
    columns = tuple(Column(f"c{index}", kind) for index, kind in enumerate(types or ("bigint",)))
    given: dict[str, Any] = {"kind": "managed", "format": "parquet", "size_bytes": 1 << 20, **more}
    return Table(*name.split("."), location=f"s3a://lake/{name}", partitions=None, rows=None, columns=columns, **given)


TABLES = {
    table.full_name: table
    for table in (
        a_table("sales.orders"),
        a_table("sales.prices", "bigint", "array<struct<a:decimal(7,2)>>"),
        a_table("sales.ice", format="iceberg"),
        a_table("sales.lines", format="csv"),
        a_table("sales.seen", kind="view", format=""),
        a_table("sales.padded", "char(4)"),
        a_table("sales.small", "map<string,tinyint>"),
        a_table("sales.huge", size_bytes=MOST),
        a_table("sales.unknown", size_bytes=None),
        a_table("old.orders", "decimal(7,2)"),
        a_table("old.odd name"),
    )
}
NAMES: dict[str, set[str]] = {}
for full_name in TABLES:
    database, _, table_name = full_name.partition(".")
    NAMES.setdefault(database, set()).add(table_name)


def choice(script: str) -> Choice:
    return choose(script, Tables(NAMES, TABLES.__getitem__, lambda table: table.size_bytes), most_bytes=MOST)


@pytest.mark.parametrize(
    "script",
    [
        "SELECT count(*), sum(c0) FROM sales.orders WHERE c0 / 2 > 3 -- avg(decimal)",
        "/* INSERT INTO */ SELECT * FROM sales.orders o JOIN sales.ice i ON o.c0 = i.c0 WHERE c0 <> '1.5 / 2'",
        "USE sales; WITH a AS (TABLE ice) SELECT DISTINCT * FROM a",
        "CREATE TEMP VIEW v AS SELECT 1 AS id; FROM v SELECT id * 2",
        "SELECT max(c1), min(c1), sum(c1), t.* FROM sales.prices t GROUP BY ALL",
        "SELECT 3 / 2",
        "SELECT substr('it''s', 1, 2), rank() OVER (ORDER BY c0) FROM sales.ice WHERE c0 IN (1) GROUP BY ROLLUP (c0)",
    ],
)
def test_a_plain_question_about_little_is_sail_s(script: str) -> None:
    assert choice(script).engine == "sail", choice(script).why


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("SELECT 1; INSERT INTO sales.orders VALUES (1)", "“INSERT” is no plain question"),
        ("WITH a AS (SELECT 1) INSERT INTO sales.orders SELECT * FROM a", "“WITH” is no plain question"),
        ("SHOW TABLES", "“SHOW” is no plain question"),
        ("SET spark.sql.ansi.enabled = false; SELECT 1 / 0", "“SET” is no plain question"),
        ("SELECT * FROM sales.ice VERSION AS OF 1", "“VERSION AS OF”"),
        ("SELECT * FROM parquet.`s3a://lake/a`", "nobody has compared"),
        ("SELECT avg(c1) FROM sales.prices", "the decimals of sales.prices (“avg”)"),
        ("SELECT c0 * 2 FROM sales.prices", "the decimals of sales.prices (“*”)"),
        ("SELECT CAST(c0 AS STRING) FROM sales.orders", "nobody has compared Sail's “CAST”"),
        ("SELECT `count`(*) FROM sales.orders", "nobody has compared Sail's “`count`”"),
        ("SELECT regexp_extract ('a', 'b') FROM sales.orders", "nobody has compared Sail's “regexp_extract”"),
        ("SELECT c0 FROM sales.orders WHERE c0 RLIKE 'a'", "nobody has compared Sail's “RLIKE”"),
        ("SELECT c0::STRING FROM sales.orders", "nobody has compared Sail's “::”"),
        ("SELECT 1.5 / 3", "computes with decimals"),
        ("SELECT 15BD / c0 FROM sales.orders", "computes with decimals"),
        ("SELECT sum(c0) / 2 FROM `old`.`orders`", "the decimals of old.orders"),
        ("USE old; SELECT sum(c0) / 2 FROM orders", "the decimals of old.orders"),
        ("TABLE sales.lines", "the format of sales.lines is csv"),
        ("TABLE sales.seen", "sales.seen is a view"),
        ("TABLE sales.padded", "sales.padded has a column of char"),
        ("TABLE sales.small", "sales.small has a column of tinyint"),
        ("TABLE sales.unknown", "the size of sales.unknown is not known"),
        ("SELECT * FROM sales.huge, sales.ice", "the tables have 11.0 MiB, and one process is given 10.0 MiB"),
    ],
)
def test_anything_else_is_spark_s_for_a_reason(script: str, why: str) -> None:
    found = choice(script)
    assert found.engine == "spark"
    assert why in found.why


@pytest.mark.parametrize(
    ("code", "tables"),
    [
        ("SELECT * FROM sales.orders", ["sales.orders"]),
        ("SELECT * FROM spark_catalog.sales.orders", ["sales.orders"]),
        ("SELECT * FROM `SALES` . `Orders`", ["sales.orders"]),
        ("SELECT * FROM orders", ["old.orders", "sales.orders"]),
        ("SELECT a.orders FROM sales.ice a", ["old.orders", "sales.ice", "sales.orders"]),
        ("SELECT * FROM `odd name`", ["old.odd name"]),
        ("SELECT orderset FROM reorders", []),
    ],
)
def test_a_word_that_may_be_a_table_is_taken_for_one(code: str, tables: list[str]) -> None:
    assert named(code, NAMES) == tables
