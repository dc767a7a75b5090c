"""All output and files of a run, as (name, bytes), for tests that search them for secrets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from penstock.catalog.database import Database
from penstock.home import Home


def command_lines() -> Iterator[tuple[str, bytes]]:
    listed = subprocess.run(["ps", "-eo", "pid,args", "-ww"], capture_output=True, check=True).stdout
    yield "process list", listed
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                yield f"command line of {process.name}", (process / "cmdline").read_bytes()
            except OSError:
                continue


def files_of(directory: Path, *, apart_from: Path) -> Iterator[tuple[str, bytes]]:
    for path in directory.rglob("*"):
        if path.is_file() and apart_from not in path.parents:
            yield str(path), path.read_bytes()


def records(home: Home) -> Iterator[tuple[str, bytes]]:
    database = Database(home).engine("penstock")
    with database.connect() as connection:
        for table in ("applications", "events"):
            rows = connection.execute(sa.text(f"SELECT to_jsonb(t)::text FROM {table} t")).scalars()  # noqa: S608
            yield f"records in {table}", "\n".join(rows).encode()
    database.dispose()


def files_left(home: Home) -> Iterator[tuple[str, bytes]]:
    """Yield all files of the home except the two private directories of secrets, each readable by its owner alone."""
    for path in home.root.rglob("*"):
        if path.is_file() and home.database not in path.parents and home.lake not in path.parents:
            yield str(path), path.read_bytes()
