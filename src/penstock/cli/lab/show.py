"""What the lab's commands print at their end, and how they exit."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from penstock.errors import InvalidInput, ValidationFailed

if TYPE_CHECKING:
    from penstock.lab.records import Run
    from penstock.lab.report.document import Document
    from penstock.lab.report.document import Table as Rows

_HEADING = 11
"""Characters of a numeric column's heading in a line."""

_TEXT = 40
"""Characters in a line of a column of words, before they are broken on a terminal."""

_GAP = 2
"""Characters between two columns."""


def show(console: Console, runs: Sequence[Run]) -> None:
    """The tables of the runs' report, its headline, and how to have all of it."""
    from penstock.lab.report import make

    show_document(console, make.document(runs))
    names = " ".join(run.description.id for run in runs)
    console.print(f"Report: penstock lab report {names} -o report.html", highlight=False, soft_wrap=True)


def show_document(console: Console, document: Document) -> None:
    from penstock.lab.report.document import brief

    console.print()
    for part in brief(document):
        everything = list(range(len(part.columns)))
        # A file has no edge to fit.
        page = console if console.is_terminal else Console(file=console.file, width=_width(part, everything))
        for columns in columns_that_fit(part, page.width):
            page.print(_table(part, columns))
            page.print()
    console.print(f"[bold {'green' if document.good else 'red'}]{document.headline}[/]", highlight=False)


def present(runs: Sequence[Run], page: Path | None, make: Callable[[], Document], *, unfit: str) -> None:
    """Show what `make` says of the runs, and write it to `page`. Where it finds them unfit: the refusal `unfit`."""
    try:
        document = make()
    except ValueError as error:
        raise InvalidInput(unfit, why=str(error), fix="list the runs: penstock lab runs") from error
    show_and_save(Console(), document, runs, page)


def show_and_save(console: Console, document: Document, runs: Sequence[Run], page: Path | None) -> None:
    show_document(console, document)
    if page:
        save(page, document, runs)
        typer.echo(f"Written to {page}")


def end_as(runs: Sequence[Run]) -> None:
    """Raise what the runs' outcomes call for: 9 where a result was wrong, 1 where something failed."""
    for run in runs:
        if run.outcome == "wrong":
            answers = [str(sample["query"]) for sample in run.of_kind("answer") if sample["verdict"] != "equal"]
            checks = [str(sample["name"]) for sample in run.of_kind("check") if not sample["right"]]
            raise ValidationFailed(
                f"{len(answers) + len(checks)} results of {run.description.id} are wrong",
                why=", ".join([*answers, *checks]),
                fix=f"penstock lab report {run.description.id} shows them",
            )
    if any(run.outcome != "ok" for run in runs):
        raise typer.Exit(1)


def columns_that_fit(part: Rows, width: int) -> list[list[int]]:
    """The columns in as many tables as it takes for none to be wider than `width`; the first column is in each.

    A number that is cut off is worse than a second table.
    """
    tables = [[0]]
    for index in range(1, len(part.columns)):
        if len(tables[-1]) > 1 and _width(part, [*tables[-1], index], text=_TEXT) > width:
            tables.append([0])
        tables[-1].append(index)
    return tables


def _width(part: Rows, columns: Sequence[int], *, text: int = sys.maxsize) -> int:
    """Characters that these columns take, with words broken after `text` of them."""

    def of(index: int) -> int:
        cells = (_heading(part, index), *(row[index] for row in part.rows))
        longest = max(len(line) for cell in cells for line in cell.splitlines() or [""])
        return longest if index in part.numeric or index == 0 else min(longest, text)

    return sum(of(index) for index in columns) + _GAP * (len(columns) - 1)


def _table(part: Rows, columns: Sequence[int]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim")
    for index in columns:
        numeric = index in part.numeric
        made.add_column(
            _heading(part, index),
            justify="right" if numeric else "left",
            no_wrap=numeric or index == 0,
            vertical="bottom",
        )
    for row in part.rows:
        cells = [row[index] for index in columns]
        made.add_row(*(f"[green]{c}[/]" if c == "✓" else f"[red]{c}[/]" if c.startswith("✗") else c for c in cells))
    return made


def _heading(part: Rows, index: int) -> str:
    """Numbers are never broken, so the words above them are."""
    column = part.columns[index]
    return "\n".join(textwrap.wrap(column, _HEADING)) if index in part.numeric else column


def save(path: Path, document: Document, runs: Sequence[Run]) -> None:
    """In the form that the file's name asks for, else as a page."""
    from penstock.lab.report import make

    form = path.suffix.lstrip(".")
    write_report(path, make.write(document, runs, form if form in make.FORMS else "html"))


def write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {path}", why=str(error.strerror), fix="choose another file with --output"
        ) from error
