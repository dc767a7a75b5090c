"""The published description is true, and complete enough to write a client by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.catalog.tables import Column, Table
from penstock.engine.interactive.sessions import Session, Wanted
from penstock.engine.repository.audit import Audit
from penstock.engine.tokens import Scope
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import Application, ClusterSize, ProcessSize, State
from penstock.service import shown, shownplaces
from tests.unit.service.fakes import BEGAN, Stage

HOOK = "https://hooks.example/1"
SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
TABLE = Table("a", "b", "managed", "parquet", "s3a://lake/b", None, 1, 2, (Column("c", "int"),))
SESSION = Session(Application("app-1", Wanted(SIZE).specification(), State.ACCEPTED, submitted_at=BEGAN), None)


@pytest.fixture
def described(stage: Stage) -> dict[str, Any]:
    return dict(stage.client(None).get("/openapi.json").json())


def operations(described: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_says_what_it_is_for_and_what_a_refusal_looks_like(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        assert operation["summary"], name
        assert operation["tags"], name
        assert "application/problem+json" in operation["responses"]["default"]["content"], name


def test_every_operation_but_health_needs_a_token(described: dict[str, Any]) -> None:
    open_ones = {name for name, operation in operations(described) if not operation.get("security")}
    assert open_ones == {"get /health/live", "get /health/ready"}


def test_operations_have_names_of_their_own(described: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(described)]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if "$ref" in part else []
            return own + [found for value in part.values() for found in references(value)]
        return [found for item in part for found in references(item)] if isinstance(part, list) else []

    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert set(references(described)) <= known


@pytest.mark.parametrize(
    ("address", "model"),
    [
        ("/v1/applications", shown.Applications),
        ("/v1/applications/app-1", shown.Application),
        ("/v1/applications/app-1/events", shown.History),
        ("/v1/applications/app-1/deliveries", shown.Deliveries),
        ("/v1/instances", shown.Instances),
        ("/v1/queue", shown.Queue),
        ("/v1/tokens", shown.Tokens),
        ("/v1/self", shown.Caller),
        ("/v1/applications/app-1/logs", shownplaces.Logs),
        ("/v1/applications/app-1/metrics", shownplaces.Metrics),
        ("/v1/lakes", shownplaces.Lakes),
        ("/v1/profiles", shownplaces.Profiles),
        ("/v1/cache", shownplaces.Cache),
        ("/v1/history", shownplaces.HistoryServer),
    ],
)
def test_answers_are_as_described_to_the_last_field(stage: Stage, address: str, model: Any) -> None:
    client = stage.client(Scope.ADMINISTER)
    client.post(
        "/v1/applications", json={"application": "s3a://lake/pi.py", "priority": 3, "tags": ["a"], "webhooks": [HOOK]}
    )
    Lakes(stage.service.home).add(Lake("archive", ("http://store:1",), "archive", "environment"))
    body = client.get(address).json()
    read = model.model_validate(body).model_dump(mode="json")
    assert shape(read) == shape(body)


@pytest.mark.parametrize(
    ("told", "model"),
    [
        (TABLE.as_json(), shownplaces.Table),
        (Audit(BEGAN, "ada", "POST /v1/applications").to_json(), shownplaces.Audit),
        (SESSION.to_json(), shownplaces.Session),
    ],
)
def test_what_the_engine_tells_is_described_to_the_last_field(told: Any, model: Any) -> None:
    body = json.loads(json.dumps(told))
    read = model.model_validate(body).model_dump(mode="json")
    assert shape(read) == shape(body)


def shape(value: Any) -> Any:
    """The names of a body, without its values."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else None
