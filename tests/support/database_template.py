"""PostgreSQL data directories that are made once in a test run and copied for each test that needs a fresh one.

A copy takes a fraction of the time of `initdb` and the migrations, and saves the JVM that makes the metastore's schema.
Workers of one run share the templates: a file lock lets one worker make each while the others wait.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE
from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.engine.repository import schema
from penstock.home import Home
from penstock.runtime import jvm


class DatabaseTemplate:
    """Templates below `directory`, each made when it is first copied.

    `records` has both databases and the tables of the engine's records, `metastore` the metastore's tables, too, which
    needs Java. All copies of a template have the same passwords.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(exist_ok=True)

    def copy_to(self, home: Home, *, metastore: bool = False) -> None:
        """Copy the template into a home without a database. `Database(home).up()` starts the server."""
        source = self._made("metastore" if metastore else "records")
        home.create()
        # The copy keeps its owner, which is another account where the tests run as root.
        subprocess.run(["cp", "-a", "--reflink=auto", source, home.database], check=True)

    def _made(self, name: str) -> Path:
        target = self._directory / name
        with self._locked():
            if not target.exists():
                home = Home(Path(tempfile.mkdtemp(dir=self._directory)))
                # A test's environment may name an external server.
                with mock.patch.dict(os.environ):
                    os.environ.pop(DATABASE_VARIABLE, None)
                    os.environ.pop(CATALOG_VARIABLE, None)
                    self._make(home, metastore=name == "metastore")
                (home.database / "port").unlink()
                home.database.rename(target)
        return target

    def _make(self, home: Home, *, metastore: bool) -> None:
        home.create()
        database = Database(home)
        try:
            engine = database.engine()
            schema.ensure(engine)
            engine.dispose()
            if metastore:
                Metastore(database).ensure_schema(jvm.find_java().executable, jvm.class_path())
        finally:
            database.down()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
