"""A session for BI tools: Hive's JDBC driver, with the session's token as the password."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from penstock.engine.engine import Engine
from penstock.runtime.jvm import penstock_jar
from tests.support.programs import PROGRAMS
from tests.support.service_process import Served

SIZE = {
    "driver": {"cores": 1, "memory": "600m"},
    "executor": {"cores": 1, "memory": "600m"},
    "executors": 1,
}


def run(program: str, *arguments: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAMS / program, *arguments],
        check=False,
        cwd=at,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_whoever_has_the_sessions_token_uses_its_tables_through_jdbc(served: Served, tmp_path: Path) -> None:
    engine = Engine(served.home)
    with served.client() as service:
        answer = service.post("/v1/sessions", json={"size": SIZE, "protocol": "jdbc"})
        assert answer.status_code == 202, answer.text
        session_id = str(answer.json()["id"])
        deadline = time.monotonic() + 120
        while (answer := service.get(f"/v1/sessions/{session_id}/address")).status_code != 200:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.3)
        address = str(answer.json()["address"])
        plain, _, token = address.partition(";user=session;password=")
        assert service.get(f"/v1/sessions/{session_id}").json()["address"] == plain

        answered = run("jdbc_client.py", address, address + "x", plain, f"{plain};auth=noSasl", at=tmp_path)
        assert answered.returncode == 0, answered.stderr
        answers = json.loads(answered.stdout)
        wrong, missing, without_login = answers.pop("refusals")
        assert "Error validating the login" in wrong
        assert "Error validating the login" in missing
        assert "Could not establish connection" in without_login
        assert answers == {
            "sum": [["0", "249500"], ["1", "250000"]],
            "views": [[["", "adas", "true"]], []],
            "listed": "from_jdbc",
        }

        service.post(f"/v1/sessions/{session_id}/stop")
        ended = engine.wait(session_id)
    kept = b"".join(engine.artifacts.load(session_id, name) for name in engine.artifacts.sizes(session_id))
    assert token.encode() not in kept
    assert token not in json.dumps(ended.to_json()) + str(list(engine.applications.events(session_id)))


def test_a_connection_is_in_use_while_a_statement_runs_and_not_while_its_rows_wait(tmp_path: Path) -> None:
    jar = penstock_jar("application", "Penstock's own applications are not built")
    arguments = f"--master local[1] --conf spark.ui.enabled=false --driver-class-path {jar} pyspark-shell"
    used = run("jdbc_server_in_use.py", at=tmp_path, PYSPARK_SUBMIT_ARGS=arguments)
    assert used.returncode == 0, used.stderr
