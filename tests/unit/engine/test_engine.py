"""The engine's arguments for a supervisor."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.catalog.connection import DATABASE_VARIABLE
from penstock.engine import engine as module
from penstock.engine.engine import Engine
from penstock.errors import LakeError, NotFound
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec
from tests.unit.engine.engine_making import application, spec


class Preparing:
    """A stand-in for `Preparation`: the lake is unreachable for the first instance, and reachable for later ones."""

    made = 0
    lake = Lake("lake", (), "bucket", "")

    def __init__(self, *_: object) -> None:
        Preparing.made += 1
        self._reachable = Preparing.made > 1

    def launch(self, application_id: str, _: ApplicationSpec) -> str:
        if not self._reachable:
            raise LakeError("out of reach")
        return f"launch of {application_id}"


def test_a_submission_cannot_name_a_lake_of_another_queues_keys(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    keys = Credentials("access", "secret")
    shared = Lakes(home).add(Lake("archive", ("https://s3.example.com",), "bucket", "environment"))
    theirs = Lakes(home).add(registry.credential_scoped(shared, keys, "theirs"), keys)
    program = tmp_path / "a.py"
    program.touch()
    for submit in (Engine(home).submit, Engine(home).enqueue):
        with pytest.raises(NotFound) as refused:
            submit(spec(application=str(program), lake=theirs.name, instance="mine"))
        assert refused.value.why == "known lakes: archive"


def test_another_attempt_looks_again_for_what_was_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Preparation", Preparing)
    monkeypatch.setattr(Engine, "repositories", SimpleNamespace(transitions=None))
    engine, asked = Engine(Home(tmp_path)), application(spec=spec(retries=1))
    engine._preparations[asked.id] = Preparing()  # type: ignore[assignment]
    prepare = engine.supervisor(asked.id)._prepare
    with pytest.raises(LakeError):
        prepare(asked)
    assert prepare(asked) == "launch of app-1"


def test_an_embedded_databases_records_survive_a_new_host_name_and_a_move_but_a_copy_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def owner(home: Home) -> str:
        return Engine(home)._records_owner()

    monkeypatch.delenv(DATABASE_VARIABLE, raising=False)
    monkeypatch.setattr(module.socket, "gethostname", lambda: "before")
    first = owner(Home(tmp_path / "a"))
    assert first == f"before:{tmp_path}/a"
    monkeypatch.setattr(module.socket, "gethostname", lambda: "after")
    assert owner(Home(tmp_path / "a")) == first
    (tmp_path / "a").rename(tmp_path / "b")
    assert owner(Home(tmp_path / "b")) == first
    (tmp_path / "b").rename(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    assert owner(Home(tmp_path / "copy")) == f"after:{tmp_path}/copy"
    assert owner(Home(tmp_path / "a")) == first


def test_records_in_a_shared_database_are_those_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATABASE_VARIABLE, "postgresql://penstock:secret@db.example/")
    monkeypatch.setattr(module.socket, "gethostname", lambda: "here")
    assert Engine(Home(tmp_path))._records_owner() == f"here:{tmp_path}"
    assert not (tmp_path / module.OWNER_FILE).exists()
