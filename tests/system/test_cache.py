"""The page cache from the user's side: filled by applications; shown, emptied and refilled by commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.clusters import machine
from penstock.home import Home
from tests.support.command import Answers, Command

TABLE = """
CREATE DATABASE cache;
CREATE TABLE cache.readings PARTITIONED BY (day) AS SELECT id, id % 3 AS day FROM range(200000)
"""
QUERY = "SELECT sum(id) FROM cache.readings"


def in_memory(home: Home) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Command(home).ok("cache", "status", "--json"))["tiers"][0]
    return found


def page_files(home: Home) -> list[Path]:
    return [path for path in (machine.page_cache(home)[0].directory / "v1" / "pages").rglob("*") if path.is_file()]


def lake_counts(answers: Answers) -> dict[str, Any]:
    assert answers.application.summary is not None
    counts: dict[str, Any] = answers.application.summary["lake"]
    return counts


def test_what_one_application_leaves_is_seen_dropped_warmed_and_read_by_the_next(shared_home: Home) -> None:
    penstock = Command(shared_home)
    written = lake_counts(penstock.sql(f"{TABLE}; {QUERY}"))
    assert written["pages_written_through"] > 0

    # Python's reader of the table header, against files that Scala wrote.
    seen, files = in_memory(shared_home), page_files(shared_home)
    assert seen["pages"] == len(files) > 0
    assert seen["used_bytes"] == sum(-(-path.stat().st_size // 4096) * 4096 for path in files)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)

    penstock.ok("cache", "drop")
    assert in_memory(shared_home)["pages"] == 0 and not page_files(shared_home)

    assert "of which 0 B were cached already" in penstock.ok("cache", "warm", "cache.readings")
    warmed = json.loads(penstock.ok("cache", "warm", "cache.readings", "--json"))
    assert warmed["done"] and warmed["objects"] == warmed["of_objects"] >= 3
    verified = [json.loads(line) for line in penstock.ok("cache", "verify", "--json").splitlines()]
    assert verified[0]["pages"] == in_memory(shared_home)["pages"] > 0
    assert verified[0]["damaged"] == verified[0]["orphans"] == verified[0]["missing"] == 0

    read = lake_counts(penstock.sql(QUERY))
    assert read["bytes_from_memory"] > 0
    assert read["bytes_from_store"] == read["bytes_fetched"] == 0
