"""The engine of this home, with the way statements take to a driver on this machine."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

from penstock.cli.exchange import Exchange
from penstock.engine.engine import Engine
from penstock.engine.interactive.sessions import RESULTS
from penstock.errors import NotFound
from penstock.home import Home, write_atomically
from penstock.lake.model import Lake, ObjectStore, artifact_prefix
from penstock.model import Application

STATEMENTS = "statements.sql"
"""Among an application's artefacts."""


class LocalEngine(Engine):
    def exchange(self, lake: Lake) -> Exchange:
        return LocalExchange(self, lake)


class LocalExchange:
    def __init__(self, engine: Engine, lake: Lake) -> None:
        self._engine = engine
        self._lake = lake

    @contextlib.contextmanager
    def given(self, text: str) -> Iterator[str]:
        """In a private file, or an object: statements may hold what no list of processes should show."""
        if not self._engine.shares_files:
            store, key = self._engine.store(self._lake.name), f"{RESULTS}{secrets.token_hex(8)}.sql"
            store.put(key, text.encode())
            try:
                yield f"{self._lake.root}/{key}"
            finally:
                store.delete(key)
            return
        home: Home = self._engine.home
        home.create()
        path = home.cache / f"statements-{secrets.token_hex(8)}.sql"
        write_atomically(path, text)
        try:
            yield str(path)
        finally:
            path.unlink(missing_ok=True)

    def taken(self, application: Application, key: str, text: str) -> list[dict[str, Any]]:
        store = self._engine.store(self._lake.name)
        # The private file is gone, and an application's arguments are no place for them.
        store.put(artifact_prefix(application.id) + STATEMENTS, text.encode())
        return _take(store, key)

    def kept(self, application: Application) -> str:
        return self._engine.artefact(application.id, STATEMENTS).decode()


def _take(store: ObjectStore, key: str) -> list[dict[str, Any]]:
    try:
        lines = store.get(key).decode().splitlines()
    except NotFound:
        return []
    store.delete(key)
    return [json.loads(line) for line in lines]
