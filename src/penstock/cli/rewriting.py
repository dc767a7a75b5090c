"""`penstock tables rewrite`: a table's rows, laid out in its objects so that queries need fewer of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from penstock.cli import index, options, statements
from penstock.cli.console import count, size
from penstock.cli.target import target
from penstock.errors import InvalidInput

_Names = Optional[list[str]]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


def rewrite(
    table: index.Table,
    *,
    advised: Annotated[bool, typer.Option("--advised", help="As `penstock index advise` says.")] = False,
    partition_by: Annotated[_Names, typer.Option(metavar="A,B", help="A directory for each value of these.")] = None,
    range_by: Annotated[
        _Names,
        typer.Option(metavar="A,B:N", help="Cut by ranges of these, B into N; otherwise as many as objects need."),
    ] = None,
    into: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="DB.TABLE", help="Write a new table and leave this one."),
    ] = None,
    object_size: options.ObjectSize = None,
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
    lake: options.Lake = None,
    as_json: options.Json = False,
) -> None:
    """Write a table again in another layout, with its statistics and its skipping index.

    Readers see the table as it was, or whole in its new layout. Nothing may write to it meanwhile.
    """
    statement = in_sql(table, into, advised=advised, partition_by=partition_by or (), range_by=range_by or ())
    engine = target()
    spec = statements.application(
        engine,
        lake,
        options.cluster_size(
            engine.usual_size(),
            driver_cores=None,
            driver_memory=driver_memory,
            executors=executors,
            executor_cores=executor_cores,
            executor_memory=executor_memory,
        ),
        name=f"rewrite {table}",
        settings=options.layout_settings(object_size),
    )
    (answer,) = statements.answers(
        engine,
        spec,
        statement,
        problem=f"{table} was not rewritten",
        fix="put right what is named above; penstock index advise says what would be of use",
    )
    (done,) = index.records(answer)
    if as_json:
        typer.echo(json.dumps(done, indent=2))
    else:
        before = f"{count(done['files_before'])} objects of {size(done['bytes_before'])}"
        after = f"{count(done['files'])} of {size(done['bytes'])}"
        typer.echo(f"{done['table']}: {before} are now {after}, {count(done['rows'])} rows\n  {done['layout']}")


def in_sql(table: str, into: str | None, *, advised: bool, partition_by: Sequence[str], range_by: Sequence[str]) -> str:
    """The statement. Raises `InvalidInput` where no layout is given, or two are."""
    partitions = [index.quoted(name) for name in index.parts(partition_by)]
    ranges = [_range(text) for text in index.parts(range_by)]
    if advised == bool(partitions or ranges):
        raise InvalidInput(
            f"Say how {table} is to be laid out",
            why="both --advised and a layout are given" if advised else "no layout is given",
            fix="--advised, or --partition-by and --range-by",
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
        raise InvalidInput(f"--range-by {text} is not understood", why="it is NAME or NAME:N", fix="--range-by item:8")
    return f"{index.quoted(name)} INTO {int(number)}"
