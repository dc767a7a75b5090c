"""HDFS over WebHDFS: requests to a NameNode and its DataNodes, and an object store made of them.

Spark does not pass here. Every method raises `LakeError`, in the NameNode's own words where it gave any. A write
appears whole because it is renamed into place, and a directory that a deletion leaves empty goes, as in a store that
has no directories. Two differences stay: “a” and “a/b” exclude each other, and a part of a key is at most 255 bytes, is
neither “.” nor “..”, and has no colon.
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
_PATIENCE_SECONDS = 60.0
_PAUSES = (0.5, 1.0, 2.0, 4.0)


class WebHdfs:
    """Safe to use from several threads, each of which has connections of its own. What is tried again, for some
    seconds, is to reach a DataNode; and once a request on a connection that was found closed."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._namenode = _address(lake.endpoints[0])
        self._user = user_name()
        self._own = threading.local()

    def ask(self, method: str, operation: str, path: str, **parameters: str) -> Any:
        """The NameNode's answer; None for a file that is not there."""
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
        """The DataNode's answer, where the NameNode says that the data is or goes."""
        address, query = self._located(method, operation, path, parameters)
        # The path it told is ours again, but not encoded as a path has to be.
        with self._exchange(address, method, f"{_ROOT}{quote(path)}?{query}", body) as answer:
            if answer.status >= 300:
                self._require_success(answer.status, answer.read())
            yield answer

    def _located(
        self, method: str, operation: str, path: str, parameters: Mapping[str, str]
    ) -> tuple[tuple[str, int], str]:
        """The address of a DataNode that takes connections, and the query it is to be asked."""
        for pause in (*_PAUSES, None):
            told = self.ask(method, operation, path, **parameters, noredirect="true")
            if told is None:
                raise self.problem("the file went away meanwhile")
            location = urlsplit(told["Location"])
            # Of an HDFS of this machine the host is what a DataNode calls itself, which nobody else knows.
            host = self._namenode[0] if self._lake.kind == "hdfs" else location.hostname or self._namenode[0]
            address = (host, location.port or 80)
            try:
                connection = self._connection(address)
                connection.close()
                connection.connect()
                break
            except OSError as error:
                # One that was just killed is still told of, until the NameNode misses it.
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
        except BaseException:  # the caller's own, such as a disk that is full
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
            # One that was kept open may have been closed meanwhile; a new one tells whether the server is there.
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
            known[address] = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
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
            else f"ask whoever runs it; requests are made as the user {self._user}",
        )

    def problem(self, why: str) -> LakeError:
        return LakeError(
            f"The lake “{self._lake.name}” cannot be reached",
            why=why,
            fix=f"penstock lake hdfs up --name {self._lake.name}"
            if self._lake.kind == "hdfs"
            else "start it, or add it again with its right address: penstock lake hdfs add",
        )


def user_name() -> str:
    """As Hadoop calls whoever runs this process: the system's name for the user, whatever the environment says."""
    return pwd.getpwuid(os.geteuid()).pw_name


def _address(endpoint: str) -> tuple[str, int]:
    parts = urlsplit(endpoint)
    return parts.hostname or "127.0.0.1", parts.port or 80


_PARTIAL = "._penstock_"
"""How a file is called, in the directory of its place, until it is whole. Not listed."""


class HdfsObjectStore(ObjectStore):
    """Safe to use from several threads."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._web = WebHdfs(lake)

    def put(self, key: str, content: bytes | Path) -> None:
        """Store the bytes, or the file's content, under a name of its own first; the object appears whole or not."""
        path = _path(key)
        if isinstance(content, Path):
            if not content.is_file():
                raise InvalidInput(f"{content} is not a file that can be read", fix="give the path of a file")
            with content.open("rb") as file:
                self._put(path, file)
        else:
            self._put(path, content)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes [start, start + length) of the object, fewer where it ends before."""
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
        """Write the object to `target`, which is replaced whole or left as it was."""
        path = _path(key)
        self._size(path)
        with (
            atomic_download(target) as partial,
            partial.open("wb") as file,
            self._web.data("GET", "OPEN", path, {}) as answer,
        ):
            shutil.copyfileobj(answer, file)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every file whose key begins with `prefix`, by the key's bytes, directory by directory."""
        if not prefix.startswith("/") and "//" not in prefix:
            yield from self._listed(prefix.rpartition("/")[0], prefix)

    def delete(self, *keys: str) -> None:
        """Delete the files, and the directories that are empty then; those that are not there are no error."""
        for key in keys:
            self._web.ask("DELETE", "DELETE", _path(key), recursive="false")
        emptied = {key.rpartition("/")[0] for key in keys} - {""}
        while emptied:
            # The deepest first: with the last of its directories, one above may be empty too.
            directory = max(emptied, key=lambda path: path.count("/"))
            emptied.remove(directory)
            if self._remove_if_empty(directory):
                emptied |= {directory.rpartition("/")[0]} - {""}

    def require_reachable(self) -> None:
        """Raise the `LakeError` of a first request."""
        self._web.ask("GET", "GETFILESTATUS", "/")

    def _put(self, path: str, content: bytes | BinaryIO) -> None:
        partial = f"{path.rpartition('/')[0]}/{_PARTIAL}{secrets.token_hex(8)}"
        try:
            with self._web.data("PUT", "CREATE", partial, {}, content):
                pass
            moved = self._web.ask("PUT", "RENAME", partial, destination=path, renameoptions="OVERWRITE")
        except BaseException:
            with contextlib.suppress(PenstockError):  # what is being told already is worse
                self._web.ask("DELETE", "DELETE", partial)
            raise
        if moved is None:
            raise self._web.problem("what was written went away before it was in its place")

    def _size(self, path: str) -> int:
        status = self._status(path)
        if status is None or status["type"] != "FILE":
            raise NotFound(
                f"There is no object “{path[1:]}” in the lake “{self._lake.name}”",
                why="the NameNode knows none" if status is None else "it is a directory",
                fix=f"penstock lake ls --lake {self._lake.name} shows what there is",
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
                # As precise an identity as there is: a file is written once, and every file has a number of its own.
                etag = f"{status['fileId']:x}-{status['modificationTime']:x}"
                yield ObjectInfo(key, status["length"], modified, etag)

    def _remove_if_empty(self, directory: str) -> bool:
        """The NameNode decides, so that a file that is written meanwhile keeps its directory."""
        try:
            answer = self._web.ask("DELETE", "DELETE", f"/{directory}", recursive="false")
        except LakeError:
            return False
        return bool(answer and answer.get("boolean"))


def _in_order(inside: str, statuses: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """By keys as a store without directories has them: all below “a/” comes after “a-b”, and before “a0”."""
    named = [
        (inside + one["pathSuffix"] + ("/" if one["type"] == "DIRECTORY" else ""), one)
        for one in statuses
        if one["pathSuffix"]
    ]
    return sorted(named, key=lambda pair: pair[0].encode())


def _path(key: str) -> str:
    parts = key.split("/")
    if len(key.encode()) > 1024 or any(
        part in ("", ".", "..") or ":" in part or len(part.encode()) > 255 for part in parts
    ):
        raise InvalidInput(
            f"“{key[:80]}” cannot be an object's key",
            why="on an HDFS a key has at most 1024 bytes, and its parts between the slashes, of 1 to 255 bytes, "
            "have no colon and are not “.” or “..”",
            fix="give it like folder/name.csv",
        )
    return f"/{key}"
