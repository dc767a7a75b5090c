"""Spark's pages of an application that was started without them: live through the service, then the history."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from penstock import Client
from penstock.engine.engine import Engine
from penstock.model import Application
from tests.support.service_process import Served

PATIENCE_SECONDS = 180.0
WAITS = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setJobDescription("before anybody looked")
spark.range(10).selectExpr("sum(id)").collect()
print("ready", flush=True)
time.sleep(600)
"""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def links(page: str) -> set[str]:
    return set(re.findall(r'(?:href|src)="(/[^"]*)"', page))


def waiting(client: Client, program: Path) -> Application:
    """An application that has run its job and is idle."""
    program.write_text(WAITS)
    small = {"driver_memory": "600m", "executor_memory": "600m", "executor_cores": 1, "executors": 1}
    application = client.submit(program, **small)
    until(lambda: b"ready" in client.log(application.id, "driver.out"))
    return application


def test_the_first_look_opens_the_pages_for_the_service_alone_and_the_history_follows(
    served: Served, tmp_path: Path
) -> None:
    engine = Engine(served.home)
    with Client(served.url, token=served.token) as client, contextlib.ExitStack() as opened:
        application = waiting(client, tmp_path / "waits.py")
        root = f"/applications/{application.id}/ui"
        assert engine.clusters.observe(engine.get(application.id)).ui_url is None  # type: ignore[union-attr]
        assert httpx.get(f"{served.spark_ui}{root}/jobs/").status_code == 401
        assert httpx.get(f"{served.url}{root}/jobs/").status_code == 404

        browser = opened.enter_context(served.looking(client.get(f"/v1/applications/{application.id}")["ui"]))
        shown = browser.get(f"{root}/", follow_redirects=True)
        assert shown.url.path == f"{root}/jobs/"
        assert "before anybody looked" in shown.text
        assert {link for link in links(shown.text) if not link.startswith(root)} == set()
        until(lambda: browser.get(f"{root}/SQL/").status_code == 200)
        assert "before anybody looked" in browser.get(f"{root}/SQL/").text
        assert not [link for link in links(shown.text) if "kill" in link]
        assert browser.get(f"{root}/jobs/job/kill/?id=0").status_code == 403

        pages = engine.clusters.web_interface(engine.get(application.id))
        assert pages is not None
        assert pages.key is not None
        assert httpx.get(f"http://{pages.host}:{pages.port}/jobs/").status_code == 403
        assert pages.key not in browser.get(f"{root}/environment/").text

        client.stop(application.id)
        until(lambda: client.application(application.id).state.final)
        assert pages.key.encode() not in b"".join(
            engine.artifacts.load(application.id, name) for name in engine.artifacts.sizes(application.id)
        )
        past = browser.get(f"{root}/", follow_redirects=True)
        assert "before anybody looked" in past.text
        kept = f"/applications/{application.id}/past/"
        assert {link for link in links(past.text) if not link.startswith(kept)} == set()
        script = next(link for link in links(past.text) if ".js" in link)
        assert "javascript" in browser.get(script).headers["content-type"]
        ran = engine.get(application.id).spark_application_id
        assert browser.get(f"{kept}api/v1/applications/{ran}/allexecutors").status_code == 200
        assert browser.get(f"{kept}api/v1/applications").status_code == 404
