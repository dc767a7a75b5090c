"""A WebHDFS client for a NameNode and its DataNodes, and an object store on top of it.

Spark does not use this module. Every method raises `LakeError`, with the NameNode's own message if it gave one. Writes
are atomic because a file is renamed into place, and a directory that a deletion leaves empty is removed, as in a store
without directories. Two differences remain: “a” and “a/b” exclude each other, and a part of a key has at most 255
bytes, is neither “.” nor “..”, and contains no colon.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pwd
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

from penstock.errors import InvalidInput, LakeError, NotFound, PenstockError
from penstock.lake.model import Lake, ObjectInfo, ObjectStore, atomic_download

_ROOT = "/webhdfs/v1"
_TIMEOUT_SECONDS = 60.0
_PAUSES = (0.5, 1.0, 2.0, 4.0)


class WebHdfs:
    """A client that several threads may use, each with connections of its own.

    Connecting to a DataNode is retried for some seconds, and a request is retried once if its connection turns out to
    be closed.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._namenode = _address(lake.endpoints[0])
        self._user = user_name()
        self._own = threading.local()

    def ask(self, method: str, operation: str, path: str, **parameters: str) -> Any:
        """The NameNode's answer; None if the file does not exist."""
        with self._exchange(self._namenode, method, self._target(operation, path, parameters)) as answer:
            body = answer.read()
            if answer.status == http.HTTPStatus.NOT_FOUND:
                return None
            self._require_success(answer.status, body)
            return json.loads(body) if body else {}

    @contextlib.contextmanager
    def data(
        self,
        method: str,
        operation: str,
        path: str,
        parameters: Mapping[str, str],
        body: bytes | BinaryIO | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer of the DataNode that the NameNode chooses for reading or writing the data."""
        address, query = self._located(method, operation, path, parameters)
        # The NameNode repeats the request's path without encoding it properly.
        with self._exchange(address, method, f"{_ROOT}{quote(path)}?{query}", body) as answer:
            if answer.status >= 300:
                self._require_success(answer.status, answer.read())
            yield answer

    def _located(
        self, method: str, operation: str, path: str, parameters: Mapping[str, str]
    ) -> tuple[tuple[str, int], str]:
        """The address of a DataNode that accepts connections, and the query for it."""
        for pause in (*_PAUSES, None):
            answer = self.ask(method, operation, path, **parameters, noredirect="true")
            if answer is None:
                raise self.problem("the file was removed meanwhile")
            location = urlsplit(answer["Location"])
            # In an HDFS of this machine a DataNode's own host name may not resolve.
            host = self._namenode[0] if self._lake.kind == "hdfs" else location.hostname or self._namenode[0]
            address = (host, location.port or 80)
            try:
                connection = self._connection(address)
                connection.close()
                connection.connect()
                break
            except OSError as error:
                # The NameNode still names a DataNode that was just killed, until it misses its heartbeats.
                if pause is None:
                    raise self.problem(f"the DataNode at port {address[1]}: {error}") from error
                time.sleep(pause)
        return address, location.query

    @contextlib.contextmanager
    def _exchange(
        self, address: tuple[str, int], method: str, target: str, body: bytes | BinaryIO | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection(address)
        try:
            answer = self._send(connection, method, target, body)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self.problem(str(error) or type(error).__name__) from error
        try:
            yield answer
            if not answer.isclosed():
                answer.read()
        except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
            connection.close()
            raise self.problem(str(error) or type(error).__name__) from error
        except BaseException:  # an error of the caller, such as a full disk
            connection.close()
            raise

    def _send(
        self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes | BinaryIO | None
    ) -> http.client.HTTPResponse:
        headers = {} if body is None else {"Content-Type": "application/octet-stream"}
        if body is not None and not isinstance(body, bytes):
            headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
        fresh = connection.sock is None
        try:
            connection.request(method, target, body, headers)
            return connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            # The server may have closed an idle connection; a new connection shows whether the server still runs.
            connection.close()
            if fresh:
                raise
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        connection.request(method, target, body, headers)
        return connection.getresponse()

    def _connection(self, address: tuple[str, int]) -> http.client.HTTPConnection:
        known: dict[tuple[str, int], http.client.HTTPConnection] = self._own.__dict__.setdefault("connections", {})
        if address not in known:
            known[address] = http.client.HTTPConnection(*address, timeout=_TIMEOUT_SECONDS)
        return known[address]

    def _target(self, operation: str, path: str, parameters: Mapping[str, str]) -> str:
        query = urlencode({"op": operation, "user.name": self._user, **parameters})
        return f"{_ROOT}{quote(path)}?{query}"

    def _require_success(self, status: int, body: bytes) -> None:
        if status < http.HTTPStatus.MULTIPLE_CHOICES:
            return
        try:
            refusal = json.loads(body)["RemoteException"]
            why = f"{refusal['exception']}: {str(refusal['message']).splitlines()[0][:300]}"
        except (ValueError, KeyError, TypeError, IndexError):
            why = f"HTTP {status}"
        raise LakeError(
            f"The HDFS of the lake “{self._lake.name}” refused a request",
            why=why,
            fix=f"penstock lake hdfs status --name {self._lake.name}"
            if self._lake.kind == "hdfs"
            else f"ask its administrator; requests are made as the user {self._user}",
        )

    def problem(self, why: str) -> LakeError:
        return LakeError(
            f"The lake “{self._lake.name}” cannot be reached",
            why=why,
            fix=f"penstock lake hdfs up --name {self._lake.name}"
            if self._lake.kind == "hdfs"
            else "start it, or add it again with the right address: penstock lake hdfs add",
        )


def user_name() -> str:
    """The user of this process as Hadoop names it: the system's name for the account, whatever the environment says."""
    return pwd.getpwuid(os.geteuid()).pw_name


def _address(endpoint: str) -> tuple[str, int]:
    parts = urlsplit(endpoint)
    return parts.hostname or "127.0.0.1", parts.port or 80


_PARTIAL = "._penstock_"
"""The prefix of an incomplete file's name, in the directory of its destination. Such files are not listed."""


class HdfsObjectStore(ObjectStore):
    """An HDFS as an object store. Safe to use from several threads."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._web = WebHdfs(lake)

    def put(self, key: str, content: bytes | Path) -> None:
        """Store the bytes or the file's content atomically, through a temporary name."""
        path = _path(key)
        if isinstance(content, Path):
            if not content.is_file():
                raise InvalidInput(f"{content} is not a file that can be read", fix="give the path of a file")
            with content.open("rb") as file:
                self._put(path, file)
        else:
            self._put(path, content)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes [start, start + length) of the object, or fewer if it ends earlier."""
        path = _path(key)
        if length == 0:
            return b""
        ends_at = self._size(path)
        if start >= ends_at:
            return b""
        part = {"offset": str(start), "length": str(min(length or ends_at, ends_at - start))}
        with self._web.data("GET", "OPEN", path, part) as answer:
            return answer.read()

    def download(self, key: str, target: Path) -> None:
        """Write the object to `target`, which is replaced atomically or left unchanged."""
        path = _path(key)
        self._size(path)
        with (
            atomic_download(target) as partial,
            partial.open("wb") as file,
            self._web.data("GET", "OPEN", path, {}) as answer,
        ):
            shutil.copyfileobj(answer, file)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every file whose key begins with `prefix`, in the order of the keys' bytes; reads one directory at a time."""
        if not prefix.startswith("/") and "//" not in prefix:
            yield from self._listed(prefix.rpartition("/")[0], prefix)

    def delete(self, *keys: str) -> None:
        """Delete the files and the directories that this leaves empty; missing files are not an error."""
        for key in keys:
            self._web.ask("DELETE", "DELETE", _path(key), recursive="false")
        emptied = {key.rpartition("/")[0] for key in keys} - {""}
        while emptied:
            # Deepest first, because removing a directory may leave its parent empty.
            directory = max(emptied, key=lambda path: path.count("/"))
            emptied.remove(directory)
            if self._remove_if_empty(directory):
                emptied |= {directory.rpartition("/")[0]} - {""}

    def require_reachable(self) -> None:
        """Send a request, and raise its `LakeError` if it fails."""
        self._web.ask("GET", "GETFILESTATUS", "/")

    def _put(self, path: str, content: bytes | BinaryIO) -> None:
        partial = f"{path.rpartition('/')[0]}/{_PARTIAL}{secrets.token_hex(8)}"
        try:
            with self._web.data("PUT", "CREATE", partial, {}, content):
                pass
            moved = self._web.ask("PUT", "RENAME", partial, destination=path, renameoptions="OVERWRITE")
        except BaseException:
            with contextlib.suppress(PenstockError):  # the error that is being raised matters more
                self._web.ask("DELETE", "DELETE", partial)
            raise
        if moved is None:
            raise self._web.problem("the written file was removed before it could be renamed into place")

    def _size(self, path: str) -> int:
        status = self._status(path)
        if status is None or status["type"] != "FILE":
            raise NotFound(
                f"There is no object “{path[1:]}” in the lake “{self._lake.name}”",
                why="the NameNode knows no such file" if status is None else "it is a directory",
                fix=f"penstock lake ls --lake {self._lake.name} lists the lake's objects",
            )
        return int(status["length"])

    def _status(self, path: str) -> Mapping[str, Any] | None:
        answer = self._web.ask("GET", "GETFILESTATUS", path)
        return None if answer is None else answer["FileStatus"]

    def _listed(self, directory: str, prefix: str) -> Iterator[ObjectInfo]:
        answer = self._web.ask("GET", "LISTSTATUS", f"/{directory}")
        inside = f"{directory}/" if directory else ""
        for key, status in _in_order(inside, answer["FileStatuses"]["FileStatus"] if answer else ()):
            if status["type"] == "DIRECTORY":
                if key.startswith(prefix):
                    yield from self._listed(key.rstrip("/"), prefix)
            elif key.startswith(prefix) and not status["pathSuffix"].startswith(_PARTIAL):
                modified = datetime.fromtimestamp(status["modificationTime"] / 1000, timezone.utc)
                # This identifies the content, because a file is written once and every file has a unique number.
                etag = f"{status['fileId']:x}-{status['modificationTime']:x}"
                yield ObjectInfo(key, status["length"], modified, etag)

    def _remove_if_empty(self, directory: str) -> bool:
        """Remove the directory if it is empty; the NameNode decides, so a file that is written meanwhile is safe."""
        try:
            answer = self._web.ask("DELETE", "DELETE", f"/{directory}", recursive="false")
        except LakeError:
            return False
        return bool(answer and answer.get("boolean"))


def _in_order(inside: str, statuses: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Sort by key, as a store without directories does: keys below “a/” come after “a-b” and before “a0”."""
    named = [
        (inside + status["pathSuffix"] + ("/" if status["type"] == "DIRECTORY" else ""), status)
        for status in statuses
        if status["pathSuffix"]
    ]
    return sorted(named, key=lambda pair: pair[0].encode())


def _path(key: str) -> str:
    parts = key.split("/")
    if len(key.encode()) > 1024 or any(
        part in ("", ".", "..") or ":" in part or len(part.encode()) > 255 for part in parts
    ):
        raise InvalidInput(
            f"“{key[:80]}” cannot be an object's key",
            why="on HDFS a key has at most 1024 bytes, and its parts between the slashes, of 1 to 255 bytes, "
            "have no colon and are not “.” or “..”",
            fix="use a key such as folder/name.csv",
        )
    return f"/{key}"
