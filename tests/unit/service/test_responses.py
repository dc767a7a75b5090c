"""The published description is complete enough to write a client by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.catalog.tables import Column, Table
from penstock.engine.interactive.sessions import Session, SessionRequest
from penstock.engine.policy.scheduling import Instance, Quota
from penstock.engine.repository.audit import Audit
from penstock.engine.tokens import Scope, Token
from penstock.model import Application, Attempt, ClusterSize, Cost, ProcessSize, Reason, State
from penstock.service import responses
from tests.unit.service.fakes import BEGAN, Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
TABLE = Table("a", "b", "managed", "parquet", "s3a://lake/b", None, 1, 2, (Column("c", "int"),))
APPLICATION = Application(
    "app-1", SessionRequest(SIZE).specification(), State.ACCEPTED, submitted_at=BEGAN, reason=Reason("a", "b")
)


ATTEMPT = Attempt(1, BEGAN, None, BEGAN, 1, Reason("a", "b"), None, Cost(1.0, "EUR"))
QUOTA = Instance("team", quota=Quota(cores=1))
TOKEN = Token("t", "ada", {"team": Scope.READ}, "hash", BEGAN)


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
    ("value", "model"),
    [
        (TABLE.to_json(), responses.Table),
        (Audit(BEGAN, "ada", "POST /v1/applications").to_json(), responses.Audit),
        (Session(APPLICATION, None).to_json(), responses.Session),
        (APPLICATION.spec.to_json(), responses.Specification),
        (ATTEMPT.to_json(), responses.Attempt),
        (QUOTA.to_json()["quota"], responses.Quota),
        (TOKEN.to_json(), responses.Token),
    ],
)
def test_responses_have_all_fields_of_the_engines_values(value: Any, model: Any) -> None:
    body = json.loads(json.dumps(value))
    read = model.model_validate(body).model_dump(mode="json")
    assert shape(read) == shape(body)


def test_an_application_is_shown_with_all_that_the_engine_knows(stage: Stage) -> None:
    stage.engine.submitted["app-1"] = APPLICATION
    body = stage.client().get("/v1/applications/app-1").json()
    known = APPLICATION.to_json()
    assert shape({name: body[name] for name in known}) == shape(json.loads(json.dumps(known)))


def shape(value: Any) -> Any:
    """Return the names of a body, without its values."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else None
