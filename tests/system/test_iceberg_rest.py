"""Iceberg's REST catalog of the service: other engines, with a token and own keys, use the tables that Spark uses."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from trino import dbapi

from penstock.lake.registry import EMBEDDED, Lakes
from tests.support.command import Command
from tests.support.iceberg_clients import ask_trino, catalog, duckdb_client, kill_catalog, trino_client
from tests.support.service_process import Served
from tests.support.waiting import within

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


FILL = "INSERT INTO {0} VALUES (1); TABLE {0}"
CONTESTED = tuple(f"contested.t{number}" for number in range(6))


def test_a_table_that_spark_and_a_client_create_at_once_is_one_s_alone(penstock: Command, served: Served) -> None:
    client = catalog(served)
    client.create_namespace("contested")

    def client_made() -> set[str]:
        """The tables that the client made: from the last one, while Spark makes them from the first one."""
        made = set()
        within(lambda: client.table_exists(CONTESTED[0]), 120)
        for name in reversed(CONTESTED):
            with contextlib.suppress(TableAlreadyExistsError):
                client.create_table(name, pa.schema([pa.field("client", pa.int32())]))
                made.add(name)
        return made

    with ThreadPoolExecutor(1) as threads:
        clients = threads.submit(client_made)
        makes = (f"CREATE TABLE IF NOT EXISTS {name} (spark INT) USING iceberg" for name in CONTESTED)
        penstock.sql(";".join(makes))
        theirs = clients.result()
    assert 0 < len(theirs) < len(CONTESTED)
    counted = penstock.sql(";".join(FILL.format(name) for name in CONTESTED))
    answers = [result for result in counted.results if result["columns"]]
    for name, answer in zip(CONTESTED, answers, strict=True):
        assert [column["name"] for column in answer["columns"]] == ["client" if name in theirs else "spark"]
        assert client.load_table(name).scan().to_arrow().num_rows == len(answer["rows"]) == 1
        client.purge_table(name)


TRINO = (
    "INSERT INTO trinos.orders VALUES (3, 'three')",
    "MERGE INTO trinos.orders o USING (VALUES (1, 'first'), (4, 'four')) AS s (id, name) ON o.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name)",
    "DELETE FROM trinos.orders WHERE id = 2",
    "CREATE TABLE trinos.counted AS SELECT count(*) AS n FROM trinos.orders",
)


@pytest.fixture(scope="module")
def trino(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dbapi.Connection]:
    with trino_client(served, tmp_path_factory.mktemp("trino")) as connection:
        yield connection


def test_trino_reads_and_writes_with_its_exported_file(served: Served, trino: dbapi.Connection) -> None:
    client = catalog(served)
    client.create_namespace("trinos")
    client.create_table("trinos.orders", ROWS).append(table_of((1, "one"), (2, "two")))
    for statement in TRINO:
        ask_trino(trino, statement)
    client.load_table("trinos.orders").append(table_of((5, "five")))
    assert ask_trino(trino, "SELECT count(*) FROM trinos.orders") == [[4]]
    rows = client.load_table("trinos.orders").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "first"), (3, "three"), (4, "four"), (5, "five")]
    assert client.load_table("trinos.counted").scan().to_arrow().to_pylist() == [{"n": 3}]
    for table in ("orders", "counted"):
        client.purge_table(f"trinos.{table}")


def test_a_trino_answers_nobody_but_its_driver(trino: dbapi.Connection) -> None:
    """It listens on the loopback, where every process of the machine reaches it, with the application's keys."""
    head, body = (base64.urlsafe_b64encode(part).decode() for part in (b'{"alg":"none"}', b'{"sub":"penstock"}'))
    for token, forwarded in itertools.product((None, "other", f"{head}.{body}."), (False, True)):
        known = {"X-Trino-User": "penstock"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        known |= {"X-Forwarded-Proto": "https"} if forwarded else {}
        for method, path in (("GET", "/v1/query"), ("GET", "/v1/node"), ("POST", "/v1/statement")):
            # A connection of its own, which the server closes after a refusal.
            answer = httpx.request(method, f"http://127.0.0.1:{trino.port}{path}", headers=known, trust_env=False)
            assert answer.status_code in (401, 403), (path, token, forwarded)


@pytest.mark.usefixtures("penstock")
def test_an_instance_does_not_see_the_namespaces_of_another(served: Served, tokens: dict[str, str]) -> None:
    ours, theirs = catalog(served, tokens["team-a"]), catalog(served, tokens["team-b"])
    ours.create_namespace("team_a")
    ours.create_table("team_a.orders", ROWS)
    assert ours.load_namespace_properties("team_a")["penstock.instance"] == "team-a"
    assert ("team_a",) in ours.list_namespaces()
    assert ("team_a",) not in theirs.list_namespaces()
    assert ours.list_namespaces("team_a") == theirs.list_namespaces("default") == []
    for attempt in (
        lambda: theirs.list_namespaces("team_a"),
        lambda: ours.list_namespaces("no_such_parent"),
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


SPELLINGS = (
    "treasure",
    "TREASURE",
    "treasure%20",
    "%74reasure",
    "treasure%00",
    "treasure%1Fgold",
    "thieves/%2e%2e/treasure",
    "treasure/%2e",
    "x%2Ftreasure",
)


def thefts(location: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Bodies for requests that change something, each with the method and the end of the path that it is for."""
    columns = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    named = {"namespace": ["treasure"], "name": "gold"}
    own = {"namespace": ["thieves"], "name": "loot"}
    yield "", None
    yield "/namespaces", {"namespace": ["treasure"], "properties": {"penstock.instance": "team-b"}}
    yield "/namespaces", {"namespace": ["Treasure"]}
    yield "/properties", {"updates": {"penstock.instance": "team-b"}}
    yield "/properties", {"removals": ["penstock.instance"]}
    yield "/tables", {"name": "more", "schema": columns, "stage-create": True}
    yield "/tables", {"name": "more", "schema": columns}
    yield "/gold", {"requirements": [], "updates": [{"action": "set-properties", "updates": {"stolen": "yes"}}]}
    yield "/gold", {"requirements": [], "updates": [{"action": "set-location", "location": location}]}
    yield "/rename", {"source": named, "destination": own}
    yield "/rename", {"source": {**named, "namespace": ["TREASURE"]}, "destination": own}
    yield "/rename", {"source": {"namespace": ["thieves"], "name": "bait"}, "destination": {**named, "name": "bait"}}


def test_no_operation_gives_away_or_changes_what_is_another_instances(served: Served, tokens: dict[str, str]) -> None:
    ours, theirs = catalog(served, tokens["team-a"]), catalog(served, tokens["team-b"])
    ours.create_namespace("treasure", {"worth": "much"})
    ours.create_table("treasure.gold", ROWS).append(table_of((1, "ring")))
    theirs.create_namespace("thieves")
    theirs.create_table("thieves.bait", ROWS)

    def state() -> tuple[Any, ...]:
        table = ours.load_table("treasure.gold")
        return (
            table.metadata,
            ours.load_namespace_properties("treasure"),
            ours.list_tables("treasure"),
            ours.list_namespaces(),
        )

    before = state()
    secrets = ("treasure.db", "much", "ring", before[0].table_uuid.hex)
    headers = {"Authorization": f"Bearer {tokens['team-b']}"}
    tried = 0
    with httpx.Client(base_url=f"{served.url}/iceberg", headers=headers, timeout=60) as thief:
        for endpoint in thief.get("/v1/config").json()["endpoints"]:
            method, template = endpoint.split(" ")
            for prefix, spelling in itertools.product(("team-b", "team-a", "*"), SPELLINGS):
                path = template.format(prefix=prefix, namespace=spelling, table="gold", view="gold")
                for end, body in thefts(before[0].location):
                    if end and not (method == "POST" and path.endswith(end)):
                        continue
                    answer = thief.request(method, f"{path}?purgeRequested=true", json=body)
                    tried += 1
                    refused = answer.status_code in (400, 403, 404, 405, 406, 409, 422)
                    assert refused or template.endswith(("{prefix}/namespaces", "/metrics")), (
                        method,
                        path,
                        body,
                        answer.text,
                    )
                    assert not any(secret in answer.text for secret in secrets), (method, path, answer.text)
    assert tried > 400
    assert state() == before
    assert theirs.list_tables("thieves") == [("thieves", "bait")]


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
