"""The files with a table's rows, as Spark reads them: which are the catalog's, and which are hidden. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from penstock.catalog.tables import Column, Partition, Table
from penstock.errors import InvalidInput, LakeError
from penstock.lake.model import ObjectInfo

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a partition column that is NULL, in the catalog and in the names of directories."""

_COMMIT = re.compile(r"(?:^|/)_penstock_commit/\d+$")


@dataclass(frozen=True)
class Listing:
    """The objects below a table's location, by their paths relative to it."""

    files: Mapping[str, ObjectInfo]
    """The data files, in the order of the listing. Spark reads no file that is empty, nor one
    whose name, or the name of a directory of it, begins with a dot or an underscore, partition columns aside."""
    unfinished: bool
    """True if a decided commit is still being carried out, so that the files are those of no version of the table."""

    @staticmethod
    def of(objects: Iterable[ObjectInfo], prefix: str) -> Listing:
        files, unfinished = {}, False
        for found in objects:
            path = found.key.removeprefix(prefix)
            unfinished |= found.size > 0 and _COMMIT.search(path) is not None
            if found.size > 0 and not any(_hidden(part) for part in path.split("/")):
                files[path] = found
        return Listing(files, unfinished)


def _hidden(part: str) -> bool:
    return part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith("._COPYING_")


def refusal(table: Table, reader: str, why: str) -> InvalidInput:
    """The error about a table that an engine, by its title, cannot read as Spark does."""
    return InvalidInput(f"{table.full_name} cannot be read by {reader}", why=why, fix="use --engine spark")


def lost_file(what: str) -> LakeError:
    """The error about a file that a table had when a statement began, by the engine's words about it."""
    return LakeError(
        "A table was changed or dropped while the statement read it",
        why=f"a file is gone: {what}",
        fix="run the statement again; if it fails again, something else than Penstock's engines has removed the file",
    )


def filled_column(table: Table) -> Column | None:
    """The first column whose default is not NULL: files may lack it, and only Spark fills it in."""
    return next((column for column in table.columns if column.default is not None), None)


def check_defaults(table: Table, reader: str) -> None:
    """Raise `InvalidInput` where the table has a column that only Spark fills in."""
    if filled := filled_column(table):
        why = f"its column {filled.name} has the default {filled.default}, which {reader} would read as NULL"
        raise refusal(table, reader, f"{why} from files that are older than the column")


def data_files(
    table: Table, partitions: Sequence[Partition], listing: Listing, *, reader: str
) -> dict[str, tuple[str, ...]]:
    """The files with the table's rows, those in the partitions that the catalog has, with the values of each.

    Raises `InvalidInput` where a directory does not name the values of its partition, or where there are directories
    although the table has no partitions.
    """
    names = [column.name for column in table.columns if column.partition]
    if not names and (deeper := next((file for file in listing.files if "/" in file), None)):
        raise refusal(table, reader, f"it has no partitions, and a file in a directory: {deeper}")
    root = table.location.rstrip("/") + "/"
    known: dict[str, tuple[str, ...]] = {} if names else {"": ()}
    for partition in partitions:
        path = partition.location.rstrip("/").removeprefix(root)
        if not _says(path, names, partition.values):
            raise refusal(table, reader, f"a partition is in {partition.location}, which does not name its values")
        known[path] = partition.values
    directories = ((file, file.rpartition("/")[0]) for file in listing.files)
    return {file: known[directory] for file, directory in directories if directory in known}


def _says(path: str, names: Sequence[str], values: Sequence[str]) -> bool:
    parts = [part.partition("=") for part in path.split("/")]
    said = [(name.lower(), unquote(value)) for name, _, value in parts]
    return said == [(name.lower(), value) for name, value in zip(names, values, strict=True)]
