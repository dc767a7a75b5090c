"""WebHDFS: requests to a NameNode, and to the DataNodes it names.

Every method raises `LakeError`, in the NameNode's own words where it gave any.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pwd
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

from penstock.errors import LakeError
from penstock.lake.base import Lake

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
