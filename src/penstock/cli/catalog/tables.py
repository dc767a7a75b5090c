"""`penstock tables`: list the catalog's tables without Spark; rewrite, convert or maintain one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from typer.core import TyperGroup

from penstock import units
from penstock.cli import options, sql
from penstock.cli.catalog import index
from penstock.cli.output import Result, count, counted, plain_console, size
from penstock.cli.target import catalog_table, catalog_tables, target
from penstock.errors import InvalidInput, PenstockError

if TYPE_CHECKING:
    from penstock.catalog.tables import Table


_Names = Optional[list[str]]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


@options.sized(options.SIZES)
def rewrite(
    table: index.Table,
    *,
    advised: Annotated[
        bool, typer.Option("--advised", help="Apply the layout that `penstock index advise` recommends.")
    ] = False,
    partition_by: Annotated[
        _Names, typer.Option(metavar="A,B", help="Partition columns: one directory per value.")
    ] = None,
    range_by: Annotated[
        _Names,
        typer.Option(
            metavar="A,B:N", help="Columns to range-partition by, B into N ranges; the object size decides otherwise."
        ),
    ] = None,
    into: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="DB.TABLE", help="Write a new table and keep this one."),
    ] = None,
    object_size: options.ObjectSize = None,
    sized: options.Sized,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Rewrite a table in another layout, with statistics and skipping index.

    A rewrite that keeps the partition columns is one commit: queries see the old table or the new one. Otherwise the
    name moves to a new, external table in two steps of the catalog, between which the table is missing.

    Stop other writers: a rewrite in place fails when a Penstock job commits meanwhile, and loses rows that other
    programs add.
    """
    statement = in_sql(table, into, advised=advised, partition_by=partition_by or (), range_by=range_by or ())
    engine = target()
    spec = sql.application(
        engine,
        lake,
        sized(engine.usual_size()),
        name=f"rewrite {table}",
        settings=options.layout_settings(object_size),
    )
    (answer,) = sql.answers(
        engine,
        spec,
        statement,
        problem=f"{table} was not rewritten",
        fix="correct the cause above; penstock index advise recommends a layout",
    )
    (done,) = index.records(answer)
    if as_json:
        typer.echo(json.dumps(done, indent=2))
    else:
        before = f"{count(done['files_before'])} objects of {size(done['bytes_before'])}"
        after = f"{count(done['files'])} of {size(done['bytes'])}"
        typer.echo(f"{done['table']}: {before} are now {after}, {count(done['rows'])} rows\n  {done['layout']}")


def in_sql(table: str, into: str | None, *, advised: bool, partition_by: Sequence[str], range_by: Sequence[str]) -> str:
    """The statement that rewrites a table. Raises `InvalidInput` unless exactly one layout is given."""
    partitions = [index.quoted(name) for name in index.parts(partition_by)]
    ranges = [_range(text) for text in index.parts(range_by)]
    if advised == bool(partitions or ranges):
        raise InvalidInput(
            f"Give one layout for {table}",
            why="both --advised and a layout are given" if advised else "no layout is given",
            fix="use --advised, or --partition-by and --range-by",
        )
    words = ["REWRITE TABLE", index.table_in_sql(table)]
    if into:
        words += ["INTO", index.table_in_sql(into)]
    if advised:
        words.append("AS ADVISED")
    if partitions:
        words.append(f"PARTITIONED BY ({', '.join(partitions)})")
    if ranges:
        words.append(f"RANGED BY ({', '.join(ranges)})")
    return " ".join(words)


def _range(text: str) -> str:
    name, colon, number = text.rpartition(":")
    if not colon:
        return index.quoted(text)
    if not name or not number.isdecimal() or int(number) < 1:
        raise InvalidInput(f"--range-by {text} is invalid", why="the form is NAME or NAME:N", fix="--range-by item:8")
    return f"{index.quoted(name)} INTO {int(number)}"


class Format(str, Enum):
    """A format into which tables are converted."""

    ICEBERG = "iceberg"


_CONVERTIBLE = ("avro", "orc", "parquet")
"""The formats of files that an Iceberg table may have."""


@options.sized(options.SIZES)
def convert(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="DB.TABLE of the catalog.")],
    *,
    to: Annotated[Format, typer.Option(help="Format of the new table.")] = Format.ICEBERG,
    into: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="DB.TABLE", help="Name of the new table.", show_default="TABLE_iceberg"),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Make this table itself an Iceberg table, if it is external.")
    ] = False,
    sized: options.Sized,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Make an Iceberg table of a table's files. No row is copied.

    The new table lies beside this one, and both share the files: what is written to one is not in the other, and what
    is deleted of this one is missing in the new one, which penstock tables maintain therefore refuses. With --in-place,
    no other job may use the table meanwhile.
    """
    if in_place and into:
        raise InvalidInput("--in-place and --into exclude each other", fix="omit one of them")
    found = catalog_table(table)
    again = "correct the cause above and run it again; the table is what it was"
    if in_place:
        name, statement = found.full_name, conversion(found, None)
        again = f"if the table is gone, rename it back: ALTER TABLE {name}_BACKUP_ RENAME TO {name}; then run it again"
    elif into:
        name, statement = into, conversion(found, index.table_in_sql(into))
    else:
        beside = replace(found, name=f"{found.name}_{to.value}")
        name, statement = beside.full_name, conversion(found, _in_sql(beside))
    if not in_place and any(other.full_name == name for other in catalog_tables(None)):
        raise InvalidInput(f"{name} exists", fix="choose another name: --into DB.TABLE; or drop that table")
    engine = target()
    spec = sql.application(engine, lake, sized(engine.usual_size()), name=f"convert {found.full_name}")
    (answer,) = sql.answers(
        engine,
        spec,
        statement,
        problem=f"{found.full_name} was not converted",
        fix=again,
    )
    ((files,),) = answer["rows"]
    if as_json:
        typer.echo(json.dumps({"table": found.full_name, "into": name, "files": files}, indent=2))
    else:
        whose = "" if in_place else f" of {found.full_name}"
        typer.echo(f"{name} is an Iceberg table with {counted(files, 'file')}{whose}")


def conversion(found: Table, into: str | None) -> str:
    """The statement that makes an Iceberg table of a table's files: beside it, named `into` in SQL, or in place.

    Raises `InvalidInput` where Iceberg cannot, or where it would move or delete the files.
    """
    if found.format == Format.ICEBERG.value:
        raise InvalidInput(
            f"{found.full_name} is an Iceberg table already", fix="penstock tables maintain joins its small files"
        )
    if found.format not in _CONVERTIBLE:
        raise InvalidInput(
            f"{found.full_name} cannot be converted",
            why=f"it is a {found.kind}" if found.kind == "view" else f"its format is {found.format}",
            fix="write its rows anew: CREATE TABLE … USING iceberg AS SELECT",
        )
    if into is not None:
        return f"CALL system.snapshot({_text(_in_sql(found))}, {_text(into)})"
    if found.kind != "external":
        raise InvalidInput(
            f"{found.full_name} cannot be converted in place",
            why="it is a managed table: Iceberg renames it first, which moves its files, and then drops it with them",
            fix="omit --in-place: a second table beside it takes the files as they are",
        )
    return f"CALL system.migrate(table => {_text(_in_sql(found))}, drop_backup => true)"


def _in_sql(found: Table) -> str:
    return f"{index.quoted(found.database)}.{index.quoted(found.name)}"


def _text(name: str) -> str:
    """A name as a literal of SQL."""
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SMALL_FILES = """
SELECT coalesce(sum(file_count), 0) AS joined_files, coalesce(sum(total_data_file_size_in_bytes), 0) AS joined_bytes
FROM {table}.partitions WHERE file_count >= 5 AND total_data_file_size_in_bytes < file_count * 402653184L
"""
"""The files that `rewrite_data_files` joins by default: five of a partition, below three quarters of 512 MiB."""
_OLD_SNAPSHOTS = """
SELECT count(*) AS snapshots FROM {table}.snapshots
WHERE committed_at < {before} AND snapshot_id NOT IN (SELECT snapshot_id FROM {table}.refs)
"""
_ORPHANED = timedelta(days=3)
"""The age from which a file that no snapshot has cannot be that of a writer at work; Iceberg's own default."""
_ORPHANS_SHOWN = 10


@options.sized(options.SIZES)
def maintain(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="DB.TABLE of the catalog, in Iceberg's format.")],
    *,
    keep: Annotated[str, typer.Option(metavar="TIME", help="Snapshots younger than this stay readable.")] = "5d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    sized: options.Sized,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Join an Iceberg table's small files, expire old snapshots, and delete files that no snapshot has.

    Readers and writers may go on meanwhile. Expired snapshots can no longer be read (`VERSION AS OF`); tags and
    branches stay. Orphans, left by writers that were killed, are deleted when they are three days old.
    """
    kept = timedelta(seconds=units.require_seconds(keep, "--keep"))
    found = catalog_table(table)
    if found.format != "iceberg":
        raise InvalidInput(
            f"{found.full_name} is not an Iceberg table",
            why=f"its format is {found.format or found.kind}, which keeps no snapshots",
            fix="penstock tables rewrite changes the layout of a Parquet table; penstock tables shows the formats",
        )
    if mixed := [
        other.full_name
        for other in catalog_tables(None)
        if other.full_name != found.full_name and _overlap(other, found)
    ]:
        raise InvalidInput(
            f"The files of {found.full_name} cannot be distinguished from those of {units.some(mixed)}",
            why=f"one location contains the other: {found.location}",
            fix="CREATE TABLE … USING iceberg AS SELECT * writes the rows to a location of their own",
        )
    if found.keeps_files:
        raise _keeps_files(found)
    engine = target()
    spec = sql.application(engine, lake, sized(engine.usual_size()), name=f"maintain {found.full_name}")
    try:
        results = sql.answers(
            engine,
            spec,
            ";\n".join(maintenance(found, kept, dry_run=dry_run, now=datetime.now(timezone.utc))),
            problem=f"{found.full_name} was not maintained to the end",
            fix="correct the cause above and run it again; every step that had ended stays done",
        )
    except PenstockError as error:
        # An older service does not say of a table whether it keeps its files.
        raise _keeps_files(found) if _KEEPS_FILES in (error.why or "") else error from None
    done = _maintained(results, dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps({"table": found.full_name, "dry_run": dry_run, **done}, indent=2))
    else:
        _print_maintained(found.full_name, done, dry_run=dry_run)


_KEEPS_FILES = "GC is disabled"
"""The words of Iceberg's refusal to delete files."""


def _keeps_files(found: Table) -> InvalidInput:
    return InvalidInput(
        f"{found.full_name} cannot be maintained",
        why="it shares files with the table that it was made from by penstock tables convert: its property gc.enabled "
        "is false, and Iceberg deletes none of its files",
        fix="CREATE TABLE … USING iceberg AS SELECT * writes the rows to files of their own",
    )


def _overlap(one: Table, other: Table) -> bool:
    short, long = sorted((one.location.rstrip("/") + "/", other.location.rstrip("/") + "/"), key=len)
    return bool(one.location and other.location) and long.startswith(short)


def maintenance(found: Table, keep: timedelta, *, dry_run: bool, now: datetime) -> list[str]:
    """The statements that maintain an Iceberg table, or with `dry_run` tell what they would do."""
    table = _in_sql(found)
    literal = _text(table)
    expired, orphaned = (f"TIMESTAMP '{now - age:%Y-%m-%d %H:%M:%S}Z'" for age in (keep, _ORPHANED))
    orphans = f"CALL system.remove_orphan_files(table => {literal}, older_than => {orphaned}, dry_run => {dry_run})"
    if dry_run:
        return [_SMALL_FILES.format(table=table), _OLD_SNAPSHOTS.format(table=table, before=expired), orphans]
    return [
        f"CALL system.rewrite_data_files(table => {literal})",
        f"CALL system.rewrite_manifests(table => {literal}, use_caching => false)",
        f"CALL system.expire_snapshots(table => {literal}, older_than => {expired}, retain_last => 1)",
        orphans,
    ]


def _maintained(results: Sequence[Result], *, dry_run: bool) -> dict[str, Any]:
    orphans = [row["orphan_file_location"] for row in index.records(results[-1])]
    (first,) = index.records(results[0])
    if dry_run:
        (old,) = index.records(results[1])
        return {**first, **old, "orphans": orphans}
    (expired,) = index.records(results[2])
    return {
        "joined_files": first["rewritten_data_files_count"],
        "joined_bytes": first["rewritten_bytes_count"],
        "into_files": first["added_data_files_count"],
        # Each snapshot has a list of manifests of its own.
        "snapshots": expired["deleted_manifest_lists_count"],
        "deleted_files": sum(number for name, number in expired.items() if name.endswith("_files_count")),
        "orphans": orphans,
    }


def _print_maintained(name: str, done: dict[str, Any], *, dry_run: bool) -> None:
    files = f"{counted(done['joined_files'], 'file')} of {size(done['joined_bytes'])}"
    snapshots, orphans = counted(done["snapshots"], "snapshot"), counted(len(done["orphans"]), "orphan")
    if dry_run:
        typer.echo(f"{name}: {files} would be joined\n  {snapshots} would expire\n  {orphans} would be deleted")
    else:
        typer.echo(f"{name}: {files} are now {count(done['into_files'])}")
        typer.echo(f"  {snapshots} expired, with {counted(done['deleted_files'], 'file')}\n  {orphans} deleted")
    for place in done["orphans"][:_ORPHANS_SHOWN]:
        typer.echo(f"    {place}")
    if (rest := len(done["orphans"]) - _ORPHANS_SHOWN) > 0:
        typer.echo(f"    and {count(rest)} more: --json lists all")


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
app.command("rewrite")(rewrite)
app.command("convert")(convert)
app.command("maintain")(maintain)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_tables(
    pattern: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="Shell pattern for DATABASE.TABLE, or for TABLE in any database: 'tpcds*.store_*'."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List tables and views. The word `list` is optional: penstock tables 'store_*'."""
    found = catalog_tables(pattern)
    if as_json:
        typer.echo(json.dumps([table.to_json() for table in found], indent=2))
    elif found:
        _print_list(found)
    else:
        typer.echo(f"No table matches {pattern}" if pattern else "The catalog has no tables yet", err=True)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="DB.TABLE", help="Table; without DB, the database is `default`.")],
    as_json: JsonOption = False,
) -> None:
    """Show a table's location, columns and optimizer statistics."""
    table = catalog_table(name)
    if as_json:
        typer.echo(json.dumps(table.to_json(), indent=2))
    else:
        _print_table(table)


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
    return "" if value is None else size(value)
