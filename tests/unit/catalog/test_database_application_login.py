"""Programs know the login of the metastore, which on an external server must not be the engine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE
from penstock.catalog.database import SHARED_LOGIN, Database, DatabaseStatus
from penstock.doctor import Examination
from penstock.engine.engine import Engine
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.checks.verdicts import Outcome
from penstock.service.listening import Listening
from penstock.service.server import serve
from tests.unit.engine.engine_making import spec

ENGINE = "postgresql://penstock:hunter2@db.example:5432/postgres"
ITS_OWN = "postgresql://applications:theirs@db.example:5432/"


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    for variable, value in zip((DATABASE_VARIABLE, CATALOG_VARIABLE), request.param, strict=True):
        monkeypatch.delenv(variable, raising=False)
        if value:
            monkeypatch.setenv(variable, value)
    return Database(Home(tmp_path))


SHARED = pytest.mark.parametrize(
    "database",
    [(ENGINE, None), (ENGINE, ENGINE), (ENGINE, ENGINE.replace("db.example", "10.0.0.1"))],
    indirect=True,
    ids=["no catalog URL", "the same login", "the same by another name of the server"],
)
APART = pytest.mark.parametrize(
    "database",
    [(None, None), (None, ITS_OWN), (ENGINE, ITS_OWN)],
    indirect=True,
    ids=["embedded", "embedded all the same", "its own"],
)


@SHARED
def test_no_service_starts_whose_programs_could_add_tokens_for_themselves(database: Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        serve(Home(tmp_path), Listening(), log_level="error")
    assert CATALOG_VARIABLE in refused.value.fix
    assert "hunter2" not in str(refused.value)


def warnings(root: Path) -> tuple[str, ...]:
    """Return the engine's warnings about an application that can run."""
    program = root / "a.py"
    program.touch()
    return Engine(Home(root)).resolve(spec(application=str(program))).warnings


@SHARED
def test_a_single_user_is_warned(database: Database, tmp_path: Path) -> None:
    assert database.shares_login
    assert warnings(tmp_path) == (SHARED_LOGIN,)


@APART
def test_a_login_of_its_own_is_nothing_to_speak_of(database: Database, tmp_path: Path) -> None:
    assert not database.shares_login
    assert warnings(tmp_path) == ()


@SHARED
def test_the_doctor_says_so(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "status", lambda _: DatabaseStatus(embedded=False, state="up", address="db.example"))
    judgement = Examination(Home(tmp_path), "")._database_answers()
    assert (judgement.outcome, judgement.measured) == (Outcome.LIMITED, SHARED_LOGIN)
