"""The PostgreSQL server of a home: embedded, or external by `$PENSTOCK_DATABASE_URL`.

It has two databases: `penstock` with the engine's records, and `metastore` with the tables of the lake. On the embedded
server `metastore` belongs to a role of its own, so that an application, which has to know that login, cannot read the
engine's records. On an external server `$PENSTOCK_CATALOG_DATABASE_URL` names that login; a service does not start
without it.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg import Connection, sql
from sqlalchemy import Engine

from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE, DatabaseUrl, connect, create_pooled_engine
from penstock.catalog.server import HOST, SUPERUSER, PostgresServer, ServerAccount, disk_full_error
from penstock.errors import CatalogError, InvalidInput
from penstock.home import Home
from penstock.processes import ProcessId

RECORDS = "penstock"
METASTORE = "metastore"

SHARED_LOGIN = (
    f"{CATALOG_VARIABLE} does not name another login than {DATABASE_VARIABLE}: every driver receives the engine's own, "
    "with which a program could add a token for itself or change any record"
)
OWN_LOGIN_FIX = (
    "create another role on the server (CREATE ROLE applications LOGIN PASSWORD '…'), then "
    f"export {CATALOG_VARIABLE}=postgresql://applications:PASSWORD@HOST:PORT/"
)


@dataclass(frozen=True)
class DatabaseStatus:
    """The status of a home's database. `state` is `up`, `down` or `unreachable`; `address` contains no password."""

    embedded: bool
    state: str
    address: str
    detail: str = ""


class Database:
    """The database of a home.

    Every method may be called by several processes of one home at once, and again after a kill at any point.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        external, catalog = os.environ.get(DATABASE_VARIABLE), os.environ.get(CATALOG_VARIABLE)
        self._external = DatabaseUrl.parse(external) if external else None
        self._catalog = (
            DatabaseUrl.parse(catalog, variable=CATALOG_VARIABLE) if external and catalog else self._external
        )
        self._ready = False

    @property
    def embedded(self) -> bool:
        return self._external is None

    @property
    def shares_login(self) -> bool:
        """Return whether applications use the login of the engine's records, which contain the service's tokens."""
        if self._external is None or self._catalog is None:
            return False
        # The host is not compared: a server may have several names.
        engine, applications = self._external, self._catalog
        return (engine.user, engine.password) == (applications.user, applications.password)

    @property
    def catalog_server(self) -> tuple[str, int]:
        """Return the host and port of the applications' catalog; the port is 0 where the server never started."""
        address = self._url(METASTORE)
        return address.host, address.port

    def require_own_login(self) -> None:
        """Raise `InvalidInput` where applications use the engine's login, or one with its rights.

        No service may start then. Raises the errors of `up`.
        """
        if self.shares_login:
            raise InvalidInput("The service does not start with this database", why=SHARED_LOGIN, fix=OWN_LOGIN_FIX)
        if self._external is None or self._catalog is None:
            return
        self.ensure()
        with _connect(self._external.with_database(RECORDS)) as connection:
            # Also true for superusers. A role of another server does not exist here.
            query = "SELECT pg_has_role(rolname, current_user, 'MEMBER') FROM pg_roles WHERE rolname = %s"
            found = connection.execute(query, (self._catalog.user,)).fetchone()
        if found is not None and found[0]:
            raise InvalidInput(
                "The service does not start with this database",
                why=f"{CATALOG_VARIABLE} names {self._catalog.user}, which has the rights of {self._external.user}, "
                "with which a program could add a token for itself or change any record",
                fix=OWN_LOGIN_FIX,
            )

    def up(self) -> DatabaseUrl:
        """Start the server and create both databases if needed; return the login of the engine's records.

        It costs one connection (about 10 ms) where the server is up, and 1 to 2 s for the first start of a home. Raises
        `CatalogError` or `MissingRequirement`, with the last lines of the server's log.
        """
        if self._external:
            _create_external(self._external, self._catalog or self._external)
            return self._external.with_database(RECORDS)
        if not self._embedded_answers():
            try:
                with self._turn():
                    # The previous holder of the lock may have started it.
                    if not self._embedded_answers():
                        self._start_embedded()
            except OSError as error:
                raise _cannot_write(self._home, error) from error
        return self._url(RECORDS)

    def ensure(self) -> DatabaseUrl:
        """Call `up` once for this object; every user of a database calls this first."""
        if not self._ready:
            self.up()
            self._ready = True
        return self._url(RECORDS)

    def restart_if_dead(self) -> bool:
        """Restart the embedded server if it died; return whether it had.

        Raises the errors of `up`.
        """
        if self._external or not self._existing_server().died():
            return False
        self.up()
        return True

    def down(self) -> bool:
        """Shut down the embedded server; return False where none ran. An external server is not affected."""
        self._ready = False
        if self._external or not self._home.database.exists():
            return False
        with self._turn():
            return self._existing_server().stop()

    def wipe(self) -> None:
        """Stop the embedded server and remove its data under one lock; an external server is not affected."""
        self._ready = False
        with self._turn():
            if not self._external:
                self._existing_server().stop()
            shutil.rmtree(self._home.database, ignore_errors=True)

    def process(self) -> ProcessId | None:
        """Return the embedded server's process if it runs; its other processes are children of this one."""
        return None if self._external else self._existing_server().running()

    def status(self) -> DatabaseStatus:
        """Return the status, without starting anything."""
        if self._external:
            try:
                _connect(self._external).close()
            except psycopg.OperationalError as error:
                return DatabaseStatus(False, "unreachable", str(self._external), _first_line(error))
            return DatabaseStatus(False, "up", str(self._external))
        server = self._existing_server()
        address = str(self._url(RECORDS)) if server.port else ""
        running = server.running()
        if running is None:
            return DatabaseStatus(True, "down", address)
        detail = f"process {running.pid}, data in {self._home.database}"
        return DatabaseStatus(True, "up" if self._embedded_answers() else "unreachable", address, detail)

    def url(self, dbname: str) -> DatabaseUrl:
        """Return the login of one of the two databases; start the embedded server if it is down."""
        self.ensure()
        return self._url(dbname)

    def connection(self) -> Connection:
        """Open a connection to the engine's records in autocommit mode; the caller closes it.

        Raises the errors of `up`.
        """
        return _connect(self.url(RECORDS))

    def engine(self, dbname: str = RECORDS) -> Engine:
        """Return a SQLAlchemy engine on one of the two databases; start the embedded server if it is down."""
        self.ensure()
        return create_pooled_engine(lambda: self._url(dbname).sqlalchemy())

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._home.lock("database", busy="The catalog's database is being started or stopped", wait_seconds=180):
            yield

    def _existing_server(self) -> PostgresServer:
        """Return the server for queries of its state and for stopping it, which need neither account nor programs."""
        return PostgresServer(self._home.database, ServerAccount.caller())

    def _url(self, dbname: str) -> DatabaseUrl:
        if self._external and self._catalog:
            return (self._catalog if dbname == METASTORE else self._external).with_database(dbname)
        server = self._existing_server()
        password = server.password or ""
        if dbname == METASTORE:
            return DatabaseUrl(HOST, server.port or 0, METASTORE, _metastore_password(password), METASTORE)
        return DatabaseUrl(HOST, server.port or 0, SUPERUSER, password, dbname)

    def _embedded_answers(self) -> bool:
        server = self._existing_server()
        # While the server does not run, another program may hold its port, accept connections and never answer.
        if server.running() is None or server.password is None:
            return False
        try:
            # This database is created last, so where it exists, everything else does too.
            server.connect(RECORDS).close()
        except psycopg.OperationalError:
            return False
        return True

    def _start_embedded(self) -> None:
        server = PostgresServer(self._home.database, ServerAccount.choose())
        server.start()
        try:
            with server.connect() as connection:
                _create_role(connection, METASTORE, _metastore_password(server.password or ""))
                _create(connection, METASTORE, owner=METASTORE)
                _create(connection, RECORDS, owner=SUPERUSER)
        except psycopg.Error as error:
            raise server.failure("The catalog's databases cannot be created") from error


def _metastore_password(password: str) -> str:
    """Derive the metastore's password, so that there is one secret to store.

    The derivation is one-way: an application learns nothing but its own login.
    """
    return hmac.new(password.encode(), METASTORE.encode(), hashlib.sha256).hexdigest()


def _create_role(connection: Connection, name: str, password: str) -> None:
    # The statement contains SCRAM's verifier, not the password: statements may be logged.
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
    connection.execute(f"{'ALTER' if exists else 'CREATE'} ROLE {name} LOGIN PASSWORD '{verifier}'".encode())


def _create(connection: Connection, dbname: str, *, owner: str | None = None) -> None:
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (dbname,)).fetchone():
        return
    statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(dbname))
    if owner:
        statement += sql.SQL(" OWNER {}").format(sql.Identifier(owner))
    with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):  # another process was faster
        connection.execute(statement)
        if dbname == RECORDS:
            connection.execute(f"REVOKE CONNECT ON DATABASE {RECORDS} FROM PUBLIC")


def _create_external(url: DatabaseUrl, catalog: DatabaseUrl) -> None:
    """Create the databases on an external server. `catalog` is the login of the metastore, or equals `url`."""
    try:
        _connect(url.with_database(RECORDS)).close()
        _connect(catalog.with_database(METASTORE)).close()
    except psycopg.OperationalError:
        pass
    else:
        return
    try:
        with _connect(url) as connection:
            _create(connection, METASTORE, owner=catalog.user)
            _create(connection, RECORDS)
        _connect(catalog.with_database(METASTORE)).close()
    except psycopg.errors.InsufficientPrivilege as error:
        raise CatalogError(
            f"The databases cannot be created on {url}",
            why=_first_line(error),
            fix=f"have its administrator run: CREATE DATABASE {RECORDS} OWNER {url.user}; "
            f"CREATE DATABASE {METASTORE} OWNER {catalog.user}; REVOKE CONNECT ON DATABASE {RECORDS} FROM PUBLIC;",
        ) from error
    except psycopg.OperationalError as error:
        raise CatalogError(
            f"The catalog's database {url} cannot be used",
            why=_first_line(error),
            fix=f"check {DATABASE_VARIABLE}, {CATALOG_VARIABLE} and that the server runs, or unset them to use the "
            "embedded one",
        ) from error


def _connect(url: DatabaseUrl) -> Connection:
    return connect(url.libpq(), password=url.password)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _cannot_write(home: Home, error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full_error("The catalog's database cannot be started", home.root)
    return CatalogError(
        "The catalog's database cannot be started",
        why=str(error),
        fix=f"make {home.database} writable, or choose another state directory with PENSTOCK_HOME=/path",
    )
