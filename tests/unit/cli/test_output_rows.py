"""SQL results as table, CSV and JSON."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest

import penstock.cli
from penstock.cli.output import plain_console, write

RESULT = {
    "statement": "select",
    "columns": [{"name": "n", "type": "int"}, {"name": "größe", "type": "string"}],
    "rows": [[1, 'a "b", c'], [None, "[bold]x[/bold]"]],
    "truncated": False,
    "elapsed_ms": 1500,
}
NOTHING = {"statement": "create", "columns": [], "rows": [], "truncated": False, "elapsed_ms": 1}
FAILED = {"statement": "nope", "error": "no"}


def written(output_format: str, *results: object) -> str:
    stream = io.StringIO()
    write(results, output_format, stream, limit=10)  # type: ignore[arg-type]
    return stream.getvalue()


def test_csv_quotes_what_needs_it_and_leaves_null_empty() -> None:
    assert written("csv", RESULT) == 'n,größe\n1,"a ""b"", c"\n,[bold]x[/bold]\n'


def test_results_without_columns_and_failures_print_nothing() -> None:
    assert written("csv", NOTHING, RESULT, FAILED) == written("csv", RESULT)


def test_a_table_shows_values_as_they_are() -> None:
    table = written("table", RESULT)
    assert "[bold]x[/bold]" in table
    assert "NULL" in table
    assert "2 rows, 1.50 s" in table


def test_a_row_is_a_line_on_a_pipe_however_long_and_is_not_filled_up() -> None:
    plan = "== Physical Plan ==\n" + "FileScan parquet " * 200 + "end"
    explained = {**RESULT, "columns": [{"name": "plan", "type": "string"}], "rows": [[plan]]}
    lines = written("table", explained).splitlines()
    assert set(plan.splitlines()) <= set(lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_the_closing_line_is_whole_below_a_narrow_column() -> None:
    counted = {**RESULT, "columns": [{"name": "n", "type": "int"}], "rows": [[1]], "truncated": True}
    assert written("table", counted).splitlines()[-1] == "1 row (the first 10; --limit shows more), 1.50 s"


def test_json_is_json() -> None:
    assert json.loads(written("json", RESULT, NOTHING)) == [RESULT, NOTHING]


def test_a_console_prints_what_users_wrote_as_it_is_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console().print(f"http://[fe80::1]:9000 [/b] {'x' * 200}")
    plain_console(stderr=True).print("[draft]")
    assert capsys.readouterr() == (f"http://[fe80::1]:9000 [/b] {'x' * 200}\n", "[draft]\n")


def test_no_command_makes_a_console_that_reads_brackets_as_markup() -> None:
    calls = [
        (str(path), node.lineno, [one.arg for one in node.keywords])
        for path in Path(*penstock.cli.__path__).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Console"
    ]
    assert calls
    assert not [call for call in calls if "markup" not in call[2]]
