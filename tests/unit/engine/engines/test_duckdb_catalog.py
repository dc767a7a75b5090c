"""The lake of a DuckDB process: credentials that its supervisor may renew, and tables that are being committed to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.catalog.tables import Column, Table
from penstock.engine.engines import duckdb_catalog
from penstock.engine.engines.duckdb_catalog import CATALOG, Catalog, LakeAccess, Tables, words_of
from penstock.engine.engines.duckdb_tables import Listing
from penstock.errors import CatalogError, LakeError
from penstock.home import write_atomically
from penstock.lake.model import Credentials, Lake, ObjectInfo
from penstock.lake.settings import private_credentials_file
from tests.support.waiting import within

LAKE = Lake("near", ("https://a.example:8443",), "bucket", "environment", path_style=False)


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "aws-credentials"
    write_atomically(file, private_credentials_file(Credentials("first", "it's hidden", "token")))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "penstock")
    monkeypatch.setattr(duckdb_catalog, "_LOOK_SECONDS", 0.01)
    return file


@pytest.fixture
def lake(credentials: Path) -> LakeAccess:
    return LakeAccess(LAKE)


def test_duckdb_gets_the_application_s_credentials_for_the_lake_s_bucket_alone(lake: LakeAccess) -> None:
    assert lake.secret() == (
        "CREATE OR REPLACE SECRET lake (TYPE s3, KEY_ID 'first', SECRET 'it''s hidden', SESSION_TOKEN 'token', "
        "REGION 'us-east-1', ENDPOINT 'a.example:8443', URL_STYLE 'vhost', USE_SSL true, "
        "SCOPE ['s3a://bucket/', 's3://bucket/'])"
    )


def test_renewed_credentials_reach_a_statement_that_runs(lake: LakeAccess, credentials: Path) -> None:
    given: list[str] = []

    class Database:
        def cursor(self) -> Database:
            return self

        def __enter__(self) -> Database:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def execute(self, statement: str) -> None:
            given.append(statement)

    with lake.renewed(Database()):  # type: ignore[arg-type]
        write_atomically(credentials, private_credentials_file(Credentials("second", "hidden")))
        within(lambda: bool(given))
    assert "KEY_ID 'second'" in given[-1]


class Store:
    """Lists a table whose commit is finished at the list of this number; never with None."""

    def __init__(self, finished_at: int | None) -> None:
        self.finished_at = finished_at
        self.lists = 0

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self.lists += 1
        finished = self.finished_at is not None and self.lists >= self.finished_at
        now = datetime.now(timezone.utc)
        yield ObjectInfo(f"{prefix}_penstock_commit/000000000001", 0 if finished else 80, now, "")
        yield ObjectInfo(f"{prefix}a.parquet", 10, now, "")


def test_a_table_that_is_being_committed_to_is_listed_again(lake: LakeAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeAccess, "store", Store(finished_at=3))
    assert lake.listing("s3a://bucket/t/").files == ("a.parquet",)


def test_a_commit_that_nobody_carries_out_is_an_error(lake: LakeAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeAccess, "store", Store(finished_at=None))
    monkeypatch.setattr(duckdb_catalog, "_COMMIT_SECONDS", 0.03)
    with pytest.raises(LakeError, match="is not carried out yet"):
        lake.listing("s3a://bucket/t/")


def test_a_catalog_that_is_away_is_explained_without_its_password() -> None:
    with pytest.raises(CatalogError) as away:
        Catalog("postgresql+psycopg://tables:hidden@127.0.0.1:1/metastore").names()
    assert "hidden" not in f"{away.value}{away.value.why}"


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
        self.roots = [f"{place}/"]

    def listing(self, location: str) -> Listing:
        return Listing(tuple(sorted(file.name for file in Path(location).iterdir())), unfinished=False)


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
        asked("USE sales")
        assert asked("SELECT count(*) FROM orders") == [(2,)]
