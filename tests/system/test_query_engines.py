"""The engines of `penstock sql` behind one contract: the same answers about one catalog, and what each refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.engine import Engine
from penstock.engine.interactive.sessions import RESULTS
from penstock.home import Home
from penstock.lake.model import artifact_prefix
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.lake.s3 import S3ObjectStore
from penstock.model import SAIL_INTERNAL, State
from tests.support.command import Answers, Command, nothing_is_left

MAKE = """
CREATE DATABASE engines;
CREATE TABLE engines.kinds USING parquet AS SELECT id AS number,
  id % 2 = 0 AS yes, CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small, CAST(id AS INT) AS plain,
  CAST(id / 3 AS FLOAT) AS single, id / 3 AS double, CAST(id / 3 AS DECIMAL(9, 4)) AS exact, concat('ä', id) AS text,
  encode(concat('b', id), 'UTF-8') AS bytes, date_add(DATE'2026-01-31', CAST(id AS INT)) AS day,
  TIMESTAMP'2026-03-29 00:59:59.5' + make_dt_interval(0, CAST(id AS INT)) AS moment,
  TIMESTAMP_NTZ'2026-03-29 02:30:00' + make_dt_interval(0, CAST(id AS INT)) AS local,
  array(id, NULL) AS list, named_struct('a', id, 'b', array(concat('s', id))) AS struct, map('k', id) AS map,
  IF(id = 1, NULL, id) AS some
  FROM range(4);
CREATE TABLE engines.padded (id INT, letter CHAR(4)) USING parquet;
INSERT INTO engines.padded VALUES (1, 'a'), (2, 'abcd');
CREATE TABLE engines.parts (id INT, year INT, place STRING) USING parquet PARTITIONED BY (year, place);
INSERT INTO engines.parts
  VALUES (1, 2025, 'a b'), (2, 2026, 'x/y=z%+ä'), (3, NULL, NULL), (4, 2026, 'null'), (5, 2026, '');
INSERT OVERWRITE engines.parts PARTITION (year = 2025, place = 'a b') SELECT 10;
CREATE TABLE engines.years (id INT, year INT, day DATE) USING parquet PARTITIONED BY (year, day);
INSERT INTO engines.years VALUES (1, 2025, DATE'2025-12-31'), (2, 2026, DATE'2026-01-01'), (3, NULL, NULL);
INSERT OVERWRITE engines.years PARTITION (year = 2025, day = DATE'2025-12-31') SELECT 10;
CREATE TABLE engines.grown (Id INT) USING parquet;
INSERT INTO engines.grown VALUES (1);
ALTER TABLE engines.grown ADD COLUMNS (more STRING);
INSERT INTO engines.grown VALUES (2, 'm');
CREATE TABLE engines.empty (id INT, moment TIMESTAMP) USING parquet;
CREATE TABLE engines.hive (id INT, day STRING) STORED AS PARQUET;
INSERT INTO engines.hive VALUES (1, '2026-01-01');
CREATE TABLE engines.micros USING parquet AS SELECT number AS id, moment FROM engines.kinds;
CREATE TABLE engines.ice (id BIGINT, name STRING, moment TIMESTAMP) USING iceberg PARTITIONED BY (days(moment))
  TBLPROPERTIES ('write.delete.mode' = 'merge-on-read');
INSERT INTO engines.ice SELECT number, text, moment FROM engines.kinds;
DELETE FROM engines.ice WHERE id = 2;
ALTER TABLE engines.ice RENAME COLUMN name TO title;
CREATE TABLE engines.third (id BIGINT, name STRING) USING iceberg
  TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read');
INSERT INTO engines.third SELECT id, concat('ä', id) FROM range(0, 6, 1, 1);
DELETE FROM engines.third WHERE id IN (2, 3);
CREATE TABLE engines.lines USING csv AS SELECT 1 AS id;
CREATE TABLE engines.filled USING parquet AS SELECT 1 AS id;
ALTER TABLE engines.filled ADD COLUMNS (since INT DEFAULT 5);
CREATE TABLE engines.folded (name STRING COLLATE UTF8_LCASE, names ARRAY<STRING COLLATE UNICODE_CI>) USING parquet;
CREATE VIEW engines.seen AS SELECT 1 AS id
"""
TWO_FORMS = """
SET spark.sql.parquet.outputTimestampType = TIMESTAMP_MICROS;
INSERT INTO engines.micros SELECT 10 + id, moment FROM engines.micros
"""
ASK = """
SELECT * FROM engines.kinds ORDER BY number;
SELECT id FROM engines.padded WHERE letter = 'a';
SELECT * FROM engines.parts ORDER BY id;
SELECT id FROM engines.parts WHERE year = 2026 AND place = 'null';
SELECT id, year FROM engines.parts ORDER BY year, id LIMIT 2;
SELECT id FROM engines.parts ORDER BY place DESC, id LIMIT 4;
SELECT count(*) AS n FROM engines.parts WHERE year IS NULL;
SELECT * FROM engines.years ORDER BY id;
SELECT id FROM engines.years WHERE day = DATE'2026-01-01';
SELECT count(*) AS n, count(year) AS years FROM engines.years;
SELECT * FROM engines.grown ORDER BY id;
SELECT id, moment FROM engines.empty;
SELECT * FROM engines.hive;
SELECT * FROM engines.micros ORDER BY id;
SELECT * FROM engines.ice ORDER BY id;
SELECT * FROM engines.third ORDER BY id;
SELECT k.number, i.title FROM engines.kinds k JOIN spark_catalog.engines.ice i ON k.number = i.id ORDER BY 1;
USE engines;
SELECT CAST(sum(number) AS BIGINT) AS total FROM kinds WHERE moment >= TIMESTAMP'2026-03-29 00:59:59'
"""


@pytest.fixture(scope="module")
def spark_answers(shared_home: Home) -> Iterator[Answers]:
    # The tables' times cross the hour that this zone skips.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        yield Command(shared_home).sql(f"{MAKE};{TWO_FORMS};{ASK}")


def ask(penstock: Command, engine: str, statements: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    """The results of statements in an engine, and what the command wrote to standard error."""
    size = ("--driver-cores", "1", "--driver-memory", "2g" if engine == "trino" else "512m")
    ended, out, err = penstock.run("sql", "--engine", engine, *size, "--format", "json", statements)
    assert ended == code, err
    return json.loads(out or "[]"), err


REFUSED = {"duckdb": (), "sail": ("engines.padded", "engines.parts"), "trino": ("engines.padded", "engines.third")}
"""Tables with padded texts, with partitions whose directories Sail does not find, and with deletion vectors."""
NOBODY_S = ("engines.lines", "engines.seen", "engines.filled", "engines.folded")
"""Tables that Spark alone reads."""


INSERT = "INSERT INTO engines.ice SELECT * FROM engines.ice"
WRITES = {"duckdb": (), "sail": (INSERT,), "trino": (f"EXECUTE IMMEDIATE '{INSERT}'",)}
"""Statements at the end that an engine refuses, and that leave nothing in the lake."""


def expected_of(name: str, spark: dict[str, Any]) -> dict[str, Any]:
    """The answer of an engine where Spark's is this."""
    columns = spark["columns"]
    if name != "duckdb":
        # Iceberg's tables, as which these engines read all, have no smaller integers.
        smaller = ("tinyint", "smallint")
        columns = [{**column, "type": "int" if column["type"] in smaller else column["type"]} for column in columns]
    if name == "trino":
        columns = [{**column, "name": column["name"].lower()} for column in columns]
    return {**spark, "columns": columns, "started_ms": 0, "elapsed_ms": 0}


@pytest.mark.parametrize("name", REFUSED)
def test_each_engine_gives_spark_s_answers_about_every_kind_of_table_that_it_reads(
    penstock: Command, shared_home: Home, spark_answers: Answers, engine: Engine, name: str
) -> None:
    expected = {
        result["statement"]: expected_of(name, result)
        for result in spark_answers.results[-len(ASK.split(";")) :]
        if not any(table in result["statement"] for table in REFUSED[name])
    }
    # Of NULL, Trino alone has an order of its own.
    asked = [statement.replace("BY year, id", "BY year NULLS FIRST, id") for statement in expected]
    lakes = Lakes(shared_home)
    lake = lakes.get(EMBEDDED)
    store = S3ObjectStore(lake, lakes.credentials_of(lake))
    # Results of applications that other tests killed stay.
    before = list(store.list(RESULTS)), list(store.list("warehouse/engines.db/"))
    found, error = ask(penstock, name, ";".join([*asked, *WRITES[name]]), code=1 if WRITES[name] else 0)
    assert (list(store.list(RESULTS)), list(store.list("warehouse/engines.db/"))) == before
    if WRITES[name]:
        assert f"{name.capitalize()} only reads the catalog" in error
    for result, wanted in zip(found, expected.values(), strict=True):
        if result["columns"]:
            assert {**result, "statement": wanted["statement"], "started_ms": 0, "elapsed_ms": 0} == wanted
    application = engine.get("last")
    assert application.state is (State.FAILED if WRITES[name] else State.FINISHED)
    assert application.summary is not None
    assert list(application.summary["processes"]) == ["driver"]
    assert application.cost is not None
    statements = len(found) + len(WRITES[name])
    assert f"statement {statements} of {statements}".encode() in engine.artifacts.load(application.id, "driver.log")
    nothing_is_left(engine.home, application)


SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import LongType

spark = SparkSession.builder.appName("a script").getOrCreate()
print(sys.argv[1:], Path(__file__).name, __name__)
spark.sql("USE engines")
titles = spark.table("engines.ice").selectExpr("id AS number", "title")
kinds = spark.table("kinds").select("number", "text").join(titles, "number")
kinds.createOrReplaceTempView("joined")
print([row[0] for row in spark.sql("SELECT title FROM joined ORDER BY number").collect()])
doubled = F.udf(lambda value: 2 * value, LongType())
print(spark.table("engines.years").select(F.sum(doubled("id"))).first()[0])
print(SparkSession.builder.getOrCreate().range(3).toArrow()["id"].to_pylist())
if sys.argv[1] == "write":
    kinds.write.parquet(sys.argv[2])
if sys.argv[1] == "insert":
    spark.sql("INSERT INTO engines.ice SELECT * FROM engines.ice")
if sys.argv[1] == "padded":
    spark.table("engines.padded").collect()
sys.exit(7)
"""


@pytest.mark.usefixtures("spark_answers")
@pytest.mark.parametrize(
    "ending",
    [
        ("exit", 7, ""),
        (
            "write",
            1,
            "Sail only reads the catalog\nWhy: “write_operation” may write, at line 18 of {cluster} of a script.py\n"
            "Fix: run the file with --engine spark",
        ),
        ("insert", 1, "a statement that has “INSERT” in this place may change it, at line 20 of "),
        ("padded", 1, "engines.padded cannot be read by Sail"),
    ],
)
def test_a_python_file_asks_sail_in_spark_s_place(
    penstock: Command, shared_home: Home, engine: Engine, tmp_path: Path, ending: tuple[str, int, str]
) -> None:
    end, code, said = ending
    script = tmp_path / "{cluster} of a script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    lakes = Lakes(shared_home)
    lake = lakes.get(EMBEDDED)
    store = S3ObjectStore(lake, lakes.credentials_of(lake))
    before = list(store.list("warehouse/engines.db/"))
    size = ("--driver-cores", "1", "--driver-memory", "512m")
    arguments = (end, f"{lake.root}/scripts/out", "{private}")
    ended, out, error = penstock.run("run", "--engine", "sail", *size, str(script), *arguments)
    assert (ended, out.splitlines()) == (
        code,
        [f"{list(arguments)} {script.name} __main__", "['ä0', 'ä1', 'ä3']", "30", "[0, 1, 2]"],
    ), error
    assert said in error
    assert list(store.list("warehouse/engines.db/")) == before
    assert not list(store.list("scripts/"))
    application = engine.get("last")
    assert not [one.key for one in store.list(artifact_prefix(application.id)) if "tables" in one.key]
    assert not application.can_be_watched
    nothing_is_left(engine.home, application)


def test_duckdb_refuses_what_only_spark_reads_and_writes_into_the_lake(
    penstock: Command, shared_home: Home, spark_answers: Answers
) -> None:
    own = f"{Lakes(shared_home).get(EMBEDDED).root}/exports/kinds.parquet"
    statements = f"COPY engines.kinds TO '{own}'; FROM '{own}' LIMIT 9; FROM engines.lines"
    found, error = ask(penstock, "duckdb", statements, code=1)
    assert len(found[1]["rows"]) == 4
    assert "engines.lines cannot be read by DuckDB\nWhy: its format is csv" in error
    assert "Fix: use --engine spark" in error


@pytest.mark.usefixtures("spark_answers")
def test_a_plain_question_goes_to_sail_where_no_engine_is_named(penstock: Command, engine: Engine) -> None:
    found, error = ask(penstock, "auto", "SELECT id, count(*) AS n FROM engines.hive GROUP BY id")
    assert [result["rows"] for result in found] == [[[1, 1]]]
    assert error.startswith("Sail, since it only reads ")
    assert engine.get("last").spec.application == SAIL_INTERNAL


@pytest.mark.usefixtures("spark_answers")
@pytest.mark.parametrize(
    ("name", "table"), [*(("sail", table) for table in [*REFUSED["sail"], *NOBODY_S]), ("trino", "engines.third")]
)
def test_a_table_that_an_engine_would_read_otherwise_than_spark_is_refused(
    penstock: Command, name: str, table: str
) -> None:
    _, error = ask(penstock, name, f"TABLE {table}", code=1)
    assert f"{table} cannot be read by {name.capitalize()}\nWhy: " in error
    assert "Fix: use --engine spark" in error
