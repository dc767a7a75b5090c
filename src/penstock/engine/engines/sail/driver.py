"""The driver of an application in Sail, which `statement_driver` describes. It may spill into its directory.

Sail runs within this process and is asked by Spark Connect, Spark's own protocol. A statement sees each table as the
catalog has it when the statement names it first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
from pysail.spark import SparkConnectServer
from pyspark.errors import PySparkException
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession

from penstock.engine.engines.access import LakeAccess
from penstock.engine.engines.iceberg.catalog import Tables, for_containers, read_only, served
from penstock.engine.engines.iceberg.tables import Reader
from penstock.engine.engines.results import columns, rows
from penstock.engine.engines.sail.privacy import close_to_others
from penstock.engine.engines.sail.statements import in_sails_words, setting, split, writes
from penstock.engine.engines.statement_driver import Given, local_zone, main
from penstock.engine.engines.table_files import lost_file
from penstock.errors import InvalidInput, PenstockError
from penstock.lake.clients.configuration import sail_store, sail_table
from penstock.model import ProcessSize

SAIL = Reader("Sail", 3, re.compile(r"\w+://[\w.=/-]*", re.ASCII))
"""Sail encodes other addresses a second time when it reads a file's footer."""
CATALOG = "spark_catalog"
_SHARE_OF_MEMORY = 0.8
"""The share of the process's memory that queries may fill, beside files that are being read and Python."""

_LARGEST_LIMIT = 2**31 - 1
"""The protocol's numbers of rows end here."""

_GONE = re.compile(r"Object at location (?P<file>\S+) not found")
"""The words of the library by which Sail reads a store."""

_log = logging.getLogger("penstock.sail")


def run(given: Given) -> Iterator[dict[str, Any]]:
    # Sail takes all that a table's metadata lead to from one store, that of the table.
    tables = Tables(given.catalog, given.lake, f"{given.output}.tables", SAIL)
    with session_over(tables, given.lake, given.size) as spark:
        runner = StatementRunner(spark, tables, given.limit)
        yield from given.answers(split(given.script), runner.execute)


@contextmanager
def session_over(
    tables: Tables, lake: LakeAccess, size: ProcessSize, *, interceptor: grpc.UnaryStreamClientInterceptor | None = None
) -> Iterator[SparkSession]:
    """A `session` that has these tables, which nobody else gets an answer from; they are closed after it."""
    tables.is_open = False
    with (
        contextlib.closing(tables),
        served(tables) as (url, token),
        session(lake, size, url, token, interceptor=interceptor) as spark,
    ):
        tables.is_open = True
        yield spark


@contextmanager
def session(
    lake: LakeAccess,
    size: ProcessSize,
    catalog: str,
    token: str,
    *,
    interceptor: grpc.UnaryStreamClientInterceptor | None = None,
) -> Iterator[SparkSession]:
    """A session of a Sail in this process, which no other process reaches any more.

    Its configuration is that of the process's environment. The interceptor sees each plan before Sail does.
    """
    here = Path.cwd()
    environment = for_containers(os.environ, catalog, token) | settings(lake, size, here, catalog, token)
    os.environ.clear()
    os.environ.update(environment)
    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    try:
        _, port = server.listening_address
        channel = DefaultChannelBuilder(f"sc://127.0.0.1:{port}")
        if interceptor is not None:
            channel.add_interceptor(interceptor)
        spark = SparkSession.builder.channelBuilder(channel).getOrCreate()
        try:
            spark.conf.set("spark.sql.session.timeZone", local_zone())
            close_to_others(port)
            yield spark
        finally:
            spark.stop()
    finally:
        server.stop()


def settings(lake: LakeAccess, size: ProcessSize, here: Path, catalog: str, token: str) -> dict[str, str]:
    """The variables of Sail's environment."""
    spill = here / "spill"
    spill.mkdir(exist_ok=True)
    rest = {"type": "iceberg-rest", "name": CATALOG, "uri": catalog, "oauth_access_token": token}
    return {
        **sail_store(lake.lake, lake.endpoint),
        **({} if lake.lake.ca_file is None else {"SSL_CERT_FILE": lake.lake.ca_file}),
        "RUST_LOG": "error",
        "TOKIO_WORKER_THREADS": str(size.cores),
        "SAIL_MODE": "local",
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": str(size.cores),
        "SAIL_EXECUTION__FILE_LISTING_CACHE__TYPE": "none",
        "SAIL_PARQUET__FILE_STATISTICS_CACHE__TYPE": "none",
        "SAIL_RUNTIME__MEMORY_POOL__TYPE": "greedy",
        "SAIL_RUNTIME__MEMORY_POOL__GREEDY__MAX_SIZE": str(round(_SHARE_OF_MEMORY * size.memory_bytes)),
        "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": json.dumps([str(spill)]),
        "SAIL_CATALOG__LIST": f"[{{{sail_table(rest)}}}]",
        "SAIL_CATALOG__DEFAULT_CATALOG": json.dumps(CATALOG),
    }


def require_reading(statement: str, *, fix: str) -> None:
    """Raise `InvalidInput` where the statement may write."""
    if writes(statement):
        why = f"a statement that has “{statement.split(maxsplit=1)[0]}” in this place may change it"
        raise InvalidInput(read_only(SAIL), why=why, fix=fix)


class StatementRunner:
    """Runs statements. `limit` is the largest number of rows per result, None for all."""

    def __init__(self, spark: SparkSession, tables: Tables, limit: int | None) -> None:
        self._spark = spark
        self._tables = tables
        self._limit = limit

    def execute(self, statement: str) -> dict[str, Any]:
        require_reading(statement, fix="use --engine spark, or CREATE TEMP VIEW for what the next statements read")
        if (given := setting(statement)) is not None:
            return self._set(*given)
        self._tables.begin()
        try:
            answer = self._spark.sql(in_sails_words(statement))
            if self._limit is not None and self._limit < _LARGEST_LIMIT:
                # One more tells whether there are more.
                answer = answer.limit(self._limit + 1)
            found = answer.toArrow()
        except PySparkException as error:
            raise self._explained(error) from None
        # Sail's points in time are of UTC, and Spark shows them in the session's zone.
        zone = self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
        found = found.cast(pa.schema([field.with_type(_in_zone(field.type, zone)) for field in found.schema]))
        heads = columns(found.schema)
        kept, truncated = rows(found.to_batches(), self._limit)
        return {"columns": heads, "rows": kept, "truncated": truncated}

    def _set(self, name: str, value: str | None) -> dict[str, Any]:
        """Change or show a setting of the session; the result is Spark's."""
        if value is not None:
            self._spark.conf.set(name, value)
        shown = self._spark.conf.get(name, "<undefined>")
        heads = [{"name": head, "type": "string"} for head in ("key", "value")]
        return {"columns": heads, "rows": [[name, shown]], "truncated": False}

    def _explained(self, error: PySparkException) -> PenstockError:
        """The error as its user can understand it: that about a table, where Sail only says that there is none."""
        if problems := self._tables.problems:
            return problems[0]
        text = str(error).strip()
        if gone := _GONE.search(text):
            return lost_file(gone["file"])
        fix = "--driver-memory, or --engine spark" if "Resources exhausted" in text else ""
        return InvalidInput(text, fix=fix)


def _in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    """The type with every point in time within it in a zone."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_in_zone(kind.item_type, zone)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_zone(kind.value_type, zone)))
    return kind


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], run))
