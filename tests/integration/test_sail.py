"""A real Sail over tables in a directory: what it reads, what it refuses, and what it does not learn of."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from penstock.catalog.tables import Column, Partition, Table
from penstock.engine.engines.iceberg import catalog
from penstock.engine.engines.iceberg.catalog import CREDENTIALS, Tables, served
from penstock.engine.engines.sail.driver import SAIL, StatementRunner, session
from penstock.engine.engines.sail.privacy import close_to_others
from penstock.engine.engines.table_files import Listing
from penstock.errors import InvalidInput, LakeError, NotFound, PenstockError
from penstock.lake.model import Credentials, Lake, ObjectInfo
from penstock.model import ProcessSize
from penstock.processes import ProcessId, listening_ports

NOW = datetime(2026, 7, 1, tzinfo=timezone.utc)


class Directory:
    """Access to a lake that is a directory."""

    lake = Lake("near", ("http://127.0.0.1:1",), "bucket", "environment")
    endpoint = "http://127.0.0.1:1"
    version = 1
    credentials = Credentials("key", "hidden")

    def __init__(self, place: Path) -> None:
        self.place = place
        self.store = self

    def put(self, key: str, content: bytes) -> None:
        (self.place / key).parent.mkdir(exist_ok=True)
        (self.place / key).write_bytes(content)

    def delete(self, *keys: str) -> None:
        for key in keys:
            (self.place / key).unlink()

    def key(self, address: str) -> str:
        return address.removeprefix(f"{self.place.as_uri()}/")

    def require_here(self, table: Table, place: str, *, reader: str) -> None:
        assert place.startswith(self.place.as_uri())

    def listing(self, location: str) -> Listing:
        root = Path(location.removeprefix("file://"))
        found = {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*.parquet"))}
        return Listing(
            {
                name: ObjectInfo(name, len(content), NOW, hashlib.md5(content, usedforsecurity=False).hexdigest())
                for name, content in found.items()
            },
            unfinished=False,
        )


class Metastore:
    """Tables in the database `sales`: `orders`, with partitions, and `lines`, which is no Parquet table."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def names(self) -> dict[str, set[str]]:
        return {"default": set(), "sales": {"orders", "lines"}}

    def table(self, database: str, name: str) -> Table:
        columns = (Column("id", "bigint"), Column("Name", "string"), Column("year", "int", partition=True))
        kind = "parquet" if name == "orders" else "csv"
        return Table(database, name, "managed", kind, f"{self.place.as_uri()}/{name}", 1, None, None, columns)

    def partitions(self, table: Table) -> list[Partition]:
        return [
            Partition(f"{table.location}/{found.name}", (found.name.partition("=")[2],))
            for found in sorted((self.place / table.name).iterdir())
            if not found.name.endswith("unknown")
        ]


def write(place: Path, year: str, name: str, **columns: list[Any]) -> None:
    directory = place / "orders" / f"year={year}"
    directory.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), directory / f"{name}.parquet")


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    write(tmp_path, "2025", "a", id=[1, 2], NAME=["one", "two"])
    write(tmp_path, "__HIVE_DEFAULT_PARTITION__", "a", id=[3], Name=["three"], other=[0])
    write(tmp_path, "unknown", "a", id=[9], Name=["stale"])
    monkeypatch.setattr(catalog, "_filesystem", lambda _: fs.LocalFileSystem())
    lake = Directory(tmp_path)
    lake.lake = lake  # type: ignore[assignment]
    yield Tables(Metastore(tmp_path), lake, f"{tmp_path.as_uri()}/described", SAIL)  # type: ignore[arg-type]


@pytest.fixture
def run(tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StatementRunner]:
    monkeypatch.chdir(tmp_path)
    with (
        mock.patch.dict(os.environ, {"AWS_PROFILE": "penstock", "TZ": "Europe/Berlin"}),
        served(tables) as (url, token),
    ):
        lake = Directory(tmp_path)
        with session(lake, ProcessSize(2, 512 << 20), url, token) as spark:  # type: ignore[arg-type]
            yield StatementRunner(spark, tables, limit=3)


def test_sail_reads_the_catalog_s_tables_as_spark_does(run: StatementRunner, tmp_path: Path, tables: Tables) -> None:
    asked = "SELECT id, name, year FROM sales.orders ORDER BY year NULLS FIRST, id"
    found = run.execute(asked)
    assert [column["type"] for column in found["columns"]] == ["bigint", "string", "int"]
    assert found["rows"] == [[3, "three", None], [1, "one", 2025], [2, "two", 2025]]
    assert run.execute("SELECT count(*) FROM sales.ORDERS WHERE year IS NULL")["rows"] == [[1]]
    described = len(list((tmp_path / "described").iterdir()))

    write(tmp_path, "2026", "b", id=[4], Name=["four"])
    found = run.execute(asked)
    assert (found["rows"], found["truncated"]) == ([[3, "three", None], [1, "one", 2025], [2, "two", 2025]], True)
    assert run.execute("SELECT sum(id) FROM sales.orders")["rows"] == [[10]]
    assert len(list((tmp_path / "described").iterdir())) == 2 * described

    assert run.execute("USE sales")["rows"] in ([], [[True]])
    run.execute("CREATE TEMP VIEW late AS SELECT * FROM orders WHERE year > 2025")
    assert run.execute("SELECT name FROM late")["rows"] == [["four"]]
    assert run.execute("SHOW TABLES")["rows"][0][:2] == ["sales", "lines"]
    noon = "TIMESTAMP'2026-07-01 12:00:00'"
    moments = run.execute(f"SELECT current_timezone(), {noon}, array(named_struct('a', {noon}))")["rows"]
    assert moments == [["Europe/Berlin", "2026-07-01 12:00:00.0", [{"a": "2026-07-01 12:00:00.0"}]]]
    assert run.execute("SET spark.sql.ansi.enabled = false")["rows"] == [["spark.sql.ansi.enabled", "false"]]
    assert run.execute("SELECT 1 / 0")["rows"] == [[None]]
    assert run.execute("SET no.such")["rows"] == [["no.such", "<undefined>"]]
    tables.close()
    assert list((tmp_path / "described").iterdir()) == []


def test_a_file_that_is_replaced_under_its_name_is_read_anew(run: StatementRunner, tmp_path: Path) -> None:
    """By the first one's bounds, the second one would be left out."""
    asked = "SELECT name FROM sales.orders WHERE id = {}"
    write(tmp_path, "2026", "b", id=[5], Name=["x"])
    size = (tmp_path / "orders" / "year=2026" / "b.parquet").stat().st_size
    assert run.execute(asked.format(5))["rows"] == [["x"]]
    write(tmp_path, "2026", "b", id=[7], Name=["y"])
    assert (tmp_path / "orders" / "year=2026" / "b.parquet").stat().st_size == size
    assert run.execute(asked.format(7))["rows"] == [["y"]]


def test_a_file_that_is_gone_when_sail_reads_it_is_named(
    run: StatementRunner, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "SELECT sum(id) FROM sales.orders"
    assert run.execute(asked)["rows"] == [[6]]
    monkeypatch.setattr(tables, "begin", lambda: None)
    (tmp_path / "orders" / "year=2025" / "a.parquet").unlink()
    with pytest.raises(LakeError, match="changed or dropped while the statement read it") as lost:
        run.execute(asked)
    assert lost.value.why.endswith("orders/year=2025/a.parquet")


def test_what_sail_cannot_answer_is_refused_with_the_reason(run: StatementRunner, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*.parquet"))
    for statement, kind, words in (
        ("SELECT * FROM sales.lines", InvalidInput, "its format is csv"),
        ("SELECT * FROM sales.nosuch", NotFound, "There is no table sales.nosuch"),
        ("INSERT INTO sales.orders VALUES (1, 'a', 2026)", InvalidInput, "Sail only reads the catalog"),
        ("WITH a AS (SELECT 1) INSERT INTO sales.orders SELECT 1, 'a', 2026", InvalidInput, "only reads"),
        ("CREATE TABLE sales.made AS SELECT 1 AS id", InvalidInput, "only reads"),
        ("DROP VIEW sales.orders", PenstockError, ""),
        ("SELEKT 1", InvalidInput, "SELEKT"),
        ("SELECT nosuch FROM sales.orders", InvalidInput, "nosuch"),
    ):
        with pytest.raises(kind) as refused:
            run.execute(statement)
        assert words in str(refused.value)
    assert sorted(tmp_path.rglob("*.parquet")) == before


def test_the_catalog_answers_nobody_without_its_token_and_changes_nothing(tables: Tables) -> None:
    with served(tables) as (url, token), httpx.Client(base_url=url, trust_env=False) as client:
        paths = ("/v1/config", "/v1/namespaces", "/v1/namespaces/sales/tables/orders", CREDENTIALS)
        for given in ({}, {"Authorization": "Bearer other"}, {"Authorization": token}):
            for path in paths:
                answer = client.get(path, headers=given)
                assert answer.status_code == 401
                assert "hidden" not in answer.text
        client.headers["Authorization"] = f"Bearer {token}"
        assert client.get(CREDENTIALS).json()["SecretAccessKey"] == "hidden"
        assert client.head("/v1/namespaces/sales").status_code == 200
        assert client.head("/v1/namespaces/nosuch").status_code == 404
        assert client.get("/v1/namespaces/sales/views").json() == {"identifiers": []}
        named = {"namespace": ["sales"], "name": "lines"}
        listed = client.get("/v1/namespaces/sales/tables").json()["identifiers"]
        assert named in listed
        for method, path in (("POST", "/v1/namespaces"), ("DELETE", "/v1/namespaces/sales/tables/orders")):
            refused = client.request(method, path, json={"namespace": ["made"]})
            assert (refused.status_code, refused.json()["error"]["message"]) == (400, "Sail only reads the catalog")


STRANGER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    print("connected", flush=True)
    sys.exit(0 if connection.recv(1) == b"" else 1)
"""


def test_no_other_process_stays_connected_or_connects() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stranger = subprocess.Popen([sys.executable, "-c", STRANGER, str(port)], stdout=subprocess.PIPE, text=True)
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "connected\n"
        theirs, _ = server.accept()
        # gRPC's sockets are of IPv6, by which they reach IPv4, too.
        with theirs, socket.socket(socket.AF_INET6) as mine:
            mine.connect(("::ffff:127.0.0.1", port))
            accepted, _ = server.accept()
            with accepted:
                close_to_others(port)
                assert stranger.wait(10) == 0
                mine.sendall(b"still here")
                assert accepted.recv(10) == b"still here"
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port), timeout=5)


def test_sail_listens_to_nobody_once_its_session_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    me = ProcessId.of(os.getpid())
    assert me is not None
    before = listening_ports(me)
    with (
        mock.patch.dict(os.environ, {"AWS_PROFILE": "penstock"}),
        session(Directory(tmp_path), ProcessSize(1, 512 << 20), "http://127.0.0.1:1", "token") as spark,  # type: ignore[arg-type]
    ):
        assert listening_ports(me) == before
        assert spark.sql("SELECT 1 AS one").toArrow().to_pylist() == [{"one": 1}]


def test_a_closed_catalog_answers_nobody(tables: Tables) -> None:
    """Until Sail is this process's alone, what others ask of it finds neither tables nor keys."""
    tables.is_open = False
    with served(tables) as (url, token), httpx.Client(base_url=url, trust_env=False) as client:
        known = {"Authorization": f"Bearer {token}"}
        assert client.get(CREDENTIALS, headers=known).status_code == 401
        tables.is_open = True
        assert client.get(CREDENTIALS, headers=known).status_code == 200
