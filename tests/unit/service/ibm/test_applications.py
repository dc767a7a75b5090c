"""The dialects over HTTP: status codes, paging, idempotent stops, and secrets that no response has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.engine.repository.listing import Interval
from penstock.engine.tokens import Scope
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.model import State
from tests.unit.service.ibm.dialect_bodies import details, recorded
from tests.unit.service.ibm.dialect_world import AT, World

V3 = "/v3/analytics_engines/team"
V4 = "/v4/analytics_engines/team"
THEIRS = Credentials("THEIRS", "their-secret")
OLDER = "/ae/spark/v2/team/v2/jobs"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def submitted(world: World, count: int = 1) -> list[str]:
    client = world.named()
    return [client.post(f"{V3}/spark_applications", json=details()).json()["id"] for _ in range(count)]


@pytest.mark.parametrize(
    ("path", "body", "status", "answer"),
    [
        (f"{V3}/spark_applications", "v3-quick-start", 202, {"id": "app-1", "state": "accepted"}),
        (f"{V4}/spark_applications", "v4-volumes", 202, {"id": "app-1", "state": "accepted"}),
        (OLDER, "jobs-python", 201, {"id": "app-1", "job_state": "ACCEPTED", "state": "ACCEPTED"}),
        ("/ae/spark/v2/team/jobs", "jobs-python", 201, {"id": "app-1", "job_state": "ACCEPTED", "state": "ACCEPTED"}),
    ],
)
def test_each_dialect_accepts_its_recorded_body(
    world: World, path: str, body: str, status: int, answer: dict[str, str]
) -> None:
    given = world.named().post(path, json=recorded(body))
    assert (given.status_code, given.json()) == (status, answer)


def test_an_application_of_one_dialect_is_seen_in_all(world: World) -> None:
    client = world.named()
    client.post(OLDER, json=recorded("jobs-python"))
    for path in (f"{V3}/spark_applications/app-1", f"{V4}/spark_applications/app-1"):
        assert client.get(path).json()["application_details"]["application"] == "s3a://lake/wordcount.py"
    assert client.get(f"{OLDER}/app-1").json()["job_state"] == "ACCEPTED"
    assert [job["id"] for job in client.get(OLDER).json()] == ["app-1"]
    assert client.get(f"{V3}/spark_applications/app-1/state").json() == {"id": "app-1", "state": "accepted"}


def test_stopping_again_does_nothing_and_says_the_same(world: World) -> None:
    (running,) = submitted(world)
    client = world.named()
    assert client.delete(f"{V3}/spark_applications/{running}").status_code == 204
    world.records.become(running, state=State.STOPPED, ended_at=AT)
    for path in (f"{V3}/spark_applications", f"{V4}/spark_applications", OLDER):
        again = client.delete(f"{path}/{running}")
        assert (again.status_code, again.content) == (204, b"")
    assert world.records.stops == [running]


def test_pages_lead_to_each_other_with_their_filters(world: World) -> None:
    submitted(world, 5)
    client = world.named()
    first = client.get(f"{V3}/spark_applications", params={"limit": 2, "state": "accepted,running"}).json()
    assert [entry["id"] for entry in first["applications"]] == ["app-5", "app-4"]
    assert (first["limit"], "previous" in first) == (2, False)
    second = client.get(first["next"]["href"]).json()
    assert [entry["id"] for entry in second["applications"]] == ["app-3", "app-2"]
    assert "state=accepted" in second["next"]["href"]
    third = client.get(f"{V3}/spark_applications", params={"limit": 2, "start": second["next"]["start"]}).json()
    assert ([entry["id"] for entry in third["applications"]], "next" in third) == (["app-1"], False)
    assert client.get(third["previous"]["href"]).json()["applications"] == second["applications"]
    assert client.get(third["first"]["href"]).json()["applications"] == first["applications"]


def test_intervals_and_states_reach_the_engine(world: World) -> None:
    world.named().get(
        f"{V3}/spark_applications",
        params={"state": ["failed", "running"], "start_time_interval": "2026-11-21T12:00:00Z,2026-11-22T00:00:00Z"},
    )
    (query,) = world.records.queries
    assert set(query.states) == {State.FAILED, State.RUNNING, State.STOPPING}
    assert (query.started.after, query.submitted, query.ended) == (AT, Interval(), Interval())
    assert query.instances == ("team",)


def test_a_word_for_what_never_happens_here_finds_nothing(world: World) -> None:
    submitted(world)
    found = world.named().get(f"{V3}/spark_applications", params={"state": "ops_terminated"}).json()
    assert found["applications"] == []


def test_an_error_is_a_problem_and_ibms_error_at_once(world: World) -> None:
    given = world.named().get(f"{V3}/spark_applications/app-9")
    body = given.json()
    assert (given.status_code, given.headers["content-type"]) == (404, "application/problem+json")
    assert (body["code"], body["status"]) == ("not_found", 404)
    assert body["errors"] == [{"code": "not_found", "message": body["problem"], "more_info": body["fix"]}]
    assert body["fix"]


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        ("anonymous", "GET", V3, 401),
        ("reader", "POST", f"{V3}/spark_applications", 403),
        ("submitter", "GET", "/v3/analytics_engines/other", 404),
        ("submitter", "PUT", f"{V3}/default_configs", 403),
        ("submitter", "POST", "/ae/spark/v2/other/v2/jobs", 404),
        ("administrator", "GET", "/v3/analytics_engines/nowhere", 404),
    ],
)
def test_a_forbidden_request_gets_the_same_form_of_error(
    world: World, token: str, method: str, path: str, status: int
) -> None:
    body: dict[str, Any] = recorded("jobs-python") if "jobs" in path else details()
    given = world.named(token).request(method, path, json=None if method == "GET" else body)
    assert given.status_code == status
    assert given.json()["errors"][0]["message"]


def test_an_application_of_another_instance_is_not_found(world: World) -> None:
    (known,) = submitted(world)
    administrator = world.named("administrator")
    assert administrator.get(f"/v3/analytics_engines/other/spark_applications/{known}").status_code == 404
    assert administrator.delete(f"/v3/analytics_engines/other/spark_applications/{known}").status_code == 404
    assert administrator.get(f"{V3}/spark_applications/{known[:-1]}").status_code == 404


def test_a_repeated_submission_with_its_key_is_the_first(world: World) -> None:
    client = world.named()
    answers = [
        client.post(f"{V3}/spark_applications", json=details(), headers={"Idempotency-Key": "once"}) for _ in range(2)
    ]
    assert [answer.json()["id"] for answer in answers] == ["app-1", "app-1"]


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_a_body_is_json_whatever_curl_called_it(world: World, kind: str) -> None:
    given = world.named().post(
        f"{V3}/spark_applications",
        content=b'{"application_details": {"application": "s3a://lake/a.py"}}',
        headers={"Content-Type": kind},
    )
    assert given.status_code == 202


@pytest.mark.parametrize("application", ["/etc/passwd.py", "http://169.254.169.254/a.jar", "file:///etc/passwd"])
def test_only_what_is_in_a_lake_is_run(world: World, application: str) -> None:
    given = world.named().post(f"{V3}/spark_applications", json=details(application=application))
    assert (given.status_code, world.records.submitted) == (400, {})


def with_keys(access: str, secret: str) -> dict[str, Any]:
    return details(
        application="cos://lake.svc/a.py",
        conf={
            "spark.hadoop.fs.cos.svc.endpoint": "127.0.0.1:9",
            "spark.hadoop.fs.cos.svc.access.key": access,
            "spark.hadoop.fs.cos.svc.secret.key": secret,
        },
    )


def test_the_lakes_own_keys_in_a_body_are_dropped(world: World) -> None:
    client = world.named()
    given = client.post(f"{V3}/spark_applications", json=with_keys("OWN-ACCESS", "own-secret"))
    assert given.status_code == 202
    assert world.records.submitted["app-1"].spec.lake == "lake"
    for path in (f"{V3}/spark_applications/app-1", f"{V3}/spark_applications", f"{OLDER}/app-1"):
        assert "own-secret" not in client.get(path).text
    assert "own-secret" not in str(world.records.submitted)


@pytest.fixture
def theirs(world: World) -> Lake:
    """A lake made from the keys in a body of the instance “other”."""
    return Lakes(world.home).add(registry.credential_scoped(world.lake, THEIRS, "other"), THEIRS)


def test_what_keys_in_a_body_opened_is_listed_to_its_own_instance_only(world: World, theirs: Lake) -> None:
    def listed(client: TestClient) -> list[str]:
        return [lake["name"] for lake in client.get("/v1/lakes").json()["items"]]

    assert listed(world.named("reader")) == ["lake"]
    assert listed(world.client(Scope.READ, "other")) == ["lake", theirs.name]
    assert listed(world.named("administrator")) == ["lake", theirs.name]


@pytest.mark.parametrize("original_is_there", [True, False])
def test_a_body_without_keys_is_not_opened_by_anothers(world: World, theirs: Lake, original_is_there: bool) -> None:
    if not original_is_there:
        Lakes(world.home).add(Lake("elsewhere", ("http://127.0.0.1:8",), "elsewhere", "environment"))
        Lakes(world.home).remove("lake")
    for conf in (
        {},
        {"spark.hadoop.fs.cos.lake.endpoint": "127.0.0.1:9"},
        {f"spark.hadoop.fs.cos.{theirs.name}.endpoint": "127.0.0.1:9"},
    ):
        for service in ("lake", theirs.name):
            body = details(application=f"cos://lake.{service}/a.py", conf=conf)
            world.named().post(f"{V3}/spark_applications", json=body)
    named = {application.spec.lake for application in world.records.submitted.values()}
    assert theirs.name not in named
    assert named


def test_no_file_is_brought_or_looked_for_with_anothers_keys(world: World, theirs: Lake) -> None:
    for lake in (theirs.name, "nobodys"):
        client, address = world.named(), f"/v1/files/{'0' * 64}/a.py?lake={lake}"
        world.records.store = Lakes(world.home).get  # type: ignore[attr-defined]
        given = [client.get(address), client.put(address, content=b"x")]
        assert given[0].status_code == 404
        assert given[1].status_code == (404 if lake == theirs.name else 422)


def test_keys_that_do_not_open_the_store_are_neither_kept_nor_shown(world: World) -> None:
    given = world.named().post(f"{V3}/spark_applications", json=with_keys("ACCESS", "another-secret"))
    assert given.status_code == 502  # nothing listens there
    assert "another-secret" not in given.text
    assert world.records.submitted == {}
    assert not [path for path in world.home.root.rglob("*") if path.is_file() and "another" in path.read_text()]


def test_a_wrong_body_is_described_without_repeating_it(world: World) -> None:
    body = {**with_keys("ACCESS", "another-secret"), "another-secret-field": {"x": "another-secret"}}
    body["application_details"]["conf"]["spark.hadoop.fs.cos.svc.secret.key"] = ["another-secret"]
    given = world.named().post(f"{V3}/spark_applications", json=body)
    assert given.status_code == 400
    assert '"another-secret"' not in given.text
    assert "application_details.conf" in given.text


def test_before_there_is_a_lake_a_submission_is_the_embedded_ones_and_starts_nothing(world: World) -> None:
    Lakes(world.home).remove("lake")
    given = world.named().post(f"{V3}/spark_applications", json=details(application="cos://penstock.any/a.py"))
    assert given.status_code == 202
    assert world.records.submitted["app-1"].spec.lake == "embedded"
    assert not (world.home.lake / "embedded").exists()
