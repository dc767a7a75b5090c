"""The driver of an application in Trino, which `statement_driver` describes. It may spill into its directory.

A statement sees each table as the catalog has it when the statement names it first. Trino only reads.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests
from trino import dbapi
from trino.exceptions import Error, TrinoQueryError

from penstock.engine.engines.iceberg.catalog import Tables, read_only, served
from penstock.engine.engines.iceberg.tables import Reader
from penstock.engine.engines.results import columns, rows
from penstock.engine.engines.statement_driver import Given, local_zone, main
from penstock.engine.engines.table_files import lost_file
from penstock.engine.engines.trino import installation
from penstock.engine.engines.trino.server import (
    CATALOG,
    catalog_settings,
    connected,
    environment_of,
    is_starting,
    running,
)
from penstock.engine.engines.trino.statements import arrow_type, reads, split, value
from penstock.errors import ClusterError, InvalidInput, PenstockError

TRINO = Reader("Trino", 2)
"""It does not know the deletion vectors of version 3."""
_ROWS_AT_ONCE = 2048
_NODE_SECONDS = 30.0
_LOOK_SECONDS = 0.1


def run(given: Given) -> Iterator[dict[str, Any]]:
    tables = Tables(given.catalog, given.lake, f"{given.output}.tables", TRINO)
    with (
        contextlib.closing(tables),
        served(tables) as (url, token),
        running(
            installation.directory(),
            given.size,
            here=Path.cwd(),
            catalogs={CATALOG: catalog_settings(given.lake, url)},
            environment=environment_of(url, token),
            log=given.artifacts / "driver.log",
            authorities=given.lake.lake.authorities,
        ) as server,
        connected(server, CATALOG, schema="default", timezone=local_zone()) as trino,
    ):
        runner = StatementRunner(trino, tables, given.limit)
        yield from given.answers(split(given.script), runner.execute)


class StatementRunner:
    """Runs statements. `limit` is the largest number of rows per result, None for all."""

    def __init__(self, connection: dbapi.Connection, tables: Tables, limit: int | None) -> None:
        self._connection = connection
        self._tables = tables
        self._limit = limit

    def execute(self, statement: str) -> dict[str, Any]:
        if not reads(statement):
            raise _refusal(f"a statement that begins with “{statement.split(maxsplit=1)[0]}” may change it")
        self._tables.begin()
        deadline = time.monotonic() + _NODE_SECONDS
        while True:
            try:
                return self._answer(statement)
            except TrinoQueryError as error:
                if not is_starting(error) or time.monotonic() > deadline:
                    raise self._explained(error) from None
            except (Error, requests.RequestException) as error:
                raise ClusterError("Trino does not answer", why=str(error), fix="penstock logs ID") from error
            time.sleep(_LOOK_SECONDS)

    def _answer(self, statement: str) -> dict[str, Any]:
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            return self._result(cursor)

    def _result(self, cursor: dbapi.Cursor) -> dict[str, Any]:
        if cursor.update_type is not None:
            # Such as USE, which ends with one row that says so.
            cursor.fetchall()
            return {"columns": [], "rows": [], "truncated": False}
        described = cursor.description or []
        zone = local_zone()
        schema = pa.schema([pa.field(column.name, arrow_type(str(column.type_code), zone)) for column in described])
        heads = columns(schema)

        def batches() -> Iterator[pa.RecordBatch]:
            while found := cursor.fetchmany(_ROWS_AT_ONCE):
                arrays = [
                    pa.array([value(row[index], field.type) for row in found], field.type)
                    for index, field in enumerate(schema)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        kept, truncated = rows(batches(), self._limit)
        return {"columns": heads, "rows": kept, "truncated": truncated}

    def _explained(self, error: TrinoQueryError) -> PenstockError:
        """The error as its user can understand it: that about a table, where Trino only says that there is none."""
        if problems := self._tables.problems:
            return problems[0]
        text = str(error.message).strip()
        if "java.io.FileNotFoundException" in _causes(error):
            return lost_file(text)
        if error.error_name == "PERMISSION_DENIED":
            return _refusal(text)
        return InvalidInput(text, fix="--driver-memory" if error.error_type == "INSUFFICIENT_RESOURCES" else "")


def _causes(error: TrinoQueryError) -> Iterator[str]:
    """The classes of Java's exceptions behind it."""
    info = error.failure_info
    while info:
        yield str(info.get("type"))
        info = info.get("cause")


def _refusal(why: str) -> InvalidInput:
    return InvalidInput(read_only(TRINO), why=why, fix="use --engine spark")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], run))
