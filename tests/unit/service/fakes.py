"""An engine and a token store in memory, with only what the routes need, and a service over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from starlette.testclient import TestClient

from penstock.clusters.backend import Observation, WebInterface
from penstock.engine import tokens
from penstock.engine.engine import Engine
from penstock.engine.interactive.sessions import Sessions
from penstock.engine.policy import scheduling
from penstock.engine.policy.scheduling import Instance, InstanceUsage, QueuePosition
from penstock.engine.repository.audit import Audit, AuditPage
from penstock.engine.repository.listing import Page, Query
from penstock.engine.tokens import Caller, PageGrant, Scope, Token, TokenStore
from penstock.engine.uploads import UploadCopies
from penstock.errors import InvalidInput, NotFound
from penstock.home import Home
from penstock.model import Application, ApplicationSpec, Capacity, ClusterSize, ProcessSize, Reason, State
from penstock.service.app import create_app
from penstock.service.context import Service
from penstock.service.guards import ConcurrencyLimits, RequestLimits
from penstock.service.spark_ui.pages import create_spark_app

BEGAN = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


class FakeQueues:
    def __init__(self, known: dict[str, Instance]) -> None:
        self._known = known

    def instances(self) -> list[Instance]:
        return list(self._known.values())

    def instance(self, name: str) -> Instance:
        if name not in self._known:
            raise NotFound(f"There is no instance “{name}”")
        return self._known[name]

    def put(self, instance: Instance) -> Instance:
        before = self._known.get(instance.name, instance)
        return self._set(replace(instance, attributes=before.attributes))

    def change(self, name: str, change: Callable[[Instance], Instance]) -> Instance:
        return self._set(change(self.instance(name)))

    def _set(self, instance: Instance) -> Instance:
        self._known[instance.name] = scheduling.validate(instance)
        return instance

    def delete(self, name: str) -> None:
        del self._known[self.instance(name).name]

    def usage(self) -> Mapping[str, InstanceUsage]:
        return {name: self.usage_of(name) for name in self._known}

    def usage_of(self, name: str) -> InstanceUsage:
        return InstanceUsage(running=1, cores=2)


class FakeAudit:
    def __init__(self, audited: list[tuple[str, str, str, str]]) -> None:
        self._audited = audited

    def add(self, entries: Iterable[Audit]) -> None:
        self._audited += [(entry.actor, entry.action, entry.subject, entry.outcome) for entry in entries]

    def page(self, **_: Any) -> AuditPage:
        return AuditPage([])


@dataclass
class FakeEngine:
    """An engine in memory, and its own reader of applications, artifacts and live clusters.

    `logs` maps (application id, name) to bytes.
    """

    home: Home = field(default_factory=Home.default)
    submitted: dict[str, Application] = field(default_factory=dict)
    logs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    known: dict[str, Instance] = field(default_factory=lambda: {"default": Instance()})
    audited: list[tuple[str, str, str, str]] = field(default_factory=list)
    seen: Observation | None = None
    private: dict[str, str] = field(default_factory=dict)
    """The content of the private file of each application, under any name."""
    interfaces: dict[str, WebInterface] = field(default_factory=dict)

    uploads = "penstock/uploads/ours/"

    def __post_init__(self) -> None:
        self.upload_copies = UploadCopies(self.home, self.uploads)
        self.applications = self.artifacts = self.clusters = self
        self.queues = FakeQueues(self.known)
        self.audit = FakeAudit(self.audited)
        self.sessions = Sessions(cast(Engine, self), self)
        self.backend = SimpleNamespace(capacity=lambda: Capacity(4, 8 << 30))
        self.pricing = SimpleNamespace(accrued_cost=lambda application, at: application.cost)

    def enqueue(self, spec: ApplicationSpec, on_warning: Callable[[str], None] = lambda _: None) -> Application:
        self.queues.instance(spec.instance)
        for key in spec.settings:
            on_warning(f"{key} is unusual")
        for known in self.submitted.values():
            if spec.idempotency_key and known.spec.idempotency_key == spec.idempotency_key:
                return known
        number = len(self.submitted) + 1
        added = Application(
            f"app-{number}", spec, State.ACCEPTED, submitted_at=BEGAN + timedelta(seconds=number), dispatched=True
        )
        self.submitted[added.id] = added
        return added

    def get(self, application_id: str) -> Application:
        if application_id == "app-":
            raise InvalidInput("That is the beginning of several applications", why=", ".join(self.submitted))
        if application_id not in self.submitted:
            raise NotFound(f"There is no application “{application_id}”", fix="penstock apps lists them")
        return self.submitted[application_id]

    def list(self, *, instances: Iterable[str] | None = None, limit: int | None = None, **_: Any) -> list[Application]:
        found = sorted(self.submitted.values(), key=lambda known: known.submitted_at, reverse=True)
        return [known for known in found if instances is None or known.spec.instance in instances][:limit]

    def page(self, query: Query) -> Page:
        found = [
            known
            for known in self.list()
            if (not query.states or known.state in query.states)
            and (not query.instances or known.spec.instance in query.instances)
        ]
        return Page(found[: query.limit], next="more" if len(found) > query.limit else None)

    def events(self, application_id: str) -> list[Mapping[str, Any]]:
        at = self.get(application_id).submitted_at
        return [{"at": at, "event": "Submitted", "from_state": None, "to_state": "accepted", "detail": {}}]

    def deliveries(self, application_id: str) -> list[Mapping[str, Any]]:
        return [
            {
                "id": number,
                "url": url,
                "state": "accepted",
                "tries": 2,
                "due_at": BEGAN + timedelta(seconds=10),
                "delivered_at": None,
                "problem": "it answered 500",
            }
            for number, url in enumerate(self.get(application_id).spec.webhooks)
        ]

    def request_stop(self, application_id: str) -> Application:
        found = self.get(application_id)
        if not found.state.final:
            self.end(application_id, State.STOPPED)
        return self.get(application_id)

    def end(self, application_id: str, state: State = State.FINISHED) -> None:
        self.submitted[application_id] = replace(
            self.get(application_id), state=state, ended_at=BEGAN + timedelta(minutes=1), summary={"task_ms": 5}
        )

    def observe(self, application: Application) -> Observation | None:
        return None if application.state.final else self.seen

    def forwarded_port(self, application: Application, port: int) -> int | None:
        return port

    def private_file(self, application: Application, name: str) -> str | None:
        return self.private.get(application.id)

    def web_interface(self, application: Application) -> WebInterface | None:
        return self.interfaces.get(application.id)

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None = None) -> bytes:
        if attempt is not None and attempt < self.get(application_id).attempt:
            name = f"attempts/{attempt}/{name}"
        if (application_id, name) not in self.logs:
            if self.get(application_id).state.final:
                raise NotFound(f"{application_id} has no {name}")
            return b""
        return self.logs[application_id, name][start : start + at_most]

    def sizes(self, application_id: str) -> Mapping[str, int]:
        return {name: len(content) for (owner, name), content in self.logs.items() if owner == application_id}

    def usual_size(self) -> ClusterSize:
        return ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(4, 2 << 30), 1)

    def counts(self) -> Mapping[str, Mapping[State, int]]:
        return {"default": {State.RUNNING: 2}}

    def queue(self, instance: str | None = None) -> list[QueuePosition]:
        waiting = [known for known in reversed(self.list()) if not known.state.final]
        places = [
            QueuePosition(known.id, known.spec.instance, number, Reason("ahead", "others are ahead"))
            for number, known in enumerate(waiting, 1)
        ]
        return [place for place in places if instance in (None, place.instance)]


class FakeTokens:
    """Tokens in memory, issued at `BEGAN`."""

    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}
        self.passes: dict[str, PageGrant] = {}

    def create(
        self, name: str, grants: Mapping[str, Scope], *, expires_at: datetime | None = None
    ) -> tuple[Token, str]:
        secret = tokens.new_secret()
        made = Token(tokens.new_id(), name, dict(grants), tokens.hash_secret(secret), BEGAN, expires_at)
        self._tokens[made.id] = made
        return made, tokens.format_token(made.id, secret)

    def authenticate(self, text: str) -> Caller:
        found = tokens.parse_token(text)
        if found is None:
            raise tokens.invalid_token()
        return tokens.verify_token(self._tokens.get(found[0]), found[1], at=BEGAN)

    def list(self) -> list[Token]:
        return list(self._tokens.values())

    def get(self, token_id: str) -> Token:
        if token_id not in self._tokens:
            raise NotFound("There is no such token")
        return self._tokens[token_id]

    def rotate(self, token_id: str) -> tuple[Token, str]:
        secret = tokens.new_secret()
        self._tokens[token_id] = replace(self.get(token_id), secret_hash=tokens.hash_secret(secret))
        return self._tokens[token_id], tokens.format_token(token_id, secret)

    def revoke(self, token_id: str) -> Token:
        self.get(token_id)
        return self._tokens.pop(token_id)

    def change(self, token_id: str, **values: Any) -> None:
        """Change fields of a token."""
        self._tokens[token_id] = replace(self.get(token_id), **values)

    def invalidate(self, token_id: str, how: str, *, at: datetime) -> None:
        """Make the token `revoked`, `rotated` or `expired` at that time."""
        if how == "revoked":
            self.revoke(token_id)
        elif how == "rotated":
            self.rotate(token_id)
        else:
            assert how == "expired"
            self.change(token_id, expires_at=at)

    def add_grant(self, digest: str, added: PageGrant, *, at: datetime) -> None:
        self.passes[digest] = added

    def take_grant(self, digest: str) -> PageGrant | None:
        return self.passes.pop(digest, None)

    def find_grant(self, digest: str) -> PageGrant | None:
        return self.passes.get(digest)


class Stage:
    """A service over fakes, and clients of it."""

    def __init__(
        self, root: Path, *, limits: RequestLimits | None = None, bounds: ConcurrencyLimits | None = None
    ) -> None:
        self.engine = FakeEngine(Home(root))
        self.tokens = FakeTokens()
        engine, tokens = cast(Engine, self.engine), cast(TokenStore, self.tokens)
        self.service = Service(Home(root), engine, tokens, bounds=bounds or ConcurrencyLimits())
        self.app = create_app(self.service, limits=limits)
        self.spark_app = create_spark_app(self.service, limits=limits)

    def client(self, scope: Scope | None = Scope.ADMINISTER, *instances: str) -> TestClient:
        """Return a client with that scope on those instances, on all by default; without a token for None."""
        headers = {}
        if scope is not None:
            _, text = self.tokens.create(f"the {scope.value}", dict.fromkeys(instances or ["*"], scope))
            headers["Authorization"] = f"Bearer {text}"
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)

    def browser(self) -> TestClient:
        """Return a client of the origin of Spark's pages, without a cookie."""
        origin = f"http://testserver:{self.service.spark_origin.port}"
        return TestClient(self.spark_app, origin, raise_server_exceptions=False)

    def looking(self, path: str, scope: Scope = Scope.READ, *instances: str) -> TestClient:
        """Return a browser with the cookie for the pages that a POST to `path` links to."""
        link = self.client(scope, *instances).post(path)
        assert link.status_code == 201, link.text
        browser = self.browser()
        assert browser.get(link.json()["url"], follow_redirects=False).status_code == 303
        return browser
