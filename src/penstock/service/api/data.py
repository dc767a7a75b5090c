"""`/v1/tables`, `/v1/lakes`, `/v1/profiles` and `/v1/cache`, with a preview of a table's rows.

A preview needs no cluster: the service downloads and reads one of the table's objects.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Query
from fastapi import Path as InPath

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore, no_such_table
from penstock.catalog.tables import Table
from penstock.engine import installation
from penstock.engine.engine import Engine
from penstock.engine.tokens import Caller
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.model import Lake, ObjectInfo, ObjectStore
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.profiles import workloads
from penstock.service import responses
from penstock.service.auth import Reader
from penstock.service.context import CurrentService, Service
from penstock.service.guards import PREVIEW

MOST_ROWS = 1000
_MOST_OBJECTS = 1000
_MOST_BYTES = 256 << 20
_LONGEST_TEXT = 2000

Open = Callable[[str], tuple[Lake, ObjectStore]]
"""Returns the lake of a location, and a client of it."""


def read_preview(table: Table, open_lake: Open, *, rows: int) -> responses.Preview:
    """Return the columns and at most `rows` rows of one of the table's objects.

    Raises `InvalidInput` for a table that is not Parquet, or has no object small enough.
    """
    if not table.location.startswith("s3a://") or "parquet" not in table.format.lower():
        raise _none(table, "only Parquet tables in a lake have one")
    lake, store = open_lake(table.location)
    prefix = lake.key(table.location).rstrip("/") + "/"
    found, more = _smallest(store, prefix)
    columns = [responses.PreviewColumn(name=column.name, type=column.type) for column in table.columns]
    if found is None:
        return responses.Preview(columns=columns, rows=[], truncated=False)
    if found.size > _MOST_BYTES:
        raise _none(table, f"its smallest object has {found.size >> 20} MiB")
    with tempfile.TemporaryDirectory(prefix="penstock-preview-") as directory:
        file = Path(directory) / "object.parquet"
        store.download(found.key, file)
        names, read = _read(file, rows + 1)
    partitions = partition_values(found.key.removeprefix(prefix))
    positions = {name.lower(): number for number, name in enumerate(names)}

    def value(row: tuple[Any, ...], name: str) -> Any:
        at = positions.get(name.lower())
        return _shown(row[at]) if at is not None else partitions.get(name.lower())

    shown = [[value(row, column.name) for column in table.columns] for row in read[:rows]]
    return responses.Preview(columns=columns, rows=shown, truncated=more or len(read) > rows)


def lake_opener(engine: Engine, home: Home) -> Open:
    def open_lake(location: str) -> tuple[Lake, ObjectStore]:
        bucket = location.removeprefix("s3a://").partition("/")[0]
        named = next((lake.name for lake in Lakes(home).shared() if lake.bucket == bucket), None)
        return engine.lake(named), engine.store(named)

    return open_lake


def partition_values(key: str) -> dict[str, str | None]:
    """Return the partition columns in an object's key below its table (`day=2026-01-01/part-0.parquet`)."""
    parts = (part.partition("=") for part in key.split("/")[:-1])
    null = "__HIVE_DEFAULT_PARTITION__"
    return {unquote(name).lower(): None if value == null else unquote(value) for name, sign, value in parts if sign}


def _smallest(store: ObjectStore, prefix: str) -> tuple[ObjectInfo | None, bool]:
    """Return the smallest of the first objects that have rows, and whether there are others."""
    seen = 0
    best: ObjectInfo | None = None
    for found in store.list(prefix):
        hidden = any(part.startswith(("_", ".")) and "=" not in part for part in found.key[len(prefix) :].split("/"))
        if hidden or not found.size:
            continue
        seen += 1
        best = found if best is None or found.size < best.size else best
        if seen >= _MOST_OBJECTS:
            break
    return best, seen > 1


def _read(file: Path, rows: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    import duckdb

    # DuckDB reads this one file, whatever is in it, and writes none: it has no spill directory.
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as connection:
        connection.execute("SET temp_directory = ''")
        answer = connection.execute("SELECT * FROM read_parquet(?) LIMIT ?", [str(file), rows])
        return [column[0] for column in answer.description], answer.fetchall()


def _none(table: Table, why: str) -> InvalidInput:
    return InvalidInput(f"{table.full_name} has no preview", why=why, fix="query it: penstock sql, with a LIMIT")


def _shown(value: Any) -> Any:
    """Return the value for JSON: values without a JSON type become text, and long texts are cut."""
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, bytes):
        return value[: _LONGEST_TEXT // 2].hex()
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value[:100]]
    if isinstance(value, dict):
        return {str(key): _shown(item) for key, item in list(value.items())[:100]}
    return str(value)[:_LONGEST_TEXT]


router = APIRouter(prefix="/v1", tags=["data"])

TableName = Annotated[str, InPath(max_length=300, description="DATABASE.TABLE")]


@router.get("/tables", summary="The catalog's tables")
def tables(
    service: CurrentService,
    caller: Reader,
    pattern: Annotated[str | None, Query(max_length=300, description="A shell pattern for DATABASE.TABLE.")] = None,
) -> responses.Tables:
    return responses.Tables.model_validate({"items": _seen_by(caller, service, _metastore(service).tables(pattern))})


@router.get("/tables/{name}", summary="One table: its columns and statistics")
def table(name: TableName, service: CurrentService, caller: Reader) -> responses.Table:
    return responses.Table.model_validate(_visible(caller, service, name))


@router.get("/tables/{name}/preview", summary="Some rows of a table")
def preview_of(
    name: TableName,
    service: CurrentService,
    caller: Reader,
    rows: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 50,
) -> responses.Preview:
    """Arbitrary rows of one of its objects, in no order, read without a cluster."""
    with service.request_counts.counting(PREVIEW, caller.token_id):
        found = _visible(caller, service, name)
        return read_preview(found, lake_opener(service.engine, service.home), rows=rows)


@router.get("/lakes", summary="The object stores")
def lakes(service: CurrentService, caller: Reader) -> responses.Lakes:
    """Lakes made from keys in a request body are listed only to readers of the queue that they belong to."""
    registered = Lakes(service.home)
    default, ours = registered.default(), stores.stores(service.home)
    listed = [lake for lake in registered.all() if lake.scope is None or caller.sees(lake.scope.queue or "")]
    running = {kind: ours[kind].ready() for kind in {lake.kind for lake in listed} & ours.keys()}
    return responses.Lakes(
        items=[
            responses.Lake(
                name=lake.name,
                default=lake.name == default,
                endpoints=list(lake.endpoints),
                bucket=lake.bucket,
                kind=lake.kind,
                embedded=lake.kind == EMBEDDED,
                running=running.get(lake.kind),
            )
            for lake in listed
        ]
    )


@router.get("/profiles", summary="The workload profiles")
def profiles(_: Reader) -> responses.Profiles:
    return responses.Profiles(
        items=[
            responses.Profile(name=name, summary=workloads.profile_summary(name)) for name in workloads.profile_names()
        ]
    )


@router.get("/cache", summary="The page cache of this machine, and the hit rates of the last applications")
def cache(service: CurrentService, caller: Reader) -> responses.Cache:
    return responses.Cache.model_validate(installation.status(service.home, instances=caller.instances))


def _metastore(service: Service) -> Metastore:
    return Metastore(Database(service.home))


def _visible(caller: Caller, service: Service, name: str) -> Table:
    """Return the table. Raises `NotFound` also where the caller does not see the instance of its database."""
    found = _metastore(service).table(name)
    if not _seen_by(caller, service, [found]):
        raise no_such_table(found.full_name.lower())
    return found


def _seen_by(caller: Caller, service: Service, found: Sequence[Table]) -> list[Table]:
    # The owners are read after the tables, so that a new database has its owner before its tables are shown.
    owners = service.database_owners()
    owned = ((table, owners.get(table.database.lower())) for table in found)
    return [table for table, owner in owned if owner is None or caller.sees(owner)]
