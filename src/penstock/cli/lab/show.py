"""What the lab's commands print at their end, and how they exit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from penstock.errors import InvalidInput, ValidationFailed

if TYPE_CHECKING:
    from penstock.lab.records import Run
    from penstock.lab.report.document import Table as Rows


def show(console: Console, runs: Sequence[Run]) -> None:
    """The tables of the runs' report, its headline, and how to have all of it."""
    from penstock.lab.report import make
    from penstock.lab.report.document import brief

    document = make.document(runs)
    console.print()
    for part in brief(document):
        console.print(_table(part))
        console.print()
    console.print(f"[bold {'green' if document.good else 'red'}]{document.headline}[/]", highlight=False)
    names = " ".join(run.description.id for run in runs)
    console.print(f"Report: penstock lab report {names} -o report.html", highlight=False, soft_wrap=True)


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
        made.add_column(column, justify="right" if index in part.numeric else "left", no_wrap=index in part.numeric)
    for row in part.rows:
        made.add_row(*(f"[green]{c}[/]" if c == "✓" else f"[red]{c}[/]" if c.startswith("✗") else c for c in row))
    return made


def write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {path}", why=str(error.strerror), fix="choose another file with --output"
        ) from error
