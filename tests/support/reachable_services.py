"""This machine's lake and database at an address that pods can reach, for the duration of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE
from penstock.catalog.database import METASTORE, RECORDS, Database
from penstock.engine.installation import Installation
from penstock.home import Home
from penstock.lake.registry import Lakes
from tests.support.recording_gateway import RecordingGateway

LAKE = "within-reach"


def passed_on(host: str, port: int) -> contextlib.closing[RecordingGateway]:
    """Forward a port of `host` to that port of 127.0.0.1."""
    return contextlib.closing(RecordingGateway(("127.0.0.1", port), host))


@contextlib.contextmanager
def lake_and_database(home: Home, host: str) -> Iterator[dict[str, str]]:
    """Provide the embedded lake at `host` as `LAKE`. Yields an engine's environment variables for the database."""
    own, database = Installation(home).lake_up(), Database(home)
    logins = {DATABASE_VARIABLE: database.url(RECORDS), CATALOG_VARIABLE: database.url(METASTORE)}
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(passed_on(host, int(own.endpoints[0].rpartition(":")[2])))
        catalog = stack.enter_context(passed_on(host, logins[DATABASE_VARIABLE].port))
        credentials = Lakes(home).credentials_of(own)
        Lakes(home).add(
            replace(own, name=LAKE, endpoints=(store.endpoint,), credentials="environment", kind="external"),
            credentials,
        )
        stack.callback(Lakes(home).remove, LAKE)
        yield {
            variable: f"postgresql://{login.user}:{login.password}@{host}:{catalog.port}/"
            for variable, login in logins.items()
        }
