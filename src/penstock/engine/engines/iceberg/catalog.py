"""The catalog for one engine's application: Iceberg's REST protocol on the loopback, for reading alone.

The engine asks for a table when a statement names it. It gets the metadata of an Iceberg table as the catalog has them,
and of a Parquet table a description of the files that are its rows now; within one statement the same each time.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from pyarrow import fs, parquet

from penstock.catalog.tables import Partition, Table
from penstock.engine.engines.access import Catalog, LakeAccess
from penstock.engine.engines.iceberg import tables as descriptions
from penstock.engine.engines.iceberg.tables import ParquetFile, Reader
from penstock.engine.engines.table_files import Listing, data_files, refusal
from penstock.errors import LakeError, NotFound, PenstockError
from penstock.lake.model import ObjectInfo

_FOOTERS_AT_ONCE = 16
_VALID = timedelta(minutes=5)
_log = logging.getLogger("penstock.iceberg")

_State = tuple[Table, list[Partition], Listing]


class Tables:
    """The tables of the catalog, each as it is when a statement names it first. Thread-safe.

    `directory` is the address of a place in the lake for descriptions of Parquet tables, which `close` removes.
    """

    def __init__(self, metastore: Catalog, lake: LakeAccess, directory: str, reader: Reader) -> None:
        self._metastore = metastore
        self._lake = lake
        self._directory = directory
        self.reader = reader
        self.is_open = True
        """False while nobody gets an answer, whatever token he has: others may speak to the engine yet."""
        self._lock = threading.RLock()
        self._written: list[str] = []
        self._store: tuple[int, fs.S3FileSystem] | None = None
        self._names: dict[str, set[str]] | None = None
        self._known: dict[tuple[str, str], dict[str, Any] | PenstockError] = {}
        self._described: dict[tuple[str, str], tuple[_State, dict[str, Any]]] = {}
        self._footers: dict[ObjectInfo, ParquetFile] = {}

    def begin(self) -> None:
        """Forget the tables of the statement before."""
        with self._lock:
            self._known, self._names = {}, None

    def close(self) -> None:
        self._lake.store.delete(*map(self._lake.lake.key, self._written))

    @property
    def problems(self) -> list[PenstockError]:
        """The errors about tables that this statement named."""
        with self._lock:
            return [found for found in self._known.values() if isinstance(found, PenstockError)]

    def names(self) -> dict[str, set[str]]:
        with self._lock:
            if self._names is None:
                self._names = self._metastore.names()
            return self._names

    def credentials(self) -> dict[str, Any]:
        """Return the credentials of now, to be asked for again in five minutes: the supervisor may renew them."""
        keys = self._lake.credentials
        return {
            "AccessKeyId": keys.access_key,
            "SecretAccessKey": keys.secret_key,
            "Token": keys.session_token or "",
            "Expiration": f"{datetime.now(timezone.utc) + _VALID:%Y-%m-%dT%H:%M:%SZ}",
        }

    def load(self, database: str, name: str) -> dict[str, Any]:
        """Return the answer to the request for a table. Raises `PenstockError`."""
        with self._lock:
            key = (database.lower(), name.lower())
            if key not in self._known:
                try:
                    self._known[key] = self._load(*key)
                except PenstockError as error:
                    self._known[key] = error
            found = self._known[key]
        if isinstance(found, PenstockError):
            raise found
        return found

    def _load(self, database: str, name: str) -> dict[str, Any]:
        if name not in self.names().get(database, ()):
            raise NotFound(f"There is no table {database}.{name}", fix="penstock tables lists the catalog")
        table = self._metastore.table(database, name)
        descriptions.check_readable(table, self.reader)
        if table.format == "iceberg":
            location = self._metastore.metadata_location(table)
            self._lake.require_here(table, location, reader=self.reader.title)
            metadata = json.loads(self._lake.read_text(location))
            if (version := metadata["format-version"]) > self.reader.newest:
                why = (
                    f"it has version {version} of Iceberg's format, and {self.reader.title} reads {self.reader.newest}"
                )
                raise refusal(table, self.reader.title, why)
            return _answer(location, metadata)
        root = table.location.rstrip("/") + "/"
        self._lake.require_here(table, root, reader=self.reader.title)
        partitions = self._metastore.partitions(table) if table.partitions is not None else []
        listing = self._lake.listing(root)
        before = self._described.get((database, name))
        if before is not None and before[0] == (table, partitions, listing):
            return before[1]
        files = data_files(table, partitions, listing, reader=self.reader.title)
        read = self._read(table, [(root + file, listing.files[file], values) for file, values in files.items()])
        _log.info("%s has %d files", table.full_name, len(read))
        described = descriptions.describe(table, read, self._directory, self.reader)
        for address, content in described.files.items():
            self._lake.store.put(self._lake.lake.key(address), content)
        self._written += described.files
        answer = _answer(described.address, described.metadata)
        self._described[database, name] = (table, partitions, listing), answer
        return answer

    def _read(self, table: Table, files: Sequence[tuple[str, ObjectInfo, tuple[str, ...]]]) -> list[ParquetFile]:
        """Read the footers of the files, by their addresses, that no statement has read before in this version."""
        version = self._lake.version
        if self._store is None or self._store[0] != version:
            self._store = version, _filesystem(self._lake)
        _, store = self._store

        def footer(file: tuple[str, ObjectInfo, tuple[str, ...]]) -> ParquetFile:
            address, listed, values = file
            if (known := self._footers.get(listed)) is None:
                try:
                    found = parquet.read_metadata(address.partition("://")[2], filesystem=store)
                except (OSError, ValueError) as error:
                    raise LakeError(
                        f"{table.full_name} cannot be read", why=f"{address}: {str(error).splitlines()[0]}"
                    ) from error
                known = ParquetFile.of(address, listed.size, found, values)
                self._footers[listed] = known
            return known

        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            return list(pool.map(footer, files))


def _filesystem(lake: LakeAccess) -> fs.S3FileSystem:
    endpoint, keys = urlsplit(lake.endpoint), lake.credentials
    return fs.S3FileSystem(
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        session_token=keys.session_token,
        scheme=endpoint.scheme,
        endpoint_override=endpoint.netloc,
        region=lake.lake.region,
        force_virtual_addressing=not lake.lake.path_style,
        tls_ca_file_path=lake.lake.ca_file,
    )


def _answer(location: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata-location": location, "metadata": metadata, "config": {}}


@contextmanager
def served(tables: Tables) -> Iterator[tuple[str, str]]:
    """Serve the tables on the loopback; gives the URL, and the token without which nothing is answered."""
    token = secrets.token_urlsafe(24)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one segment: else each answer waits 40 ms for an acknowledgement that the client delays.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if not self._allowed():
                return
            if self.path == CREDENTIALS:
                self._send(200, tables.credentials())
                return
            path = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")][1:]
            try:
                self._send(200, _found(tables, path))
            except NotFound as error:
                self._send(404, _error(404, "NoSuchTableException", error.problem))
            except PenstockError as error:
                self._send(400, _error(400, "BadRequestException", error.problem))

        def _refuse(self) -> None:
            if self._allowed():
                # Unread, a body would be taken for the next request.
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._send(400, _error(400, "BadRequestException", read_only(tables.reader)))

        def _allowed(self) -> bool:
            given = self.headers.get("Authorization", "")
            allowed = tables.is_open and hmac.compare_digest(given.encode(), f"Bearer {token}".encode())
            if not allowed:
                self.close_connection = True
                self._send(401, _error(401, "NotAuthorizedException", "no token"))
            return allowed

        do_HEAD = do_GET  # noqa: N815 - the base class's name
        do_POST = do_DELETE = _refuse  # noqa: N815 - as above

        def _send(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", token
        finally:
            server.shutdown()


CREDENTIALS = "/credentials"
"""The path at which AWS's clients find the application's credentials, as in a container of Amazon's."""
_OTHER_CREDENTIALS = ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Variables that come before an address in AWS's clients."""


def for_containers(environment: Mapping[str, str], catalog: str, token: str) -> dict[str, str]:
    """The environment with which AWS's clients ask this catalog for credentials.

    They read their file once. Of an address they ask again before the credentials expire.
    """
    return {
        **{name: value for name, value in environment.items() if name not in _OTHER_CREDENTIALS},
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{catalog}{CREDENTIALS}",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": f"Bearer {token}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def read_only(reader: Reader) -> str:
    return f"{reader.title} only reads the catalog"


def _error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": status}}


def _found(tables: Tables, path: Sequence[str]) -> dict[str, Any]:
    """Answer a request by its path after the protocol's version."""
    match path:
        case ["config"]:
            return {"defaults": {}, "overrides": {}}
        case ["namespaces"]:
            return {"namespaces": [[name] for name in sorted(tables.names())]}
        case ["namespaces", database, *rest] if database.lower() in tables.names():
            if not rest:
                return {"namespace": [database], "properties": {}}
            if rest == ["tables"]:
                listed = sorted(tables.names()[database.lower()])
                return {"identifiers": [{"namespace": [database], "name": name} for name in listed]}
            if rest[0] == "tables" and len(rest) == 2:
                return tables.load(database, rest[1])
            if rest == ["views"]:
                return {"identifiers": []}
    raise NotFound(f"There is no {'.'.join(path[1::2])}")
