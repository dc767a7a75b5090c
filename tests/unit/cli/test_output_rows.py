"""SQL results as table, CSV and JSON."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

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
    plain_console(sys.stderr).print("[draft]")
    assert capsys.readouterr() == (f"http://[fe80::1]:9000 [/b] {'x' * 200}\n", "[draft]\n")


@pytest.mark.parametrize("terminal", [False, True])
def test_control_characters_of_another_users_name_are_shown_and_not_sent_to_the_terminal(terminal: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    table = Table("name", box=None)
    table.add_row(Text("a\x1b]0;title\x07b\x9b2J", style="red"))
    table.add_row("c\x1b[2Jd")
    console = plain_console(stream, width=80)
    console.print(table)
    console.print("e\x7ff")
    printed = stream.getvalue()
    assert r"a\x1b]0;" in printed
    assert r"c\x1b[2J" in printed
    assert r"e\x7ff" in printed
    assert not re.search(r"[\x07\x7f\x9b]|\x1b(?!\[[0-9;]*m)", printed)


def test_values_are_no_commands_to_the_terminal_either() -> None:
    result = {**RESULT, "rows": [[1, "a\x1b[2J" * 30]]}
    assert r"a\x1b[2J" * 30 in written("table", result)
    assert "a\x1b[2J" * 30 in written("csv", result)


def test_no_command_makes_another_console_than_that() -> None:
    calls = [
        f"{path}:{node.lineno}"
        for path in Path(*penstock.cli.__path__).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Console"
    ]
    assert not calls
