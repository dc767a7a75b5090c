"""A client of `penstock serve`.

    from penstock import Client

    with Client("https://spark.example.org:8440", token_file="~/.penstock-token") as penstock:
        application = penstock.submit("jobs/pi.py", arguments=["100"], executors=4, executor_memory="2g")
        ended = penstock.wait(application.id)
        print(ended.state, penstock.log(application.id, "driver.out").decode())

Every method raises the errors of `penstock.errors`, like the engine.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock.client.connection import Connection, connect
from penstock.engine.uploads import clean_name
from penstock.errors import InvalidInput, NotFound, StateError
from penstock.model import OWN_PROGRAMS, Application, State

_LISTS = ("jars", "files", "python_files")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*://")


class Uploads:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def uploaded(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Upload a body's local files and return it with their addresses. Raises `NotFound` for missing files."""
        lake = body.get("lake")
        sent = {**body, "application": self.address_of(str(body["application"]), lake)}
        if not sent.get("name"):
            sent["name"] = Path(str(body["application"])).name
        for name in _LISTS:
            if name in sent:
                sent[name] = [self.address_of(str(path), lake) for path in sent[name]]
        return sent

    def address_of(self, path: str, lake: str | None) -> str:
        if path in OWN_PROGRAMS or _ELSEWHERE.match(path):
            return path
        file = Path(path).expanduser()
        if not file.is_file():
            raise NotFound(f"There is no file {file}", fix=f"ls -l '{file.absolute().parent}' shows what is there")
        where = f"/v1/files/{_digest(file)}/{clean_name(file.name)}"
        wanted = {} if lake is None else {"lake": lake}
        try:
            found = self._connection.json("GET", where, params=wanted)
        except NotFound:
            found = self._connection.put_file(where, file, params=wanted)
        return str(found["address"])


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    try:
        with file.open("rb") as content:
            while piece := content.read(1 << 20):
                found.update(piece)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read", why=error.strerror or "", fix=f"ls -l '{file}'") from error
    return found.hexdigest()


_WAIT_AT_ONCE_SECONDS = 60.0
_LIST_AT_ONCE = 200


class Client:
    """A connection to one service. It is thread-safe. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        """Connect to the service at `url`, by default `$PENSTOCK_SERVER`.

        The token is `token`, or the content of `token_file`, of `$PENSTOCK_TOKEN_FILE`, or, for a service of this
        machine and account, of the file in its state directory. `ca_file`, by default `$PENSTOCK_CA_FILE`, holds a
        private certificate authority.

        Raises `InvalidInput` without an address or token, and if the token would cross a network unencrypted.
        """
        self._connection: Connection = connect(
            url, token=token, token_file=token_file, ca_file=ca_file, timeout_seconds=timeout_seconds
        )
        self._uploads = Uploads(self._connection)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def submit(
        self,
        application: str | Path,
        *,
        name: str | None = None,
        arguments: Iterable[str] = (),
        main_class: str | None = None,
        driver_cores: int | None = None,
        driver_memory: str | int | None = None,
        executors: int | None = None,
        executor_cores: int | None = None,
        executor_memory: str | int | None = None,
        idempotency_key: str | None = None,
        **more: Any,
    ) -> Application:
        """Submit a Python file or a jar: a local one, which is uploaded, or one in the lake (`s3a://…`).

        `more` are the other fields of `POST /v1/applications`: `jars`, `files`, `python_files` (also uploaded),
        `settings`, `environment`, `profile`, `lake`, `tags`, `time_limit_seconds`, `instance`, `priority`, `retries`,
        `webhooks`, `engine`. The call is idempotent: a repetition after a broken connection submits nothing twice.
        """
        body = {
            **more,
            "application": str(application),
            "name": name,
            "arguments": list(arguments),
            "main_class": main_class,
            "size": {
                "driver": _given(cores=driver_cores, memory_bytes=driver_memory),
                "executor": _given(cores=executor_cores, memory_bytes=executor_memory),
                **_given(executors=executors),
            },
        }
        accepted, _ = self.submit_body(body, idempotency_key=idempotency_key)
        return accepted

    def submit_body(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> tuple[Application, list[str]]:
        """Submit a body of `POST /v1/applications`, which may name local files.

        Returns the application and warnings about its settings.
        """
        sent = self._uploads.uploaded(body)
        # An idempotency key makes a retry safe.
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        answer = self._connection.json("POST", "/v1/applications", json=sent, headers=headers, repeatable=True)
        return Application.from_json(answer), list(answer.get("warnings", ()))

    def upload(self, path: str | Path, *, lake: str | None = None) -> str:
        """Upload a file to the lake and return its address. The same content is uploaded only once."""
        return self._uploads.address_of(str(path), lake)

    def application(self, application_id: str) -> Application:
        """Return an application by id, unique prefix of an id, or `last`."""
        return Application.from_json(self.shown(application_id))

    def shown(self, application_id: str) -> dict[str, Any]:
        """Return the API's representation: the application with its `progress` and live `ui`."""
        return self._get(application_id, "")

    def applications(
        self,
        *,
        states: Iterable[State | str] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] = (),
        name: str | None = None,
        sort: str = "-submitted_at",
        at_once: int = _LIST_AT_ONCE,
    ) -> Iterator[Application]:
        """Iterate over applications, newest first, fetched in pages of `at_once`."""
        wanted: dict[str, Any] = {
            "state": [State(state).value for state in states],
            "tag": list(tags),
            "instance": list(instances),
            "sort": sort,
            "limit": at_once,
            **_given(name=name),
        }
        while True:
            found = self._connection.json("GET", "/v1/applications", params=wanted)
            yield from map(Application.from_json, found["items"])
            if not (following := found["next"]):
                return
            wanted = {**wanted, "page": following}

    def events(self, application_id: str) -> list[dict[str, Any]]:
        """Return its events, oldest first: `at`, `event`, `from_state`, `to_state`, `detail`."""
        return list(self._get(application_id, "/events")["items"])

    def deliveries(self, application_id: str) -> list[dict[str, Any]]:
        """Return its webhook deliveries, sent and pending, oldest first.

        Each has `url`, `state`, `tries`, `due_at`, `delivered_at` and `problem`.
        """
        return list(self._get(application_id, "/deliveries")["items"])

    def stop(self, application_id: str) -> Application:
        """Request its stop and return at once. Idempotent."""
        return Application.from_json(self._connection.json("POST", _path(application_id, "/stop"), repeatable=True))

    def rerun(self, application_id: str) -> Application:
        """Submit a copy as a new application."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        answer = self._connection.json("POST", _path(application_id, "/rerun"), headers=headers, repeatable=True)
        return Application.from_json(answer)

    def wait(self, application_id: str, *, timeout_seconds: float | None = None) -> Application:
        """Wait until it has ended. Raises `StateError` after `timeout_seconds`."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            left = _WAIT_AT_ONCE_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
            application = self.wait_once(application_id, seconds=min(left, _WAIT_AT_ONCE_SECONDS))
            if application.state.final:
                return application
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(f"{application_id} is still {application.state.value}")

    def wait_once(self, application_id: str, *, seconds: float) -> Application:
        """Return it when it has ended, or its current state after `seconds`."""
        params = {"timeout": seconds}
        answer = self._connection.json(
            "GET", _path(application_id, "/wait"), params=params, timeout_seconds=seconds + 30
        )
        return Application.from_json(answer)

    def logs(self, application_id: str) -> list[str]:
        """Return the names of its logs."""
        return [str(item["name"]) for item in self._get(application_id, "/logs")["items"]]

    def log(self, application_id: str, name: str = "driver.log", *, start: int = 0, tail: int | None = None) -> bytes:
        """Return the log's present content from byte `start`, or its last `tail` lines."""
        params = _given(start=start, tail=tail)
        return self._connection.content(_path(application_id, f"/logs/{name}"), params=params)

    def follow(
        self, application_id: str, name: str = "driver.log", *, start: int = 0, tail: int | None = None
    ) -> Iterator[bytes]:
        """Iterate over pieces of a log until the application has ended.

        A broken connection is resumed at the same byte. The log of another attempt follows that of the previous one.
        """
        path = _path(application_id, f"/logs/{name}")
        attempt = yield from self._connection.follow(path, start=start, tail=tail)
        while attempt is not None and attempt < self.application(application_id).attempt:
            attempt = yield from self._connection.follow(path, attempt=attempt + 1)

    def get(self, path: str, **params: Any) -> Any:
        """GET any other path below `/v1`, such as `/v1/queue`."""
        return self._connection.json("GET", path, params=params)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call any other path below `/v1`; returns the response's JSON or None. The request is not retried."""
        return self._connection.json(method, path, json=body)

    def _get(self, application_id: str, part: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._connection.json("GET", _path(application_id, part))
        return answer


def _path(application_id: str, part: str) -> str:
    return f"/v1/applications/{application_id}{part}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
