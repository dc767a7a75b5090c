"""Clients of Iceberg's REST catalog of a service, with the store's keys of their own or without any."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_aws
import duckdb_extension_httpfs
import duckdb_extension_iceberg
from pyiceberg.catalog.rest import RestCatalog
from trino import dbapi
from trino.exceptions import TrinoQueryError

from penstock.engine.engines.trino import installation
from penstock.engine.engines.trino.server import connected, is_starting, running
from penstock.home import Home
from penstock.lake.clients.configuration import TOKEN_VARIABLE, Access, LakeClient, configuration
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.model import ProcessSize
from penstock.processes import processes_in
from tests.support.service_process import Served


def _store(served: Served) -> tuple[Lake, Credentials]:
    lakes = Lakes(served.home)
    lake = lakes.get(EMBEDDED)
    return lake, lakes.credentials_of(lake)


def catalog(served: Served, token: str | None = None, *, own_keys: bool = True, **properties: str) -> RestCatalog:
    """PyIceberg, with an administrator's token by default."""
    if own_keys:
        lake, keys = _store(served)
        properties = {
            "s3.endpoint": lake.endpoints[0],
            "s3.region": lake.region,
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            **properties,
        }
    login = {"uri": f"{served.url}/iceberg", "token": served.token if token is None else token}
    return RestCatalog("lake", **login, **properties)


def duckdb_extensions() -> list[Path]:
    """The files of DuckDB's extensions for Iceberg tables in a store, in the order in which they load."""
    packages = (duckdb_extension_httpfs, duckdb_extension_aws, duckdb_extension_avro, duckdb_extension_iceberg)
    return [file for package in packages for file in Path(package.__path__[0]).rglob("*.duckdb_extension")]


@contextmanager
def duckdb_client(
    served: Served, token: str | None = None, *, own_keys: bool = True
) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the catalog attached as `lake`, with an administrator's token by default."""
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as client:
        for extension in duckdb_extensions():
            client.execute(f"LOAD '{extension}'")
        if own_keys:
            lake, keys = _store(served)
            client.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{keys.access_key}', SECRET '{keys.secret_key}', "
                f"REGION '{lake.region}', ENDPOINT '{lake.endpoints[0].removeprefix('http://')}', URL_STYLE 'path', "
                "USE_SSL false)"
            )
        client.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{served.url}/iceberg', TOKEN '{token or served.token}', "
            f"ACCESS_DELEGATION_MODE '{'none' if own_keys else 'vended_credentials'}')"
        )
        yield client


@contextmanager
def trino_client(served: Served, here: Path, token: str | None = None) -> Iterator[dbapi.Connection]:
    """A Trino with the catalog `lake` as its exported file describes it; its files are in a directory."""
    installation.require_installed()
    lake, _ = _store(served)
    access = Access(lake, CredentialsFile(served.home).path, served.url, instance=None)
    known = {name: value for name, value in access.variables.items() if value is not None}
    server = running(
        installation.directory(),
        ProcessSize(1, 2 << 30),
        here=here,
        catalogs={"lake": configuration(LakeClient.TRINO, access)},
        environment={**os.environ, **known, TOKEN_VARIABLE: token or served.token},
        log=here / "trino.log",
    )
    with server as started, connected(started, "lake") as connection:
        yield connection


def ask_trino(connection: dbapi.Connection, statement: str, *values: Any) -> list[list[Any]]:
    """The rows of a statement's result. A server that has just started is asked until it knows its own catalog."""
    while True:
        try:
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.execute(statement, values or None)
                return list(cursor.fetchall())
        except TrinoQueryError as error:
            if not is_starting(error):
                raise
        time.sleep(0.1)


def kill_catalog(home: Home) -> int:
    """Kill the catalog's process; return whether there was one."""
    found = processes_in(home.root / "iceberg" / EMBEDDED)
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    return bool(found)
