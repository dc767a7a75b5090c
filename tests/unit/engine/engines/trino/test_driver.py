"""Statements reach Trino in turn, and its errors say what their users can do."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from trino.exceptions import TrinoQueryError

from penstock.engine.engines.trino import driver
from penstock.engine.engines.trino.driver import StatementRunner
from penstock.errors import ClusterError, InvalidInput, LakeError, NotFound, PenstockError


def failure(name: str, message: str = "no", kind: str = "USER_ERROR", *causes: str) -> TrinoQueryError:
    info: dict[str, Any] | None = None
    for cause in reversed(causes):
        info = {"type": cause, "cause": info}
    return TrinoQueryError({"errorName": name, "message": message, "errorType": kind, "failureInfo": info}, "query-1")


class Trino:
    """A connection on which each statement ends with the next of these: an error, or rows."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)
        self.asked: list[str] = []
        self.update_type: str | None = None
        self.description = [SimpleNamespace(name="id", type_code="bigint")]

    def cursor(self) -> Trino:
        return self

    def close(self) -> None:
        pass

    def execute(self, statement: str) -> None:
        self.asked.append(statement)
        self._rows = self.ends.pop(0)
        if isinstance(self._rows, Exception):
            raise self._rows

    def fetchall(self) -> list[Any]:
        return self.fetchmany(len(self._rows))

    def fetchmany(self, size: int) -> list[Any]:
        found, self._rows = self._rows[:size], self._rows[size:]
        return list(found)


def runner(trino: Trino, *problems: PenstockError, limit: int | None = None) -> StatementRunner:
    tables = SimpleNamespace(problems=list(problems), begin=lambda: None)
    return StatementRunner(trino, tables, limit)  # type: ignore[arg-type]


def test_a_result_has_spark_s_form_and_no_more_rows_than_asked_for() -> None:
    found = runner(Trino([[1], [None], [3]]), limit=2).execute("SELECT id FROM t")
    assert found == {"columns": [{"name": "id", "type": "bigint"}], "rows": [[1], [None]], "truncated": True}


def test_an_interval_is_refused_before_its_rows_are_read() -> None:
    trino = Trino([["1 00:00:00.000"]])
    trino.description[0].type_code = "interval day to second"
    with pytest.raises(InvalidInput, match="The result has an interval"):
        runner(trino).execute("SELECT INTERVAL '1' DAY")


def test_a_statement_without_a_result_has_none() -> None:
    trino = Trino([[True]])
    trino.update_type = "SET SESSION"
    assert runner(trino).execute("SET SESSION a = 1") == {"columns": [], "rows": [], "truncated": False}


NO_NODES = "No nodes available to run query"


def test_a_server_that_does_not_know_its_catalog_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_LOOK_SECONDS", 0.001)
    first, second = failure("NO_NODES_AVAILABLE", NO_NODES), failure("GENERIC_INTERNAL_ERROR", "No nodes available")
    trino = Trino(first, second, first, [[1]])
    assert runner(trino).execute("SELECT 1")["rows"] == [[1]]
    monkeypatch.setattr(driver, "_NODE_SECONDS", -1)
    with pytest.raises(InvalidInput, match=NO_NODES):
        runner(Trino(first)).execute("SELECT 1")


def test_what_may_write_is_not_even_asked() -> None:
    trino = Trino()
    with pytest.raises(InvalidInput, match="Trino only reads the catalog"):
        runner(trino).execute("DELETE FROM t")
    assert trino.asked == []


MISSING = NotFound("There is no table a.b")


LOST = ("io.trino.spi.TrinoException", "java.io.FileNotFoundException", "java.io.FileNotFoundException")
"""What Trino 476 says of a missing file."""


@pytest.mark.parametrize(
    ("error", "problems", "is_right"),
    [
        (failure("PERMISSION_DENIED", "Cannot insert"), (), lambda shown: shown.why == "Cannot insert"),
        (failure("TABLE_NOT_FOUND"), (MISSING,), lambda shown: shown is MISSING),
        (
            failure("EXCEEDED_LOCAL_MEMORY_LIMIT", "too much", "INSUFFICIENT_RESOURCES"),
            (),
            lambda shown: (shown.problem, shown.fix) == ("too much", "--driver-memory"),
        ),
        (
            failure("ICEBERG_CANNOT_OPEN_SPLIT", "Error opening a", "EXTERNAL", *LOST),
            (),
            lambda shown: isinstance(shown, LakeError) and shown.why == "a file is gone: Error opening a",
        ),
        (failure("SYNTAX_ERROR", "mismatched input"), (), lambda shown: shown.problem == "mismatched input"),
        (requests.ConnectionError("gone"), (), lambda shown: isinstance(shown, ClusterError) and shown.why == "gone"),
    ],
)
def test_an_error_says_what_its_user_can_do(
    error: Exception, problems: tuple[PenstockError, ...], is_right: Callable[[PenstockError], bool]
) -> None:
    with pytest.raises(PenstockError) as shown:
        runner(Trino(error), *problems).execute("SELECT 1")
    assert is_right(shown.value)
