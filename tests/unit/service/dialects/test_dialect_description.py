"""The published description of these APIs is true to the last field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.interactive.history import Status
from penstock.model import Reason, State
from penstock.service.dialects import historyserver, shown
from tests.unit.service.dialects.dialect_bodies import recorded
from tests.unit.service.dialects.dialect_world import AT, World

V3 = "/v3/analytics_engines/team"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With one application that has failed."""
    world = World(tmp_path)
    client = world.named("administrator")
    client.post(f"{V3}/spark_applications", json=recorded("v3-quick-start"))
    client.post(f"{V3}/spark_applications", json=recorded("jobs-python"))
    client.put(f"{V3}/instance_home", json={"instance_id": "guid"})
    failed = Reason("driver_failed", "it raised an error", "mend it")
    world.records.become("app-1", state=State.FAILED, reason=failed, started_at=AT, ended_at=AT)
    return world


@pytest.mark.parametrize(
    ("address", "model"),
    [
        (f"{V3}/spark_applications", shown.SparkApplicationCollection),
        (f"{V3}/spark_applications/app-1", shown.SparkApplication),
        (f"{V3}/spark_applications/app-1/state", shown.SparkApplicationState),
        ("/ae/spark/v2/team/v2/jobs/app-1", shown.SparkJob),
        (V3, shown.SparkInstance),
        (f"{V3}/state", shown.SparkInstanceState),
        (f"{V3}/default_runtime", shown.SparkRuntime),
        (f"{V3}/current_resource_consumption", shown.SparkConsumption),
        (f"{V3}/resource_consumption_limits", shown.SparkLimits),
        (f"{V3}/log_forwarding_config", shown.LogForwarding),
        (f"{V3}/logging", shown.PlatformLogging),
    ],
)
def test_answers_are_as_described_to_the_last_field(world: World, address: str, model: Any) -> None:
    body = world.named("administrator").get(address).json()
    read = model.model_validate(body).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert set(names(read)) == set(names(body))


def test_the_history_servers_answer_is_as_described() -> None:
    body = historyserver.view(Status("lake", False, started_at=AT, ended_at=AT, idle_ends_at=AT))
    assert set(shown.SparkHistoryServer.model_validate(body).model_dump(exclude_unset=True)) == set(body)
    assert set(shown.SparkHistoryServer.model_fields) == set(body)


def test_every_answer_with_a_body_is_described(world: World) -> None:
    paths = world.named().get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        if path.startswith(("/v3", "/v4", "/ae")):
            for method, operation in methods.items():
                for status, answer in operation["responses"].items():
                    if status not in ("204", "default"):
                        schema = answer["content"]["application/json"]["schema"]
                        assert schema.keys() & {"$ref", "items", "additionalProperties"}, f"{method} {path} {status}"


def names(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield f"{place}.{name}"
            yield from names(part, f"{place}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from names(item, f"{place}[]")
