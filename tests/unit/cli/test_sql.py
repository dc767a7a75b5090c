"""Commands that are SQL statements: what they say of one that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.catalog.tables import Column, Table
from penstock.cli import foreground, main, sql
from penstock.engine.engines.registry import engine_of
from penstock.engine.policy.scheduling import Instance
from penstock.errors import InvalidInput, MissingRequirement, NotFound, PenstockError
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State


def test_a_failing_statement_is_the_reason_and_the_command_says_the_problem_and_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = [{"statement": "BUILD …", "error": "The table cannot be found"}]
    ran = sql.SqlResult(SimpleNamespace(), results)  # type: ignore[arg-type]
    monkeypatch.setattr(sql, "run", lambda *_, **__: ran)
    with pytest.raises(PenstockError, match=r"The index of a\.b was not built") as raised:
        sql.answers(*some(), problem="The index of a.b was not built", fix="build again")
    assert (raised.value.why, raised.value.fix) == ("The table cannot be found", "build again")


def test_an_application_that_ends_badly_ends_the_command_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = sql.SqlResult(SimpleNamespace(), [{"statement": "SELECT 1", "rows": [[1]]}])  # type: ignore[arg-type]
    monkeypatch.setattr(sql, "run", lambda *_, **__: ran)
    monkeypatch.setattr(foreground, "exit_code", lambda _: 9)
    monkeypatch.setattr(foreground, "report_result", lambda _: 9)
    with pytest.raises(SystemExit) as raised:
        sql.answers(*some(), problem="", fix="")
    assert raised.value.code == 9


class Ran:
    """Runs of `penstock sql --engine auto`, in which Sail ends in this way; Spark always answers 2."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sail: State | PenstockError) -> None:
        self.sail = sail
        self.engines: list[str] = []
        size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 4 << 30), 1)
        at = SimpleNamespace(
            usual_size=lambda: size,
            lake=lambda _: SimpleNamespace(name="near"),
            bytes_below=lambda *_: 1 << 20,
            instance=lambda name: Instance(name or "default").with_engine("auto"),
        )
        monkeypatch.setattr(sql, "target", lambda: at)
        columns = (Column("id", "bigint"),)
        orders = Table("sales", "orders", "managed", "parquet", "s3a://lake/o", None, None, None, columns)
        monkeypatch.setattr(sql, "catalog_tables", lambda _: [orders])
        monkeypatch.setattr(sql, "run", self.run)

    def run(self, _at: object, spec: ApplicationSpec, _text: str, **_: object) -> sql.SqlResult:
        self.instance = spec.instance
        self.engines.append(engine_of(spec).name)
        if self.engines[-1] == "spark":
            return self.result(State.FINISHED, {"rows": [[2]]})
        if isinstance(self.sail, PenstockError):
            raise self.sail
        return self.result(self.sail, {"rows": [[1]]} if self.sail is State.FINISHED else {"error": "unknown function"})

    @staticmethod
    def result(state: State, end: dict[str, Any]) -> sql.SqlResult:
        ended = SimpleNamespace(id="app-1", state=state, exit_code=int(state is not State.FINISHED), reason=None)
        times = {"started_ms": 0, "elapsed_ms": 1, "columns": [{"name": "n", "type": "int"}], "truncated": False}
        return sql.SqlResult(ended, [{"statement": "SELECT 1", **times, **end}])  # type: ignore[arg-type]


def asked(capsys: pytest.CaptureFixture[str], statement: str, *options: str) -> tuple[str, str, int]:
    with pytest.raises(SystemExit) as ended:
        main.main(["sql", *(options or ("--engine", "auto")), "--format", "csv", statement])
    shown = capsys.readouterr()
    return shown.out, shown.err, int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "report_result", lambda ended, **_: ended.exit_code)


def test_the_chosen_engine_and_the_reason_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(monkeypatch, State.FINISHED)
    out, err, code = asked(capsys, "SELECT count(*) FROM sales.orders")
    assert (ran.engines, out.split(), code) == (["sail"], ["n", "1"], 0)
    assert err.startswith("Sail, since it only reads 1.0 MiB")
    ran.engines.clear()
    out, err, code = asked(capsys, "SHOW TABLES")
    assert (ran.engines, out.split()) == (["spark"], ["n", "2"])
    assert err.startswith("Spark, since “SHOW” is no plain question")


@pytest.mark.parametrize(
    "sail", [State.FAILED, MissingRequirement("no Sail here"), InvalidInput("Sail cannot read the lake")]
)
def test_where_sail_does_not_answer_spark_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sail: State | PenstockError
) -> None:
    ran = Ran(monkeypatch, sail)
    out, err, code = asked(capsys, "SELECT count(*) FROM sales.orders")
    assert (ran.engines, out.split(), code) == (["sail", "spark"], ["n", "2"], 0)
    assert "Spark instead: " in err


def test_without_an_engine_statements_are_those_of_their_instance_s(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(monkeypatch, State.FINISHED)
    asked(capsys, "SELECT 1", "--instance", "team-a")
    assert (ran.engines, ran.instance) == (["sail"], "team-a")
    asked(capsys, "SELECT 1", "--engine", "spark")
    assert (ran.engines, ran.instance) == (["sail", "spark"], "default")


def test_a_run_that_its_user_stopped_is_not_run_again_by_spark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(monkeypatch, State.STOPPED)
    _, _, code = asked(capsys, "SELECT count(*) FROM sales.orders")
    assert (ran.engines, code) == (["sail"], 1)


def test_statements_that_cannot_be_read_are_an_error_with_the_original_reason() -> None:
    def lake(_: str) -> None:
        raise NotFound("The lake “a.1” no longer exists", why="its keys are gone", fix="submit its keys again")

    at: Any = SimpleNamespace(lake=lake, exchange=None)
    earlier: Any = SimpleNamespace(id="app-1", spec=SimpleNamespace(lake="a.1"))
    with pytest.raises(NotFound, match="app-1 cannot be run again") as raised:
        sql.stored_statements(at, earlier)
    assert raised.value.why == "The lake “a.1” no longer exists: its keys are gone"
    assert raised.value.fix == "submit its keys again"


def some() -> tuple[Any, Any, str]:
    """Arguments that a replaced `run` does not look at."""
    return None, None, "SELECT 1"
