"""The driver's dealings with Trino's server, in whose place another program runs: its token, its start, its end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from penstock.engine.engines.trino import server
from penstock.engine.engines.trino.server import Server, environment_of, running
from penstock.errors import ClusterError
from penstock.model import ProcessSize

SIZE = ProcessSize(3, 4 << 30)


URL = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "penstock")


def started(here: Path, token: str = URL, **catalogs: str) -> AbstractContextManager[Server]:
    environment = environment_of(URL, token)
    return running(here, SIZE, here=here, catalogs=catalogs, environment=environment, log=here / "driver.log")


PROGRAM = """
import http.server, json, os, sys
here = os.getcwd()
settings = dict(line.strip().partition("=")[::2] for line in open(f"{here}/etc/config.properties"))
json.dump(dict(os.environ), open(f"{here}/environment.json", "w"))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"environment": settings["node.environment"], "starting": False}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(settings["http-server.http.port"])), Handler).serve_forever()
"""


def test_the_driver_s_token_is_one_that_the_server_s_key_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "command", lambda *_: [sys.executable, "-c", PROGRAM])
    with started(tmp_path, "of the catalog", lake="connector.name=iceberg\n") as trino:
        scheme, _, token = trino.headers["Authorization"].partition(" ")
        text, _, signature = token.rpartition(".")
        key = base64.b64decode((tmp_path / "etc" / "token.key").read_text())
        assert scheme == "Bearer"
        assert base64.urlsafe_b64decode(signature + "==") == hmac.digest(key, text.encode(), hashlib.sha512)
        body = text.partition(".")[2]
        assert (tmp_path / "etc" / "catalog" / "lake.properties").read_text() == "connector.name=iceberg\n"
        assert json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) == {"sub": "penstock"}
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] == "http://127.0.0.1:9/credentials"
    assert environment["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert "AWS_PROFILE" not in environment
    assert not any("of the catalog" in file.read_text() for file in (tmp_path / "etc").rglob("*.*"))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("no such setting\n\tat a.B", "no such setting"),
        ("1) it is wrong\n  at a.B\n2) it is, too\n===", "1) it is wrong"),
    ],
)
def test_a_server_that_ends_at_once_is_an_error_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.setattr(server, "command", lambda *_: [sys.executable, "-c", f"print({written!r}); exit(100)"])
    with (
        pytest.raises(ClusterError, match="Trino did not start") as failed,
        started(tmp_path),
    ):
        pass
    assert failed.value.why == said


def test_another_program_on_its_port_is_not_taken_for_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PROGRAM.replace('settings["node.environment"]', '"another"')
    monkeypatch.setattr(server, "command", lambda *_: [sys.executable, "-c", other])
    monkeypatch.setattr(server, "_START_SECONDS", 0.5)
    with (
        pytest.raises(ClusterError, match="Trino did not start"),
        started(tmp_path),
    ):
        pass
