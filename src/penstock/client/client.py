"""A client of `penstock serve`.

    from penstock import Client

    with Client("https://spark.example.org:8440", token_file="~/.penstock-token") as penstock:
        application = penstock.submit("jobs/pi.py", arguments=["100"], executors=4, executor_memory="2g")
        ended = penstock.wait(application.id)
        print(ended.state, penstock.log(application.id, "driver.out").decode())

Every method raises the errors of `penstock.errors`, as the engine itself does.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock.client.connection import Connection, connect
from penstock.client.uploads import Uploads
from penstock.errors import StateError
from penstock.model import Application, State

_WAIT_AT_ONCE_SECONDS = 60.0
_LIST_AT_ONCE = 200


class Client:
    """Safe to use from several threads. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        """`url`: else `$PENSTOCK_SERVER`. The token: `token`, else in `token_file`, else in `$PENSTOCK_TOKEN_FILE`,
        else for a service of this machine and account in its state directory. `ca_file` is for a certificate that the
        system's own authorities do not vouch for; else `$PENSTOCK_CA_FILE`.

        Raises `InvalidInput` where there is no address or token, or the token would cross a network in the open.
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
        """Submit a Python file or a jar: one of this machine, which is uploaded, or one in the lake (`s3a://…`).

        `more` are the other fields of `POST /v1/applications`: `jars`, `files`, `python_files` (uploaded alike),
        `settings`, `environment`, `profile`, `lake`, `tags`, `time_limit_seconds`, `instance`, `priority`, `retries`,
        `webhooks`. Repeated after a broken connection it submits once.
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
        """The application, and warnings about its settings. `body` is that of `POST /v1/applications`, but files may be
        of this machine."""
        sent = self._uploads.uploaded(body)
        # One of our own makes it safe to ask again.
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        answer = self._connection.json("POST", "/v1/applications", json=sent, headers=headers, repeatable=True)
        return Application.from_json(answer), list(answer.get("warnings", ()))

    def upload(self, path: str | Path, *, lake: str | None = None) -> str:
        """Bring a file to the lake; returns its address there. The same content is brought once."""
        return self._uploads.address_of(str(path), lake)

    def application(self, application_id: str) -> Application:
        """By id, the unmistakable beginning of one, or `last`."""
        return Application.from_json(self.shown(application_id))

    def shown(self, application_id: str) -> dict[str, Any]:
        """All the API shows of it: beside the application itself, its `progress` and live `ui`."""
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
        """The newest first; asked for page by page, `at_once` on each."""
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
        """What happened to it, oldest first: `at`, `event`, `from_state`, `to_state`, `detail`."""
        return list(self._get(application_id, "/events")["items"])

    def deliveries(self, application_id: str) -> list[dict[str, Any]]:
        """What its webhooks were told and are still to be told, oldest first: `url`, `state`, `tries`, `due_at`,
        `delivered_at`, `problem`."""
        return list(self._get(application_id, "/deliveries")["items"])

    def stop(self, application_id: str) -> Application:
        """Ask it to end, and return at once; may be repeated."""
        return Application.from_json(self._connection.json("POST", _path(application_id, "/stop"), repeatable=True))

    def rerun(self, application_id: str) -> Application:
        """The same again, as a new application."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        answer = self._connection.json("POST", _path(application_id, "/rerun"), headers=headers, repeatable=True)
        return Application.from_json(answer)

    def wait(self, application_id: str, *, timeout_seconds: float | None = None) -> Application:
        """Until it has ended. Raises `StateError` where that takes longer."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            left = _WAIT_AT_ONCE_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
            application = self.wait_once(application_id, seconds=min(left, _WAIT_AT_ONCE_SECONDS))
            if application.state.final:
                return application
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(f"{application_id} is still {application.state.value}")

    def wait_once(self, application_id: str, *, seconds: float) -> Application:
        """As it is when it has ended, or after so long."""
        params = {"timeout": seconds}
        answer = self._connection.json(
            "GET", _path(application_id, "/wait"), params=params, timeout_seconds=seconds + 30
        )
        return Application.from_json(answer)

    def logs(self, application_id: str) -> list[str]:
        """The names of its logs."""
        return [str(item["name"]) for item in self._get(application_id, "/logs")["items"]]

    def log(self, application_id: str, name: str = "driver.log", *, start: int = 0, tail: int | None = None) -> bytes:
        """What is there now from byte `start`, or the last `tail` lines."""
        params = _given(start=start, tail=tail)
        return self._connection.content(_path(application_id, f"/logs/{name}"), params=params)

    def follow(
        self, application_id: str, name: str = "driver.log", *, start: int = 0, tail: int | None = None
    ) -> Iterator[bytes]:
        """Piece by piece until the application has ended; a connection that breaks is made anew where it was. Where
        another attempt follows, its log comes after that of the one before."""
        path = _path(application_id, f"/logs/{name}")
        attempt = yield from self._connection.follow(path, start=start, tail=tail)
        while attempt is not None and attempt < self.application(application_id).attempt:
            attempt = yield from self._connection.follow(path, attempt=attempt + 1)

    def get(self, path: str, **params: Any) -> Any:
        """Any other address below `/v1`, such as `/v1/queue`."""
        return self._connection.json("GET", path, params=params)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Any other call below `/v1`; what it answers, None for nothing. It is not repeated."""
        return self._connection.json(method, path, json=body)

    def _get(self, application_id: str, part: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._connection.json("GET", _path(application_id, part))
        return answer


def _path(application_id: str, part: str) -> str:
    return f"/v1/applications/{application_id}{part}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
