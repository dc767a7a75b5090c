"""The lake and the catalog in DuckDB: credentials that may be renewed, and views of what a statement names."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.catalog.tables import Column, Table
from penstock.engine.engines.access import LakeAccess
from penstock.engine.engines.duckdb import catalog
from penstock.engine.engines.duckdb.catalog import CATALOG, Tables, renewed, secret, words_of
from penstock.engine.engines.table_files import Listing
from penstock.errors import NotFound
from penstock.home import write_atomically
from penstock.lake.model import Credentials, ObjectInfo
from penstock.lake.settings import private_credentials_file
from tests.support.waiting import within

NOW = datetime(2026, 7, 1, tzinfo=timezone.utc)


def test_duckdb_gets_the_application_s_credentials_for_the_lake_s_bucket_alone(lake: LakeAccess) -> None:
    assert secret(lake) == (
        "CREATE OR REPLACE SECRET lake (TYPE s3, KEY_ID 'first', SECRET 'it''s hidden', SESSION_TOKEN 'token', "
        "REGION 'us-east-1', ENDPOINT 'a.example:8443', URL_STYLE 'vhost', USE_SSL true, "
        "SCOPE ['s3a://bucket/', 's3://bucket/'])"
    )


def test_renewed_credentials_reach_a_statement_that_runs(
    lake: LakeAccess, credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(catalog, "_LOOK_SECONDS", 0.01)

    class Database:
        def cursor(self) -> Database:
            return self

        def __enter__(self) -> Database:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def execute(self, statement: str) -> None:
            given.append(statement)

    with renewed(lake, Database()):  # type: ignore[arg-type]
        write_atomically(credentials, private_credentials_file(Credentials("second", "hidden")))
        within(lambda: bool(given))
    assert "KEY_ID 'second'" in given[-1]


class Metastore:
    """Tables of integers in the database `sales`, whose files are in directories of their names."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def names(self) -> dict[str, set[str]]:
        return {"default": set(), "sales": {file.name for file in self.place.iterdir()}}

    def table(self, database: str, name: str) -> Table:
        columns = (Column("id", "bigint"),)
        return Table(database, name, "managed", "parquet", f"{self.place}/{name}", None, None, None, columns)


class Directory:
    def __init__(self, place: Path) -> None:
        self.place = place

    def require_here(self, table: Table, place: str, *, reader: str) -> None:
        assert place.startswith(str(self.place))

    def listing(self, location: str) -> Listing:
        found = (ObjectInfo(file.name, 1, NOW, "") for file in sorted(Path(location).iterdir()))
        return Listing({one.key: one for one in found}, unfinished=False)


def test_a_statement_sees_the_tables_that_it_names_as_they_are_now(tmp_path: Path) -> None:
    def write(name: str, number: int) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        parquet.write_table(pa.table({"id": [number]}), tmp_path / name / f"{number}.parquet")

    tables = Tables(Metastore(tmp_path), Directory(tmp_path))  # type: ignore[arg-type]
    with duckdb.connect() as database:

        def asked(statement: str) -> list[tuple[int, ...]]:
            tables.define(database, words_of(statement))
            return database.execute(statement).fetchall()

        database.execute(f"ATTACH ':memory:' AS {CATALOG}")
        database.execute(f"USE {CATALOG}")
        write("orders", 1)
        assert asked("SELECT sum(id) FROM sales.orders") == [(1,)]
        write("orders", 2)
        assert asked("SELECT sum(id) FROM sales.ORDERS") == [(3,)]
        with pytest.raises(duckdb.CatalogException):
            asked("FROM query_table('sales.orders')")  # a text is not a name: the view of before would be outdated
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "1.parquet").write_bytes(b"no file of this kind")
        assert asked("SELECT id AS broken FROM sales.orders ORDER BY 1") == [(1,), (2,)]
        with pytest.raises(NotFound, match="no database gone"):
            tables.listed(database, "gone")
        assert tables.listed(database) == []
        asked("USE sales")
        assert asked("SELECT count(*) FROM orders") == [(2,)]
        assert tables.listed(database) == tables.listed(database, "sales") == ["broken", "orders"]
