"""A service as the target of commands: the engine's and the sessions' interface over HTTP."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.client.client import Client
from penstock.clusters.backend import Observation, Phase
from penstock.engine import submission
from penstock.engine.interactive.sessions import Exchange, Session, SessionClient, SessionRequest
from penstock.engine.policy.scheduling import Instance
from penstock.errors import NotFound
from penstock.lake.model import Lake
from penstock.model import DEFAULT_INSTANCE, Application, ApplicationSpec, ClusterSize, Reason, State

if TYPE_CHECKING:
    from penstock.engine.engine import OnWarning
    from penstock.engine.supervision.supervisor import OnChange


_LOOK_SECONDS = 0.5
_LIST_AT_ONCE = 200


class RemoteEngine:
    """The engine of a service. Local files are uploaded with a submission; the service supervises every application."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)
        self.applications = RemoteApplications(self._client)
        self.artifacts = RemoteArtifacts(self._client)
        self.sessions = RemoteSessions(self._client)

    def submit(self, spec: ApplicationSpec, on_warning: OnWarning = lambda _: None) -> Application:
        if spec.application.lower().endswith(".jar") and not spec.main_class and Path(spec.application).is_file():
            # Only the local jar's manifest can be read; the service gets the jar as an address.
            spec = submission.validate(spec)
        body = {name: value for name, value in spec.submitted_json().items() if name != "idempotency_key"}
        accepted, warnings = self._client.submit_body(body, idempotency_key=spec.idempotency_key)
        for warning in warnings:
            on_warning(warning)
        return accepted

    def rerun(self, application_id: str, _on_warning: OnWarning = lambda _: None) -> Application:
        """Have the service submit the same specification again; it reports no warnings.

        A submission from here would upload this machine's files with the paths of the service's files.
        """
        return self._client.rerun(application_id)

    def usual_size(self) -> ClusterSize:
        return ClusterSize.from_json(self._client.get("/v1/self")["usual_size"])

    def detach(self, application_id: str) -> None:
        """Do nothing: the service supervises the application."""

    def supervisor(self, _: str) -> RemoteFollower:
        return RemoteFollower(self._client)

    def reconcile(self) -> Iterable[str]:
        return ()

    def get(self, application_id: str) -> Application:
        return self._client.application(application_id)

    def list(
        self, *, states: Iterable[State] = (), tags: Iterable[str] = (), limit: int | None = None
    ) -> Sequence[Application]:
        at_once = min(limit or _LIST_AT_ONCE, _LIST_AT_ONCE)
        return tuple(itertools.islice(self._client.applications(states=states, tags=tags, at_once=at_once), limit))

    def stop(self, application_id: str) -> Application:
        return self._client.wait(self._client.stop(application_id).id)

    def instance(self, name: str | None) -> Instance:
        """The instance of that name, else the token's only one, else the default one. Raises `NotFound`."""
        found = {one["name"]: one for one in self._client.get("/v1/instances")["items"]}
        chosen = name or (next(iter(found)) if len(found) == 1 else DEFAULT_INSTANCE)
        if chosen not in found:
            raise NotFound(
                f"Your token has no instance “{chosen}”",
                why=f"it is for {', '.join(found)}" if found else "it is for none",
                fix="--instance NAME",
            )
        instance = Instance(chosen)
        return instance.with_engine(found[chosen]["engine"]) if found[chosen]["engine"] else instance

    def bytes_below(self, lake: Lake, address: str) -> int | None:  # noqa: ARG002 - the engine's signature
        """None: the service lists no objects."""
        return None

    def lake(self, name: str | None = None) -> Lake:
        for item in self._client.get("/v1/lakes")["items"]:
            if item["name"] == name or (name is None and item["default"]):
                return Lake(item["name"], tuple(item["endpoints"]), item["bucket"], credentials="the service's own")
        raise NotFound(
            f"There is no lake “{name}”" if name else "The service has no lake yet",
            fix="on the service's machine: penstock lake list, penstock up",
        )

    def exchange(self, lake: Lake) -> Exchange:
        return RemoteExchange(self._client, lake)


class RemoteApplications:
    def __init__(self, client: Client) -> None:
        self._client = client

    def events(self, application_id: str) -> Iterable[Mapping[str, Any]]:
        found = self._client.events(application_id)
        return [{**event, "at": datetime.fromisoformat(event["at"])} for event in found]


class RemoteArtifacts:
    def __init__(self, client: Client) -> None:
        self._client = client

    def load(self, application_id: str, name: str) -> bytes:
        return self._client.log(application_id, name)

    def follow(self, application_id: str, name: str, *, start: int = 0) -> Iterator[bytes]:
        return self._client.follow(application_id, name, start=start)

    def read(self, application: Application, name: str, start: int) -> bytes:
        # An application that ended before it started has no logs.
        with contextlib.suppress(NotFound):
            return self._client.log(application.id, name, start=start)
        return b""


class RemoteFollower:
    """Follows an application that the service supervises."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stop_requested = False
        self._forced = False

    def stop(self, _: Reason) -> None:
        self._stop_requested = True

    def force_stop(self) -> None:
        """Stop following; the service still stops the application."""
        self._forced = True

    def run(self, application_id: str, on_change: OnChange) -> Application:
        shown, stop_sent = self._client.shown(application_id), False
        while True:
            application = Application.from_json(shown)
            progress = shown.get("progress")
            on_change(application, Observation(Phase.RUNNING, progress=progress) if progress else None)
            if application.state.final:
                return application
            if self._stop_requested and not stop_sent:
                self._client.stop(application_id)
                stop_sent = True
            if self._forced:
                raise KeyboardInterrupt
            shown = self._client.get(f"/v1/applications/{application_id}/wait", timeout=_LOOK_SECONDS)


class RemoteExchange:
    def __init__(self, client: Client, lake: Lake) -> None:
        self._client = client
        self._lake = lake

    @contextlib.contextmanager
    def send_statements(self, text: str) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
            file = Path(directory) / "statements.sql"
            file.write_text(text, encoding="utf-8")
            address = self._client.upload(file, lake=self._lake.name)
        yield address

    def take_results(self, application: Application, _key: str, _text: str) -> list[dict[str, Any]]:
        return list(self._client.get(f"/v1/applications/{application.id}/results")["items"])

    def stored_statements(self, application: Application) -> str:
        return str(self._client.get(f"/v1/applications/{application.id}/statements")["statements"])


class RemoteSessions(SessionClient):
    def __init__(self, client: Client) -> None:
        self._client = client

    def start(self, wanted: SessionRequest) -> Session:
        return self.get(self._client.call("POST", "/v1/sessions", _body(wanted))["id"])

    def get(self, session_id: str) -> Session:
        shown = self._client.get(f"/v1/sessions/{session_id}")
        port = urlsplit(shown["address"].removeprefix("jdbc:")).port if shown["address"] else None
        return Session(self._client.application(shown["id"]), port)

    def list(self, *, ended: bool = False, limit: int | None = None) -> list[Session]:
        found = self._client.get("/v1/sessions", ended=ended, **({} if limit is None else {"limit": limit}))
        return [self.get(shown["id"]) for shown in found["items"]]

    def address(self, session_id: str) -> str:
        """The address on the service's machine; elsewhere it needs `ssh -L PORT:localhost:PORT`."""
        return str(self._client.get(f"/v1/sessions/{session_id}/address")["address"])


def _body(wanted: SessionRequest) -> dict[str, Any]:
    size = wanted.size

    def process(cores: int, memory_bytes: int) -> dict[str, int]:
        return {"cores": cores, "memory_bytes": memory_bytes}

    return {
        "name": wanted.name,
        "size": {
            "driver": process(size.driver.cores, size.driver.memory_bytes),
            "executor": process(size.executor.cores, size.executor.memory_bytes),
            "executors": size.executors,
        },
        "protocol": wanted.protocol.value,
        "idle_seconds": wanted.idle_seconds,
        "profile": wanted.profile,
        "lake": wanted.lake,
        "settings": dict(wanted.settings),
        "tags": list(wanted.tags),
        "time_limit_seconds": wanted.time_limit_seconds,
        "instance": wanted.instance,
        "priority": wanted.priority,
    }
