"""`penstock index`: skipping indexes, which let queries skip files of a table that cannot match."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional

import typer

from penstock.cli import options, sql
from penstock.cli.output import Result, count, counted, share
from penstock.cli.target import target
from penstock.errors import InvalidInput

app = typer.Typer(
    help="Skipping indexes: queries skip files that cannot contain matching rows.",
    no_args_is_help=True,
    add_completion=False,
)

Table = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="DB.TABLE of the catalog, or a directory's address: s3a://bucket/table."),
]
Names = Optional[list[str]]  # noqa: UP045  Typer reads it at run time, also on Python 3.10

_NAME = re.compile(r"(`(?:[^`]|``)+`|\w+)(?:\.|$)")


@app.command()
@options.sized(options.SIZES)
def build(
    table: Table,
    *,
    columns: Annotated[
        Names, typer.Option(metavar="A,B", help="Columns to index; by default those that benefit.")
    ] = None,
    kinds: Annotated[Names, typer.Option(metavar="KIND,KIND", help="Kinds of index: minmax, values, bloom.")] = None,
    sized: options.Sized,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Build or replace the index of a table; print which columns it covers and why."""
    place = table_in_sql(table)
    wanted = "".join(
        f" {word} ({', '.join(map(quoted, names))})"
        for word, names in (("COLUMNS", parts(columns)), ("KINDS", parts(kinds)))
        if names
    )
    engine = target()
    size = sized(engine.usual_size())
    spec = sql.application(engine, lake, size, name=f"index {table}")
    change, covered = sql.answers(
        engine,
        spec,
        f"BUILD SKIPPING INDEX ON {place}{wanted};\nSHOW SKIPPING INDEX ON {place}",
        problem=f"The index of {table} was not built",
        fix="correct the cause above and build again; a previous index is unchanged",
    )
    _print_change(table, change, covered, as_json=as_json)


@app.command()
def refresh(table: Table, lake: options.Lake = None, as_json: options.Json = False) -> None:
    """Index only new and changed files. Queries are correct without it, since they read files that are not indexed."""
    (change,) = _run(table, lake, "REFRESH SKIPPING INDEX ON", problem="was not refreshed")
    _print_change(table, change, None, as_json=as_json)


@app.command()
def show(table: Table, lake: options.Lake = None, as_json: options.Json = False) -> None:
    """Show the columns that a table's index covers, how well each can skip files, and why it was chosen."""
    (covered,) = _run(table, lake, "SHOW SKIPPING INDEX ON", problem="cannot be shown")
    _print_change(table, None, covered, as_json=as_json)


@app.command()
def drop(table: Table, lake: options.Lake = None, as_json: options.Json = False) -> None:
    """Remove a table's index. The table is unchanged; its queries read all files again."""
    (answer,) = _run(table, lake, "DROP SKIPPING INDEX ON", problem="was not dropped")
    dropped = records(answer)[0]["dropped"]
    if as_json:
        typer.echo(json.dumps({"table": table, "dropped": dropped}))
    else:
        typer.echo(f"Dropped the index of {table}" if dropped else f"{table} had no index")


@app.command()
def advise(
    table: Table,
    *,
    object_size: options.ObjectSize = None,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Recommend a layout for a table from its recorded queries, and estimate how much less they would read.

    The advice is based on a sample of the columns that those queries use.
    """
    engine = target()
    settings = options.layout_settings(object_size)
    spec = sql.application(engine, lake, engine.usual_size(), name=f"index {table}", settings=settings)
    (answer,) = sql.answers(
        engine,
        spec,
        f"SHOW SKIPPING ADVICE ON {table_in_sql(table)}",
        problem=f"There is no advice on {table}",
        fix="penstock tables lists the tables; queries of penstock sql and penstock run are recorded",
    )
    items = [(str(row["item"]), row["value"]) for row in records(answer)]
    reasons = [value for item, value in items if item == "why"]
    advice = {item: value for item, value in items if item != "why"}
    if as_json:
        measured = {name.replace(" ", "_"): int(advice[name]) for name in ("scans", "bytes now", "bytes then")}
        shown = {"table": table, "layout": advice["layout"], **measured, "why": reasons}
        typer.echo(json.dumps({**shown, "statement": advice.get("statement")}, indent=2))
        return
    typer.echo(f"{table}: {advice['layout'] or 'keep the present layout'}")
    for reason in reasons:
        typer.echo(f"  {reason}")
    if advice["layout"]:
        typer.echo(f"  apply it: penstock table rewrite {table} --advised")


def table_in_sql(text: str) -> str:
    """A table's name in SQL: `db.t` quoted part by part (quoted parts are kept), an address as a Parquet path.

    Raises `InvalidInput` for other texts.
    """
    if "://" in text or text.startswith("/"):
        return f"parquet.{quoted(text)}"
    parts = [match[1] for match in _NAME.finditer(text)]
    if not parts or ".".join(parts) != text:
        raise InvalidInput(
            f"{text} is not a table",
            why="a table is DB.TABLE of the catalog, or the address of a directory",
            fix="penstock tables lists the catalog; put special characters in backquotes: db.`my-table`",
        )
    return ".".join(part if part.startswith("`") else quoted(part) for part in parts)


def _run(table: str, lake: str | None, statement: str, *, problem: str) -> Sequence[Result]:
    """Run a statement on a cluster of the default size: it lists files and reads the footers of new ones."""
    engine = target()
    spec = sql.application(engine, lake, engine.usual_size(), name=f"index {table}")
    text = f"{statement} {table_in_sql(table)}"
    fix = f"penstock index build {table} builds an index; penstock tables lists the tables"
    return sql.answers(engine, spec, text, problem=f"The index of {table} {problem}", fix=fix)


def quoted(name: str) -> str:
    """A name quoted for SQL."""
    return f"`{name.replace('`', '``')}`"


def parts(names: Sequence[str] | None) -> list[str]:
    """The values of a repeatable option that also takes commas."""
    return [part.strip() for text in names or () for part in text.split(",") if part.strip()]


def records(result: Result) -> list[dict[str, Any]]:
    """The rows of a result as mappings by column name."""
    names = [column["name"] for column in result["columns"]]
    return [dict(zip(names, row, strict=True)) for row in result["rows"]]


def _print_change(table: str, change: Result | None, covered: Result | None, *, as_json: bool) -> None:
    changes = records(change)[0] if change else None
    columns = records(covered) if covered else None
    if as_json:
        shown = {"table": table, "change": changes, "columns": columns}
        typer.echo(json.dumps({name: value for name, value in shown.items() if value is not None}, indent=2))
        return
    if changes:
        typer.echo(f"{table}: {in_words(changes)}")
    if columns:
        _print(columns)
    elif columns is not None:
        typer.echo(f"{table} has no index: penstock index build {table}")


def in_words(change: Mapping[str, int]) -> str:
    """Summarize a refresh: `144 files, 12 read now, 3 gone or replaced, …`."""
    parts = [counted(change["files"], "file"), f"{count(change['read'])} read now"]
    if change["obsolete"]:
        parts.append(f"{count(change['obsolete'])} gone or replaced")
    if change["unsettled"]:
        parts.append(f"{count(change['unsettled'])} too recent, left to the next refresh")
    if change["unreadable"]:
        parts.append(f"{count(change['unreadable'])} unreadable, never skipped (the driver's log names them)")
    return ", ".join(parts)


def _print(columns: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table as Grid

    from penstock.cli.output import plain_console

    grid = Grid("column", "type", "kinds", box=None, header_style="bold")
    grid.add_column("files known", justify="right")
    grid.add_column("files per key", justify="right")
    grid.add_column("why", overflow="fold")
    for column in columns:
        known = "" if column["files"] is None else count(column["files"])
        per_key = "" if column["files_per_key"] is None else share(column["files_per_key"])
        grid.add_row(column["column"], column["type"], column["kinds"], known, per_key, column["why"])
    plain_console().print(grid)
