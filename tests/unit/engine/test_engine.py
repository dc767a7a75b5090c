"""The engine's arguments for a supervisor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

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
