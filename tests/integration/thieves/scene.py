"""The scene of the thefts: a service with the data of a victim and of a thief, and every operation that it has."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote

import sqlalchemy as sa

from penstock.engine.tokens import TokenStore
from penstock.home import Home
from penstock.service.app import create_app
from penstock.service.context import Service
from tests.support.fake_engine import FakeEngine

VICTIM, THIEF = "victims", "thieves"
CANARY = "canary-7f3a9c"
"""A marker in everything that the victim wrote."""
LEAST_ATTEMPTS = 40
"""The least number of attempts against each promise that the service makes over HTTP."""

TENANT, READER, STRANGER = "another tenant", "another tenant's reader", "a stranger"
LAKE_AWAY = "urn:penstock:problem:lake_error"
"""The error of a permitted request about one's own lake, since there is no store."""


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


def body_of(path: str, scene: Scene) -> bytes:
    if path == "/v1/browser-access":
        return json.dumps({"path": f"/v1/applications/{scene.application}/ui"}).encode()
    found = next((body for end, body in BODIES.items() if path.endswith(end)), {"spark.app.note": "x"})
    return json.dumps(found).encode()


def to_the_victims(path: str, scene: Scene) -> str:
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
        "name": "driver.log" if "/logs/" in path else f"{VICTIM}.gold" if "/tables/" in path else VICTIM,
    }
    return filled(path, victims)
