"""Tables and the cache's recent use are shown to callers who see their instance, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.catalog.metastore import no_such_table
from penstock.catalog.tables import Column, Table
from penstock.engine import installation
from penstock.engine.policy.scheduling import Instance
from penstock.engine.tokens import Scope
from penstock.model import ApplicationSpec
from penstock.service import responses
from penstock.service.api import data
from tests.unit.service.fakes import Stage

FOUND = [Table(database, "gold", "EXTERNAL_TABLE", "parquet", "", None, 1, 1, ()) for database in ("Sales", "tpcds")]


class FakeMetastore:
    def tables(self, _: str | None = None) -> list[Table]:
        return FOUND

    def table(self, name: str) -> Table:
        found = next((table for table in FOUND if table.full_name.lower() == name.lower()), None)
        if found is None:
            raise no_such_table(name.lower())
        return found


@pytest.fixture
def catalog(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A service whose catalog has a table of the instance “team-a” and one without an owner."""
    monkeypatch.setattr(data, "_metastore", lambda _: FakeMetastore())
    monkeypatch.setattr(stage.service, "database_owners", lambda: {"sales": "team-a"})
    monkeypatch.setattr(data, "read_preview", lambda *_, **__: responses.Preview(columns=[], rows=[], truncated=False))
    return stage


def listed(stage: Stage, scope: Scope, *instances: str) -> list[str]:
    answer = stage.client(scope, *instances).get("/v1/tables")
    assert answer.status_code == 200, answer.text
    return [f"{table['database']}.{table['name']}" for table in answer.json()["items"]]


def test_tables_of_another_instances_database_are_not_listed(catalog: Stage) -> None:
    assert listed(catalog, Scope.SUBMIT, "team-b") == ["tpcds.gold"]
    assert listed(catalog, Scope.READ, "team-b", "team-a") == ["Sales.gold", "tpcds.gold"]
    assert listed(catalog, Scope.ADMINISTER) == ["Sales.gold", "tpcds.gold"]


@pytest.mark.parametrize("end", ["", "/preview"])
def test_a_table_of_another_instance_is_as_one_that_does_not_exist(catalog: Stage, end: str) -> None:
    def problem(name: str) -> tuple[int, Any]:
        answer = catalog.client(Scope.SUBMIT, "team-b").get(f"/v1/tables/{name}{end}")
        return answer.status_code, {key: answer.json().get(key) for key in ("type", "title", "detail", "why", "fix")}

    hidden, missing = problem("SALES.gold"), problem("sales.gone")
    assert hidden[0] == 404
    assert str(hidden).replace("sales.gold", "sales.gone") == str(missing)
    assert catalog.client(Scope.READ, "team-a").get(f"/v1/tables/sales.gold{end}").status_code == 200
    assert catalog.client(Scope.READ, "team-b").get(f"/v1/tables/tpcds.gold{end}").status_code == 200


def test_a_client_sees_the_defaults_that_only_spark_reads(catalog: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = replace(FOUND[1], columns=(Column("a", "int"), Column("b", "int", default="5")))
    monkeypatch.setattr(FakeMetastore, "tables", lambda *_: [filled])
    items = catalog.client(Scope.READ).get("/v1/tables").json()["items"]
    assert [Table.from_json(item) for item in items] == [filled]


@pytest.fixture
def used(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
    """Return the names of the applications that `GET /v1/cache` shows to a reader of some instances."""
    monkeypatch.setattr(installation, "Database", lambda _: SimpleNamespace(status=lambda: SimpleNamespace(state="up")))
    monkeypatch.setattr(installation, "Engine", lambda _: stage.engine)
    summary = {"s3_requests": {"GET": 1}, "lake": {"bytes_from_memory": 8}}
    for number in range(12):
        name = "team-a" if number < 6 else "team-b"
        stage.engine.known[name] = Instance(name)
        made = stage.engine.enqueue(ApplicationSpec("x.py", stage.engine.usual_size(), name=f"{name}'s", instance=name))
        stage.engine.submitted[made.id] = replace(made, summary=summary)

    def shown(*instances: str) -> set[str]:
        answer = stage.client(Scope.READ, *instances).get("/v1/cache")
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["applications"]) == 5
        return {application["name"] for application in answer.json()["applications"]}

    return shown


def test_the_caches_recent_use_names_no_application_of_another_instance(used: Callable[..., set[str]]) -> None:
    assert used("team-a") == {"team-a's"}
    assert used("team-b") == {"team-b's"}
    assert used() == {"team-b's"}
