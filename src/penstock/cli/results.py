"""The results of SQL statements as a table, CSV or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

from penstock.cli.console import whole_width

FORMATS = ("table", "csv", "json")

Result = Mapping[str, Any]


def write(results: Sequence[Result], output_format: str, stream: IO[str], *, limit: int) -> None:
    """Those that succeeded, in order; in CSV and tables those that have columns, an empty line between them."""
    answered = [result for result in results if "error" not in result]
    if output_format == "json":
        json.dump(answered, stream, ensure_ascii=False, indent=2)
        stream.write("\n")
        return
    with_rows = [result for result in answered if result["columns"]]
    for number, result in enumerate(with_rows):
        if number:
            stream.write("\n")
        if output_format == "csv":
            _write_csv(result, stream)
        else:
            _write_table(result, stream, limit)


def _write_csv(result: Result, stream: IO[str]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(column["name"] for column in result["columns"])
    writer.writerows([_text(value, null="") for value in row] for row in result["rows"])


def _write_table(result: Result, stream: IO[str], limit: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    numeric = ("int", "long", "short", "byte", "float", "double", "decimal", "bigint", "smallint", "tinyint")
    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    for column in result["columns"]:
        right = str(column["type"]).lower().startswith(numeric)
        table.add_column(Text(column["name"]), justify="right" if right else "left", overflow="fold")
    for row in result["rows"]:
        table.add_row(*(Text(_text(value, null="NULL"), style="dim" if value is None else "") for value in row))
    console = Console(file=stream)
    if stream.isatty():
        console.print(table)
    else:
        # A pipe has no width; a line is a row then, whatever its length, and is not filled up to the longest.
        console.width = whole_width(table)
        with console.capture() as printed:
            console.print(table)
        stream.writelines(line.rstrip(" ") + "\n" for line in printed.get().removesuffix("\n").split("\n"))
    count = len(result["rows"])
    more = f" (the first {limit}; --limit shows more)" if result.get("truncated") else ""
    seconds = result.get("elapsed_ms", 0) / 1000
    closing = f"{count} row{'' if count == 1 else 's'}{more}, {seconds:.2f} s"
    console.print(closing, style="dim", highlight=False, soft_wrap=True)


def _text(value: Any, *, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
