"""Spark's pages at their own origin, live and from the history: visibility, and read-only access."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from penstock.clusters.backend import WebInterface
from penstock.engine.interactive.history import HistoryServers
from penstock.engine.policy.scheduling import Instance
from penstock.engine.tokens import Scope
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.service.app import ByPort
from penstock.service.spark_ui import pages as spark_pages
from penstock.service.spark_ui.access import Proxy, SparkOrigin
from tests.unit.service.fakes import Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)


class Page(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"<p>a page of Spark's</p>"


class Spark:
    """A Spark server that records its requests, and answers the first `unknown` ones with 404."""

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
    stage.spark_app.state.proxy = Proxy(httpx.MockTransport(spark))
    return stage


def running(stage: Stage, *, interface: bool = True, instance: str = "default") -> str:
    stage.engine.queues.put(Instance(instance))
    spec = ApplicationSpec("s3a://lake/a.py", SIZE, "a", lake="lake", instance=instance)
    application = stage.engine.enqueue(spec)
    stage.engine.submitted[application.id] = replace(application, state=State.RUNNING)
    if interface:
        stage.engine.interfaces[application.id] = WebInterface("127.0.0.1", 40404, key="k3y")
    return application.id


def ended(stage: Stage, spark_application_id: str | None = "penstock-1-2") -> str:
    application_id = running(stage, interface=False)
    known = stage.engine.get(application_id)
    ended = replace(known, state=State.FINISHED, spark_application_id=spark_application_id)
    stage.engine.submitted[application_id] = ended
    return application_id


def way(application_id: str) -> str:
    return f"/v1/applications/{application_id}/ui"


def test_who_sees_an_application_sees_its_pages(stage: Stage, spark: Spark) -> None:
    application_id = running(stage)
    pages = f"/applications/{application_id}/ui/stages/?id=1"
    assert stage.looking(way(application_id)).get(pages).text == "<p>a page of Spark's</p>"
    assert str(spark.asked[0].url) == "http://127.0.0.1:40404/stages/?id=1"
    assert spark.asked[0].headers["x-forwarded-context"] == f"/applications/{application_id}/ui"
    assert stage.client(Scope.READ, "another").post(way(application_id)).status_code == 404
    assert stage.client(None).post(way(application_id)).status_code == 401
    assert stage.browser().get(pages).status_code == 401
    assert len(spark.asked) == 1


def test_the_console_s_origin_shows_none_of_sparks_pages(stage: Stage, spark: Spark) -> None:
    application_id = running(stage)
    client = stage.client(Scope.ADMINISTER)
    for path in (f"{way(application_id)}/", f"{way(application_id)}/jobs/", "/v1/spark-history/lake/"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["why"]) == (
            404,
            "they run users' code, and have an origin of their own",
        )
    assert client.get(f"/applications/{application_id}/ui/").status_code == 404
    assert client.post(f"{way(application_id)}/jobs/job/kill/?id=1").status_code == 405
    # Users may have bookmarked the address, and IBM's clients show it.
    moved = client.get(f"{way(application_id)}/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert moved.headers["location"] == f"/#/application/{application_id}"
    assert spark.asked == []


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/openapi.json", "/metrics", "/health/live", "/v1/self", "/v1/applications", "/console/shell.js"],
)
def test_sparks_origin_has_nothing_of_the_service(stage: Stage, path: str) -> None:
    browser = stage.looking(way(running(stage)))
    token = stage.client(Scope.ADMINISTER).headers["Authorization"]
    for headers in ({}, {"Authorization": token}):
        assert browser.get(path, headers=headers).status_code == 404


def test_a_token_opens_nothing_at_sparks_origin(stage: Stage, spark: Spark) -> None:
    application_id = running(stage)
    token = stage.client(Scope.ADMINISTER).headers["Authorization"]
    answer = stage.browser().get(f"/applications/{application_id}/ui/", headers={"Authorization": token})
    assert answer.status_code == 401
    assert spark.asked == []


def test_a_link_is_followed_once_and_leads_to_the_pages(stage: Stage) -> None:
    application_id = running(stage)
    link = stage.client(Scope.READ).post(way(application_id)).json()["url"]
    assert link.startswith("http://testserver:8441/enter?ticket=")
    browser = stage.browser()
    entered = browser.get(link, follow_redirects=False)
    assert entered.headers["referrer-policy"] == "no-referrer"
    (cookie,) = SimpleCookie(entered.headers["set-cookie"]).values()
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (f"/applications/{application_id}/", True, "lax")
    assert 0 < int(cookie["max-age"]) <= 3600
    assert browser.get(entered.headers["location"]).text == "<p>a page of Spark's</p>"
    assert stage.browser().get(link).status_code == 401


def test_the_cookie_is_sent_by_tls_alone_where_browsers_find_tls(stage: Stage) -> None:
    stage.service.spark_origin = SparkOrigin(8441, "https://spark.example.com")
    link = stage.client(Scope.READ).post(way(running(stage))).json()["url"]
    assert link.startswith("https://spark.example.com/enter?")
    entered = stage.browser().get(link.removeprefix("https://spark.example.com"), follow_redirects=False)
    assert "Secure" in entered.headers["set-cookie"]


def test_leave_for_one_application_is_none_for_another(stage: Stage, spark: Spark) -> None:
    mine, other = running(stage), running(stage, instance="other")
    browser = stage.looking(way(mine), Scope.READ, "default")
    (cookie,) = browser.cookies.jar
    for path in (
        f"/applications/{other}/",
        f"/applications/{other}/ui/",
        f"/applications/{other}/past/",
        "/lakes/lake/",
    ):
        assert browser.get(path, headers={"Cookie": f"{cookie.name}={cookie.value}"}).status_code == 401
    for climbing in (f"../../{other}/ui/", f"..%2f..%2f{other}%2fui%2f", f"..;/..;/{other}/ui/"):
        assert browser.get(f"/applications/{mine}/ui/{climbing}").status_code in (401, 404, 422)
    assert spark.asked == []


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
        ("same-site", "navigate", "document", 200),
        ("cross-site", "navigate", "document", 200),
        ("same-site", "navigate", "iframe", 401),
        ("same-site", "no-cors", "script", 401),
        ("same-site", "cors", "empty", 401),
        ("cross-site", "no-cors", "image", 401),
    ],
)
def test_no_other_page_can_use_the_cookie(stage: Stage, site: str, mode: str, dest: str, status: int) -> None:
    application_id = running(stage)
    sent = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert (
        stage.looking(way(application_id)).get(f"/applications/{application_id}/ui/", headers=sent).status_code
        == status
    )


def test_who_loses_an_instance_loses_its_pages(stage: Stage) -> None:
    application_id = running(stage)
    browser = stage.looking(way(application_id))
    (token,) = stage.tokens.list()
    stage.tokens.change(token.id, grants={"another": Scope.READ})
    assert browser.get(f"/applications/{application_id}/ui/").status_code == 404
    stage.tokens.revoke(token.id)
    assert browser.get(f"/applications/{application_id}/ui/").status_code == 401


def test_pages_that_are_opened_by_the_first_look_are_waited_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    application_id = running(stage)
    looks = iter([None, None, stage.engine.interfaces[application_id]])
    monkeypatch.setattr(stage.engine, "web_interface", lambda _: next(looks))
    assert stage.looking(way(application_id)).get(f"/applications/{application_id}/ui/").status_code == 200
    assert next(looks, None) is None


def test_the_driver_s_key_is_for_the_driver_alone(stage: Stage, spark: Spark) -> None:
    application_id = running(stage)
    answer = stage.looking(way(application_id)).get(f"/applications/{application_id}/ui/jobs/")
    assert spark.asked[0].headers["x-penstock-key"] == "k3y"
    assert "k3y" not in answer.text + str(answer.headers)


def test_pages_of_a_driver_that_does_not_open_them_are_not_waited_for_without_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_pages, "_OPENING_SECONDS", 0.1)
    application_id = running(stage, interface=False)
    answer = stage.looking(way(application_id)).get(f"/applications/{application_id}/ui/")
    assert answer.status_code == 409
    assert answer.json()["fix"] == "try again in a moment"


@pytest.mark.parametrize("spelling", ["kill", "%6bill", "kill;a=b", "Kill", "/kill/"])
def test_nothing_is_ended_from_sparks_pages_however_it_is_spelled(stage: Stage, spark: Spark, spelling: str) -> None:
    application_id = running(stage)
    browser = stage.looking(way(application_id), Scope.ADMINISTER)
    path = f"/applications/{application_id}/ui/jobs/job/{spelling}/?id=1"
    assert browser.get(path).status_code == 403
    assert browser.get(path, headers={"Accept": "text/html"}).status_code == 403
    assert spark.asked == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_but_looking_is_passed_on(stage: Stage, spark: Spark, method: str) -> None:
    application_id = running(stage)
    browser = stage.looking(way(application_id), Scope.ADMINISTER)
    for path in (f"/applications/{application_id}/ui/jobs/", f"/applications/{application_id}/ui/jobs/job/kill/?id=1"):
        assert browser.request(method, path).status_code == 405
    assert spark.asked == []


def test_an_application_that_wants_no_pages_has_none(stage: Stage) -> None:
    application_id = running(stage)
    known = stage.engine.get(application_id)
    spec = replace(known.spec, settings={"spark.ui.enabled": "false"})
    stage.engine.submitted[application_id] = replace(known, spec=spec)
    answer = stage.looking(way(application_id)).get(f"/applications/{application_id}/")
    assert answer.status_code == 404
    assert "spark.ui.enabled" in answer.json()["why"]
    assert stage.client(Scope.READ).get(f"/v1/applications/{application_id}").json()["ui"] is None


@pytest.fixture
def history(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake with a listening history server."""
    Lakes(stage.service.home).add(
        Lake("lake", ("http://127.0.0.1:9",), "bucket", "file:lake"), Credentials("access", "secret")
    )
    monkeypatch.setattr(HistoryServers, "address", lambda *_: ("127.0.0.1", 18080))


@pytest.mark.usefixtures("history")
def test_of_an_application_that_has_ended_the_history_is_shown(stage: Stage, spark: Spark) -> None:
    application_id = running(stage)
    browser = stage.looking(way(application_id), Scope.READ, "default")
    known = stage.engine.get(application_id)
    over = replace(known, state=State.FINISHED, spark_application_id="penstock-1-2")
    stage.engine.submitted[application_id] = over
    answer = browser.get(f"/applications/{application_id}/ui/jobs/")
    assert answer.text == "<p>a page of Spark's</p>"
    assert str(spark.asked[0].url) == "http://127.0.0.1:18080/history/penstock-1-2/"
    assert spark.asked[0].headers["x-forwarded-context"] == f"/applications/{application_id}/past"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("history/penstock-1-2/jobs/", True),
        ("history/penstock-1-2", True),
        ("static/webui.js", True),
        ("api/v1/applications/penstock-1-2/1/allexecutors", True),
        ("history/penstock-1-3/jobs/", False),
        ("history/penstock-1-22/", False),
        ("history//penstock-1-3/", False),
        ("history/penstock-1-2;/../penstock-1-3/", False),
        ("history/penstock-1-2/..;a=b/penstock-1-3/", False),
        ("history/%2e%2e/history/penstock-1-3/", False),
        ("api/v1/applications", False),
        ("api/v1/applications/", False),
        ("api/v1/applications/penstock-1-3/logs", False),
        ("api/v1/version", False),
        ("home/", False),
    ],
)
@pytest.mark.usefixtures("history")
def test_an_applications_past_shows_no_other_of_the_history(stage: Stage, spark: Spark, path: str, shown: bool) -> None:
    application_id = ended(stage)
    browser = stage.looking(way(application_id), Scope.READ, "default")
    status = browser.get(f"/applications/{application_id}/past/{path}").status_code
    assert (status == 200) is shown, status
    assert bool(spark.asked) is shown


@pytest.mark.usefixtures("history")
def test_an_application_that_ended_before_spark_had_started_has_no_past(stage: Stage, spark: Spark) -> None:
    application_id = ended(stage, None)
    answer = stage.looking(way(application_id)).get(f"/applications/{application_id}/")
    assert (answer.status_code, answer.json()["why"]) == (404, "it ended before Spark started")
    assert spark.asked == []


@pytest.mark.usefixtures("history")
def test_the_history_of_all_instances_takes_the_right_to_read_all(stage: Stage, spark: Spark) -> None:
    path = "/lakes/lake/history/penstock-1-2/jobs/"
    browser = stage.looking("/v1/spark-history/lake")
    assert browser.get(path).status_code == 200
    assert spark.asked[0].headers["x-forwarded-context"] == "/lakes/lake"
    assert stage.client(Scope.ADMINISTER, "one").post("/v1/spark-history/lake").status_code == 403
    (token,) = (one for one in stage.tokens.list() if one.grants == {"*": Scope.READ})
    stage.tokens.change(token.id, grants={"one": Scope.READ})
    assert browser.get(path).status_code == 403


@pytest.mark.usefixtures("history")
def test_the_log_of_a_moment_ago_is_waited_for(stage: Stage, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_pages, "_NEW_LOG_LOOK_SECONDS", 0.0)
    spark.unknown = 1
    application_id = ended(stage)
    path = f"/applications/{application_id}/past/history/penstock-1-2/"
    assert stage.looking(way(application_id)).get(path).status_code == 200
    assert len(spark.asked) == 2


@pytest.mark.usefixtures("history")
def test_a_missing_event_log_gets_the_history_servers_own_page(
    stage: Stage, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = stage.looking("/v1/spark-history/lake")
    monkeypatch.setattr(spark_pages, "monotonic", iter((0.0, 29.0, 31.0)).__next__)
    monkeypatch.setattr(spark_pages, "_NEW_LOG_LOOK_SECONDS", 0.0)
    spark.unknown = 1_000_000
    answer = browser.get("/lakes/lake/history/penstock-1-2/")
    assert (answer.status_code, answer.text) == (404, "<p>a page of Spark's</p>")
    assert len(spark.asked) == 2


@pytest.mark.usefixtures("history")
def test_a_file_that_is_not_there_is_not_waited_for(stage: Stage, spark: Spark) -> None:
    spark.unknown = 1
    assert stage.looking("/v1/spark-history/lake").get("/lakes/lake/static/none.js").status_code == 404


@pytest.mark.parametrize("lake", ["no-lake", "..", "%2e%2e"])
@pytest.mark.usefixtures("history")
def test_what_is_no_lake_has_no_history(stage: Stage, spark: Spark, lake: str) -> None:
    assert stage.client(Scope.READ).post(f"/v1/spark-history/{lake}").status_code in (400, 404, 405)
    assert stage.looking("/v1/spark-history/lake").get(f"/lakes/{lake}/").status_code in (400, 401, 404)
    assert spark.asked == []


@pytest.mark.usefixtures("history")
def test_a_history_server_that_was_never_started_does_not_run(stage: Stage) -> None:
    shown = stage.client(Scope.READ).get("/v1/history").json()
    assert (shown["running"], shown["url"]) == (False, "/v1/spark-history/lake")
    assert stage.client(Scope.READ).delete("/v1/history").status_code == 403
    assert stage.client(Scope.SUBMIT).delete("/v1/history").json()["running"] is False


def test_a_port_decides_what_answers_and_no_header(stage: Stage) -> None:
    both = ByPort(stage.app, {8441: stage.spark_app})
    service, spark = TestClient(both, "http://penstock:8440"), TestClient(both, "http://penstock:8441")
    for headers in ({}, {"Host": "penstock:8440"}, {"Host": "penstock:8441", "X-Forwarded-Port": "8440"}):
        assert service.get("/health/live", headers=headers).status_code == 200
        assert spark.get("/health/live", headers=headers).status_code == 404
