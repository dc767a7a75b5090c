"""`penstock instance set` changes what is named, here and through a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import service
from penstock.engine.policy.scheduling import Instance, Quota, validate
from penstock.errors import InvalidInput, NotFound

GIB = 1 << 30
BEFORE = Instance("team-a", 2.0, Quota(cores=8, memory_bytes=64 * GIB, running=4, waiting=0), {"kept": 1})


class Here:
    """The engine of this home, as far as the commands use it."""

    def __init__(self) -> None:
        self.known = {"team-a": BEFORE}
        self.queues = self

    def change(self, name: str, change: Callable[[Instance], Instance]) -> Instance:
        if name not in self.known:
            raise NotFound(f"There is no instance {name}")
        self.known[name] = validate(change(self.known[name]))
        return self.known[name]

    def put(self, instance: Instance) -> Instance:
        self.known[instance.name] = validate(instance)
        return instance

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The same engine, reached through a service."""
        if method == "GET":
            return {"items": [one.to_json() for one in self.known.values()]}
        name = path.rpartition("/")[2]
        assert body is not None
        attributes = self.known[name].attributes if name in self.known else {}
        found = self.put(Instance(name, body["weight"], Quota(**body["quota"]), attributes))
        return self.put(found.with_engine(body["engine"]) if "engine" in body else found).to_json()


@pytest.fixture(params=["here", "through a service"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Here:
    here = Here()
    monkeypatch.setattr(service, "server", lambda: None if request.param == "here" else "http://127.0.0.1:1")
    monkeypatch.setattr(service, "_engine", lambda: here)
    monkeypatch.setattr(service, "_call", here.call)
    return here


def run(*arguments: str) -> str:
    result = CliRunner().invoke(service.instances_app, ["set", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_quota_that_is_not_named_survives_a_change_of_another(engine: Here) -> None:
    run("team-a", "--running", "6")
    assert engine.known["team-a"] == Instance(
        "team-a", 2.0, Quota(cores=8, memory_bytes=64 * GIB, running=6, waiting=0), {"kept": 1}
    )
    run("team-a", "--weight", "3", "--memory", "1g")
    assert engine.known["team-a"].weight == 3.0
    assert engine.known["team-a"].quota == Quota(cores=8, memory_bytes=GIB, running=6, waiting=0)


def test_a_quota_is_taken_away_by_name(engine: Here) -> None:
    run("team-a", "--running", "none", "--memory", "none")
    assert engine.known["team-a"].quota == Quota(cores=8, waiting=0)


def test_a_new_instance_has_weight_one_and_the_quotas_that_are_named(engine: Here) -> None:
    run("team-b", "--cores", "2")
    assert engine.known["team-b"] == Instance("team-b", 1.0, Quota(cores=2))


def test_what_is_no_number_is_refused_and_changes_nothing(engine: Here) -> None:
    for bound in ("many", "-1", "1.5", "²"):
        with pytest.raises(InvalidInput):
            run("team-a", f"--running={bound}")
    assert engine.known["team-a"] == BEFORE


def test_the_engine_of_statements_stays_with_the_instance_until_another_is_named(engine: Here) -> None:
    assert engine.known["team-a"].engine is None
    run("team-a", "--engine", "sail")
    run("team-a", "--weight", "3")
    assert engine.known["team-a"] == replace(BEFORE, weight=3.0).with_engine("sail")
    assert engine.known["team-a"].attributes["kept"] == 1
    run("team-b", "--engine", "auto")
    assert engine.known["team-b"].engine == "auto"
    with pytest.raises(InvalidInput, match="There is no engine “impala”"):
        run("team-a", "--engine", "impala")
    assert engine.known["team-a"].engine == "sail"
