"""How DuckDB reads the catalog's tables: the SQL of a view over each, and the tables that a statement may name. Pure.

A view reads what Spark would read: the catalog's columns by their names, whatever a file has; the catalog's partitions;
no hidden file. What cannot be read alike is refused, with the engine that can.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from penstock.catalog.tables import Column, Partition, Table
from penstock.errors import InvalidInput
from penstock.formats import sql_text
from penstock.lake.model import ObjectInfo

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a partition column that is NULL, in the catalog and in the names of directories."""

_PLAIN_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
_DECIMAL = re.compile(r"decimal\(\d+,\s*\d+\)")
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_COMMIT = re.compile(r"(?:^|/)_penstock_commit/\d+$")


class _UnknownType(Exception):
    pass


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def duckdb_type(spark: str) -> str | None:
    """DuckDB's name of a type that Spark names; None for one that DuckDB does not have."""
    try:
        return _type(spark.strip())
    except _UnknownType:
        return None


def _type(spark: str) -> str:
    name = spark.lower()
    if name in _PLAIN_TYPES:
        return _PLAIN_TYPES[name]
    if _TEXT.fullmatch(name):
        return "VARCHAR"
    if _DECIMAL.fullmatch(name):
        return name.upper()
    kind, bracket, inner = spark.partition("<")
    if not bracket or not inner.endswith(">"):
        raise _UnknownType(spark)
    parts = list(_split(inner[:-1]))
    if kind.lower() == "array" and len(parts) == 1:
        return f"{_type(parts[0])}[]"
    if kind.lower() == "map" and len(parts) == 2:
        return f"MAP({_type(parts[0])}, {_type(parts[1])})"
    if kind.lower() == "struct" and all(":" in part for part in parts):
        fields = (part.partition(":") for part in parts)
        return f"STRUCT({', '.join(f'{sql_name(field.strip())} {_type(of.strip())}' for field, _, of in fields)})"
    raise _UnknownType(spark)


def _split(text: str) -> Iterator[str]:
    """The parts of a list, cut at commas outside brackets."""
    depth, start = 0, 0
    for position, letter in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


@dataclass(frozen=True)
class Listing:
    """The objects below a table's location, by their paths relative to it."""

    files: tuple[str, ...]
    """Data files, in the order of the listing. Spark reads no file that is empty, nor one whose name, or the name of a
    directory of it, begins with a dot or an underscore, partition columns aside."""
    unfinished: bool
    """True if a decided commit is still being carried out, so that the files are those of no version of the table."""

    @staticmethod
    def of(objects: Iterable[ObjectInfo], prefix: str) -> Listing:
        files, unfinished = [], False
        for found in objects:
            path = found.key.removeprefix(prefix)
            unfinished |= found.size > 0 and _COMMIT.search(path) is not None
            if found.size > 0 and not any(_hidden(part) for part in path.split("/")):
                files.append(path)
        return Listing(tuple(files), unfinished)


def _hidden(part: str) -> bool:
    return part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith("._COPYING_")


def check_readable(table: Table) -> None:
    """Raise `InvalidInput` for a table that DuckDB cannot read as Spark does."""
    if table.kind == "view":
        raise _refusal(table, "it is a view in Spark's SQL")
    if table.format not in ("parquet", "iceberg"):
        raise _refusal(table, f"its format is {table.format}, and DuckDB reads Parquet and Iceberg here")
    for column in table.columns:
        if table.format == "parquet" and duckdb_type(column.type) is None:
            raise _refusal(table, f"DuckDB has no type for {column.name} {column.type}")
        if column.partition and column.type.lower() == "binary":
            raise _refusal(table, f"its partition column {column.name} is binary")


def _refusal(table: Table, why: str) -> InvalidInput:
    return InvalidInput(f"{table.full_name} cannot be read by DuckDB", why=why, fix="use --engine spark")


def data_files(table: Table, partitions: Sequence[Partition], listing: Listing) -> tuple[str, ...]:
    """The files with the table's rows: of a partitioned table, those in the partitions that the catalog has.

    Raises `InvalidInput` where a directory does not name the values of its partition, or where there are directories
    although the table has no partitions.
    """
    names = [column.name for column in table.columns if column.partition]
    if not names and (deeper := next((file for file in listing.files if "/" in file), None)):
        raise _refusal(table, f"it has no partitions, and a file in a directory: {deeper}")
    root = table.location.rstrip("/") + "/"
    known = set() if names else {""}
    for partition in partitions:
        path = partition.location.rstrip("/").removeprefix(root)
        if not _says(path, names, partition.values):
            raise _refusal(table, f"a partition is in {partition.location}, which does not name its values")
        known.add(path)
    return tuple(file for file in listing.files if file.rpartition("/")[0] in known)


def _says(path: str, names: Sequence[str], values: Sequence[str]) -> bool:
    parts = [part.partition("=") for part in path.split("/")]
    said = [(name.lower(), unquote(value)) for name, _, value in parts]
    return said == [(name.lower(), value) for name, value in zip(names, values, strict=True)]


@dataclass(frozen=True)
class PhysicalColumn:
    """A column of a Parquet file, at any depth: its name, and a physical type without a meaning of its own."""

    file: str
    name: str
    type: str


def needs_footers(table: Table) -> bool:
    """Return whether the files' own types decide how the table is read: see `bare_files`."""
    own = [column.type for column in table.columns if not column.partition]
    return any(map(_has_timestamp, own)) or (_has_binary(table) and any("string" in kind.lower() for kind in own))


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
    return any("binary" in column.type.lower() for column in table.columns)


def _has_timestamp(spark: str) -> bool:
    return re.search(r"\btimestamp\b", spark.lower()) is not None


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
    if bare and (nested := next((c for c in own if "<" in c.type and _has_timestamp(c.type)), None)):
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
    if column.partition:
        pattern = sql_text(f"(?i)(?:^|/){re.escape(column.name)}=([^/]*)/")
        value = f"nullif(url_decode(regexp_extract({below}, {pattern}, 1)), {sql_text(NULL_PARTITION)})"
        return f"CAST({value} AS {duckdb_type(column.type)})"
    if bare and column.type.lower() == "timestamp":
        return f"timezone('UTC', {name})"
    # Spark pads such texts, and compares them without the padding.
    return f"rtrim({name}, ' ')" if column.type.lower().startswith("char(") else name


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
