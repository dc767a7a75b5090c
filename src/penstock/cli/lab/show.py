"""What the lab's commands print at their end, and how they exit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
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
        console.print(_table(part))
        console.print()
    console.print(f"[bold {'green' if document.good else 'red'}]{document.headline}[/]", highlight=False)


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


def _table(part: Rows) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(part.columns):
        numeric = index in part.numeric
        # Numbers are never broken, so the words above them are.
        heading = "\n".join(textwrap.wrap(column, _HEADING)) if numeric else column
        made.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, vertical="bottom")
    for row in part.rows:
        made.add_row(*(f"[green]{c}[/]" if c == "✓" else f"[red]{c}[/]" if c.startswith("✗") else c for c in row))
    return made


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
