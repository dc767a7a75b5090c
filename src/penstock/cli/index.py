"""`penstock index`: what is known of each of a table's files, so that those that cannot match are never read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional

import typer

from penstock.cli import options, sql
from penstock.cli.output import Result, count, share
from penstock.cli.target import target
from penstock.errors import InvalidInput

app = typer.Typer(
    help="Skipping indexes: files of a table that a query cannot need are not read.",
    no_args_is_help=True,
    add_completion=False,
)

Table = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="DB.TABLE of the catalog, or the address of a directory: s3a://bucket/table."),
]
Names = Optional[list[str]]  # noqa: UP045  Typer reads it at run time, also on Python 3.10

_NAME = re.compile(r"(`(?:[^`]|``)+`|\w+)(?:\.|$)")


@app.command()
def build(
    table: Table,
    *,
    columns: Annotated[
        Names, typer.Option(metavar="A,B", help="Only these; otherwise those that are worth it.")
    ] = None,
    kinds: Annotated[Names, typer.Option(metavar="KIND,KIND", help="Of minmax, values, bloom.")] = None,
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Build the index of a table's files, in place of the one there was, and say which columns it covers and why."""
    place = table_in_sql(table)
    wanted = "".join(
        f" {word} ({', '.join(map(quoted, names))})"
        for word, names in (("COLUMNS", parts(columns)), ("KINDS", parts(kinds)))
        if names
    )
    engine = target()
    size = options.cluster_size(
        engine.usual_size(),
        driver_cores=None,
        driver_memory=driver_memory,
        executors=executors,
        executor_cores=executor_cores,
        executor_memory=executor_memory,
    )
    spec = sql.application(engine, lake, size, name=f"index {table}")
    change, covered = sql.answers(
        engine,
        spec,
        f"BUILD SKIPPING INDEX ON {place}{wanted};\nSHOW SKIPPING INDEX ON {place}",
        problem=f"The index of {table} was not built",
        fix="the former index, if there was one, is as it was: put right what is named above and build again",
    )
    _tell(table, change, covered, as_json=as_json)


@app.command()
def refresh(table: Table, lake: options.Lake = None, as_json: options.Json = False) -> None:
    """Read what is new or was changed since, and nothing else. Queries are right without: unknown files are read."""
    (change,) = _run(table, lake, "REFRESH SKIPPING INDEX ON", problem="was not refreshed")
    _tell(table, change, None, as_json=as_json)


@app.command()
def show(table: Table, lake: options.Lake = None, as_json: options.Json = False) -> None:
    """Show which columns a table's index covers, how far each can skip files, and why it was chosen."""
    (covered,) = _run(table, lake, "SHOW SKIPPING INDEX ON", problem="cannot be shown")
    _tell(table, None, covered, as_json=as_json)


@app.command()
def drop(table: Table, lake: options.Lake = None, as_json: options.Json = False) -> None:
    """Remove a table's index. The table stays as it is, and its queries read all files again."""
    (answer,) = _run(table, lake, "DROP SKIPPING INDEX ON", problem="was not dropped")
    dropped = records(answer)[0]["dropped"]
    if as_json:
        typer.echo(json.dumps({"table": table, "dropped": dropped}))
    else:
        typer.echo(f"The index of {table} is gone" if dropped else f"{table} had no index")


@app.command()
def advise(
    table: Table,
    *,
    object_size: options.ObjectSize = None,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Say how a table should be laid out for the queries that were noted of it, and how much less they would read.

    Reads a sample of the columns that they ask for.
    """
    engine = target()
    settings = options.layout_settings(object_size)
    spec = sql.application(engine, lake, engine.usual_size(), name=f"index {table}", settings=settings)
    (answer,) = sql.answers(
        engine,
        spec,
        f"SHOW SKIPPING ADVICE ON {table_in_sql(table)}",
        problem=f"There is no advice on {table}",
        fix="penstock tables lists the tables; queries by penstock sql and penstock run are noted",
    )
    items = [(str(row["item"]), row["value"]) for row in records(answer)]
    reasons = [value for item, value in items if item == "why"]
    advice = {item: value for item, value in items if item != "why"}
    if as_json:
        measured = {name.replace(" ", "_"): int(advice[name]) for name in ("scans", "bytes now", "bytes then")}
        told = {"table": table, "layout": advice["layout"], **measured, "why": reasons}
        typer.echo(json.dumps({**told, "statement": advice.get("statement")}, indent=2))
        return
    typer.echo(f"{table}: {advice['layout'] or 'stay as it is'}")
    for reason in reasons:
        typer.echo(f"  {reason}")
    if advice["layout"]:
        typer.echo(f"  apply it: penstock table rewrite {table} --advised")


def table_in_sql(text: str) -> str:
    """A table as SQL writes it: `db.t` quoted part by part (parts that are quoted stay), an address as a Parquet path.

    Raises `InvalidInput` for what is neither.
    """
    if "://" in text or text.startswith("/"):
        return f"parquet.{quoted(text)}"
    parts = [match[1] for match in _NAME.finditer(text)]
    if not parts or ".".join(parts) != text:
        raise InvalidInput(
            f"{text} is no table",
            why="a table of the catalog is DB.TABLE, one without a catalog the address of its directory",
            fix="penstock tables lists the catalog's; a name with other characters goes in backquotes: db.`my-table`",
        )
    return ".".join(part if part.startswith("`") else quoted(part) for part in parts)


def _run(table: str, lake: str | None, statement: str, *, problem: str) -> Sequence[Result]:
    """On a cluster of the usual size: the work is a listing, and footers of what is new."""
    engine = target()
    spec = sql.application(engine, lake, engine.usual_size(), name=f"index {table}")
    text = f"{statement} {table_in_sql(table)}"
    fix = f"penstock index build {table} makes an index; penstock tables lists the tables"
    return sql.answers(engine, spec, text, problem=f"The index of {table} {problem}", fix=fix)


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def parts(names: Sequence[str] | None) -> list[str]:
    """Of a repeatable option that also takes commas."""
    return [part.strip() for text in names or () for part in text.split(",") if part.strip()]


def records(result: Result) -> list[dict[str, Any]]:
    """The rows of a result, by the names of its columns."""
    names = [column["name"] for column in result["columns"]]
    return [dict(zip(names, row, strict=True)) for row in result["rows"]]


def _tell(table: str, change: Result | None, covered: Result | None, *, as_json: bool) -> None:
    changes = records(change)[0] if change else None
    columns = records(covered) if covered else None
    if as_json:
        told = {"table": table, "change": changes, "columns": columns}
        typer.echo(json.dumps({name: value for name, value in told.items() if value is not None}, indent=2))
        return
    if changes:
        typer.echo(f"{table}: {in_words(changes)}")
    if columns:
        _print(columns)
    elif columns is not None:
        typer.echo(f"{table} has no index: penstock index build {table}")


def in_words(change: Mapping[str, int]) -> str:
    """`144 files, 12 read now, 3 entries of files that are gone; 1 file cannot be read, …`"""
    parts = [_files(change["files"]), f"{count(change['read'])} read now"]
    if change["obsolete"]:
        parts.append(f"{count(change['obsolete'])} gone or replaced")
    if change["unsettled"]:
        parts.append(f"{count(change['unsettled'])} too young, left to the next refresh")
    if change["unreadable"]:
        parts.append(f"{count(change['unreadable'])} unreadable, never skipped (the driver's log names them)")
    return ", ".join(parts)


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{count(number)} files"


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
