"""`penstock tables`: what the catalog knows, without starting Spark; and writing a table again, with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from typer.core import TyperGroup

from penstock.cli import rewriting
from penstock.cli.console import plain_console
from penstock.cli.server import server
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.catalog.metastore import Metastore
    from penstock.catalog.tables import Table


class _ListsByDefault(TyperGroup):
    """Makes `penstock tables PATTERN` mean `penstock tables list PATTERN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [arg for arg in args if not arg.startswith("-")]
        if "--help" not in args and (not words or words[0] not in self.commands):
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListsByDefault,
    help="The catalog's tables: `penstock tables [PATTERN]`, `penstock tables show DB.TABLE`.",
    add_completion=False,
)
app.command("rewrite")(rewriting.rewrite)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_tables(
    pattern: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="A shell pattern of DATABASE.TABLE, or of TABLE in any database: 'tpcds*.store_*'."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List tables and views. `list` itself may be left out: penstock tables 'store_*'."""
    found = _tables(pattern)
    if as_json:
        typer.echo(json.dumps([table.as_json() for table in found], indent=2))
    elif found:
        _print_list(found)
    else:
        typer.echo(f"No table matches {pattern}" if pattern else "The catalog has no tables yet", err=True)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="DB.TABLE", help="The table; in `default` where no DB is given.")],
    as_json: JsonOption = False,
) -> None:
    """Show one table: where it is, its columns, and which statistics the optimizer has of it."""
    table = _table(name)
    if as_json:
        typer.echo(json.dumps(table.as_json(), indent=2))
    else:
        _print_table(table)


def _tables(pattern: str | None) -> list[Table]:
    if url := server():
        from penstock.catalog.tables import Table
        from penstock.client.client import Client

        params = {} if pattern is None else {"pattern": pattern}
        return [Table.from_json(item) for item in Client(url).get("/v1/tables", **params)["items"]]
    return _metastore().tables(pattern)


def _table(name: str) -> Table:
    if url := server():
        from penstock.catalog.tables import Table
        from penstock.client.client import Client

        return Table.from_json(Client(url).get(f"/v1/tables/{name}"))
    return _metastore().table(name)


def _metastore() -> Metastore:
    from penstock.catalog.database import Database
    from penstock.catalog.metastore import Metastore

    return Metastore(Database(Home.default()))


def _print_list(found: list[Table]) -> None:
    from rich.table import Table as Grid

    grid = Grid(box=None, header_style="bold")
    for heading in ("table", "kind", "format"):
        grid.add_column(heading, overflow="fold")
    for heading in ("partitions", "rows", "size"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("statistics", no_wrap=True)
    for table in found:
        counts = (_number(table.partitions), _number(table.rows), _size(table.size_bytes))
        grid.add_row(table.full_name, table.kind, table.format, *counts, table.statistics)
    plain_console().print(grid)


def _print_table(table: Table) -> None:
    from rich.table import Table as Grid

    facts = {
        "kind": f"{table.kind} {table.format}".strip(),
        "location": table.location,
        "partitions": _number(table.partitions),
        "rows": _number(table.rows),
        "size": _size(table.size_bytes),
        "statistics": table.statistics,
    }
    typer.echo(table.full_name)
    for name, value in facts.items():
        if value:
            typer.echo(f"  {name:<11}{value}")
    grid = Grid("column", "type", "partition", "analyzed", "comment", box=None, header_style="bold")
    for column in table.columns:
        marks = ("yes" if column.partition else "", "yes" if column.analyzed else "")
        grid.add_row(column.name, column.type, *marks, column.comment)
    plain_console().print(grid)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _size(value: int | None) -> str:
    if value is None:
        return ""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
