"""How DuckDB reads the catalog's tables: the SQL of a view over each, and the tables that a statement may name. Pure.

A view reads what Spark would read: the catalog's columns by their names, whatever a file has; the catalog's partitions;
no hidden file. What cannot be read alike is refused, with the engine that can.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.catalog.tables import Column, Table
from penstock.engine.engines import spark_types
from penstock.engine.engines.spark_types import SparkType
from penstock.engine.engines.table_files import NULL_PARTITION, check_defaults, refusal
from penstock.errors import InvalidInput
from penstock.formats import sql_text

_PLAIN_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def duckdb_type(spark: str) -> str | None:
    """DuckDB's name of a type that Spark names; None for one that DuckDB does not have."""
    try:
        return _type(spark_types.parse(spark))
    except ValueError:
        return None


def _type(spark: SparkType) -> str:
    if spark.is_text:
        return "VARCHAR"
    parts = [(sql_name(name), _type(kind)) for name, kind in spark.fields]
    if spark.name == "array":
        return f"{parts[0][1]}[]"
    if spark.name == "map":
        return f"MAP({parts[0][1]}, {parts[1][1]})"
    if spark.name == "struct":
        return f"STRUCT({', '.join(f'{name} {kind}' for name, kind in parts)})"
    if spark.name == "decimal" and len(spark.numbers) == 2:
        return f"DECIMAL({spark.numbers[0]},{spark.numbers[1]})"
    if spark.name not in _PLAIN_TYPES:
        raise ValueError(spark.name)
    return _PLAIN_TYPES[spark.name]


def check_readable(table: Table) -> None:
    """Raise `InvalidInput` for a table that DuckDB cannot read as Spark does."""
    if table.kind == "view":
        raise _refusal(table, "it is a view in Spark's SQL")
    if table.format not in ("parquet", "iceberg"):
        raise _refusal(table, f"its format is {table.format}, and DuckDB reads Parquet and Iceberg here")
    check_defaults(table, "DuckDB")
    for column in table.columns:
        if table.format == "parquet" and duckdb_type(column.type) is None:
            raise _refusal(table, f"DuckDB has no type for {column.name} {column.type}")
        if column.partition and column.type.lower() == "binary":
            raise _refusal(table, f"its partition column {column.name} is binary")


def _refusal(table: Table, why: str) -> InvalidInput:
    return refusal(table, "DuckDB", why)


@dataclass(frozen=True)
class PhysicalColumn:
    """A column of a Parquet file, at any depth: its name, and a physical type without a meaning of its own."""

    file: str
    name: str
    type: str


def needs_footers(table: Table) -> bool:
    """Return whether the files' own types decide how the table is read: see `bare_files`."""
    own = [spark_types.parse(column.type) for column in table.columns if not column.partition]
    return any(kind.contains("timestamp") for kind in own) or (
        _has_binary(table) and any(kind.contains("string") for kind in own)
    )


def bare_files(table: Table, columns: Iterable[PhysicalColumn]) -> set[str]:
    """The files with points in time of Parquet's oldest form (INT96), which does not say that they are UTC.

    Raises `InvalidInput` where texts may be stored as mere bytes in a table that also has bytes.
    """
    binary = {column.name.lower() for column in table.columns if column.type.lower() == "binary"}
    bare = set()
    for column in columns:
        if column.type == "INT96":
            bare.add(column.file)
        elif _has_binary(table) and column.name.lower() not in binary:
            raise _refusal(table, f"{column.file} does not say whether {column.name} is text or bytes")
    return bare


def _has_binary(table: Table) -> bool:
    return any(spark_types.parse(column.type).contains("binary") for column in table.columns)


def parquet_view(table: Table, root: str, files: Sequence[str], bare: Collection[str] = ()) -> str:
    """The query of a view over a Parquet table; `files` are relative to `root`.

    Those in `bare` have points in time that are UTC without saying so (Parquet's INT96, which Spark writes by default):
    DuckDB would take them as local. Raises `InvalidInput` where such times are nested.
    """
    if not files:
        columns = (f"NULL::{duckdb_type(column.type)} AS {sql_name(column.name)}" for column in table.columns)
        return f"SELECT {', '.join(columns)} WHERE false"
    parts = ((kind, [file for file in files if (file in bare) is kind]) for kind in (False, True))
    return " UNION ALL ".join(_scan(table, root, part, bare=kind) for kind, part in parts if part)


def _scan(table: Table, root: str, files: Sequence[str], *, bare: bool) -> str:
    own = [column for column in table.columns if not column.partition]
    within = (column for column in own if "<" in column.type and spark_types.parse(column.type).contains("timestamp"))
    if bare and (nested := next(within, None)):
        raise _refusal(table, f"{nested.name} has timestamps within, in files that do not say their zone")
    schema = ", ".join(
        f"{sql_text(c.name)}: {{name: {sql_text(c.name)}, type: '{_stored(c, bare=bare)}', default_value: NULL}}"
        for c in own
    )
    options = {"schema": f"MAP {{{schema}}}", "filename": sql_text(_file_column(table))}
    if not _has_binary(table):
        options["binary_as_string"] = "true"  # Old writers do not say that bytes are text.
    if table.rows and len(own) == len(table.columns):
        options["explicit_cardinality"] = str(table.rows)
    listed = ", ".join(sql_text(root + file) for file in files)
    given = ", ".join(f"{name} = {value}" for name, value in options.items())
    return f"SELECT {_columns(table, root, bare=bare)} FROM read_parquet([{listed}], {given})"


def _file_column(table: Table) -> str:
    """DuckDB's column with the file's name. Only by its own name does it keep a filter from opening files."""
    return "penstock file" if any(column.name.lower() == "filename" for column in table.columns) else "filename"


def _stored(column: Column, *, bare: bool) -> str:
    kind = duckdb_type(column.type) or ""
    return "TIMESTAMP" if bare and column.type.lower() == "timestamp" else kind


def _columns(table: Table, root: str, *, bare: bool) -> str:
    below = f"substr({sql_name(_file_column(table))}, {len(root) + 1})"
    return ", ".join(f"{_column(column, below, bare=bare)} AS {sql_name(column.name)}" for column in table.columns)


def _column(column: Column, below: str, *, bare: bool) -> str:
    """`below` is the file's path relative to the table."""
    name = sql_name(column.name)
    # Spark pads such texts, in the names of directories, too, and compares them without the padding.
    is_padded = column.type.lower().startswith("char(")
    if column.partition:
        pattern = sql_text(f"(?i)(?:^|/){re.escape(column.name)}=([^/]*)/")
        value = f"nullif(url_decode(regexp_extract({below}, {pattern}, 1)), {sql_text(NULL_PARTITION)})"
        return f"rtrim({value}, ' ')" if is_padded else f"CAST({value} AS {duckdb_type(column.type)})"
    if bare and column.type.lower() == "timestamp":
        return f"timezone('UTC', {name})"
    return f"rtrim({name}, ' ')" if is_padded else name


def iceberg_view(metadata: str) -> str:
    return f"SELECT * FROM iceberg_scan({sql_text(metadata)})"


Names = Mapping[str, Iterable[str]]
"""The tables of each database, as the catalog has them: in lower case."""


def named_tables(words: Sequence[str], names: Names, current: str) -> list[tuple[str, str]]:
    """The tables that a statement may name, as database and table; some may be names of other things.

    `words` are its identifiers, keywords and dots in their order; `current` is the database of names without one.
    """
    plain = [unquoted(word) for word in words]
    tables = {database: set(of) for database, of in names.items()}
    qualified = (
        (first, last)
        for (first, dot), last in zip(pairwise(plain), plain[2:], strict=False)
        if dot == "." and last in tables.get(first, ())
    )
    return [*dict.fromkeys([*qualified, *((current, word) for word in plain if word in tables.get(current, ()))])]


def unquoted(word: str) -> str:
    """The name that a word of a statement stands for, as the catalog has names."""
    quoted = len(word) > 1 and word[0] == word[-1] == '"'
    return (word[1:-1].replace('""', '"') if quoted else word).lower()
