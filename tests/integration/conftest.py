"""Fixtures of tests on one real server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE, DatabaseUrl
from penstock.catalog.database import METASTORE, RECORDS, Database
from penstock.catalog.secrets import KEY_FILE_VARIABLE
from penstock.home import Home


def _text(url: DatabaseUrl) -> str:
    return f"postgresql://{url.user}:{quote(url.password, safe='')}@{url.host}:{url.port}/"


@pytest.fixture
def shared_records(records_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    """The embedded server used as an external one, and a key to seal secrets in it."""
    server = Database(records_home)
    records, catalog = _text(server.url(RECORDS)), _text(server.url(METASTORE))
    key = tmp_path / "key"
    key.write_bytes(base64.b64encode(bytes(range(32))) + b"\n")
    monkeypatch.setenv(DATABASE_VARIABLE, records)
    monkeypatch.setenv(CATALOG_VARIABLE, catalog)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(key))
    engine = Database(Home(tmp_path / "looking")).engine()
    yield engine
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM secrets"))
    engine.dispose()
