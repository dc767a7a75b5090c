"""A session from its start to its place in the history, used by a notebook, a browser and an administrator."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyspark
import pytest

from penstock.engine.engine import Engine
from penstock.engine.interactive.history import HistoryServers
from penstock.model import State
from tests.support.programs import PROGRAMS
from tests.support.service_process import Served

SMALL = {
    "driver": {"cores": 1, "memory": "600m"},
    "executor": {"cores": 1, "memory": "600m"},
    "executors": 1,
}


@pytest.fixture(scope="module")
def notebook(python_with: Callable[..., Path]) -> Path:
    """The Python of a user who has PySpark's client, and none of Penstock's packages."""
    return python_with("pyspark.sql.connect.session", [f"pyspark-client=={pyspark.__version__}"])


def started(service: httpx.Client, **body: Any) -> str:
    answer = service.post("/v1/sessions", json={"size": SMALL, **body})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def address(service: httpx.Client, session_id: str) -> str:
    deadline = time.monotonic() + 120
    while (answer := service.get(f"/v1/sessions/{session_id}/address")).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.3)
    return str(answer.json()["address"])


def connect(python: Path, *addresses: str) -> subprocess.CompletedProcess[str]:
    script = PROGRAMS / "connect_client.py"
    return subprocess.run([python, script, *addresses], check=False, capture_output=True, text=True, timeout=300)


def links(page: str) -> set[str]:
    return set(re.findall(r'(?:href|src)="(/[^"]*)"', page))


def test_a_session_from_start_to_history(served: Served, notebook: Path) -> None:
    engine = Engine(served.home)
    with served.client() as service:
        session_id = started(service, name="notebook")
        there = address(service, session_id)

        answered = connect(notebook, there, there + "x", there.partition("/;")[0])
        assert answered.returncode == 0, answered.stderr
        answers = json.loads(answered.stdout)
        wrong, missing = answers.pop("refusals")
        assert "Invalid authentication token" in wrong
        assert "No authentication token" in missing
        assert answers == {
            "sum": 499500,
            "doubled": 1998,
            "pandas": [0, 1, 2],
            "rows": 10,
            "version": pyspark.__version__,
        }

        # The live pages stay below the application's own path, whatever they link to.
        root = f"/applications/{session_id}/ui"
        with served.looking(f"/v1/applications/{session_id}/ui") as browser:
            shown = browser.get(f"{root}/", follow_redirects=True)
            assert shown.url.path == f"{root}/jobs/"
            assert "notebook" in shown.text
            assert {link for link in links(shown.text) if not link.startswith(root)} == set()
            script = next(link for link in links(shown.text) if ".js" in link)
            assert "javascript" in browser.get(script).headers["content-type"]
            executors = browser.get(f"{root}/api/v1/applications").json()
            assert executors[0]["name"] == "notebook"
            assert there.partition("token=")[2] not in browser.get(f"{root}/environment/").text

        service.post(f"/v1/sessions/{session_id}/stop")
        while not service.get(f"/v1/applications/{session_id}/wait").json()["ended_at"]:
            pass
        ended = engine.wait(session_id)
        assert ended.state is State.STOPPED

        token = there.partition("token=")[2]
        kept = b"".join(engine.artifacts.load(session_id, name) for name in engine.artifacts.sizes(session_id))
        assert kept
        assert token.encode() not in kept
        assert token not in json.dumps(ended.to_json()) + str(list(engine.applications.events(session_id)))

        # Spark's pages remain available without the cluster.
        past = f"/lakes/{ended.spec.lake}"
        with served.looking(f"/v1/spark-history/{ended.spec.lake}") as browser:
            log = browser.get(f"{past}/history/{ended.spark_application_id}/", follow_redirects=True)
            assert log.status_code == 200
            assert "notebook" in log.text
            assert {link for link in links(log.text) if not link.startswith(past)} == set()

        running = HistoryServers(engine).status()
        assert running.running
        assert running.address is not None
        service.delete("/v1/history")
        assert not HistoryServers(engine).status().running
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://{running.address[0]}:{running.address[1]}/", timeout=5).raise_for_status()


def test_a_session_nobody_uses_ends_by_itself_and_has_done_well(served: Served) -> None:
    engine = Engine(served.home)
    with served.client() as service:
        session_id = started(service, idle_seconds=1)
        deadline = time.monotonic() + 180
        while not service.get(f"/v1/applications/{session_id}/wait").json()["ended_at"]:
            assert time.monotonic() < deadline
        assert engine.wait(session_id).state is State.FINISHED
        # The log comes from the lake, since the cluster is gone.
        log = service.get(f"/v1/applications/{session_id}/logs/driver.out")
        assert log.text == "the session ends after 1 s without use\n"
