"""Commands that are SQL statements: what they say of one that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import foreground, sql
from penstock.errors import PenstockError


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


def some() -> tuple[Any, Any, str]:
    """Arguments that a replaced `run` does not look at."""
    return None, None, "SELECT 1"
