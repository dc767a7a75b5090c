"""The driver of an application in DuckDB: it runs the statements of a file and writes their results to the lake.

`penstock.engine.engines.duckdb` writes its command line; it may spill into the directory where it starts. The results
have the form of `io.penstock.sql.SqlRunner`, and so have the exit codes: 0, 1 for a statement that failed, after which
none runs without `--keep-going`, and 2 for a wrong command line.

A statement sees each table as the catalog has it when the statement begins. It reaches the lake's bucket and its own
directory, and no other file or address.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb

from penstock.engine.engines.duckdb_catalog import CATALOG, Catalog, LakeAccess, Tables, words_of
from penstock.engine.engines.duckdb_results import columns, rows
from penstock.engine.engines.duckdb_tables import unquoted
from penstock.errors import InvalidInput, NotFound, PenstockError
from penstock.formats import sql_text
from penstock.home import write_json
from penstock.lake.model import Lake
from penstock.lake.settings import AUTHORITIES_VARIABLE

_EXTENSIONS = ("httpfs", "avro", "iceberg")
_ROWS_AT_ONCE = 2048

_log = logging.getLogger("penstock.duckdb")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="duckdb_driver")
    parser.add_argument("access", type=Path)
    parser.add_argument("cluster", type=Path)
    parser.add_argument("artifacts", type=Path)
    parser.add_argument("--output", required=True)
    parser.add_argument("--statements-file", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--keep-going", action="store_true")
    given = parser.parse_args(arguments)
    log = given.artifacts / "driver.log"
    logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(message)s", encoding="utf-8")
    try:
        return run(given)
    except PenstockError as error:
        print(error, file=sys.stderr)
        return 1


def run(given: argparse.Namespace) -> int:
    started = time.monotonic()
    access = json.loads(given.access.read_text(encoding="utf-8"))
    lake = LakeAccess(Lake.from_json(access["lake"]))
    script = lake.read_text(given.statements_file)
    with connection(lake, cores=access["cores"], memory_bytes=access["memory_bytes"]) as database:
        tables = Tables(Catalog(access["metastore"]), lake)
        runner = StatementRunner(
            database, tables, limit=given.limit, keep_going=given.keep_going, progress=Progress(given.cluster)
        )
        with lake.renewed(database):
            results = list(runner.results(script))
    content = "".join(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n" for result in results)
    lake.store.put(lake.lake.key(given.output), content.encode())
    write_json(given.cluster / "summary.json", {"elapsed_ms": round((time.monotonic() - started) * 1000)})
    problem = next((result["error"] for result in results if "error" in result), None)
    if problem is not None:
        print(problem, file=sys.stderr)
    return 0 if problem is None else 1


class Progress:
    """The driver's `progress.json`: the statements are the tasks of one stage."""

    def __init__(self, cluster: Path) -> None:
        self._file = cluster / "progress.json"

    def show(self, done: int, statements: int) -> None:
        stage = {"id": 0, "name": "statements", "tasks": statements, "done": done, "running": 1, "failed": 0}
        others = ("stages_done", "tasks_failed", "rows_read", "bytes_read", "bytes_written", "shuffle_bytes")
        write_json(
            self._file,
            {
                "description": f"statement {done + 1} of {statements}" if done < statements else "",
                "stages": [stage] if done < statements else [],
                "tasks_done": done,
                **dict.fromkeys(others, 0),
                "updated_ms": round(time.time() * 1000),
            },
        )


@contextmanager
def connection(lake: LakeAccess, *, cores: int, memory_bytes: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that reaches the lake and this directory alone."""
    here = Path.cwd()
    configuration: dict[str, str | bool | int | float | list[str]] = {
        "threads": cores,
        "memory_limit": f"{memory_bytes // 1000}KB",
        "temp_directory": str(here / "spill"),
        "allow_persistent_secrets": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        # Spark's order, which decides which rows a LIMIT returns.
        "default_null_order": "nulls_first_on_asc_last_on_desc",
    }
    with duckdb.connect(config=configuration) as database:
        for name in _EXTENSIONS:
            database.execute(f"LOAD {sql_text(str(_extension(name)))}")
        if authorities := os.environ.get(AUTHORITIES_VARIABLE):
            database.execute(f"SET ca_cert_file = {sql_text(authorities)}")
        database.execute("SET parquet_metadata_cache = true")
        database.execute(lake.secret())
        database.execute(f"ATTACH ':memory:' AS {CATALOG}")
        database.execute(f"USE {CATALOG}")
        allowed = ", ".join(map(sql_text, [*lake.roots, f"{here}/"]))
        database.execute(f"SET allowed_directories = [{allowed}]")
        database.execute("SET enable_external_access = false")
        yield database


def _extension(name: str) -> Path:
    package = import_module(f"duckdb_extension_{name}")
    return next(Path(package.__path__[0]).rglob("*.duckdb_extension"))


_TEMPORARY = re.compile(r"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\b", re.IGNORECASE)
_SHOW_TABLES = re.compile(r"\s*show\s+tables\s*", re.IGNORECASE)
_NO_TABLE = re.compile(r"Catalog Error: Table with name .* does not exist")
_NO_BASE_TABLE = re.compile(r"Can only [a-z]+ (?:from |into )?base tables?|is not an? table")
_OF_DATABASES = frozenset(
    {
        duckdb.StatementType.ATTACH,
        duckdb.StatementType.DETACH,
        duckdb.StatementType.LOAD,
        duckdb.StatementType.COPY_DATABASE,
    }
)


@dataclass(frozen=True)
class Statement:
    """A statement of the user's, as DuckDB runs it: `helpers` come before it (those of PIVOT find its columns)."""

    text: str
    helpers: tuple[duckdb.Statement, ...]
    last: duckdb.Statement

    @staticmethod
    def of(script: str) -> list[Statement]:
        """Raises `duckdb.Error` where the script is not SQL."""
        found: list[Statement] = []
        helpers: tuple[duckdb.Statement, ...] = ()
        for one in duckdb.extract_statements(script):
            if not one.query and one.type == duckdb.StatementType.CREATE:
                helpers = (*helpers, one)
            else:
                found.append(Statement((one.query or script).strip().rstrip(";").strip(), helpers, one))
                helpers = ()
        return found


class StatementRunner:
    """Runs statements in turn, until one fails or, with `keep_going`, all of them.

    `limit` is the largest number of rows per result, None for all.
    """

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        tables: Tables,
        *,
        limit: int | None,
        keep_going: bool = False,
        progress: Progress,
    ) -> None:
        self._database = database
        self._tables = tables
        self._limit = limit
        self._keep_going = keep_going
        self._progress = progress
        self._remembered: list[str] = []
        """The words of statements that later ones may run again: those of views, macros and prepared statements."""

    def results(self, script: str) -> Iterator[dict[str, Any]]:
        try:
            statements = Statement.of(script)
        except duckdb.Error as error:
            yield {"statement": script.strip(), "error": str(error).strip()}
            return
        for done, statement in enumerate(statements):
            self._progress.show(done, len(statements))
            started_ms, started = round(time.time() * 1000), time.monotonic()
            result = self._explained(statement)
            taken = (time.monotonic() - started) * 1000
            _log.info("statement %d of %d: %.0f ms", done + 1, len(statements), taken)
            yield {"statement": statement.text, **result, "started_ms": started_ms, "elapsed_ms": taken}
            if "error" in result and not self._keep_going:
                return
        self._progress.show(len(statements), len(statements))

    def _explained(self, statement: Statement) -> dict[str, Any]:
        try:
            return self._execute(statement)
        except PenstockError as error:
            return {"error": str(error)}
        except duckdb.OutOfMemoryException as error:
            return {"error": f"{_first(error)}\nFix: --driver-memory"}
        except duckdb.Error as error:
            return {"error": str(error).strip()}

    def _execute(self, statement: Statement) -> dict[str, Any]:
        kind = statement.last.type
        words = words_of(statement.text)
        named = self._tables.define(self._database, [*words, *self._remembered])
        if kind in (duckdb.StatementType.CREATE, duckdb.StatementType.PREPARE):
            self._remembered += words
        if _SHOW_TABLES.fullmatch(statement.text):
            return {"columns": [{"name": "tableName", "type": "string"}], **self._tables.listed(self._database)}
        if kind in _OF_DATABASES or (kind == duckdb.StatementType.CREATE and not _TEMPORARY.match(statement.text)):
            raise _read_only("what the statement makes would end with the application")
        own = named.keys() & set(map(unquoted, words))
        if own and kind in (duckdb.StatementType.ALTER, duckdb.StatementType.DROP):
            raise _read_only(f"the catalog has {', '.join(sorted(own))}")
        try:
            for helper in statement.helpers:
                self._database.execute(helper)
            reader = self._database.execute(statement.last).to_arrow_reader(_ROWS_AT_ONCE)
            found, truncated = rows(reader, self._limit)
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            if _NO_BASE_TABLE.search(str(error)):
                raise _read_only(_first(error)) from None
            for name, problem in named.items():
                if problem is not None and re.search(rf"\b{re.escape(name)}\b", str(error)):
                    raise problem from None
            if _NO_TABLE.match(str(error)):
                # DuckDB would suggest a name of its own: it does not know the catalog's other tables.
                raise NotFound(_first(error), fix="penstock tables lists the catalog") from None
            raise
        # DuckDB answers a statement without a result with a column of this name and no row.
        silent = reader.schema.names == ["Success"] and not found
        return {"columns": [] if silent else columns(reader.schema), "rows": found, "truncated": truncated}


def _read_only(why: str) -> InvalidInput:
    return InvalidInput(
        "DuckDB only reads the catalog",
        why=why,
        fix="use --engine spark, or CREATE TEMP TABLE for what only the next statements read",
    )


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
