"""`/v1/applications/{id}/ui/` and the history server's pages: who sees them, and of what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from penstock.clusters.base import WebInterface
from penstock.engine.application import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.engine.history import History
from penstock.lake.base import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.access import Scope
from penstock.service.proxy import Proxy
from penstock.service.routes import history as history_routes
from penstock.service.routes import ui
from tests.unit.service.fakes import Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)


class Page(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"<p>a page of Spark's</p>"


class Spark:
    """Answers every request, and remembers them; `unknown` answers so many with 404 first."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.unknown = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        self.unknown -= 1
        return httpx.Response(404 if self.unknown >= 0 else 200, stream=Page())


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def stage(tmp_path: Path, spark: Spark) -> Stage:
    stage = Stage(tmp_path)
    stage.app.state.proxy = Proxy(httpx.MockTransport(spark))
    return stage


def running(stage: Stage, *, interface: bool = True) -> str:
    application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", SIZE, "a", lake="embedded"))
    stage.engine.applications[application.id] = replace(application, state=State.RUNNING)
    if interface:
        stage.engine.interfaces[application.id] = WebInterface("127.0.0.1", 40404, key="k3y")
    return application.id


def test_who_sees_an_application_sees_its_pages(stage: Stage, spark: Spark) -> None:
    application_id = running(stage)
    path = f"/v1/applications/{application_id}/ui/stages/?id=1"
    assert stage.client(Scope.READ).get(path).text == "<p>a page of Spark's</p>"
    assert str(spark.asked[0].url) == "http://127.0.0.1:40404/stages/?id=1"
    assert stage.client(Scope.READ, "another").get(path).status_code == 404
    assert stage.client(None).get(path).status_code == 401
    assert len(spark.asked) == 1


def test_pages_that_are_opened_by_the_first_look_are_waited_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    application_id = running(stage)
    looks = iter([None, None, stage.engine.interfaces[application_id]])
    monkeypatch.setattr(stage.engine, "web_interface", lambda _: next(looks))
    assert stage.client(Scope.READ).get(f"/v1/applications/{application_id}/ui/").status_code == 200
    assert next(looks, None) is None


def test_the_driver_s_key_is_for_the_driver_alone(stage: Stage, spark: Spark) -> None:
    answer = stage.client(Scope.READ).get(f"/v1/applications/{running(stage)}/ui/jobs/")
    assert spark.asked[0].headers["x-penstock-key"] == "k3y"
    assert "k3y" not in answer.text + str(answer.headers)


def test_pages_of_a_driver_that_does_not_open_them_are_not_waited_for_without_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui, "_OPENING_SECONDS", 0.1)
    answer = stage.client(Scope.READ).get(f"/v1/applications/{running(stage, interface=False)}/ui/")
    assert answer.status_code == 409
    assert answer.json()["fix"] == "try again in a moment"


def test_a_job_is_ended_by_a_post_that_takes_the_right_to_submit_and_is_audited(stage: Stage, spark: Spark) -> None:
    path = f"/v1/applications/{running(stage)}/ui/jobs/job/kill/?id=1"
    assert stage.client(Scope.READ).post(path).status_code == 403
    assert spark.asked == []
    with stage.client(Scope.SUBMIT) as client:
        assert client.post(path).status_code == 200
    assert [(asked.method, asked.url.raw_path) for asked in spark.asked] == [("POST", b"/jobs/job/kill/?id=1")]
    assert [(action.split()[0], outcome) for _, action, _, outcome in stage.engine.audited][-1] == ("POST", "done")


@pytest.mark.parametrize("spelling", ["kill", "%6bill", "kill;a=b", "Kill", "/kill/"])
def test_looking_ends_nothing_however_it_is_spelled(stage: Stage, spark: Spark, spelling: str) -> None:
    path = f"/v1/applications/{running(stage)}/ui/jobs/job/{spelling}/?id=1"
    for client in (stage.client(Scope.READ), stage.client(Scope.ADMINISTER)):
        assert client.get(path).status_code == 405
        asks = client.get(path, headers={"Accept": "text/html"})
        assert asks.status_code == 200 and f'<form method="post" action="{path}">' in asks.text
    assert stage.client(Scope.READ).post(path).status_code == 403
    assert spark.asked == []


def test_the_page_that_asks_first_shows_nothing_of_the_address_as_markup(stage: Stage) -> None:
    path = f'/v1/applications/{running(stage)}/ui/kill/"><script>alert(1)</script>?"><script>'
    asks = stage.client(Scope.READ).get(path, headers={"Accept": "text/html"})
    assert asks.status_code == 200 and "<script" not in asks.text


def test_nothing_else_of_spark_s_is_posted_to(stage: Stage, spark: Spark) -> None:
    assert stage.client(Scope.ADMINISTER).post(f"/v1/applications/{running(stage)}/ui/jobs/").status_code == 405
    assert spark.asked == []


@pytest.mark.parametrize(("origin", "status"), [("http://testserver", 200), ("http://evil.example", 401), (None, 401)])
def test_a_browser_ends_a_job_only_from_a_page_of_this_service(stage: Stage, origin: str | None, status: int) -> None:
    root = f"/v1/applications/{running(stage)}/ui/"
    granted = stage.client(Scope.SUBMIT).post("/v1/browser-access", json={"path": root})
    browser = stage.client(None)
    browser.cookies.update(granted.cookies)
    headers = {"Origin": origin} if origin else {}
    assert browser.get(f"{root}jobs/").status_code == 200
    assert browser.post(f"{root}jobs/job/kill/?id=1", headers=headers).status_code == status
    # Leave to look at one application's pages is none to do anything else.
    assert browser.post("/v1/tokens", json={"name": "mine"}, headers=headers).status_code == 401


def test_an_application_that_wants_no_pages_has_none(stage: Stage) -> None:
    application_id = running(stage)
    known = stage.engine.get(application_id)
    spec = replace(known.spec, settings={"spark.ui.enabled": "false"})
    stage.engine.applications[application_id] = replace(known, spec=spec)
    answer = stage.client(Scope.READ).get(f"/v1/applications/{application_id}/ui/")
    assert answer.status_code == 404
    assert "spark.ui.enabled" in answer.json()["why"]
    assert stage.client(Scope.READ).get(f"/v1/applications/{application_id}").json()["ui"] is None


def test_of_an_application_that_has_ended_the_history_is_named(stage: Stage) -> None:
    application_id = running(stage, interface=False)
    ended = replace(stage.engine.get(application_id), state=State.FINISHED, spark_application_id="penstock-1-2")
    stage.engine.applications[application_id] = ended
    answer = stage.client(Scope.READ).get(f"/v1/applications/{application_id}/ui/")
    assert "/v1/spark-history/embedded/history/penstock-1-2/" in answer.json()["fix"]


@pytest.fixture
def history(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake, and a history server over it that listens."""
    Lakes(stage.service.home).add(
        Lake("lake", ("http://127.0.0.1:9",), "bucket", "file:lake"), Credentials("access", "secret")
    )
    monkeypatch.setattr(History, "look", lambda *_: ("127.0.0.1", 18080))


@pytest.mark.usefixtures("history")
def test_the_history_of_all_instances_takes_the_right_to_read_all(stage: Stage, spark: Spark) -> None:
    path = "/v1/spark-history/lake/history/penstock-1-2/jobs/"
    assert stage.client(Scope.READ).get(path).status_code == 200
    assert spark.asked[0].headers["x-forwarded-context"] == "/v1/spark-history/lake"
    assert stage.client(Scope.ADMINISTER, "one").get(path).status_code == 403


@pytest.mark.usefixtures("history")
def test_the_log_of_a_moment_ago_is_waited_for(stage: Stage, spark: Spark) -> None:
    spark.unknown = 1
    assert stage.client(Scope.READ).get("/v1/spark-history/lake/history/penstock-1-2/").status_code == 200
    assert len(spark.asked) == 2


@pytest.mark.usefixtures("history")
def test_a_log_that_does_not_come_is_told_by_the_server_s_own_page(
    stage: Stage, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_routes, "monotonic", iter((0.0, 29.0, 31.0)).__next__)
    monkeypatch.setattr(history_routes, "_NEW_LOG_LOOK_SECONDS", 0.0)
    spark.unknown = 1_000_000
    answer = stage.client(Scope.READ).get("/v1/spark-history/lake/history/penstock-1-2/")
    assert (answer.status_code, answer.text) == (404, "<p>a page of Spark's</p>")
    assert len(spark.asked) == 2


@pytest.mark.usefixtures("history")
def test_a_file_that_is_not_there_is_not_waited_for(stage: Stage, spark: Spark) -> None:
    spark.unknown = 1
    assert stage.client(Scope.READ).get("/v1/spark-history/lake/static/none.js").status_code == 404


@pytest.mark.parametrize("lake", ["no-lake", "..", "%2e%2e"])
@pytest.mark.usefixtures("history")
def test_what_is_no_lake_has_no_history(stage: Stage, spark: Spark, lake: str) -> None:
    assert stage.client(Scope.READ).get(f"/v1/spark-history/{lake}/").status_code in (400, 404)
    assert spark.asked == []


@pytest.mark.usefixtures("history")
def test_a_history_server_that_was_never_started_does_not_run(stage: Stage) -> None:
    shown = stage.client(Scope.READ).get("/v1/history").json()
    assert (shown["running"], shown["url"]) == (False, "/v1/spark-history/lake/")
    assert stage.client(Scope.READ).delete("/v1/history").status_code == 403
    assert stage.client(Scope.SUBMIT).delete("/v1/history").json()["running"] is False
