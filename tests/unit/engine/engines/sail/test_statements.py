"""The statements that Sail may run, cut as Spark's are: by no quoted or commented word is one taken for another."""

from __future__ import annotations

import pytest

from penstock.engine.engines.sail.statements import code_of, in_sails_words, setting, split, writes


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \"a;b\", `c;d`; SELECT 'it\\'s;'", ["SELECT ';', \"a;b\", `c;d`", "SELECT 'it\\'s;'"]),
        ("SELECT 'it''s;'", ["SELECT 'it''s;'"]),
        ("-- only; a comment\n; /* a;/* nested; */ one; */ ;", []),
        ("SELECT 1 -- one; two\n; SELECT /* ; */ 2", ["SELECT 1 -- one; two", "SELECT /* ; */ 2"]),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
        ("SELECT 1 /* open; SELECT 2", ["SELECT 1 /* open; SELECT 2"]),
        ("SELECT 3 - 2 / 1;;\n;", ["SELECT 3 - 2 / 1"]),
        (r"""SELECT r'\'; SELECT R"\"; SELECT 2""", [r"SELECT r'\'", r'SELECT R"\"', "SELECT 2"]),
        (
            r"""SELECT (r'\'),'a'r'\',`a`r'\'/**/r'\'=R'\'; SELECT 2""",
            [r"SELECT (r'\'),'a'r'\',`a`r'\'/**/r'\'=R'\'", "SELECT 2"],
        ),
        (r"SELECT bar'\'; ', 1r'\'; ', ér'\'; '", [r"SELECT bar'\'; ', 1r'\'; ', ér'\'; '"]),
        (r"SELECT r '\'; '", [r"SELECT r '\'; '"]),
        ("", []),
    ],
)
def test_a_script_is_cut_where_spark_s_is(script: str, statements: list[str]) -> None:
    assert split(script) == statements


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 'insert into a' AS text, `delete from` FROM t -- insert into b",
        "(SELECT 1) UNION SELECT 2",
        "/* merge into t */ WITH a AS (SELECT 1) SELECT * FROM a",
        "VALUES (1), (2)",
        "FROM t SELECT *",
        "TABLE t",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
        "DESCRIBE t",
        "USE sales",
        "SET spark.sql.ansi.enabled = false",
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "create temp view v as select 1",
        "DROP VIEW v",
        "SELECT update, set FROM t",
        r"SELECT r'\', 'insert into t' FROM t",
    ],
)
def test_what_only_reads_may_run(statement: str) -> None:
    assert not writes(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "FROM a INSERT OVERWRITE TABLE t SELECT * INSERT INTO u SELECT *",
        "FROM a INSERT /* here */ INTO t SELECT *",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "WITH a AS (SELECT 1) MERGE INTO `t;` USING a ON true WHEN MATCHED THEN DELETE",
        "WITH a AS (SELECT 1) DELETE FROM t",
        "WITH a AS (SELECT 1) UPDATE `my table` AS m SET id = 1",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
        "UPDATE t SET id = 1",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE TABLE t AS SELECT 1",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN c INT",
        "TRUNCATE TABLE t",
        "OPTIMIZE t",
        "CALL system.expire_snapshots('t')",
        r"WITH a AS (SELECT r'\' AS b) INSERT INTO t SELECT ' ' FROM a",
    ],
)
def test_what_may_write_does_not_run(statement: str) -> None:
    assert writes(statement)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT 'it\\'s `a`', c", "SELECT '', c"),
        ('SELECT "`" AS a FROM `t "u"` WHERE "`" = b', "SELECT '' AS a FROM `t \"u\"` WHERE '' = b"),
        ("SELECT /* `a` */ 1 -- `b`", "SELECT   1  "),
        (r"SELECT r'\', R'`a`', bar'\'`', c", "SELECT r'', R'', bar'', c"),
    ],
)
def test_no_text_is_taken_for_code(statement: str, code: str) -> None:
    assert code_of(statement) == code


@pytest.mark.parametrize(
    ("spark", "sail"),
    [
        ("USE sales", "USE DATABASE sales"),
        (" use `my sales`", "USE DATABASE `my sales`"),
        ("USE DATABASE sales", "USE DATABASE sales"),
        ("USE database_of_sales", "USE DATABASE database_of_sales"),
        ("SELECT use FROM t", "SELECT use FROM t"),
    ],
)
def test_the_shorter_form_of_use_reaches_sail_in_the_longer_one(spark: str, sail: str) -> None:
    assert in_sails_words(spark) == sail


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SET spark.sql.ansi.enabled = false", ("spark.sql.ansi.enabled", "false")),
        ("set a.b=America/Argentina/Ushuaia ", ("a.b", "America/Argentina/Ushuaia")),
        ("SET a.b", ("a.b", None)),
        ("SET", None),
        ("SET TIME ZONE 'UTC'", None),
        ("SELECT 1", None),
    ],
)
def test_a_setting_is_taken_from_its_statement(statement: str, expected: tuple[str, str | None] | None) -> None:
    assert setting(statement) == expected
