"""Iceberg's REST catalog of the service: other engines, with a token and own keys, use the tables that Spark uses."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    UnauthorizedError,
)

from penstock.home import Home
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.processes import processes_in
from tests.support.command import Command
from tests.support.service_process import Served

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
SPARK = """
SELECT id, name FROM rest.orders ORDER BY id;
SELECT count(*) FROM rest.ducks;
MERGE INTO rest.orders o USING (SELECT * FROM VALUES (2, 'two'), (3, 'three') AS v(id, name)) s ON o.id = s.id
  WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *;
ANALYZE TABLE rest.orders COMPUTE STATISTICS;
ANALYZE TABLE rest.orders COMPUTE STATISTICS FOR COLUMNS id;
CREATE TABLE rest.theirs (id INT) USING iceberg;
CREATE TABLE rest.plain (id INT) USING parquet;
CREATE DATABASE shared;
CREATE TABLE shared.everybodys (id INT) USING iceberg
"""
DUCKDB = """
CREATE TABLE lake.rest.ducks AS SELECT range AS id FROM range(1000);
INSERT INTO lake.rest.orders VALUES (4, 'four');
UPDATE lake.rest.orders SET name = 'duck' WHERE id = 2;
DELETE FROM lake.rest.orders WHERE id = 4
"""
WRITERS = 2
EACH = 4


def table_of(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"id": [row[0] for row in rows], "name": [row[1] for row in rows]}, schema=ROWS)


def catalog(served: Served, token: str | None = None, **properties: str) -> RestCatalog:
    """A client with the store's keys of its own."""
    lakes = Lakes(served.home)
    lake = lakes.get(EMBEDDED)
    keys = lakes.credentials_of(lake)
    return RestCatalog(
        "lake",
        **{
            "uri": f"{served.url}/iceberg",
            "token": served.token if token is None else token,
            "s3.endpoint": lake.endpoints[0],
            "s3.region": lake.region,
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            **properties,
        },
    )


@contextmanager
def duckdb_client(served: Served) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the catalog attached as `lake`."""
    lakes = Lakes(served.home)
    lake = lakes.get(EMBEDDED)
    keys = lakes.credentials_of(lake)
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as client:
        for package in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg):
            (extension,) = Path(package.__path__[0]).rglob("*.duckdb_extension")
            client.execute(f"LOAD '{extension}'")
        client.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{keys.access_key}', SECRET '{keys.secret_key}', REGION '{lake.region}', "
            f"ENDPOINT '{lake.endpoints[0].removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
        )
        client.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{served.url}/iceberg', TOKEN '{served.token}', "
            "ACCESS_DELEGATION_MODE 'none')"
        )
        yield client


@pytest.fixture(scope="module")
def tokens(served: Served) -> Iterator[dict[str, str]]:
    """Tokens to submit to team-a, and to team-b."""
    with served.client() as client:
        for team in ("team-a", "team-b"):
            client.put(f"/v1/instances/{team}", json={}).raise_for_status()
        yield {
            team: client.post("/v1/tokens", json={"name": team, "scopes": ["submit"], "instances": [team]})
            .raise_for_status()
            .json()["token"]
            for team in ("team-a", "team-b")
        }


def test_pyiceberg_duckdb_and_spark_use_each_others_tables(penstock: Command, served: Served) -> None:
    client = catalog(served)
    client.create_namespace("rest")
    assert (served.home.root / "iceberg" / EMBEDDED).stat().st_mode & 0o077 == 0
    orders = client.create_table("rest.orders", ROWS)
    orders.append(table_of((1, "one"), (2, "b")))
    with duckdb_client(served) as duck:
        duck.execute(DUCKDB)
        asked, counted, [[statistics]] = penstock.sql(SPARK).rows
        assert (asked, counted) == ([[1, "one"], [2, "duck"]], [[1000]])
        assert duck.execute("SELECT id FROM lake.rest.orders ORDER BY id").fetchall() == [(1,), (2,), (3,)]
    assert sorted(client.list_tables("rest")) == [("rest", "ducks"), ("rest", "orders"), ("rest", "theirs")]
    seen = client.load_table("rest.orders")
    (counts,) = seen.metadata.statistics
    assert (counts.statistics_path, counts.blob_metadata[0].properties) == (statistics, {"ndv": "3"})
    assert sorted(seen.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": "one"},
        {"id": 2, "name": "two"},
        {"id": 3, "name": "three"},
    ]
    seen.delete("id = 1")
    client.rename_table("rest.theirs", "rest.renamed")
    assert ("rest", "renamed") in client.list_tables("rest")
    shown = json.loads(penstock.ok("tables", "show", "rest.orders", "--json"))
    assert shown["location"].startswith(f"{Lakes(served.home).get(EMBEDDED).root}/warehouse/rest.db/orders-")
    for drop, missing in ((client.drop_table, NoSuchTableError), (client.drop_view, NoSuchViewError)):
        with pytest.raises(missing):
            drop("rest.plain")
    assert json.loads(penstock.ok("tables", "show", "rest.plain", "--json"))["format"] == "parquet"
    client.purge_table("rest.orders")
    with pytest.raises(NoSuchTableError):
        client.load_table("rest.orders")


@pytest.mark.usefixtures("penstock")
def test_an_instance_does_not_see_the_namespaces_of_another(served: Served, tokens: dict[str, str]) -> None:
    ours, theirs = catalog(served, tokens["team-a"]), catalog(served, tokens["team-b"])
    ours.create_namespace("team_a")
    ours.create_table("team_a.orders", ROWS)
    assert ours.load_namespace_properties("team_a")["penstock.instance"] == "team-a"
    assert ("team_a",) in ours.list_namespaces()
    assert ("team_a",) not in theirs.list_namespaces()
    for attempt in (
        lambda: theirs.list_tables("team_a"),
        lambda: theirs.list_tables("TEAM_A"),
        lambda: theirs.create_table("team_a.mine", ROWS),
        lambda: theirs.drop_namespace("team_a"),
        lambda: theirs.rename_table("team_a.orders", "team_a.mine"),
        lambda: theirs.load_namespace_properties("team_a"),
    ):
        with pytest.raises((NoSuchNamespaceError, NoSuchTableError)):
            attempt()
    with pytest.raises(ForbiddenError):
        catalog(served, tokens["team-b"], warehouse="team-a")
    location = ours.load_table("team_a.orders").location()
    theirs.create_namespace("team_b")
    with pytest.raises(ForbiddenError, match="not within the namespace"):
        theirs.create_table("team_b.orders", ROWS, location=location)
    with pytest.raises(ForbiddenError, match="belongs to no instance"):
        theirs.create_table("default.orders", ROWS)
    with pytest.raises(UnauthorizedError):
        catalog(served, "penstock_0_none")


def test_no_row_is_lost_or_doubled_while_the_catalog_is_killed(served: Served) -> None:
    client = catalog(served)
    client.create_namespace("killed")
    client.create_table("killed.counts", ROWS, properties={"commit.retry.num-retries": "50"})
    written: list[int] = []

    def write(writer: int) -> None:
        own = catalog(served).load_table("killed.counts")
        for number in range(EACH):
            own.append(table_of((number, f"writer {writer}")))
            written.append(writer)

    kills = 0
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, writer) for writer in range(WRITERS)]
        while not all(one.done() for one in writing):
            # One that is still starting would be killed for ever.
            if len(written) > 2 * kills:
                kills += kill_catalog(served.home)
            time.sleep(0.01)
        for one in writing:
            one.result()
    assert kills >= EACH / 2
    rows = client.load_table("killed.counts").scan().to_arrow().to_pylist()
    assert sorted((row["name"], row["id"]) for row in rows) == [
        (f"writer {writer}", number) for writer in range(WRITERS) for number in range(EACH)
    ]


def kill_catalog(home: Home) -> int:
    """Kill the catalog's process; return whether there was one."""
    found = processes_in(home.root / "iceberg" / EMBEDDED)
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    return bool(found)
