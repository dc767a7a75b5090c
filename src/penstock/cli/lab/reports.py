"""`penstock lab runs|report|compare|price|stores`: list and report recorded runs, with the matching exit codes."""

from __future__ import annotations

import json
import sys
import textwrap
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.table import Table
from rich.text import Text

from penstock import units
from penstock.cli import options as shared
from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.output import plain_console, whole_width
from penstock.errors import InvalidInput, ValidationFailed
from penstock.home import Home

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.lab.analysis.cost import Protection
    from penstock.lab.records import Run
    from penstock.lab.report.elements.render import Document
    from penstock.lab.report.elements.render import Table as Rows
    from penstock.prices import Prices


_HEADING = 11
"""Characters per line of a numeric column's heading."""

_TEXT = 40
"""Characters per line of a text column on a terminal."""

_GAP = 2
"""Characters between two columns."""


def show(console: Console, runs: Sequence[Run]) -> None:
    """Print the doubts, tables and headline of the runs' report, and the command that writes all of it."""
    from penstock.lab.report import report

    show_document(console, report.document(runs))
    names = " ".join(run.description.id for run in runs)
    console.print(f"Report: penstock lab report {names} -o report.html", soft_wrap=True)


def show_document(console: Console, document: Document) -> None:
    from penstock.lab.report.elements.render import terminal_tables

    console.print()
    for doubt in document.doubts:
        mark, colour = ("✗", "red") if doubt.wrong else ("⚠", "yellow")
        kind = units.capitalised(doubt.kind)
        console.print(Text.assemble((f"{mark} {kind}.", f"bold {colour}"), f" {doubt.sentence}"), soft_wrap=True)
    if document.doubts:
        console.print()
    for part in terminal_tables(document):
        everything = list(range(len(part.columns)))
        # A file has no width limit.
        page = console if console.is_terminal else plain_console(console.file, width=_width(part, everything))
        for columns in columns_that_fit(part, page.width):
            page.print(_table(part, columns))
            page.print()
    colour = "red" if document.wrong else "green" if document.good else "yellow"
    console.print(Text(document.headline, style=f"bold {colour}"))


def present(runs: Sequence[Run], page: Path | None, make: Callable[[], Document], *, unfit: str) -> None:
    """Show the document that `make` builds, and write it to `page`.

    Raises `InvalidInput` with the message `unfit` if `make` raises `ValueError`.
    """
    try:
        document = make()
    except ValueError as error:
        raise InvalidInput(unfit, why=str(error), fix="list the runs: penstock lab runs") from error
    show_and_save(plain_console(), document, runs, page)


def show_and_save(console: Console, document: Document, runs: Sequence[Run], page: Path | None) -> None:
    show_document(console, document)
    if page:
        save(page, document, runs)
        typer.echo(f"Written to {page}")


def end_as(runs: Sequence[Run]) -> None:
    """Exit with the code of the runs' outcomes: 9 if a result was wrong, 1 if a repetition failed."""
    for run in runs:
        if run.outcome == "wrong":
            answers = [str(sample["query"]) for sample in run.of_kind("answer") if sample["verdict"] == "different"]
            checks = [str(sample["name"]) for sample in run.of_kind("check") if not sample["right"]]
            raise ValidationFailed(
                f"{len(answers) + len(checks)} results of {run.description.id} are wrong",
                why=", ".join([*answers, *checks]),
                fix=f"penstock lab report {run.description.id} shows them",
            )
    if any(run.outcome != "ok" for run in runs):
        raise typer.Exit(1)


def columns_that_fit(part: Rows, width: int) -> list[list[int]]:
    """Split the columns into tables that are at most `width` wide; each repeats the first column.

    A second table is better than a truncated number.
    """
    tables = [[0]]
    for index in range(1, len(part.columns)):
        if len(tables[-1]) > 1 and _width(part, [*tables[-1], index], text=_TEXT) > width:
            tables.append([0])
        tables[-1].append(index)
    return tables


def _width(part: Rows, columns: Sequence[int], *, text: int = sys.maxsize) -> int:
    """The width of these columns in characters, with text wrapped after `text` characters."""

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
            Text(_heading(part, index)),
            justify="right" if numeric else "left",
            no_wrap=numeric or index == 0,
            vertical="bottom",
        )
    for row in part.rows:
        cells = [row[index] for index in columns]
        made.add_row(*(Text(c, "green" if c == "✓" else "red" if c.startswith("✗") else "") for c in cells))
    return made


def _heading(part: Rows, index: int) -> str:
    """A column's heading, wrapped above numbers, which are never wrapped themselves."""
    column = part.columns[index]
    return "\n".join(textwrap.wrap(column, _HEADING)) if index in part.numeric else column


def save(path: Path, document: Document, runs: Sequence[Run]) -> None:
    """Write the document in the form of the file's suffix, by default as an HTML page."""
    from penstock.lab.report import report

    form = path.suffix.lstrip(".")
    write_report(path, report.write(document, runs, form if form in report.FORMS else "html"))


def write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {path}", why=str(error.strerror), fix="choose another file with --output"
        ) from error


@app.command("runs")
def runs_command(as_json: shared.Json = False) -> None:
    """List the runs recorded on this machine, oldest first, and the command that resumes an interrupted one."""
    from penstock.lab import records

    found = records.list_runs(Home.default())
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("run", "workload", "arm", "scale", "outcome"):
        table.add_column(column, no_wrap=True)
    for run in found:
        scale = f"{run['scale']:g}" if run["scale"] else ""
        done = "" if run["ended"] else f", {run['repetitions_done']} of {run['repetitions']} done"
        table.add_row(run["run"], run["workload"], run["arm"], scale, run["outcome"] + done)
    console = plain_console()
    # A truncated id cannot be copied.
    console.width = max(console.width, whole_width(table))
    console.print(table)
    for run_id in [run["run"] for run in found if run["outcome"] == records.DAMAGED]:
        copy = f"{records.LAKE_PREFIX}/{run_id}/run.json"
        text = f"\nThe run.json of {run_id} is damaged: restore it from the lake ({copy}) or remove the directory"
        console.print(text, soft_wrap=True)
    if left := [run["run"] for run in found if run["outcome"] == "interrupted" and run["repetitions"]]:
        console.print(f"\nTo resume the newest interrupted run: penstock lab resume {left[-1]}", soft_wrap=True)


@app.command("report")
def report_command(
    runs: Annotated[list[str], typer.Argument(help="Run ids, unique parts of them, directories, or `last`.")],
    output: options.Output = None,
    form: Annotated[Optional[str], typer.Option("--format", help="html, md or json.")] = None,  # noqa: UP045
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write the report of a run, or of several runs to compare, from their raw samples."""
    from penstock.lab.report import report

    suffix = output.suffix.lstrip(".") if output else ""
    chosen = form or (suffix if suffix in report.FORMS else "html")
    if chosen not in report.FORMS:
        raise InvalidInput(f"There is no format {chosen}", fix=f"choose one of {', '.join(report.FORMS)}")
    text = report.FORMS[chosen](find(runs))
    if output is None and browse:
        output = Path("penstock-report.html")
    if output is None:
        sys.stdout.write(text)
        return
    write_report(output, text)
    typer.echo(f"Written to {output}")
    if browse:
        webbrowser.open(output.absolute().as_uri())


@app.command("compare")
def compare_command(
    baseline: Annotated[str, typer.Argument(help="Run id, a unique part of it, or a directory.")],
    candidate: Annotated[str, typer.Argument(help="Run to compare with the baseline.")],
    output: options.Output = None,
) -> None:
    """Compare two runs of one workload: medians, their ratio with its interval, and which differences are noise."""
    from penstock.lab.report import report

    runs = find([baseline, candidate])
    if output is not None:
        form = output.suffix.lstrip(".")
        write_report(output, report.FORMS.get(form, report.as_html)(runs))
        typer.echo(f"Written to {output}")
    show(plain_console(), runs)


def find(names: list[str]) -> list[Run]:
    """Find runs on this machine, else in the default lake, if one exists."""
    from penstock.lab import records
    from penstock.lake.registry import Lakes
    from penstock.lake.s3 import open_store

    home = Home.default()
    lakes = Lakes(home)
    store = open_store(home, lakes.get()) if lakes.default() else None
    return [records.find(home, name, store) for name in names]


@app.command("price")
def price_command(
    runs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Run ids, unique parts of them, directories, or `last`.", show_default=False),
    ] = None,
    *,
    capacity: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="User data to store, e.g. 100t: adds the total cost of ownership of a store."),
    ] = None,
    protection: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Copies (3x) or data and parity chunks (4+2). Repeat the option for each run to give its "
            "store's protection; times are then compared with raw capacity.",
            show_default="3x and 4+2 for --capacity",
        ),
    ] = None,
    prices: options.PriceFile = None,
    template: Annotated[bool, typer.Option("--template", help="Print the packaged prices as a template.")] = False,
    output: options.Page = None,
) -> None:
    """Compute price/performance of runs, and the total cost of a store, from editable prices.

    Every packaged price names its source or is marked as an assumption. Start from them:

    penstock lab price --template > prices.yaml
    """
    from penstock.lab.analysis import cost
    from penstock.lab.report import cost as report
    from penstock.prices import packaged_prices, read_prices

    if template:
        sys.stdout.write(packaged_prices())
        return
    if not runs and not capacity:
        raise InvalidInput(
            "There is nothing to price",
            why="neither a run nor a capacity is given",
            fix="penstock lab price last, or penstock lab price --capacity 100t",
        )
    try:
        kept = [cost.parse_protection(name) for name in protection or ()]
    except ValueError as error:
        raise InvalidInput("--protection is invalid", why=str(error), fix="--protection 3x --protection 4+2") from error
    asked = report.PriceOptions(
        prices=read_prices(prices),
        protections=kept,
        capacity_bytes=units.require_size(capacity, "--capacity") if capacity else None,
    )
    found = find(runs or [])
    present(found, output, lambda: report.document(found, asked), unfit="These runs cannot be priced")


@app.command("stores")
def stores_command(
    runs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            help="Run ids, unique parts of them, directories, or `last`. Each stands for all runs of its command.",
            show_default="last",
        ),
    ] = None,
    *,
    baseline: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Arm to compare the others with.", show_default="the first"),
    ] = None,
    protection: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="ARM=3x or ARM=4+2: copies, or data and parity chunks, of a store that Penstock did not start.",
            show_default="as recorded",
        ),
    ] = None,
    medium: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Medium of the raw capacity, from the prices file.", show_default="the first"),
    ] = None,
    prices: options.PriceFile = None,
    output: options.Page = None,
) -> None:
    """Compare stores over several workloads: time, raw capacity, and price × time.

    The arms of the experiments are the stores. Measure them with a lab file, then write the page:

    penstock lab run examples/stores.yaml && penstock lab stores -o stores.html
    """
    from penstock.lab.analysis.stores import StoreChoices
    from penstock.lab.report import stores
    from penstock.prices import read_prices

    paid = read_prices(prices)
    asked = stores.StoreOptions(StoreChoices(baseline, _protections(protection or [])), paid, _medium(medium, paid))
    found = _with_all_of_its_batch(runs or ["last"])
    present(found, output, lambda: stores.document(found, asked), unfit="These runs do not compare stores")


def _with_all_of_its_batch(names: list[str]) -> list[Run]:
    """The runs and all others of their commands, once each and in order; for runs of other machines only themselves."""
    from penstock.lab import records, runner

    home = Home.default()
    here = set(records.run_ids(home))
    found: dict[str, Run] = {}
    for run in find(names):
        if run.description.id not in here:
            found[run.description.id] = run
            continue
        for described in runner.related_runs(home, run.description):
            found[described.id] = records.find(home, described.id)
    return list(found.values())


def _protections(given: list[str]) -> dict[str, Protection]:
    from penstock.lab.analysis import cost

    protections = {}
    for text in given:
        arm, _, kept = text.rpartition("=")
        try:
            protections[arm] = cost.parse_protection(kept)
        except ValueError as error:
            raise InvalidInput(
                f"--protection {text} is invalid", why=str(error), fix="--protection 'Ceph 4+2=4+2'"
            ) from error
    return protections


def _medium(name: str | None, prices: Prices) -> str | None:
    if name is not None and name not in prices.media:
        raise InvalidInput(f"The prices contain no medium {name}", fix=f"choose one of {', '.join(prices.media)}")
    return name
