"""Iceberg's REST catalog over HTTP: whose instance a client works in, and errors in the protocol's form."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.tokens import Caller, Scope
from penstock.service.guards import CATALOG, ConcurrencyLimits
from penstock.service.iceberg.catalog import Answer, NoSuchNamespace, Request, error_answer
from tests.unit.service.fakes import Stage


class FakeFront:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Request]] = []
        self.tokens: set[str] = set()

    def configuration(self, instance: str) -> Answer:
        return Answer(200, json.dumps({"overrides": {"prefix": instance}}).encode())

    def answer(self, caller: Caller, instance: str, request: Request) -> Answer:
        self.seen.append((caller.name, instance, request))
        self.tokens.add(caller.token_id)
        if request.path[-1] == "hidden":
            raise NoSuchNamespace("hidden")
        if request.path[-1] == "busy":
            return error_answer(503, "ServiceUnavailableException", "2 tables are being purged")
        return Answer(204)

    def close(self) -> None:
        pass


@pytest.fixture
def front(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFront]:
    fake = FakeFront()
    monkeypatch.setattr(stage.service, "iceberg", fake)
    yield fake


@pytest.mark.usefixtures("front")
def test_a_client_works_in_the_instance_that_it_names_or_has(stage: Stage) -> None:
    def prefix(*instances: str, **query: str) -> str:
        answer = stage.client(Scope.READ, *instances).get("/iceberg/v1/config", params=query)
        return str(answer.json()["overrides"]["prefix"])

    assert prefix("team-a") == "team-a"
    assert prefix("team-a", "team-b", warehouse="team-b") == "team-b"
    assert prefix() == "default"


def test_another_instance_is_refused_in_the_protocols_form(stage: Stage, front: FakeFront) -> None:
    client = stage.client(Scope.READ, "team-a")
    for path in ("config?warehouse=team-b", "team-b/namespaces"):
        answer = client.get(f"/iceberg/v1/{path}")
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
    assert not front.seen


def test_a_request_without_a_token_is_refused_in_the_protocols_form(stage: Stage, front: FakeFront) -> None:
    answer = stage.client(None).post("/iceberg/v1/team-a/namespaces", json={"namespace": ["x"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, 401)
    assert not front.seen


def test_a_path_is_split_before_it_is_decoded(stage: Stage, front: FakeFront) -> None:
    client = stage.client(Scope.READ, "team-a")
    body = b'{"a":  1}'
    answer = client.post("/iceberg/v1/team-a/namespaces/x/tables/a%2Fb?purgeRequested=true", content=body)
    assert answer.status_code == 204
    ((_, instance, request),) = front.seen
    assert (instance, request.path) == ("team-a", ("namespaces", "x", "tables", "a/b"))
    assert (dict(request.query), request.body) == ({"purgeRequested": "true"}, body)


@pytest.mark.usefixtures("front")
def test_a_hidden_namespace_is_answered_as_a_missing_one(stage: Stage) -> None:
    answer = stage.client().get("/iceberg/v1/default/namespaces/hidden")
    assert answer.json() == {
        "error": {"message": "Namespace does not exist: hidden", "type": "NoSuchNamespaceException", "code": 404}
    }


def test_requests_of_a_token_beyond_its_limit_are_refused_for_a_moment(stage: Stage, front: FakeFront) -> None:
    client = stage.client(Scope.READ, "team-a")
    client.get("/iceberg/v1/team-a/namespaces").raise_for_status()
    (token_id,) = front.tokens
    with contextlib.ExitStack() as held:
        for _ in range(ConcurrencyLimits().catalog_per_token):
            held.enter_context(stage.service.request_counts.counting(CATALOG, token_id))
        for path in ("config", "team-a/namespaces"):
            answer = client.get(f"/iceberg/v1/{path}")
            assert (answer.status_code, answer.json()["error"]["type"]) == (429, "TooManyRequestsException")
            assert int(answer.headers["Retry-After"]) > 0
    assert client.get("/iceberg/v1/team-a/namespaces").status_code == 204


def test_two_tokens_cannot_occupy_the_threads_of_the_catalogs_process() -> None:
    source = Path(__file__).parents[4] / "jvm/catalog/src/main/scala/io/penstock/catalog/IcebergService.scala"
    found = re.search(r"val Threads = (\d+)", source.read_text("utf-8"))
    assert found is not None
    assert 2 * ConcurrencyLimits().catalog_per_token < int(found[1])


@pytest.mark.usefixtures("front")
def test_a_busy_catalogs_refusal_says_when_to_try_again(stage: Stage) -> None:
    answer = stage.client().delete("/iceberg/v1/default/namespaces/busy")
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
