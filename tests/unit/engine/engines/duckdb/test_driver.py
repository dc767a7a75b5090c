"""The statements of a script in DuckDB: what each may do, and what its result says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from penstock.engine.engines.duckdb import driver
from penstock.engine.engines.duckdb.catalog import words_of
from penstock.engine.engines.duckdb.driver import StatementRunner, connection
from penstock.engine.engines.statement_driver import Progress
from penstock.errors import InvalidInput, PenstockError
from penstock.home import read_json
from penstock.lake.model import Lake
from penstock.model import ProcessSize


class Views:
    """A catalog with one table, `orders`, and one that cannot be read, `lines`."""

    def define(self, database: duckdb.DuckDBPyConnection, words: Sequence[str]) -> dict[str, PenstockError | None]:
        database.execute("DROP VIEW IF EXISTS orders")
        known = {"orders": None, "lines": InvalidInput("sales.lines cannot be read by DuckDB")}
        named = {word: known[word] for word in words if word in known}
        if "orders" in named:
            database.execute("CREATE VIEW orders AS SELECT range AS id, range % 2 AS kind FROM range(4)")
        return named

    def listed(self, _: duckdb.DuckDBPyConnection, of: str = "default") -> list[str]:
        return {"default": ["lines", "orders"], "other sales": ["gone"]}[of]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[StatementRunner]:
    with duckdb.connect() as database:
        yield StatementRunner(database, Views(), limit=3, progress=Progress(tmp_path))  # type: ignore[arg-type]


def test_statements_run_in_turn_and_each_has_its_rows(run: StatementRunner, tmp_path: Path) -> None:
    script = "SELECT count(*) AS n FROM orders; -- a comment; with more\nSET threads = 1; SELECT 'a;b' AS ü;"
    first, second, third = run.results(script)
    assert (first["columns"], first["rows"]) == ([{"name": "n", "type": "bigint"}], [[4]])
    assert (second["columns"], second["rows"]) == ([], [])
    assert (third["columns"], third["rows"]) == ([{"name": "ü", "type": "string"}], [["a;b"]])
    assert read_json(tmp_path / "progress.json")["tasks_done"] == 3


def test_an_interval_is_refused(run: StatementRunner) -> None:
    (result,) = run.results("SELECT INTERVAL 1 DAY AS one")
    assert result["error"].startswith("The result has an interval")


def test_the_first_failure_ends_the_run(run: StatementRunner) -> None:
    good, bad = run.results("SELECT 1; SELECT nosuch FROM orders; SELECT 2")
    assert good["rows"] == [[1]]
    assert 'Referenced column "nosuch" not found' in bad["error"]


def test_with_keep_going_the_statements_after_a_failure_run(tmp_path: Path) -> None:
    with duckdb.connect() as database:
        runner = StatementRunner(
            database,
            Views(),  # type: ignore[arg-type]
            limit=None,
            keep_going=True,
            progress=Progress(tmp_path),
        )
        bad, good = runner.results("SELECT nosuch FROM orders; SELECT 2")
    assert "nosuch" in bad["error"]
    assert good["rows"] == [[2]]
    assert bad["started_ms"] <= good["started_ms"]


def test_a_script_that_is_no_sql_runs_nothing(run: StatementRunner) -> None:
    (only,) = run.results("CREATE TEMP TABLE made AS SELECT 1; SELEKT 2")
    assert "syntax error" in only["error"]


def test_a_result_tells_that_it_was_cut(run: StatementRunner) -> None:
    cut, whole = run.results("FROM orders; FROM orders LIMIT 3")
    assert (len(cut["rows"]), cut["truncated"]) == (3, True)
    assert (len(whole["rows"]), whole["truncated"]) == (3, False)


def test_columns_of_a_pivot_are_found_in_the_catalog_s_table(run: StatementRunner) -> None:
    pivot = "PIVOT orders ON kind USING count(*)"
    for before in ((), ("SELECT 1",), ("SELECT kind, 'a;b' FROM orders GROUP BY kind ORDER BY kind LIMIT 2",)):
        statements = [*before, pivot, "SELECT 2"]
        results = list(run.results("; ".join(statements)))
        assert [result["statement"] for result in results] == statements
        assert all("error" not in result for result in results)
        assert [column["name"] for column in results[-2]["columns"]] == ["id", "0", "1"]


def test_what_only_the_next_statements_read_may_be_made(run: StatementRunner) -> None:
    *_, last = run.results(
        "/* some */ CREATE OR REPLACE TEMP TABLE few AS FROM orders LIMIT 2; INSERT INTO few VALUES (9, 9); FROM few"
    )
    assert last["rows"] == [[0, 0], [1, 1], [9, 9]]


def test_what_a_statement_has_named_may_be_run_again_by_a_later_one(run: StatementRunner) -> None:
    for made, asked in (
        ("CREATE TEMP VIEW odd AS FROM orders WHERE kind = 1", "FROM odd"),
        ("CREATE TEMP MACRO odd() AS TABLE FROM orders WHERE kind = 1", "FROM odd()"),
        ("PREPARE odd AS FROM orders WHERE kind = 1", "EXECUTE odd"),
    ):
        *_, last = run.results(f"{made}; SELECT 1; {asked}")
        assert last["rows"] == [[1, 1], [3, 1]]
    (dropped,) = run.results("DROP VIEW odd")
    assert "error" not in dropped


def test_a_missing_table_is_not_taken_for_one_that_cannot_be_changed(run: StatementRunner) -> None:
    (_, result) = run.results("CREATE TEMP TABLE few (id BIGINT); INSERT INTO few FROM nosuch")
    assert result["error"].startswith("Catalog Error: Table with name nosuch does not exist!")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE made AS SELECT 1",
        "CREATE SCHEMA made",
        "INSERT INTO orders VALUES (1, 1)",
        "UPDATE orders SET kind = 1",
        "DELETE FROM orders",
        "DROP VIEW orders",
        "ALTER TABLE orders ADD COLUMN more INT",
        "MERGE INTO orders USING orders AS new USING (id) WHEN MATCHED THEN DELETE",
        "ATTACH 'other.db'",
        "LOAD spatial",
    ],
)
def test_the_catalog_is_only_read(run: StatementRunner, statement: str) -> None:
    (result,) = run.results(statement)
    assert result["error"].startswith("DuckDB only reads the catalog")


def test_a_table_that_cannot_be_read_is_explained_where_the_statement_reads_it(run: StatementRunner) -> None:
    (result,) = run.results("SELECT * FROM lines")
    assert result["error"] == "sales.lines cannot be read by DuckDB"
    (other,) = run.results("SELECT id AS lines FROM orders LIMIT 1")
    assert other["rows"] == [[0]]


def test_an_unknown_table_is_not_compared_with_those_that_duckdb_happens_to_know(run: StatementRunner) -> None:
    (result,) = run.results("SELECT * FROM order_lines")
    assert result["error"].splitlines() == [
        "Catalog Error: Table with name order_lines does not exist!",
        "Fix: penstock tables lists the catalog",
    ]


def test_tables_are_listed_from_the_catalog(run: StatementRunner) -> None:
    for script in ("show tables;", "-- all of them\nSHOW TABLES -- please\n;"):
        (result,) = run.results(script)
        assert result["rows"] == [["lines"], ["orders"]]
    (result,) = run.results('SHOW TABLES FROM "other sales"')
    assert result["rows"] == [["gone"]]


@pytest.mark.parametrize(
    "statement",
    [
        "SHOW ALL TABLES",
        "SHOW TABLES FROM memory.main",
        "FROM duckdb_views()",
        "SELECT table_name FROM information_schema.tables",
        "PRAGMA show_tables",
    ],
)
def test_duckdb_s_own_lists_of_tables_are_refused(run: StatementRunner, statement: str) -> None:
    (result,) = run.results(statement)
    assert "would not list the catalog" in result["error"]


def test_the_words_of_a_statement_are_names_and_dots_in_any_alphabet() -> None:
    statement = "SELECT é.b, \"ü x\".y -- orders\n FROM é /* c.d */ JOIN date d ON d.x = 'orders' AND 1.5 > 2"
    assert words_of(statement) == (
        ["SELECT", "é", ".", "b", '"ü x"', ".", "y", "FROM", "é", "JOIN", "date", "d", "ON", "d", ".", "x", "AND"]
    )


class Access:
    lake = Lake("near", ("https://a.example",), "lake", "environment")


def secret(_: Access) -> str:
    return "CREATE SECRET lake (TYPE s3, KEY_ID 'key', SECRET 'hidden', SCOPE ['s3a://lake/'])"


def test_statements_reach_the_lake_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "scratch"
    own.mkdir()
    monkeypatch.chdir(own)
    outside = tmp_path / "private.csv"
    outside.write_text("a\n1\n")
    monkeypatch.setattr(driver, "secret", secret)
    with connection(Access(), ProcessSize(1, 256 << 20)) as database:  # type: ignore[arg-type]
        for place in (
            outside,
            f"{own}/../private.csv",
            "http://127.0.0.1:1/a.csv",
            "s3://other/a.csv",
            "s3://lake-2/a.csv",
        ):
            for statement in (f"FROM read_csv('{place}')", f"COPY (SELECT 1) TO '{place}'"):
                with pytest.raises(duckdb.PermissionException):
                    database.execute(statement)
        for statement in (
            f"ATTACH '{tmp_path}/other.db'",
            f"LOAD '{tmp_path}/other.duckdb_extension'",
            "SET allowed_directories = ['/']",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                database.execute(statement)
        database.execute("COPY (SELECT 1) TO 'own.csv'")
        ((shown,),) = database.execute("SELECT secret_string FROM duckdb_secrets()").fetchall()
        assert "hidden" not in shown


def test_a_file_that_is_gone_when_duckdb_reads_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A process of its own: DuckDB keeps Python's lock while it asks.
    empty_store = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"], stdout=subprocess.PIPE, text=True
    )
    with empty_store as store:
        try:
            assert store.stdout is not None
            port = store.stdout.readline().split("port ")[1].split()[0]
            options = f"TYPE s3, KEY_ID 'key', SECRET 'x', ENDPOINT '127.0.0.1:{port}', URL_STYLE 'path', USE_SSL false"
            monkeypatch.setattr(driver, "secret", lambda _: f"CREATE SECRET lake ({options})")
            with connection(Access(), ProcessSize(1, 256 << 20)) as database:  # type: ignore[arg-type]
                runner = StatementRunner(database, Views(), limit=3, progress=Progress(tmp_path))  # type: ignore[arg-type]
                (result,) = runner.results("FROM read_parquet('s3a://lake/orders/1.parquet')")
        finally:
            store.terminate()
    problem, why, _ = result["error"].splitlines()
    assert problem == "A table was changed or dropped while the statement read it"
    assert "orders/1.parquet" in why


def test_duckdb_trusts_the_lakes_authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "secret", secret)
    access = Access()
    access.lake = replace(Access.lake, ca_file="/private/lake-authorities.pem")
    with connection(access, ProcessSize(1, 256 << 20)) as database:  # type: ignore[arg-type]
        found = database.execute("SELECT current_setting('ca_cert_file')").fetchone()
    assert found == ("/private/lake-authorities.pem",)
