"""Some rows of a table without a cluster: one of its objects is brought here and read."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from penstock.catalog.tables import Table
from penstock.engine.engine import Engine
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.model import Lake, ObjectInfo, ObjectStore
from penstock.lake.registry import Lakes

MOST_ROWS = 1000
_MOST_OBJECTS = 1000
_MOST_BYTES = 256 << 20
_LONGEST_TEXT = 2000

Open = Callable[[str], tuple[Lake, ObjectStore]]
"""The lake a location is in, and a client of it."""


def of(table: Table, open_lake: Open, *, rows: int) -> dict[str, Any]:
    """`columns`, at most `rows` rows of one object, and whether there are more: `truncated`.

    Raises `InvalidInput` for what is no Parquet table, or has no object small enough.
    """
    if not table.location.startswith("s3a://") or "parquet" not in table.format.lower():
        raise _none(table, "only Parquet tables in a lake have one")
    lake, store = open_lake(table.location)
    prefix = lake.key(table.location).rstrip("/") + "/"
    found, more = _smallest(store, prefix)
    columns = [{"name": column.name, "type": column.type} for column in table.columns]
    if found is None:
        return {"columns": columns, "rows": [], "truncated": False}
    if found.size > _MOST_BYTES:
        raise _none(table, f"its smallest object has {found.size >> 20} MiB")
    with tempfile.TemporaryDirectory(prefix="penstock-preview-") as directory:
        file = Path(directory) / "object.parquet"
        store.download(found.key, file)
        names, read = _read(file, rows + 1)
    given = partition_values(found.key.removeprefix(prefix))
    positions = {name.lower(): number for number, name in enumerate(names)}

    def value(row: tuple[Any, ...], name: str) -> Any:
        at = positions.get(name.lower())
        return _shown(row[at]) if at is not None else given.get(name.lower())

    shown = [[value(row, column.name) for column in table.columns] for row in read[:rows]]
    return {"columns": columns, "rows": shown, "truncated": more or len(read) > rows}


def opener(engine: Engine, home: Home) -> Open:
    def open_lake(location: str) -> tuple[Lake, ObjectStore]:
        bucket = location.removeprefix("s3a://").partition("/")[0]
        named = next((lake.name for lake in Lakes(home).shared() if lake.bucket == bucket), None)
        return engine.lake(named), engine.store(named)

    return open_lake


def partition_values(key: str) -> dict[str, str | None]:
    """What Hive's layout says in an object's key below its table: `day=2026-01-01/part-0.parquet`."""
    parts = (part.partition("=") for part in key.split("/")[:-1])
    null = "__HIVE_DEFAULT_PARTITION__"
    return {unquote(name).lower(): None if value == null else unquote(value) for name, sign, value in parts if sign}


def _smallest(store: ObjectStore, prefix: str) -> tuple[ObjectInfo | None, bool]:
    """Of the first objects the smallest that holds rows, and whether there are others."""
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

    # Nothing but this file is read, whatever is in it.
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as connection:
        connection.execute("SET temp_directory = ''")
        answer = connection.execute("SELECT * FROM read_parquet(?) LIMIT ?", [str(file), rows])
        return [column[0] for column in answer.description], answer.fetchall()


def _none(table: Table, why: str) -> InvalidInput:
    return InvalidInput(f"{table.full_name} has no preview", why=why, fix="query it: penstock sql, with a LIMIT")


def _shown(value: Any) -> Any:
    """As JSON has it: what it has no form for as text, long texts cut."""
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, bytes):
        return value[: _LONGEST_TEXT // 2].hex()
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value[:100]]
    if isinstance(value, dict):
        return {str(key): _shown(item) for key, item in list(value.items())[:100]}
    return str(value)[:_LONGEST_TEXT]
