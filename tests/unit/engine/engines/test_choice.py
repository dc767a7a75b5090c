"""`--engine auto` takes Sail where it is known to answer as Spark does, and Spark wherever anything is unknown."""

from __future__ import annotations

from dataclasses import replace
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
        a_table("sales.items", "int", "string", "date"),
        a_table("sales.events", "int", "timestamp"),
        a_table("sales.logged", "array<timestamp>", "date"),
        a_table("sales.moved", "timestamp", "timestamp", format="iceberg"),
        a_table("sales.measured", "double", "int"),
        a_table("sales.large", "decimal(38,0)"),
        a_table("sales.exact", "decimal(28,2)"),
        a_table("sales.folded", "map<string,string collate UTF8_LCASE>"),
        replace(a_table("sales.filled"), columns=(Column("since", "int", default="5"),)),
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
        "SELECT count(*), sum(c0) FROM sales.items WHERE c0 / 2 > 3 -- avg(decimal)",
        "/* INSERT INTO */ SELECT * FROM sales.orders o JOIN sales.ice i ON o.c0 = i.c0 WHERE c0 <> '1.5 / 2'",
        "USE sales; WITH a AS (TABLE ice) SELECT DISTINCT * FROM a",
        "CREATE TEMP VIEW v AS SELECT 1 AS id; FROM v SELECT id / 2",
        "SELECT max(c1), min(c1), count(c1), t.* FROM sales.prices t GROUP BY ALL",
        "SELECT 3 / 2",
        "SELECT substr('it''s', 1, 2), rank() OVER (ORDER BY c0) FROM sales.ice WHERE c0 IN (1) GROUP BY ROLLUP (c0)",
        "SELECT sum(c0) FROM sales.exact",
        "SELECT avg(t1.c0) FROM sales.items t1 WHERE c0 BETWEEN 1200 AND 1200 + 11 OR c0 IN (-1, - 2) OR c0 > -3",
        "SELECT `c-0` AS `a * b` FROM sales.items",
        "SELECT c2 - INTERVAL 30 DAYS, DATE'2026-01-01' + INTERVAL 1 DAY FROM sales.items",
        "SELECT c0 FROM sales.events WHERE c1 >= '2026-01-01'",
        "SELECT c1, count(*), avg(m.c0), sum(c0) AS total FROM sales.measured m WHERE c1 > 3 GROUP BY c1",
        "SELECT stddev_samp(c0) FROM sales.measured WHERE c1 > 3",
        "SELECT m.*, c0 AS shown FROM sales.measured m JOIN sales.items i ON m.c1 = i.c2 WHERE c1 IN (1, 2)",
        "SELECT max(c1) FROM sales.measured WHERE c1 IN (SELECT c1 FROM sales.items) OR c1 = 1",
        "SELECT abs(c0) FROM sales.measured",
        "SELECT count(*) FROM sales.items WHERE c0 / 2 IN (SELECT c0 / 3 FROM sales.items)",
        "SELECT concat(c0, c1, c2) FROM sales.items WHERE c1 = '1.5' OR upper(c1) = 'A'",
        "SELECT coalesce(c1, 'none'), coalesce(i.c0, 0) FROM sales.items i",
        "SELECT sum(CASE c1 WHEN 'a' THEN 1 WHEN 'b' THEN -1 ELSE 0 END) FROM sales.exact",
        "SELECT max(CASE WHEN c1 = 'a' THEN t.c0 ELSE NULL END), max(CASE c1 WHEN '' THEN t.c0 END) FROM sales.exact t",
        "SELECT rank() OVER (ORDER BY avg(c0)), CASE WHEN c1 = 'a' THEN 'b' ELSE \"1\" END FROM sales.items",
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
        ("TABLE sales.folded", "sales.folded has a column with a collation"),
        ("TABLE sales.filled", "the default of sales.filled's column since"),
        ('SELECT "`" AS a, c0 FROM sales.padded WHERE "`" = "`"', "sales.padded has a column of char"),
        ("SELECT r'\\', c0 FROM sales.padded WHERE 'a' = 'b'", "nobody has compared Sail's “r''”"),
        ("SELECT c0 + 1 FROM sales.items", "“+” overflows silently in Sail"),
        ("SELECT t1.c0 * 2 FROM sales.items t1", "“*” overflows silently in Sail"),
        ("SELECT c0 FROM sales.items WHERE - c0 > 1", "“-” overflows silently in Sail"),
        ("SELECT c0 % 2 * 30000 FROM sales.items", "“*” overflows silently in Sail"),
        ("SELECT 2147483647 + 1", "“+” overflows silently in Sail"),
        ("SELECT 9999 * 9999 * 9999", "“*” overflows silently in Sail"),
        ("SELECT c2 - DATE'2026-01-01' FROM sales.items", "“-” overflows silently in Sail"),
        ("SELECT sum(c0) FROM sales.orders", "a sum of large numbers (sales.orders)"),
        ("SELECT sum(c0) FROM sales.large", "a sum of large numbers (sales.large)"),
        (
            "SELECT sum(col1) FROM VALUES (9223372036854775807), (1)",
            "a sum of large numbers (“9223372036854775807”)",
        ),
        ("SELECT c2 FROM sales.items WHERE c2 > TIMESTAMP'2026-01-01 05:00:00'", "dates and with times without a zone"),
        ("SELECT count(*) FROM sales.logged", "timestamps (sales.logged) with dates"),
        ("SELECT count(*) FROM sales.moved", "times without a zone (sales.moved)"),
        ("SELECT c1 + INTERVAL 1 DAY FROM sales.events", "adds intervals to timestamps (sales.events)"),
        ("SELECT c2 + INTERVAL 1 HOUR FROM sales.items", "except for days before or after a date"),
        ("SELECT c2 + INTERVAL 1 DAY 2 HOURS FROM sales.items", "except for days before or after a date"),
        ("SELECT c1 + INTERVAL 1 DAY FROM sales.items", "except for days before or after a date"),
        (
            "SELECT c0 FROM sales.measured WHERE c0 = 0.1",
            "floating-point numbers (sales.measured) with decimals (“0.1”)",
        ),
        ("SELECT 1 FROM sales.measured, old.orders", "(sales.measured) with decimals (old.orders)"),
        ("SELECT concat(c0) FROM sales.exact", "some values (sales.exact) become other texts"),
        ("SELECT concat(1e10)", "some values (“1e10”) become other texts"),
        ("SELECT substr(c1, 1, 10) FROM sales.events", "some values (sales.events) become other texts"),
        ("SELECT c0 FROM sales.orders UNION SELECT c0 FROM sales.items", "the rows of “UNION” the types of the first"),
        ("SELECT 1 INTERSECT SELECT count(*)", "the rows of “INTERSECT” the types"),
        ("SELECT CASE WHEN c1 = 'a' THEN 1 ELSE c0 END FROM sales.items", "Sail gives CASE the type of its first"),
        ("SELECT CASE WHEN c1 = 'a' THEN 1 ELSE 'b' END FROM sales.items", "Sail gives CASE the type of its first"),
        ("SELECT CASE WHEN c1 = 'a' THEN 1 ELSE 9999999999 END FROM sales.items", "Sail gives CASE the type of its"),
        ("SELECT CASE WHEN c0 = 1 THEN 1 ELSE max(c0) END FROM sales.items", "Sail gives CASE the type of its first"),
        ("SELECT CASE WHEN c0 = 1 THEN 1 ELSE 1.5 END FROM sales.items", "Sail gives CASE the type of its first"),
        ("SELECT coalesce(c0, 0) FROM sales.exact", "only coalesce of a column and a literal of its type"),
        ("SELECT coalesce(c1, 0) FROM sales.items", "only coalesce of a column and a literal of its type"),
        ("SELECT coalesce(c0, 0) FROM sales.items, sales.exact", "only coalesce of a column and a literal of its type"),
        ("SELECT coalesce(sum(c0), 0) FROM sales.items", "only coalesce of a column and a literal of its type"),
        ("VALUES (1), ('2')", "VALUES of integers and others (texts)"),
        ("SELECT max(col1) FROM VALUES (1), (1.5)", "VALUES of integers and others (“1.5”)"),
        ("SELECT rank() OVER (PARTITION BY c1 ORDER BY c0) FROM sales.measured", "Sail ranks -0.0 before 0.0"),
        ("SELECT c1 FROM sales.measured ORDER BY c0, c1", "Sail ranks -0.0 before 0.0"),
        ("SELECT 1 FROM sales.items WHERE c0 / 2 IN (0, 1)", "Sail does not find -0.0 (“/”) in lists"),
        ("SELECT 1 FROM sales.items WHERE c0 / 2 = 0 OR c0 / 2 = 1", "Sail does not find -0.0 (“/”) in lists"),
        (
            "SELECT 1 FROM sales.items WHERE c0 IN (0D, 1D)",
            "Sail does not find -0.0 (“0D”) in lists",
        ),
        (
            "SELECT 1 FROM sales.items GROUP BY c1 HAVING avg(c0) % 2 IN (0, 1)",
            "Sail does not find -0.0 (“%”) in lists",
        ),
        ("SELECT avg(c0) % 2 FROM sales.items ORDER BY 1", "Sail ranks -0.0 before 0.0"),
        ("SELECT c1 FROM sales.measured WHERE c0 > 3", "Sail compares NaN and -0.0"),
        ("SELECT c1 FROM sales.measured WHERE c0 IN (0, 1, 2, 3)", "Sail compares NaN and -0.0"),
        ("SELECT c1 FROM sales.measured WHERE `c0` > 3", "Sail compares NaN and -0.0"),
        ("SELECT max(c0) FROM sales.measured", "Sail compares NaN and -0.0"),
        ("SELECT DISTINCT c0 FROM sales.measured", "Sail compares NaN and -0.0"),
        ("SELECT count(DISTINCT c0) FROM sales.measured", "Sail compares NaN and -0.0"),
        ("SELECT c0, count(*) FROM sales.measured GROUP BY 1", "Sail compares NaN and -0.0"),
        ("SELECT c0, count(*) FROM sales.measured GROUP BY ALL", "Sail compares NaN and -0.0"),
        ("SELECT c1, sum(c0) AS s FROM sales.measured GROUP BY c1 HAVING s > 3", "Sail compares NaN and -0.0"),
        ("SELECT c1 FROM sales.measured GROUP BY c1 HAVING sum(c0) > 3", "Sail compares NaN and -0.0"),
        ("SELECT c0, count(*) FROM (FROM sales.measured) GROUP BY c0", "Sail compares NaN and -0.0"),
        ("WITH a AS (TABLE sales.measured) SELECT DISTINCT * FROM a", "Sail compares NaN and -0.0"),
        ("SELECT count(*) FROM sales.measured a NATURAL JOIN sales.measured b", "Sail compares NaN and -0.0"),
        ("SELECT 1 FROM sales.measured a JOIN sales.measured b USING (c0)", "Sail compares NaN and -0.0"),
        ("SELECT c1 FROM sales.measured WHERE c0 LIKE '1%'", "Sail compares NaN and -0.0"),
        ("SELECT CASE c0 WHEN 0 THEN 1 END FROM sales.measured", "Sail compares NaN and -0.0"),
        ("WITH a AS (SELECT c0 AS x FROM sales.measured) SELECT 1 FROM a WHERE x > 1", "Sail compares NaN and -0.0"),
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
