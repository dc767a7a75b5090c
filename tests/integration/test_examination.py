"""The doctor only reads, and reports each problem as a row."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.doctor import Examination
from penstock.home import Home
from penstock.lake.checks.verdicts import Outcome, Row
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes

NOBODY = "http://127.0.0.1:9"


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def looked(home: Home, url: str = NOBODY) -> dict[str, Row]:
    return {row.feature: row for row in Examination(home, url).rows()}


def test_a_home_that_is_not_there_yet_is_no_fault_and_is_not_made(tmp_path: Path) -> None:
    home = Home(tmp_path / "none")
    rows = looked(home)
    assert rows["database"].verdict.outcome is Outcome.OK
    assert rows["service"].verdict.outcome is Outcome.SKIPPED
    assert rows["tokens"].verdict.outcome is Outcome.SKIPPED
    assert not home.root.exists()


def test_credentials_others_can_read_and_a_lake_that_does_not_answer_are_rows(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    Lakes(home).add(Lake("far", ("http://127.0.0.1:9",), "far", "file:far"), Credentials("A", "b"))
    (home.lake / "credentials").chmod(0o644)
    home.root.chmod(0o700)
    rows = looked(home)
    assert rows["secrets"].verdict.outcome is Outcome.FAILED
    assert "chmod" in rows["secrets"].verdict.consequence
    assert rows["lake far"].verdict.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("status", "body", "outcome", "expected"),
    [
        (200, b'{"status": "ready"}', Outcome.OK, "the service accepts clients"),
        (503, b'{"problem": "This service is ending", "fix": "ask again"}', Outcome.FAILED, "ending: ask again"),
        (404, b"<html>", Outcome.FAILED, "another program"),
        (500, b"[1]", Outcome.FAILED, "another program"),
    ],
)
def test_a_service_says_itself_what_is_wrong(
    tmp_path: Path, status: int, body: bytes, outcome: Outcome, expected: str
) -> None:
    with answering(status, body) as url:
        found = looked(Home(tmp_path), url)["service"].verdict
    assert found.outcome is outcome
    assert expected in found.consequence


def test_the_command_prints_rows_as_json_and_exits_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--service", NOBODY, "--json"])
    outcomes = {row["feature"]: row["outcome"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (ended.value.code, outcomes["secrets"]) == (1, "failed")


def test_a_mistake_in_prices_limits_and_one_in_networks_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    assert {looked(home)[name].verdict.outcome for name in ("prices", "webhooks")} == {Outcome.OK}
    (tmp_path / "prices.yaml").write_text("currency: [", encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_WEBHOOK_NETWORKS", "10.0.0.0/99")
    rows = looked(home)
    assert rows["prices"].verdict.outcome is Outcome.LIMITED
    assert rows["webhooks"].verdict.outcome is Outcome.FAILED
