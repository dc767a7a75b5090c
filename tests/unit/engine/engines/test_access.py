"""The lake and the catalog of an engine's own process: unfinished commits, other lakes, a catalog that is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from penstock.catalog.tables import Column, Table
from penstock.engine.engines import access
from penstock.engine.engines.access import Catalog, LakeAccess
from penstock.errors import CatalogError, InvalidInput, LakeError
from penstock.home import write_atomically
from penstock.lake.model import Credentials, ObjectInfo
from penstock.lake.settings import private_credentials_file


def test_credentials_that_the_supervisor_renewed_are_those_of_now(lake: LakeAccess, credentials: Path) -> None:
    before = lake.version, lake.store
    assert lake.store is before[1]
    write_atomically(credentials, private_credentials_file(Credentials("second", "hidden")))
    assert lake.credentials.access_key == "second"
    assert lake.version != before[0]
    assert lake.store is not before[1]


def test_every_client_reads_the_private_copy_of_the_authorities(
    lake: LakeAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (lake.lake.ca_file, lake.lake.authorities) == (None, None)
    registered = replace(lake.lake, ca_file="/etc/ca.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/private/lake-authorities.pem")
    found = LakeAccess(registered).lake
    assert (found.ca_file, found.authorities) == (
        "/private/lake-authorities.pem",
        Path("/private/lake-authorities.pem"),
    )
    assert LakeAccess(lake.lake).lake.ca_file is None, "a variable of the machine is no lake's"


@pytest.mark.parametrize("place", ["s3a://bucket/t/", "s3://bucket/t/metadata/1.json"])
def test_a_table_of_the_lake_is_read(lake: LakeAccess, place: str) -> None:
    lake.require_here(
        Table("a", "t", "managed", "parquet", place, None, None, None, (Column("id", "int"),)), place, reader="Sail"
    )


@pytest.mark.parametrize("place", ["s3a://bucket-2/t/", "file:///t/", "hdfs://bucket/t/"])
def test_a_table_elsewhere_is_refused_by_its_reader(lake: LakeAccess, place: str) -> None:
    table = Table("a", "t", "managed", "parquet", place, None, None, None, (Column("id", "int"),))
    with pytest.raises(InvalidInput, match=r"a\.t cannot be read by Sail") as refused:
        lake.require_here(table, place, reader="Sail")
    assert place in refused.value.why


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
    assert list(lake.listing("s3a://bucket/t/").files) == ["a.parquet"]


def test_a_commit_that_nobody_carries_out_is_an_error(lake: LakeAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeAccess, "store", Store(finished_at=None))
    monkeypatch.setattr(access, "_COMMIT_SECONDS", 0.03)
    with pytest.raises(LakeError, match="is not carried out yet"):
        lake.listing("s3a://bucket/t/")


def test_a_catalog_that_is_away_is_explained_without_its_password() -> None:
    with pytest.raises(CatalogError) as away:
        Catalog("postgresql+psycopg://tables:hidden@127.0.0.1:1/metastore").names()
    assert "hidden" not in f"{away.value}{away.value.why}"
