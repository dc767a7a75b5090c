"""Two tenants and a stranger against a real service: no attempt of one reaches another's data.

Every documented operation is tried with another tenant's identifiers in place of one's own, followed by requests
spelled as no client would spell them. An attempt succeeds where the answer shows something of the victim's that the
request did not, where it is a success, or where anything of the victim's has changed afterwards.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import re
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote

import pytest
import sqlalchemy as sa

from penstock.catalog.database import Database
from penstock.engine.policy.scheduling import Instance
from penstock.engine.repository.applications import now
from penstock.engine.tokens import EVERY_INSTANCE, Scope, TokenStore
from penstock.engine.webhooks import shown_secret
from penstock.errors import Unauthenticated
from penstock.home import Home, write_atomically
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.app import create_app
from penstock.service.context import Service
from penstock.service.guards import ConcurrencyLimits
from penstock.service.spark_ui.access import SparkCookie, SparkUi
from tests.support.database_template import DatabaseTemplate
from tests.support.fake_engine import FakeEngine, specification
from tests.support.service_process import serving
from tests.support.waiting import within

VICTIM, THIEF = "victims", "thieves"
CANARY = "canary-7f3a9c"
"""A marker in everything that the victim wrote."""
LEAST_ATTEMPTS = 40
"""The least number of attempts against each promise that the service makes over HTTP."""

TENANT, READER, STRANGER = "another tenant", "another tenant's reader", "a stranger"
LAKE_AWAY = "urn:penstock:problem:lake_error"
"""The error of a permitted request about one's own lake, since there is no store."""
OPEN = {"/health/live", "/health/ready"}
ELSEWHERE = {"/v1/changes", "/v1/tables", "/v1/tables/{name}", "/v1/tables/{name}/preview"}
"""Operations that are not tried as a tenant.

The stream does not end (`tests/unit/service/test_streaming_feed.py` tests who receives which events); the catalog
belongs to every tenant and would start a JVM.
"""


def filled(text: str, said: Mapping[str, str]) -> str:
    """Return the text with its `{names}` replaced."""
    return re.sub(r"{(\w+)}", lambda found: said[found[1]], text)


@dataclass(frozen=True)
class Scene:
    address: str
    port: int
    spark_ui_port: int
    application: str
    thiefs_application: str
    lake: str
    tokens: dict[str, str]
    hashes: dict[str, str]
    secrets: tuple[str, ...]
    """Strings that no answer to a thief may show, unless the thief's request contained them."""
    database: sa.Engine
    home: Home

    def state(self) -> object:
        """Return all state that thieves could change: lakes, and the records without the audit of their attempts."""
        queries = (
            "SELECT * FROM applications ORDER BY id",
            "SELECT * FROM events ORDER BY id",
            "SELECT id, application_id, url, body FROM deliveries ORDER BY id",
            "SELECT engine, name, weight, quota, attributes FROM instances ORDER BY name",
            "SELECT id, name, grants, secret_hash, expires_at FROM tokens ORDER BY id",
        )
        with self.database.connect() as connection:
            rows = [tuple(map(tuple, connection.execute(sa.text(query)))) for query in queries]
        return str(rows), (self.home.lake / "lakes.json").read_text(), (self.home.lake / "credentials").read_text()

    def asks(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        port: int | None = None,
    ) -> tuple[int, str]:
        """Send a request with the path as it is written: a client library would normalize it."""
        connection = http.client.HTTPConnection(self.address, port or self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, "\n".join([str(answer.headers), answer.read().decode(errors="replace")])
        finally:
            connection.close()

    def looks(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, str]:
        """Send a request to the origin of Spark's pages."""
        return self.asks(method, path, headers=headers, port=self.spark_ui_port)

    def ticket(self, who: str, application: str) -> str:
        """Request a ticket as the console does, for a permitted user."""
        status, text = self.asks("POST", f"/v1/applications/{application}/ui", headers=self.as_(who))
        assert status == 201, text
        return re.search(r"ticket=([\w-]+)", text)[1]  # type: ignore[index]

    def enter(self, ticket: str) -> dict[str, str]:
        """Exchange a ticket for its cookie, as a browser would; empty where it is refused."""
        _, text = self.looks(f"/enter?ticket={ticket}")
        found = re.search(r"(?i)set-cookie: ([^;]+)", text)
        return {"Cookie": found[1]} if found else {}

    def shown(self, text: str, *, asked: str) -> list[str]:
        return [secret for secret in self.secrets if secret in text and secret not in unquote(asked)]

    def as_(self, who: str) -> dict[str, str]:
        return {} if who == STRANGER else self.with_token(self.tokens[who])

    def with_token(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, database_template: DatabaseTemplate) -> Iterator[Scene]:
    home = Home(tmp_path_factory.mktemp("thieves"))
    database_template.copy_to(home)
    lakes = Lakes(home)
    sales = lakes.add(Lake("sales", ("http://127.0.0.1:9",), "sales", ""), Credentials("owner", f"{CANARY}-own"))
    keys = Credentials(f"{CANARY}-access", f"{CANARY}-secret")
    scoped = lakes.add(registry.credential_scoped(sales, keys, VICTIM), keys)
    engine = FakeEngine(home)
    for name in (VICTIM, THIEF):
        engine.queues.put(Instance(name, attributes={"note": CANARY} if name == VICTIM else {}))
    records = Database(home).engine()
    store = TokenStore(records)
    grants = {
        VICTIM: {VICTIM: Scope.SUBMIT},
        TENANT: {THIEF: Scope.SUBMIT},
        READER: {THIEF: Scope.READ},
        "administrator": {EVERY_INSTANCE: Scope.ADMINISTER},
    }
    made = {who: store.create(who if who in (TENANT, READER) else CANARY, grant) for who, grant in grants.items()}
    # The place where a service that makes the first token itself leaves it.
    (home.root / "service").mkdir(mode=0o700)
    write_atomically(home.root / "service" / "admin.token", made["administrator"][1])
    thiefs = engine.enqueue(specification(home, 2, instance=THIEF, lake="sales"))
    engine.request_stop(thiefs.id)
    application = _victims_application(engine, home, records, scoped)
    victims = made[VICTIM], made["administrator"]
    try:
        with serving(home) as served:
            host, _, port = served.url.removeprefix("http://").partition(":")
            yield Scene(
                host,
                int(port),
                int(served.spark_ui.rpartition(":")[2]),
                application,
                thiefs.id,
                scoped.name,
                {who: text for who, (_, text) in made.items()},
                {token.id: token.secret_hash for token, _ in victims},
                (
                    CANARY,
                    application,
                    VICTIM,
                    scoped.name,
                    shown_secret(home, VICTIM),
                    *(part for token, text in victims for part in (token.secret_hash, text)),
                ),
                records,
                home,
            )
    finally:
        records.dispose()
        Database(home).down()


def _victims_application(engine: FakeEngine, home: Home, records: sa.Engine, lake: Lake) -> str:
    """Make an ended application with everything that a thief could steal."""
    made = engine.enqueue(
        specification(
            home,
            1,
            instance=VICTIM,
            lake=lake.name,
            tags=(CANARY,),
            arguments=(CANARY,),
            environment={"NOTE": CANARY},
            idempotency_key="victims-key",
            webhooks=(f"https://{CANARY}.example/",),
        )
    )
    log = home.root / "artefacts" / made.id / "driver.log"
    log.parent.mkdir(parents=True)
    write_atomically(log, f"{CANARY}\n")
    engine.request_stop(made.id)
    # As if it had run: no other component changes an ended application.
    with records.begin() as connection:
        connection.execute(sa.text("ALTER TABLE applications DISABLE TRIGGER USER"))
        connection.execute(
            sa.text("UPDATE applications SET summary = :summary WHERE id = :id"),
            {"id": made.id, "summary": json.dumps({"artefacts": log.parent.as_uri(), "note": CANARY})},
        )
        connection.execute(sa.text("ALTER TABLE applications ENABLE TRIGGER USER"))
    return made.id


def _operations() -> list[tuple[str, str, list[str], bool]]:
    """Return each operation of the OpenAPI document: method, path, its parameters, and whether it takes a body."""
    home = Home(Path("/nowhere"))
    tokens: Any = Mock(TokenStore)
    described = create_app(Service(home, FakeEngine(home), tokens)).openapi()["paths"]
    return [
        (method.upper(), path, re.findall(r"{(\w+)}", path), "requestBody" in operation)
        for path, methods in sorted(described.items())
        for method, operation in methods.items()
    ]


OPERATIONS = _operations()
BODIES: dict[str, dict[str, Any]] = {
    "/v1/applications": {"application": "s3a://sales/x.py", "instance": VICTIM},
    "/v1/sessions": {"instance": VICTIM},
    "/v1/tokens": {"name": "mine", "scopes": ["administer"], "instances": [VICTIM]},
    "spark_applications": {"application_details": {"application": "s3a://sales/x.py"}},
    "jobs": {"engine": {"type": "spark"}, "application_details": {"application": "s3a://sales/x.py"}},
    "instance_home": {"instance_home": {"bucket": "sales", "endpoint": "http://127.0.0.1:9"}},
    "default_runtime": {"spark_version": "4.1"},
    "log_forwarding_config": {"enabled": False},
    "logging": {"enable": False},
    "/v1/instances/{name}": {"weight": 1000},
}


def _body(path: str, scene: Scene) -> bytes:
    if path == "/v1/browser-access":
        return json.dumps({"path": f"/v1/applications/{scene.application}/ui"}).encode()
    found = next((body for end, body in BODIES.items() if path.endswith(end)), {"spark.app.note": "x"})
    return json.dumps(found).encode()


def _to_the_victims(path: str, scene: Scene) -> str:
    """Return the path with the victim's identifier in each parameter."""
    victims = {
        "application_id": scene.application,
        "session_id": scene.application,
        "instance_id": VICTIM,
        "token_id": next(iter(scene.hashes)),
        "lake": scene.lake,
        "digest": "0" * 64,
        "run_id": "r-1",
        "path": "jobs/",
        "name": "driver.log" if "/logs/" in path else VICTIM,
    }
    return filled(path, victims)


def _names_a_victim(path: str, names: list[str]) -> bool:
    return bool({"application_id", "session_id", "instance_id", "token_id"} & set(names)) or "/instances/{name}" in path


def test_there_are_more_attempts_than_promised() -> None:
    assert len(OPERATIONS) >= LEAST_ATTEMPTS
    assert len([path for _, path, names, _ in OPERATIONS if _names_a_victim(path, names)]) >= LEAST_ATTEMPTS
    assert min(len(STRANGERS), len(SPELLINGS), len(QUESTIONS)) >= LEAST_ATTEMPTS


@pytest.mark.parametrize("who", [TENANT, READER, STRANGER])
def test_no_operation_gives_away_or_changes_what_is_another_tenants(
    scene: Scene, subtests: pytest.Subtests, who: str
) -> None:
    for method, path, names, takes_body in OPERATIONS:
        if path in OPEN or (path in ELSEWHERE and who != STRANGER):
            continue
        asked, body = _to_the_victims(path, scene), _body(path, scene) if takes_body else None
        with subtests.test(f"{method} {path}"):
            before = scene.state()
            status, text = scene.asks(method, asked, headers=scene.as_(who), body=body)
            assert status < 500 or LAKE_AWAY in text, text
            assert not scene.shown(text, asked=f"{asked} {(body or b'').decode()}"), text
            assert scene.state() == before
            if who == STRANGER:
                assert status in (401, 403), text
            elif _names_a_victim(path, names) or VICTIM.encode() in (body or b""):
                assert 400 <= status < 500, text


def _zen(text: str) -> str:
    return "ZenApiKey " + base64.b64encode(text.encode()).decode()


STRANGERS: tuple[dict[str, str], ...] = tuple(
    [
        {"Authorization": value}
        for value in (
            "",
            "Bearer",
            "Bearer ",
            "Bearer null",
            "Bearer undefined",
            "Bearer admin",
            "Bearer {id}",
            "Bearer {hash}",
            "Bearer {id}.{hash}",
            "Bearer pst_{id}_{hash}",
            "Bearer penstock_{id}_{hash}",
            "Bearer {cut}",
            "Bearer {longer}",
            "Bearer {upper}",
            "Bearer {swapped}",
            "Bearer {own_secret_for_victims_id}",
            "Bearer %00",
            "Bearer ' OR '1'='1",
            "Bearer " + "A" * 8000,
            "Bearer {id}.",
            "Basic YWRtaW46YWRtaW4=",
            "Basic {basic}",
            "Digest username=admin",
            "Negotiate YII=",
            "Token {hash}",
            "ApiKey {hash}",
            _zen("admin:"),
            _zen("admin:admin"),
            _zen(":"),
            "ZenApiKey {hash}",
            "ZenApiKey !",
            "AWS4-HMAC-SHA256 Credential=x",
        )
    ]
    + [
        {name: value}
        for name, value in (
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Forwarded-User", "admin"),
            ("X-Remote-User", "admin"),
            ("X-Real-IP", "127.0.0.1"),
            ("Forwarded", "for=127.0.0.1"),
            ("X-Original-URL", "/health/live"),
            ("X-Rewrite-URL", "/health/live"),
            ("X-HTTP-Method-Override", "OPTIONS"),
            ("X-Api-Key", "{hash}"),
            ("Cookie", "token={hash}; session={hash}; penstock={hash}"),
            ("Cookie", "penstock-page={hash}"),
            ("Origin", "http://127.0.0.1"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Host", "localhost"),
        )
    ]
)
"""Headers of a stranger who knows the public or stored parts of a token, but not its secret."""


@pytest.mark.parametrize("number", range(len(STRANGERS)))
def test_nothing_a_stranger_says_of_himself_is_believed(scene: Scene, number: int) -> None:
    token_id, secret_hash = list(scene.hashes.items())[-1]
    whole, own = scene.tokens["administrator"], scene.tokens[TENANT]
    victims_id = whole[: whole.index(token_id) + len(token_id)]
    own_secret = own.replace(own[: len(victims_id)], "")
    said = {
        "id": token_id,
        "hash": secret_hash,
        "cut": whole[:-1],
        "longer": whole + "A",
        "upper": whole.swapcase(),
        "swapped": whole[:-2] + whole[-1] + whole[-2] if whole[-1] != whole[-2] else whole[:-1],
        "own_secret_for_victims_id": victims_id + own_secret,
        "basic": base64.b64encode(f"{token_id}:{secret_hash}".encode()).decode(),
    }
    headers = {name: filled(value, said) for name, value in STRANGERS[number].items()}
    before = scene.state()
    for method, path in (
        ("GET", f"/v1/applications/{scene.application}"),
        ("GET", "/v1/tokens"),
        ("POST", f"/v1/applications/{scene.application}/rerun"),
    ):
        status, text = scene.asks(method, path, headers=headers)
        assert status in (400, 401, 403, 431), text
        assert not scene.shown(text, asked=f"{path} {headers}"), text
    assert scene.state() == before


SPELLINGS = (
    "/v1/applications/{id}",
    "/v1/applications/{id}/",
    "/v1/applications/{id}?instance=thieves",
    "/v1/applications/{id}%00",
    "/v1/applications/{id}%20",
    "/v1/applications/{id}.json",
    "/v1/applications/{id};instance=thieves",
    "/v1/applications/{upper}",
    "/v1/applications/{cut}",
    "/v1/applications/last",
    "/v1/applications/%25",
    "/v1/applications/_",
    "/v1//applications/{id}",
    "//v1/applications/{id}",
    "/v1/./applications/{id}",
    "/v1/../v1/applications/{id}",
    "/v1/%2e%2e/v1/applications/{id}",
    "/V1/applications/{id}",
    "/health/../v1/applications/{id}",
    "/health/live/..%2f..%2fv1%2fapplications%2f{id}",
    "/v1/applications/x/../{id}",
    "/v1/applications%2f{id}",
    "/v1/applications/{id}/logs",
    "/v1/applications/{id}/logs/driver.log",
    "/v1/applications/{id}/logs/driver.log?attempt=1",
    "/v1/applications/{id}/logs/driver.log?follow=true",
    "/v1/applications/{id}/logs/driver.log?tail=10",
    "/v1/applications/{id}/logs/.%2fdriver.log",
    "/v1/applications/{id}/logs/attempts/1/driver.log",
    "/v1/applications/{id}/logs/..%2f..%2f..%2flake%2fcredentials",
    "/v1/applications/{id}/logs/%2fetc%2fpasswd",
    "/v1/applications/{id}/results",
    "/v1/applications/{id}/statements",
    "/v1/applications/{id}/ui/environment/",
    "/v1/applications/{id}/ui/..%2f..%2f..%2ftokens",
    "/v1/applications/{id}/wait?timeout=0",
    "/v1/sessions/{id}/address",
    "/v4/analytics_engines/thieves/spark_applications/{id}",
    "/v3/analytics_engines/thieves/spark_applications/{id}/state",
    "/ae/spark/v2/thieves/jobs/{id}",
    "/ae/spark/v2/thieves/v2/jobs/{id}",
    "/v4/analytics_engines/thieves%2f..%2fvictims/spark_applications",
    "/v4/analytics_engines/thieves/../victims/spark_applications",
    "/v1/instances/victims",
    "/v1/instances/victims/queue",
    "/v1/instances/victims/webhook-key",
    "/v1/instances/%76ictims/webhook-key",
    "/v1/instances/victims%00/webhook-key",
    "/v1/instances/thieves%2f..%2fvictims/webhook-key",
    "/v1/spark-history/{lake}/",
    "/v1/spark-history/sales/history/{id}/jobs/",
    "/v1/spark-history/..%2f..%2ftokens/x",
)
"""Paths to another's data: by its own address, through one's own queue, and around the checks."""


@pytest.mark.parametrize("who", [TENANT, READER])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_an_address_leads_to_what_is_another_tenants(scene: Scene, spelling: str, who: str) -> None:
    said = {
        "id": scene.application,
        "upper": scene.application.upper(),
        "cut": scene.application[:-2],
        "lake": scene.lake,
    }
    path = filled(spelling, said)
    before = scene.state()
    for method in ("GET", "HEAD", "POST", "DELETE"):
        status, text = scene.asks(method, path, headers=scene.as_(who), body=b"{}" if method == "POST" else None)
        assert 300 <= status < 500, (method, text)
        assert not scene.shown(text, asked=path), text
    assert scene.state() == before


QUESTIONS = (
    "/v1/applications",
    "/v1/applications?instance=victims",
    "/v1/applications?instance=thieves&instance=victims",
    "/v1/applications?instance=%76ictims",
    "/v1/applications?instance=*",
    "/v1/applications?instance=%25",
    "/v1/applications?instance=victims%00",
    "/v1/applications?search=canary",
    "/v1/applications?search=%25",
    "/v1/applications?search=_",
    "/v1/applications?search=load",
    "/v1/applications?name=load-1",
    "/v1/applications?tag={canary}",
    "/v1/applications?state=stopped",
    "/v1/applications?sort=name",
    "/v1/applications?sort=engine",
    "/v1/applications?sort=name;drop%20table%20tokens",
    "/v1/applications?sort=-(select%201)",
    "/v1/applications?limit=1000",
    "/v1/applications?limit=-1",
    "/v1/applications?page={page}",
    "/v1/applications?page={page}&instance=victims",
    "/v1/applications?submitted_after=1970-01-01T00:00:00Z",
    "/v1/applications?ended_before=2999-01-01T00:00:00Z",
    "/v1/sessions",
    "/v1/sessions?ended=true",
    "/v1/sessions?ended=true&limit=1",
    "/v1/instances",
    "/v1/queue",
    "/v1/lakes",
    "/v1/history",
    "/v1/history?lake={lake}",
    "/v1/audit",
    "/v1/audit?limit=1000",
    "/v1/audit?page=1",
    "/v1/tokens",
    "/v1/self",
    "/metrics",
    "/v1/files/{digest}/x.py?lake={lake}",
    "/v1/files/{digest}/..%2f..%2fcredentials?lake=sales",
    "/v4/analytics_engines/thieves/spark_applications",
    "/v4/analytics_engines/thieves/spark_applications?state=stopped",
    "/v4/analytics_engines/thieves/spark_applications?limit=100&start=x",
    "/ae/spark/v2/thieves/jobs",
)
"""Queries that a tenant may send, of which some are refused: none returns another's data."""


@pytest.mark.parametrize("who", [TENANT, READER])
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_is_answered_with_what_is_another_tenants(scene: Scene, question: str, who: str) -> None:
    of_victim = scene.asks("GET", "/v1/applications?limit=1", headers=scene.as_(VICTIM))[1]
    page = json.loads(of_victim[of_victim.index("{") :])["next"] or base64.urlsafe_b64encode(b"x").decode()
    said = {"canary": CANARY, "page": page, "lake": scene.lake, "digest": "0" * 64}
    path = filled(question, said)
    status, text = scene.asks("GET", path, headers=scene.as_(who))
    assert status < 500 or LAKE_AWAY in text, text
    assert not scene.shown(text, asked=path), text


def test_what_thieves_look_for_is_there_for_the_victim(scene: Scene) -> None:
    """Without this the attempts above would prove nothing."""
    for path in (
        "/v1/applications",
        f"/v1/applications/{scene.application}",
        f"/v1/applications/{scene.application}/logs/driver.log",
        f"/v4/analytics_engines/{VICTIM}/spark_applications/{scene.application}",
        "/v1/instances",
    ):
        status, text = scene.asks("GET", path, headers=scene.as_(VICTIM))
        assert status == 200, text
        assert scene.shown(text, asked=path), path


BORROWED = (
    {"lake": "{lake}"},
    {"instance": VICTIM},
    {"instance": VICTIM, "lake": "{lake}"},
    {"instance": f"{VICTIM} "},
    {"instance": "default"},
    {"instance": THIEF, "idempotency_key": "victims-key"},
    {"instance": THIEF, "engine": "other"},
    {"instance": THIEF, "dispatched": False},
    {"lake": "{lake}", "settings": {"spark.app.note": "x"}},
)


@pytest.mark.parametrize("number", range(len(BORROWED)))
@pytest.mark.parametrize("path", ["/v1/applications", "/v1/sessions"])
def test_nobody_submits_in_anothers_name_or_with_anothers_keys(scene: Scene, path: str, number: int) -> None:
    asked: dict[str, Any] = {"instance": THIEF, **BORROWED[number]}
    if asked.get("lake"):
        asked["lake"] = scene.lake
    if path == "/v1/applications":
        asked["application"] = "s3a://sales/x.py"
    before = scene.state()
    status, text = scene.asks("POST", path, headers=scene.as_(TENANT), body=json.dumps(asked).encode())
    assert 400 <= status < 500, text
    assert not scene.shown(text, asked=json.dumps(asked)), text
    assert scene.state() == before


def test_a_ticket_opens_the_pages_of_one_application_once(scene: Scene) -> None:
    """The access that the following tests deny to thieves."""
    ticket = scene.ticket(VICTIM, scene.application)
    cookie = scene.enter(ticket)
    status, text = scene.looks(f"/applications/{scene.application}/", **cookie)
    assert (status, f"/applications/{scene.application}/past/" in text) == (307, True)
    assert scene.enter(ticket) == {}
    assert scene.looks(f"/applications/{scene.application}/")[0] == 401


def test_a_ticket_is_good_once_whichever_replica_of_the_service_is_asked(scene: Scene) -> None:
    ticket = scene.ticket(VICTIM, scene.application)
    replicas = [SparkUi(TokenStore(scene.database), now) for _ in range(8)]

    def cookie(replica: SparkUi) -> SparkCookie | None:
        try:
            return replica.cookie(ticket)
        except Unauthenticated:
            return None

    with ThreadPoolExecutor(len(replicas)) as at_once:
        (given,) = filter(None, at_once.map(cookie, replicas))
    assert scene.enter(ticket) == {}
    # Each replica of the service knows the cookies of the others.
    assert scene.looks(given.root, Cookie=f"{given.name}={given.secret}")[0] == 307


LEADS_TO_PAGES = (
    "/applications/{id}/",
    "/applications/{id}/ui/",
    "/applications/{id}/ui/jobs/",
    "/applications/{id}/past/",
    "/applications/{id}/past/history/{id}/jobs/",
    "/applications/{id}",
    "/applications/{cut}/",
    "/applications/{own}/../{id}/",
    "/applications/{own}/ui/../../{id}/ui/",
    "/applications/{own}/ui/..%2f..%2f{id}/ui/",
    "/applications/{own}%2f..%2f{id}/ui/",
    "/applications/{own}/past/history/{id}/",
    "/applications/{own}/past/history/..%2f{id}/",
    "/applications/{own}/past/..;x/..;x/{id}/past/",
    "/applications/{own}/past/api/v1/applications",
    "/applications/{own}/past//history/{id}/",
    "//applications/{id}/ui/",
    "/Applications/{id}/ui/",
    "/applications/{upper}/ui/",
    "/lakes/sales/",
    "/lakes/sales/history/{id}/jobs/",
    "/lakes/{lake}/",
    "/lakes/..%2fapplications%2f{id}/",
)
"""Paths to another's data at the origin of Spark's pages."""


def _passes_of_thieves(scene: Scene) -> dict[str, dict[str, str]]:
    """Return the headers that a thief may send, by the kind of pass they carry."""

    def ends(ticket_or_cookie: str) -> None:
        digests = [hashlib.sha256(f"{kind} {ticket_or_cookie}".encode()).hexdigest() for kind in ("ticket", "cookie")]
        with scene.database.begin() as connection:
            ended = "UPDATE passes SET ends_at = now() - interval '1 second' WHERE digest = ANY(:digests)"
            assert connection.execute(sa.text(ended), {"digests": digests}).rowcount == 1

    def victims() -> str:
        return scene.ticket(VICTIM, scene.application)

    tokens = TokenStore(scene.database)
    own = scene.enter(scene.ticket(TENANT, scene.thiefs_application))
    assert own
    value = own["Cookie"].partition("=")[2]
    cookie = scene.enter(victims())
    name = cookie["Cookie"].partition("=")[0]
    replayed, late, aside = victims(), victims(), victims()
    scene.enter(replayed)
    ends(late)
    expired = scene.enter(victims())
    ends(expired["Cookie"].partition("=")[2])
    gone, text = tokens.create("leaves", {VICTIM: Scope.READ})
    _, link = scene.asks("POST", f"/v1/applications/{scene.application}/ui", headers=scene.with_token(text))
    revoked = scene.enter(re.search(r"ticket=([\w-]+)", link)[1])  # type: ignore[index]
    _, link = scene.asks("POST", f"/v1/applications/{scene.application}/ui", headers=scene.with_token(text))
    void = re.search(r"ticket=([\w-]+)", link)[1]  # type: ignore[index]
    tokens.revoke(gone.id)
    digest = hashlib.sha256(f"cookie {cookie['Cookie'].partition('=')[2]}".encode()).hexdigest()
    return {
        "nothing": {},
        "his own cookie": own,
        "his own cookie by the victim's name": {"Cookie": f"{name}={value}"},
        "a ticket that was used": scene.enter(replayed),
        "a ticket that is too old": scene.enter(late),
        "a ticket of a token that was revoked": scene.enter(void),
        "a ticket as a cookie": {"Cookie": f"{name}={aside}"},
        "a cookie that has expired": expired,
        "a cookie of a token that was revoked": revoked,
        "the victim's cookie, from a page of another server": {**cookie, "Sec-Fetch-Site": "same-site"},
        "the victim's cookie, cut": {"Cookie": cookie["Cookie"][:-1]},
        "what the database keeps": {"Cookie": f"{name}={digest}"},
        "his own token": scene.as_(TENANT),
        "an administrator's token": scene.as_("administrator"),
    }


def test_nobody_gets_to_sparks_pages_of_another_tenant(scene: Scene, subtests: pytest.Subtests) -> None:
    said = {
        "id": scene.application,
        "cut": scene.application[:-2],
        "upper": scene.application.upper(),
        "own": scene.thiefs_application,
        "lake": scene.lake,
    }
    passes = _passes_of_thieves(scene)
    assert len(passes) * len(LEADS_TO_PAGES) >= LEAST_ATTEMPTS
    before = scene.state()
    for what, headers in passes.items():
        for spelling in LEADS_TO_PAGES:
            path = filled(spelling, said)
            with subtests.test(f"{what}: {spelling}"):
                status, text = scene.looks(path, **headers)
                # The thief may see his own application's pages, also with a trailing slash.
                harmless = (scene.thiefs_application in text, spelling == "/applications/{id}")
                assert 400 <= status < 500 or (status == 307 and any(harmless)), text
                assert not scene.shown(text, asked=path), text
    assert scene.state() == before


def test_sparks_origin_has_no_operation_of_the_service(scene: Scene, subtests: pytest.Subtests) -> None:
    cookie = scene.enter(scene.ticket(VICTIM, scene.application))
    before = scene.state()
    others = [("GET", path, [], False) for path in ("/", "/docs", "/openapi.json", "/console/shell.js", "/metrics")]
    for method, path, _, takes_body in [*OPERATIONS, *others]:
        asked, body = _to_the_victims(path, scene), _body(path, scene) if takes_body else None
        with subtests.test(f"{method} {path}"):
            headers = {**scene.as_("administrator"), **cookie}
            status, text = scene.asks(method, asked, headers=headers, body=body, port=scene.spark_ui_port)
            assert status in (404, 405), text
    assert scene.state() == before


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
def test_nothing_is_ended_from_sparks_pages(scene: Scene, method: str) -> None:
    cookie = scene.enter(scene.ticket(VICTIM, scene.application))
    for end in ("jobs/job/kill/?id=0", "stages/stage/%6bill/?id=0", "jobs/job/kill;x/?id=0", "jobs//job/KILL/?id=0"):
        status, text = scene.looks(f"/applications/{scene.application}/ui/{end}", method=method, **cookie)
        assert status == (403 if method == "GET" else 405), text


def test_a_stranger_takes_no_connection_that_others_need(scene: Scene) -> None:
    """A stranger keeps the service waiting for bodies, with invented tokens; a known token is still answered."""
    status, _ = scene.asks("GET", "/v1/self", headers=scene.as_(TENANT))
    assert status == 200
    with contextlib.ExitStack() as held:
        for number in range(ConcurrencyLimits().per_address):
            waits = held.enter_context(socket.create_connection((scene.address, scene.port), timeout=20))
            head = f"POST /v1/applications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer penstock_{number}_x\r\n"
            waits.sendall(f"{head}Content-Length: 10\r\nContent-Type: application/json\r\n\r\n".encode())
        within(lambda: scene.asks("GET", "/health/live")[0] == 429)
        status, text = scene.asks("GET", "/health/live", headers={"Authorization": "Bearer penstock_65_x"})
        assert (status, "from your address" in text, "retry-after: " in text.lower()) == (429, True, True)
        assert scene.asks("GET", "/v1/self", headers=scene.as_(TENANT))[0] == 200
    within(lambda: scene.asks("GET", "/health/live")[0] == 200)
