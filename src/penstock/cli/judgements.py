"""Rows of what was looked at, what was found, and what follows: how `lake check` and `doctor` print them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.lake.check import Row


def print_rows(title: str, rows: Iterable[Row], conclusion: str, *, columns: tuple[str, str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.cli.console import plain_console
    from penstock.lake.check import Outcome

    colours = {Outcome.OK: "green", Outcome.LIMITED: "yellow", Outcome.FAILED: "red", Outcome.SKIPPED: "dim"}
    what, seen, therefore = columns
    table = Table(what, "", seen, therefore, title=title)
    for row in rows:
        found = row.judgement
        outcome = Text(found.outcome.value, style=colours[found.outcome])
        table.add_row(Text(row.feature), outcome, Text(found.measured), Text(found.consequence))
    console = plain_console()
    console.print(table)
    console.print(conclusion)
