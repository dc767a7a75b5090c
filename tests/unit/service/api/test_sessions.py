"""`/v1/sessions`: the scopes for starting one, and for seeing its token."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.tokens import Scope
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, Reason, State
from tests.unit.service.fakes import Stage

TOKEN = "kept-from-everybody"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def started(stage: Stage, **body: Any) -> str:
    answer = stage.client(Scope.SUBMIT).post("/v1/sessions", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def listens(stage: Stage, session_id: str) -> None:
    stage.engine.submitted[session_id] = replace(stage.engine.get(session_id), state=State.RUNNING)
    stage.engine.private[session_id] = json.dumps({"port": 4711, "token": TOKEN})


def test_a_session_is_queued_as_an_application_of_its_instance(stage: Stage) -> None:
    session_id = started(stage, name="notebook", idle_seconds="10m", priority=5, size={"executors": 2})
    spec = stage.engine.get(session_id).spec
    assert (spec.name, spec.priority, spec.size.executors, spec.tags) == ("notebook", 5, 2, ("session",))
    assert stage.client(Scope.READ).get(f"/v1/sessions/{session_id}").json()["idle_seconds"] == 600
    assert stage.client(Scope.READ).get(f"/v1/applications/{session_id}").status_code == 200


def test_a_session_that_asks_for_no_size_gets_what_an_application_would(stage: Stage) -> None:
    """The cluster may run in pods, which the service's own machine does not see."""
    assert stage.engine.get(started(stage)).spec.size == stage.engine.usual_size()


def test_only_callers_who_may_run_code_get_the_sessions_token(stage: Stage) -> None:
    session_id = started(stage)
    listens(stage, session_id)
    path = f"/v1/sessions/{session_id}/address"
    assert stage.client(Scope.SUBMIT).get(path).json() == {"address": f"sc://localhost:4711/;token={TOKEN}"}
    assert stage.client(Scope.READ).get(path).status_code == 403
    assert stage.client(Scope.SUBMIT, "another").get(path).status_code == 404
    assert stage.client(None).get(path).status_code == 401


def test_an_address_with_a_token_is_stored_by_no_cache(stage: Stage) -> None:
    session_id = started(stage)
    listens(stage, session_id)
    answer = stage.client(Scope.SUBMIT).get(f"/v1/sessions/{session_id}/address")
    assert answer.headers["cache-control"] == "no-store"


def test_no_list_and_no_record_shows_the_token(stage: Stage) -> None:
    session_id = started(stage)
    listens(stage, session_id)
    reader = stage.client(Scope.ADMINISTER)
    for path in ("/v1/sessions", f"/v1/sessions/{session_id}", "/v1/applications", f"/v1/applications/{session_id}"):
        text = reader.get(path).text
        assert session_id in text and TOKEN not in text


def test_a_session_that_waits_for_room_has_no_address(stage: Stage) -> None:
    session_id = started(stage)
    answer = stage.client(Scope.SUBMIT).get(f"/v1/sessions/{session_id}/address")
    assert (answer.status_code, answer.json()["code"]) == (409, "state_error")


def test_nobody_starts_or_sees_sessions_in_an_instance_of_others(stage: Stage) -> None:
    session_id = started(stage)
    other = stage.client(Scope.SUBMIT, "another")
    assert other.post("/v1/sessions", json={"instance": "default"}).status_code == 403
    assert other.get("/v1/sessions").json() == {"items": []}
    assert other.post(f"/v1/sessions/{session_id}/stop").status_code == 404


def test_a_reader_starts_no_session(stage: Stage) -> None:
    assert stage.client(Scope.READ).post("/v1/sessions", json={}).status_code == 403


def test_an_ordinary_application_is_no_session(stage: Stage) -> None:
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
    plain = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", size, "a"))
    answer = stage.client(Scope.SUBMIT).get(f"/v1/sessions/{plain.id}")
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"idle_seconds": 0},
        {"idle_seconds": "30 fortnights"},
        {"settings": {"spark.connect.grpc.binding.address": "0.0.0.0"}},  # noqa: S104
        {"settings": {"spark.jars.packages": "org.example:anything:1"}},
        {"settings": {"spark.archives": "/etc/passwd"}},
        {"application": "s3a://lake/mine.py"},
        {"environment": {"PENSTOCK_SESSION_FILE": "/tmp/x"}},  # noqa: S108
    ],
)
def test_what_is_no_session_is_refused(stage: Stage, body: dict[str, Any]) -> None:
    assert stage.client(Scope.SUBMIT).post("/v1/sessions", json=body).status_code == 422
    assert stage.engine.submitted == {}


def test_a_session_can_be_run_again(stage: Stage) -> None:
    session_id = started(stage, name="notebook")
    again = stage.client(Scope.SUBMIT).post(f"/v1/applications/{session_id}/rerun")
    assert again.status_code == 202, again.text
    assert stage.client(Scope.READ).get(f"/v1/sessions/{again.json()['id']}").json()["name"] == "notebook"


def test_a_neighbour_s_many_sessions_hide_none_of_one_s_own(stage: Stage) -> None:
    own = started(stage)
    for _ in range(5):
        theirs = started(stage)
        found = stage.engine.get(theirs)
        stage.engine.submitted[theirs] = replace(found, spec=replace(found.spec, instance="another"))
    listed = stage.client(Scope.READ, "default").get("/v1/sessions", params={"limit": 2}).json()["items"]
    assert [session["id"] for session in listed] == [own]


def test_a_session_s_reason_names_no_directory_of_the_service(stage: Stage) -> None:
    session_id = started(stage)
    where = str(stage.service.home.root)
    reason = Reason("driver_failed", f"{where}/clusters/1/driver.log says why")
    stage.engine.submitted[session_id] = replace(stage.engine.get(session_id), state=State.FAILED, reason=reason)
    client = stage.client(Scope.READ)
    for answer in (client.get(f"/v1/sessions/{session_id}"), client.get("/v1/sessions", params={"ended": True})):
        assert where not in answer.text and "$PENSTOCK_HOME" in answer.text
