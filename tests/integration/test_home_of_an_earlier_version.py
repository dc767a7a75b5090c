"""The state directory and database of commit 004f090 open unchanged, and the application that waits there runs.

`tests/support/home_of_004f090` was made by that commit: one application that finished, one that failed, one that waits
for a dispatcher, a queue, a token, and two lakes. Only its paths, and the keys of its embedded lake, were replaced.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.catalog.database import Database
from penstock.cli.main import command
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.tokens import Scope, TokenStore
from penstock.home import Home, write_atomically
from penstock.lake.registry import Lakes
from penstock.model import State
from tests.support.database_template import DatabaseTemplate
from tests.support.fake_engine import FakeEngine
from tests.support.waiting import within

LEFT = Path(__file__).parents[1] / "support" / "home_of_004f090"
FINISHED, FAILED, WAITING = "app-20261126-2bvzdb5tg", "app-20261126-2c5ghnqbp", "app-20261126-2c8pyrjqd"
# The secret was made for this data alone and opens nothing.
TOKEN = "penstock_6979ea8b8525_yWTO-ZBgjX30pjFN3krEbCgKwUYVwK-oTmkogEYqpCE"


@pytest.fixture
def home(database_template: DatabaseTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    database_template.copy_to(home)
    for file in ("lakes.json", "credentials"):
        write_atomically(home.root / "lake" / file, (LEFT / file).read_bytes())
    database = Database(home)
    with database.connection() as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        owner = f"{socket.gethostname()}:{home.root}"
        connection.execute((LEFT / "records.sql").read_text("utf-8").replace("@OWNER@", owner).encode())
    monkeypatch.setenv("PENSTOCK_HOME", str(home.root))
    yield home
    database.down()


def said(*arguments: str) -> str:
    result = CliRunner().invoke(command(), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_its_applications_queue_token_and_lakes_are_read(home: Home) -> None:
    listed = json.loads(said("apps", "--json"))
    assert [(one["id"], one["state"]) for one in listed] == [
        (WAITING, "accepted"),
        (FAILED, "failed"),
        (FINISHED, "finished"),
    ]
    shown = json.loads(said("show", FINISHED, "--json"))
    assert shown["cost"]["currency"] == "USD"
    assert shown["summary"]["task_ms"] > 0
    assert "ended with exit code 3" in said("show", FAILED)
    assert "0 of 1" in said("instance", "list")
    engine = Database(home).engine()
    assert TokenStore(engine).authenticate(TOKEN).grants == {"team-a": Scope.SUBMIT}
    engine.dispose()
    sales = Lakes(home).get("sales")
    assert Lakes(home).default() == "embedded"
    assert (sales.root, Lakes(home).credentials_of(sales).secret_key) == ("s3a://data", "s3cret")


def test_what_waited_there_is_run(home: Home) -> None:
    engine, stop = FakeEngine(home), threading.Event()
    dispatcher = threading.Thread(target=Dispatcher(engine).run, args=[stop])
    dispatcher.start()
    try:
        within(lambda: engine.get(WAITING).state is State.FINISHED)
    finally:
        stop.set()
        dispatcher.join()
        engine.supervisors.end()
