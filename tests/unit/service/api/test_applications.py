"""The native API over an engine in memory: requests, responses, and visibility."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.clusters.backend import Observation, Phase
from penstock.engine.repository.listing import Interval, Page, Query
from penstock.engine.tokens import Scope
from penstock.errors import MissingRequirement
from penstock.model import Reason, State
from tests.unit.service.fakes import Stage

BODY: dict[str, Any] = {"application": "s3a://lake/jobs/pi.py"}


def submit(stage: Stage, **more: Any) -> dict[str, Any]:
    answer = stage.client().post("/v1/applications", json={**BODY, **more})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_a_submission_is_accepted_and_says_where_it_is(stage: Stage) -> None:
    answer = stage.client().post("/v1/applications", json=BODY)
    assert answer.status_code == 202
    assert answer.headers["location"] == "/v1/applications/app-1"
    assert (answer.json()["state"], answer.json()["name"]) == ("accepted", "pi.py")


def test_sizes_are_taken_as_the_command_line_takes_them_and_as_they_are_shown(stage: Stage) -> None:
    size = {"driver": {"memory": "2g"}, "executor": {"cores": 3, "memory_bytes": 1 << 30}, "executors": 2}
    first = submit(stage, size=size)["spec"]["size"]
    assert first["driver"]["memory_bytes"] == 2 << 30
    assert first["executor"] == {"cores": 3, "memory_bytes": 1 << 30}
    assert submit(stage, size=first)["spec"]["size"] == first


def test_an_engine_of_one_process_has_the_size_of_an_executor_by_default(stage: Stage) -> None:
    usual = submit(stage)["spec"]["size"]
    shown = submit(stage, application="duckdb-internal", arguments=["--limit", "9"])
    assert shown["spec"]["size"]["executors"] == 0
    assert shown["spec"]["size"]["driver"] == usual["executor"]


def test_a_time_limit_may_have_a_unit(stage: Stage) -> None:
    assert submit(stage, time_limit_seconds="15m")["spec"]["time_limit_seconds"] == 900


def test_a_misspelt_field_is_refused_by_its_name_and_not_its_content(stage: Stage) -> None:
    answer = stage.client().post("/v1/applications", json={**BODY, "sise": {"secret": "hunter2"}})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"at": "sise", "problem": "Extra inputs are not permitted"}]
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    "address", ["/etc/passwd", "file:///etc/passwd", "http://169.254.169.254/x.py", "s3a://lake/../x.py", "x.py"]
)
def test_no_file_but_one_in_a_lake_is_taken(stage: Stage, address: str) -> None:
    for body in ({"application": address}, {**BODY, "jars": [address]}, {**BODY, "settings": {"spark.files": address}}):
        answer = stage.client().post("/v1/applications", json=body)
        assert answer.status_code == 422, body
        assert "not in a lake" in answer.json()["problem"]
    assert stage.engine.submitted == {}


def test_an_idempotency_key_submits_once(stage: Stage) -> None:
    client = stage.client()
    answers = [client.post("/v1/applications", json=BODY, headers={"Idempotency-Key": "k1"}) for _ in range(2)]
    assert [answer.json()["id"] for answer in answers] == ["app-1", "app-1"]


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201])
def test_an_idempotency_key_that_no_client_means_is_refused(stage: Stage, key: str) -> None:
    answer = stage.client().post("/v1/applications", json=BODY, headers={"Idempotency-Key": key})
    assert answer.status_code == 422


def test_warnings_come_with_the_submission(stage: Stage) -> None:
    assert submit(stage, settings={"spark.odd": "1"})["warnings"] == ["spark.odd is unusual"]


def test_a_list_comes_in_pages(stage: Stage) -> None:
    for _ in range(3):
        submit(stage)
    found = stage.client().get("/v1/applications", params={"limit": 2}).json()
    assert [item["id"] for item in found["items"]] == ["app-3", "app-2"]
    assert found["next"] == "more"


@pytest.mark.parametrize(
    ("instances", "found"), [((), "default"), (("team-a",), "team-a"), (("team-a", "default"), "default")]
)
def test_a_submission_that_names_no_instance_goes_to_the_only_one_of_its_token(
    stage: Stage, instances: tuple[str, ...], found: str
) -> None:
    stage.client().put("/v1/instances/team-a", json={})
    client = stage.client(Scope.SUBMIT, *instances)
    for path, body in (("/v1/applications", BODY), ("/v1/sessions", {})):
        answer = client.post(path, json=body)
        assert answer.status_code == 202, answer.text
        assert stage.engine.get(answer.json()["id"]).spec.instance == found


def test_an_instance_a_token_is_not_for_does_not_exist_for_it(stage: Stage) -> None:
    admin = stage.client()
    admin.put("/v1/instances/a", json={})
    submit(stage, instance="a")
    submit(stage)
    other = stage.client(Scope.SUBMIT, "default")
    assert [item["id"] for item in other.get("/v1/applications").json()["items"]] == ["app-2"]
    assert other.get("/v1/applications", params={"instance": "a"}).json()["items"] == []
    hidden, missing = (other.get(f"/v1/applications/{name}").json() for name in ("app-1", "app-9"))
    assert (hidden["status"], hidden["code"]) == (missing["status"], missing["code"]) == (404, "not_found")
    assert other.post("/v1/applications/app-1/stop").status_code == 404
    assert other.get("/v1/applications/app-1/logs/driver.log").status_code == 404
    assert other.post("/v1/applications", json={**BODY, "instance": "a"}).status_code == 403
    assert [item["name"] for item in other.get("/v1/instances").json()["items"]] == ["default"]
    assert [item["id"] for item in other.get("/v1/queue").json()["items"]] == ["app-2"]


def test_the_beginning_of_several_ids_tells_them_only_to_who_sees_all(stage: Stage) -> None:
    submit(stage)
    assert "app-1" in stage.client(Scope.READ).get("/v1/applications/app-").json()["why"]
    hidden = stage.client(Scope.READ, "other").get("/v1/applications/app-")
    assert hidden.status_code == 404
    assert "app-1" not in hidden.text


def test_who_may_only_read_changes_nothing(stage: Stage) -> None:
    submit(stage)
    reader = stage.client(Scope.READ)
    assert reader.get("/v1/applications/app-1").status_code == 200
    for method, address in (
        ("POST", "/v1/applications/app-1/stop"),
        ("POST", "/v1/applications/app-1/rerun"),
        ("PUT", "/v1/instances/a"),
        ("DELETE", "/v1/instances/default"),
        ("GET", "/v1/tokens"),
        ("GET", "/v1/audit"),
    ):
        assert reader.request(method, address, json={} if method == "PUT" else None).status_code == 403, address
    assert reader.post("/v1/applications", json=BODY).status_code == 403


def test_without_a_token_there_is_nothing_below_v1(stage: Stage) -> None:
    anonymous = stage.client(None)
    described = anonymous.get("/openapi.json").json()
    calls = [(method, path) for path, methods in described["paths"].items() for method in methods]
    guarded = [(method, path) for method, path in calls if path.startswith("/v1") or path == "/metrics"]
    assert len(guarded) > 20
    for method, path in guarded:
        answer = anonymous.request(method, path.replace("{", "").replace("}", ""), json={})
        assert answer.status_code in (401, 422), (method, path, answer.text)
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_stop_may_be_repeated(stage: Stage) -> None:
    submit(stage)
    client = stage.client()
    for _ in range(2):
        answer = client.post("/v1/applications/app-1/stop")
        assert (answer.status_code, answer.json()["state"]) == (202, "stopped")


def test_run_again_it_is_a_new_one(stage: Stage) -> None:
    first = submit(stage, arguments=["1"])
    again = stage.client().post(f"/v1/applications/{first['id']}/rerun").json()
    assert (again["id"], again["spec"]["arguments"]) == ("app-2", ["1"])


def test_a_list_is_of_the_time_that_was_asked_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Query] = []
    monkeypatch.setattr(stage.engine, "page", lambda query: asked.append(query) or Page([]))
    noon, one = "2026-11-21T12:00:00", "2026-11-21T13:00:00Z"
    stage.client().get("/v1/applications", params={"submitted_after": noon, "ended_after": noon, "ended_before": one})
    at = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    assert asked[0].submitted == Interval(at, None)
    assert asked[0].ended == Interval(at, at + timedelta(hours=1))
    assert asked[0].started == Interval()


def test_deliveries_are_shown_to_callers_who_see_the_application(stage: Stage) -> None:
    submit(stage, webhooks=["https://hooks.example/1"])
    (sent,) = stage.client(Scope.READ).get("/v1/applications/app-1/deliveries").json()["items"]
    assert (sent["url"], sent["tries"], sent["problem"]) == ("https://hooks.example/1", 2, "it answered 500")
    assert (sent["due_at"], sent["delivered_at"]) == ("2026-11-21T12:00:10+00:00", None)
    assert stage.client(Scope.READ, "another").get("/v1/applications/app-1/deliveries").status_code == 404


def test_progress_and_the_live_interface_are_shown_while_it_runs(stage: Stage) -> None:
    submit(stage)
    stage.engine.seen = Observation(Phase.RUNNING, ui_url="http://127.0.0.1:4040", progress={"tasks_done": 3})
    stage.engine.submitted["app-1"] = replace(stage.engine.get("app-1"), state=State.RUNNING)
    shown = stage.client().get("/v1/applications/app-1").json()
    assert (shown["progress"], shown["ui"]) == ({"tasks_done": 3}, "/v1/applications/app-1/ui")
    assert "4040" not in str(shown)
    stage.engine.end("app-1")
    ended = stage.client().get("/v1/applications/app-1/metrics").json()
    assert (ended["progress"], ended["summary"]) == (None, {"task_ms": 5})


def test_waiting_ends_with_the_application_or_with_the_time(stage: Stage) -> None:
    submit(stage)
    client = stage.client()
    assert client.get("/v1/applications/app-1/wait", params={"timeout": 0.01}).json()["state"] == "accepted"
    stage.engine.end("app-1", State.FAILED)
    assert client.get("/v1/applications/app-1/wait").json()["state"] == "failed"


def test_a_log_is_read_whole_from_a_byte_or_by_its_last_lines(stage: Stage) -> None:
    submit(stage)
    stage.engine.logs["app-1", "driver.log"] = b"one\ntwo\nthree\n"
    log, client = "/v1/applications/app-1/logs/driver.log", stage.client()
    assert client.get(log).text == "one\ntwo\nthree\n"
    assert client.get(log, params={"start": 4}).text == "two\nthree\n"
    last = client.get(log, params={"tail": 1})
    assert (last.text, last.headers["penstock-log-start"]) == ("three\n", "8")
    stage.engine.end("app-1")
    assert client.get(log, params={"tail": 2, "follow": True}).text == "two\nthree\n"
    assert client.get("/v1/applications/app-1/logs/driver.err").status_code == 404


@pytest.mark.parametrize("name", ["..%2F..%2Fprivate%2Fplan.json", "a/../../x", "%2Fetc%2Fpasswd", "events/..%2F.."])
def test_no_name_leads_out_of_an_applications_artifacts(stage: Stage, name: str) -> None:
    submit(stage)
    answer = stage.client().get(f"/v1/applications/app-1/logs/{name}")
    assert answer.status_code in (404, 400), answer.text


def test_a_token_is_made_shown_once_rotated_and_revoked(stage: Stage) -> None:
    admin = stage.client()
    made = admin.post("/v1/tokens", json={"name": "ci", "scopes": ["read", "submit"], "expires_in": "30d"}).json()
    listed = next(item for item in admin.get("/v1/tokens").json()["items"] if item["id"] == made["id"])
    assert "token" not in listed
    assert (listed["scopes"], listed["instances"]) == (["submit"], None)

    def status(text: str) -> int:
        return stage.client(None).get("/v1/self", headers={"Authorization": f"Bearer {text}"}).status_code

    assert status(made["token"]) == 200
    rotated = admin.post(f"/v1/tokens/{made['id']}/rotate").json()
    assert (status(made["token"]), status(rotated["token"])) == (401, 200)
    assert admin.delete(f"/v1/tokens/{made['id']}").status_code == 204
    assert status(rotated["token"]) == 401


def test_an_administrator_of_one_instance_makes_no_tokens(stage: Stage) -> None:
    of_one = stage.client(Scope.ADMINISTER, "default")
    assert of_one.post("/v1/tokens", json={"name": "mine", "scopes": ["administer"]}).status_code == 403


def test_what_may_change_something_is_audited_with_its_outcome(stage: Stage) -> None:
    submit(stage)
    stage.client(Scope.READ).post("/v1/applications/app-1/stop")
    stage.client(None).post("/v1/applications/app-1/stop")
    stage.client().get("/v1/applications")
    with stage.client():  # the shutdown waits for unwritten entries
        pass
    assert stage.engine.audited == [
        ("the administer", "POST /v1/applications", "app-1", "done"),
        ("the read", "POST /v1/applications/{application_id}/stop", "app-1", "refused"),
    ]


def test_quotas_are_set_and_shown(stage: Stage) -> None:
    admin = stage.client()
    put = admin.put("/v1/instances/team", json={"weight": 2, "quota": {"running": 3, "memory_bytes": "4g"}})
    assert put.json()["quota"] == {"cores": None, "memory_bytes": 4 << 30, "running": 3, "waiting": None}
    assert admin.get("/v1/instances/team").json()["weight"] == 2
    assert put.json()["engine"] is None
    assert admin.put("/v1/instances/team", json={"engine": "sail"}).json()["engine"] == "sail"
    assert admin.put("/v1/instances/team", json={"engine": "impala"}).status_code == 422
    assert admin.put("/v1/instances/team", json={"weight": 3}).json()["engine"] == "sail"
    assert admin.put("/v1/instances/bad name", json={}).status_code == 422
    assert admin.delete("/v1/instances/team").status_code == 204
    assert admin.get("/v1/instances/team").status_code == 404


def test_readiness_ends_before_the_service_does(stage: Stage) -> None:
    anonymous = stage.client(None)
    assert anonymous.get("/health/ready").status_code == 200
    stage.service.closing.set()
    assert anonymous.get("/health/ready").status_code == 503
    assert anonymous.get("/health/live").status_code == 200


def test_metrics_count_routes_and_never_addresses_nor_methods_that_a_client_made_up(stage: Stage) -> None:
    client = stage.client()
    for number in range(3):
        client.get(f"/v1/applications/none-{number}")
    text = client.get("/metrics").text
    assert (
        'penstock_http_requests_total{method="GET",route="/v1/applications/{application_id}",status="404"} 3.0' in text
    )
    assert "none-1" not in text
    for number in range(3):
        stage.client(None).request(f"MADE-UP-{number}", "/v1/applications")
    text = client.get("/metrics").text
    assert "MADE-UP" not in text and 'method="other"' in text
    assert 'penstock_applications{instance="default",state="running"} 2.0' in text


def test_each_attempts_log_begins_anew_and_says_whose_it_is(stage: Stage) -> None:
    submit(stage)
    accepted = stage.engine.submitted["app-1"]
    stage.engine.submitted["app-1"] = replace(accepted, attempt=2, state=State.RUNNING)
    stage.engine.logs["app-1", "attempts/1/driver.log"] = b"first one\n"
    stage.engine.logs["app-1", "driver.log"] = b"second\n"
    log, client = "/v1/applications/app-1/logs/driver.log", stage.client()
    # A client with seven bytes of the first attempt's log gets the rest of it, whatever the length of the next one's.
    broken_off = client.get(log, params={"start": 6, "attempt": 1, "follow": True})
    assert (broken_off.text, broken_off.headers["Penstock-Log-Attempt"]) == ("one\n", "1")
    now = client.get(log)
    assert (now.text, now.headers["Penstock-Log-Attempt"]) == ("second\n", "2")
    named = client.get("/v1/applications/app-1/logs/attempts/1/driver.log")
    assert (named.text, named.headers.get("Penstock-Log-Attempt")) == ("first one\n", None)
    assert client.get(log, params={"attempt": 3}).status_code == 404


def test_logs_are_listed_with_their_lengths_those_nobody_has_written_to_yet_without(stage: Stage) -> None:
    submit(stage)
    stage.engine.logs["app-1", "driver.log"] = b"one\n"
    listed = {item["name"]: item["bytes"] for item in stage.client().get("/v1/applications/app-1/logs").json()["items"]}
    assert listed == {"driver.err": None, "driver.log": 4, "driver.out": None, "executor-1.log": None}
    stage.engine.end("app-1")
    assert stage.client().get("/v1/applications/app-1/logs").json()["items"] == [{"name": "driver.log", "bytes": 4}]


def test_paths_of_the_services_machine_are_not_disclosed(stage: Stage) -> None:
    submit(stage)
    place = f"{stage.engine.home.root}/applications/app-1"
    reason = Reason("missing_requirement", f"{place} cannot be used", f"ls -l '{place}'")
    failed = replace(stage.engine.submitted["app-1"], state=State.FAILED, reason=reason)
    stage.engine.submitted["app-1"] = replace(failed, summary={"artefacts": f"file://{place}", "task_ms": 1})
    shown = stage.client().get("/v1/applications/app-1").json()
    assert shown["reason"]["fix"] == "ls -l '$PENSTOCK_HOME/applications/app-1'"
    assert shown["summary"] == {"artefacts": "file://$PENSTOCK_HOME/applications/app-1", "task_ms": 1}
    assert str(stage.engine.home.root) not in stage.client().get("/v1/applications").text


def test_errors_do_not_tell_it_either(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    home = stage.engine.home.root

    def full(*_: object) -> None:
        raise MissingRequirement(
            "The disk is full",
            why=f"No space left: {home}/database",
            fix=f"df -h '{home.parent}'; {sys.prefix}/bin/pip",
        )

    monkeypatch.setattr(stage.engine, "enqueue", full)
    for address in ("/v1/applications", "/v3/analytics_engines/default/spark_applications"):
        body = {"application_details": BODY} if "v3" in address else BODY
        answer = stage.client().post(address, json=body)
        assert answer.status_code == 503, answer.text
        assert answer.json()["why"] == "No space left: $PENSTOCK_HOME/database"
        assert answer.json()["fix"] == "df -h '$PENSTOCK_HOME/..'; PYTHON/bin/pip"
        assert str(home.parent) not in answer.text


def test_the_secret_of_an_instance_s_webhooks_is_shown_to_its_submitters_alone(stage: Stage) -> None:
    path = "/v1/instances/default/webhook-key"
    key = stage.client(Scope.SUBMIT, "default").get(path).json()["key"]
    assert key.startswith("whsec_")
    assert stage.client(Scope.READ, "default").get(path).status_code == 403
    assert stage.client(Scope.SUBMIT, "another").get(path).status_code == 404
