"""A table of the lab fits the terminal without cutting a number off, and is whole where there is no terminal."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.cli.lab.reports import columns_that_fit, show_document
from penstock.lab.report.elements.render import Document, Section, Table

WIDE = Table(
    ("measure", *(f"figure number {n}" for n in range(12))),
    [("sort, single process", *(f"{n}23 456 789.12" for n in range(12)))],
    numeric=frozenset(range(1, 13)),
)


def shown(*, width: int, terminal: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    show_document(console, Document("", "Done.", (), [], [Section("", parts=[WIDE], brief=True)]))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_on_a_narrow_terminal_every_number_is_whole_and_every_part_names_its_rows() -> None:
    lines = shown(width=80, terminal=True)
    assert max(len(line.rstrip()) for line in lines) <= 80
    text = "\n".join(lines)
    assert all(f"{n}23 456 789.12" in text for n in range(12))
    assert text.count("sort, single process") > 1


def test_without_a_terminal_a_row_is_one_line() -> None:
    (row,) = [line for line in shown(width=80, terminal=False) if line.startswith("sort, single process")]
    assert all(f"{n}23 456 789.12" in row for n in range(12))


def test_a_cell_is_printed_as_it_is_whatever_brackets_it_has() -> None:
    reasons = ["✗ no file [/tmp/x]", "spark.x=[a]"]
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    table = Table(("arm", "reason"), [("Spark [tuned]", reason) for reason in reasons])
    show_document(console, Document("", "Done.", (), [], [Section("", parts=[table], brief=True)]))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert [line.strip() for line in printed.splitlines() if "Spark" in line] == [
        f"Spark [tuned]  {reason}" for reason in reasons
    ]


@given(st.integers(1, 400))
def test_columns_are_all_there_once_in_their_order_beside_the_first(width: int) -> None:
    tables = columns_that_fit(WIDE, width)
    assert all(table[0] == 0 for table in tables)
    assert [index for table in tables for index in table[1:]] == list(range(1, 13))
