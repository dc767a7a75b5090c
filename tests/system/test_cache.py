"""The page cache as users meet it: filled by applications, seen, emptied and filled again by commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.clusters import machine
from penstock.engine.installation import Installation
from penstock.home import Home

SMALL = ["--driver-memory", "512m", "--executors", "1", "--executor-cores", "1", "--executor-memory", "512m"]
TABLE = "CREATE TABLE readings PARTITIONED BY (day) AS SELECT id, id % 3 AS day FROM range(200000)"
QUERY = "SELECT sum(id) FROM readings"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("cache") / "home")
    yield home
    installation = Installation(home)
    list(installation.down())
    installation.wipe()
    assert not any(tier.directory.exists() for tier in machine.page_cache(home))


def penstock(home: Home, *arguments: str) -> str:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    environment = {**os.environ, "PENSTOCK_HOME": str(home.root)}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sql(home: Home, statement: str) -> dict[str, Any]:
    """The counts of the application that ran it."""
    penstock(home, "sql", *SMALL, statement)
    summary: dict[str, Any] = json.loads(penstock(home, "show", "last", "--json"))["summary"]["lake"]
    return summary


def in_memory(home: Home) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(penstock(home, "cache", "status", "--json"))["tiers"][0]
    return found


def page_files(home: Home) -> list[Path]:
    return [path for path in (machine.page_cache(home)[0].directory / "v1" / "pages").rglob("*") if path.is_file()]


def test_what_one_application_leaves_is_seen_dropped_warmed_and_read_by_the_next(home: Home) -> None:
    written = sql(home, f"{TABLE}; {QUERY}")
    assert written["pages_written_through"] > 0

    # The table's header as Python reads it, against the files that Scala's side has written.
    seen, files = in_memory(home), page_files(home)
    assert seen["pages"] == len(files) > 0
    assert seen["used_bytes"] == sum(-(-path.stat().st_size // 4096) * 4096 for path in files)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)

    penstock(home, "cache", "drop")
    assert in_memory(home)["pages"] == 0 and not page_files(home)

    assert "of which 0 B were there already" in penstock(home, "cache", "warm", "readings")
    warmed = json.loads(penstock(home, "cache", "warm", "readings", "--json"))
    assert warmed["done"] and warmed["objects"] == warmed["of_objects"] >= 3
    verified = [json.loads(line) for line in penstock(home, "cache", "verify", "--json").splitlines()]
    assert verified[0]["pages"] == in_memory(home)["pages"] > 0
    assert verified[0]["damaged"] == verified[0]["orphans"] == verified[0]["missing"] == 0

    read = sql(home, QUERY)
    assert read["bytes_from_memory"] > 0
    assert read["bytes_from_store"] == read["bytes_fetched"] == 0
