"""The driver of an application in DuckDB, which `statement_driver` describes. It may spill into its directory.

A statement sees each table as the catalog has it when the statement begins. It reaches the lake's bucket and its own
directory, and no other file or address.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from penstock.engine.engines.access import LakeAccess
from penstock.engine.engines.duckdb.catalog import CATALOG, Tables, renewed, secret, words_of
from penstock.engine.engines.duckdb.tables import unquoted
from penstock.engine.engines.results import columns, rows
from penstock.engine.engines.statement_driver import Given, Progress, in_turn, main
from penstock.engine.engines.table_files import lost_file
from penstock.errors import InvalidInput, NotFound
from penstock.formats import sql_text
from penstock.lake.clients.configuration import addresses
from penstock.model import ProcessSize

_EXTENSIONS = ("httpfs", "avro", "iceberg")
_ROWS_AT_ONCE = 2048


def run(given: Given) -> Iterator[dict[str, Any]]:
    with connection(given.lake, given.size) as database:
        tables = Tables(given.catalog, given.lake)
        runner = StatementRunner(
            database, tables, limit=given.limit, keep_going=given.keep_going, progress=given.progress
        )
        with renewed(given.lake, database):
            yield from runner.results(given.script)


@contextmanager
def connection(lake: LakeAccess, size: ProcessSize) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that reaches the lake and this directory alone."""
    here = Path.cwd()
    configuration: dict[str, str | bool | int | float | list[str]] = {
        "threads": size.cores,
        "memory_limit": f"{size.memory_bytes // 1000}KB",
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
        if lake.lake.ca_file is not None:
            database.execute(f"SET ca_cert_file = {sql_text(lake.lake.ca_file)}")
        database.execute("SET parquet_metadata_cache = true")
        database.execute(secret(lake))
        database.execute(f"ATTACH ':memory:' AS {CATALOG}")
        database.execute(f"USE {CATALOG}")
        allowed = ", ".join(map(sql_text, [*addresses(lake.lake), f"{here}/"]))
        database.execute(f"SET allowed_directories = [{allowed}]")
        database.execute("SET enable_external_access = false")
        yield database


def _extension(name: str) -> Path:
    package = import_module(f"duckdb_extension_{name}")
    return next(Path(package.__path__[0]).rglob("*.duckdb_extension"))


_LISTINGS = frozenset(
    {
        "duckdb_columns",
        "duckdb_tables",
        "duckdb_views",
        "information_schema",
        "pg_catalog",
        "show_tables",
        "show_tables_expanded",
        "sqlite_master",
    }
)
"""DuckDB's own lists of tables."""
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
        found = []
        for text in _texts(script):
            # DuckDB's own texts of the statements of a PIVOT are not the user's.
            *helpers, last = duckdb.extract_statements(text)
            found.append(Statement(text, tuple(helpers), last))
        return found

    @property
    def words(self) -> list[str]:
        """See `words_of`."""
        return words_of(self.text)

    @property
    def is_temporary(self) -> bool:
        """Whether what it makes ends with the application at the latest."""
        made = [word.lower() for word in self.words[:4]]
        kinds = made[3:] if made[1:3] == ["or", "replace"] else made[1:2]
        return made[:1] == ["create"] and kinds[:1] in (["temp"], ["temporary"])


def _texts(script: str) -> list[str]:
    """The texts of the statements, with the comments before them and without the semicolons."""
    content = script.encode()
    tokens = duckdb.tokenize(script)
    ends = [at for at, kind in tokens if kind == duckdb.token_type.operator and content[at : at + 1] == b";"]
    found = []
    for start, end in pairwise([-1, *ends, len(content)]):
        if any(start < at < end for at, _ in tokens):
            found.append(content[start + 1 : end].decode().strip())
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
        yield from in_turn(
            statements,
            lambda statement: statement.text,
            self._explained,
            keep_going=self._keep_going,
            progress=self._progress,
        )

    def _explained(self, statement: Statement) -> dict[str, Any]:
        try:
            return self._execute(statement)
        except duckdb.OutOfMemoryException as error:
            return {"error": f"{_first(error)}\nFix: --driver-memory"}
        except duckdb.HTTPException as error:
            return {"error": str(lost_file(_first(error)) if "HTTP 404" in str(error) else error).strip()}
        except duckdb.Error as error:
            return {"error": str(error).strip()}

    def _execute(self, statement: Statement) -> dict[str, Any]:
        kind = statement.last.type
        words = statement.words
        named = self._tables.define(self._database, [*words, *self._remembered])
        if kind in (duckdb.StatementType.CREATE, duckdb.StatementType.PREPARE):
            self._remembered += words
        if (listed := self._listed(words)) is not None:
            return {"columns": [{"name": "tableName", "type": "string"}], "rows": listed, "truncated": False}
        if kind in _OF_DATABASES or (kind == duckdb.StatementType.CREATE and not statement.is_temporary):
            raise _read_only("what the statement makes would end with the application")
        own = named.keys() & set(map(unquoted, words))
        if own and kind in (duckdb.StatementType.ALTER, duckdb.StatementType.DROP):
            raise _read_only(f"the catalog has {', '.join(sorted(own))}")
        try:
            for helper in statement.helpers:
                self._database.execute(helper)
            reader = self._database.execute(statement.last).to_arrow_reader(_ROWS_AT_ONCE)
            heads = columns(reader.schema)
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
        return {"columns": [] if silent else heads, "rows": found, "truncated": truncated}

    def _listed(self, words: Sequence[str]) -> list[list[str]] | None:
        """The rows of a statement that lists tables; None for any other statement."""
        match [unquoted(word) for word in words]:
            case ["show", "tables"]:
                return [[name] for name in self._tables.listed(self._database)]
            case ["show", "tables", "from" | "in", database]:
                return [[name] for name in self._tables.listed(self._database, database)]
            case ["show", "all", "tables"] | ["show", "tables", *_]:
                listing = " ".join(words)
            case plain:
                listing = next((word for word in plain if word in _LISTINGS), "")
        if not listing:
            return None
        raise InvalidInput(
            f"“{listing}” would not list the catalog",
            why="DuckDB knows only the tables that a statement names",
            fix="SHOW TABLES, SHOW TABLES FROM a_database, or penstock tables",
        )


def _read_only(why: str) -> InvalidInput:
    return InvalidInput(
        "DuckDB only reads the catalog",
        why=why,
        fix="use --engine spark, or CREATE TEMP TABLE for what only the next statements read",
    )


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], run))
