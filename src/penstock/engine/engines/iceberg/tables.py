"""Parquet tables of the catalog in the form of Iceberg tables, for engines that read those alike.

A description lists exactly the files that Spark would read, with the values of their partitions, and matches columns to
the files' by name. What a reader would read in another way than Spark is refused, with the engine that can. Iceberg
tables need none of this: their own metadata describe them.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.conversions import to_bytes
from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.datetime import date_str_to_days
from pyiceberg.utils.decimal import unscaled_to_decimal
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from penstock.catalog.tables import Table
from penstock.engine.engines import spark_types
from penstock.engine.engines.spark_types import SparkType
from penstock.engine.engines.table_files import NULL_PARTITION, check_defaults, refusal

_PLAIN: Mapping[str, type[PrimitiveType]] = {
    "boolean": BooleanType,
    "tinyint": IntegerType,
    "smallint": IntegerType,
    "int": IntegerType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "varchar": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestamptzType,
    "timestamp_ntz": TimestampType,
}
_PARTITIONS = (BooleanType, IntegerType, LongType, StringType, DateType)
"""The types of partition columns whose values read alike from a directory's name."""
_BOUNDED: Mapping[type[IcebergType], Any] = {
    IntegerType: int,
    LongType: int,
    DateType: date,
    DecimalType: Decimal,
    TimestamptzType: datetime,
    TimestampType: datetime,
}
"""The types whose bounds are given, with Python's type of them."""
_BOUND_LETTERS = 16
_SNAPSHOT = 1


@dataclass(frozen=True)
class Reader:
    """An engine that reads Iceberg tables, by its title."""

    title: str
    newest: int
    """The newest version of Iceberg's format of which it reads every table."""
    addresses: re.Pattern[str] | None = None
    """The addresses of the files that it finds; None for all."""


@dataclass(frozen=True)
class Bounds:
    """A column's statistics in a footer: the number of values, that of NULLs, and the least and greatest."""

    values: int
    nulls: int
    least: Any
    greatest: Any


@dataclass(frozen=True)
class ParquetFile:
    """A file with rows of the table: its address, what its footer says, and the values of its partition as texts."""

    address: str
    size_bytes: int
    rows: int
    schema: pa.Schema
    bounds: Mapping[str, Bounds]
    """The bounds of columns that are not nested, by their names in the file, where it has statistics of them."""
    values: tuple[str, ...] = ()

    @staticmethod
    def of(address: str, size_bytes: int, footer: parquet.FileMetaData, values: tuple[str, ...]) -> ParquetFile:
        schema = footer.schema.to_arrow_schema()
        return ParquetFile(address, size_bytes, footer.num_rows, schema, dict(_bounds(footer)), values)


def _bounds(footer: parquet.FileMetaData) -> Iterator[tuple[str, Bounds]]:
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for index in range(footer.num_columns):
        kind = footer.schema.column(index)
        found = [group.column(index).statistics for group in groups]
        if kind.max_repetition_level or "." in kind.path or not found:
            continue
        if all(one is not None and one.has_null_count and (one.has_min_max or not one.num_values) for one in found):
            ends = [_ends(one) for one in found if one.num_values]
            yield (
                kind.path,
                Bounds(
                    footer.num_rows,
                    sum(one.null_count for one in found),
                    min((least for least, _ in ends), default=None),
                    max((greatest for _, greatest in ends), default=None),
                ),
            )


def _ends(found: parquet.Statistics) -> tuple[Any, Any]:
    if found.logical_type.type == "DECIMAL" and isinstance(found.min_raw, int):
        scale = json.loads(found.logical_type.to_json())["scale"]
        return unscaled_to_decimal(found.min_raw, scale), unscaled_to_decimal(found.max_raw, scale)
    return found.min, found.max


def check_readable(table: Table, reader: Reader) -> None:
    """Raise `InvalidInput` for a table that cannot be read as Spark does, as far as the catalog tells."""
    if table.kind == "view":
        raise refusal(table, reader.title, "it is a view, whose text only Spark knows")
    if table.format not in ("parquet", "iceberg"):
        raise refusal(
            table, reader.title, f"its format is {table.format}, and {reader.title} reads Parquet and Iceberg here"
        )
    check_defaults(table, reader.title)
    if table.format == "parquet":
        _schema(table, reader)


@dataclass(frozen=True)
class Description:
    """The metadata of an Iceberg table, and the files to which they lead: the metadata themselves and manifests."""

    address: str
    metadata: Mapping[str, Any]
    files: Mapping[str, bytes]
    """The contents by their addresses."""


def describe(table: Table, files: Sequence[ParquetFile], directory: str, reader: Reader) -> Description:
    """Describe the table with these files as its rows; the description itself is to be below an address.

    Raises `InvalidInput` where a file stores a column in a form that would not be read as Spark does.
    """
    metadata = _metadata(table, directory, reader)
    schema = metadata.schema()
    names = {field.name: {field.name} for field in schema.fields}
    own = {column.name for column in table.columns if not column.partition}
    for file in files:
        if reader.addresses is not None and not reader.addresses.fullmatch(file.address):
            why = f"{reader.title} does not find {file.address}, which has more than letters, digits and _.=-"
            raise refusal(table, reader.title, why)
        for field in schema.fields:
            stored = _stored_names(table, file, field, reader)
            if stored and field.name not in own:
                why = f"{file.address} has the partition column {field.name} as a column of its own"
                raise refusal(table, reader.title, why)
            names[field.name] |= stored
    mapping = [
        MappedField(field_id=field.field_id, names=sorted(names[field.name]), fields=_within(field.field_type))
        for field in schema.fields
    ]
    metadata = metadata.model_copy(
        update={"properties": {"schema.name-mapping.default": NameMapping(mapping).model_dump_json()}}
    )
    partitioned = [field for field in schema.fields if field.name not in own]
    written: dict[str, bytes] = {}
    if files:
        partitions = [_partition(table, partitioned, file.values, reader) for file in files]
        metadata = _with_files(metadata, files, partitions, f"{directory}/{metadata.table_uuid}", written)
    address, content = f"{directory}/{metadata.table_uuid}.metadata.json", metadata.model_dump_json()
    return Description(address, json.loads(content), {**written, address: content.encode()})


def _metadata(table: Table, directory: str, reader: Reader) -> TableMetadata:
    """The metadata of an empty table with the columns and partitions, which numbers all of them."""
    schema = _schema(table, reader)
    fields = (schema.find_field(column.name) for column in table.columns if column.partition)
    spec = PartitionSpec(
        *(
            PartitionField(field.field_id, PARTITION_FIELD_ID_START + index, IdentityTransform(), field.name)
            for index, field in enumerate(fields)
        )
    )
    return new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, directory, {"format-version": "2"})


def _schema(table: Table, reader: Reader) -> Schema:
    ids = itertools.count(1)
    fields = []
    for column in table.columns:
        try:
            kind = _iceberg(spark_types.parse(column.type), lambda: next(ids))
        except ValueError as unknown:
            why = f"{reader.title} does not read {column.name} {column.type} as Spark does"
            raise refusal(table, reader.title, why) from unknown
        if column.partition and not isinstance(kind, _PARTITIONS):
            raise refusal(table, reader.title, f"its partition column {column.name} is {column.type}")
        fields.append(NestedField(next(ids), column.name, kind, required=False))
    return Schema(*fields)


def _iceberg(spark: SparkType, new_id: Callable[[], int]) -> IcebergType:
    """Raises `ValueError` for a type that is not read alike: Spark pads a `char`, which other engines do not."""
    if spark.name == "decimal" and len(spark.numbers) == 2:
        return DecimalType(*spark.numbers)
    if spark.name in _PLAIN:
        return _PLAIN[spark.name]()
    inner = [(name, _iceberg(kind, new_id), new_id()) for name, kind in spark.fields]
    if spark.name == "array":
        return ListType(inner[0][2], inner[0][1], element_required=False)
    if spark.name == "map":
        return MapType(inner[0][2], inner[0][1], inner[1][2], inner[1][1], value_required=False)
    if spark.name == "struct":
        return StructType(*(NestedField(number, name, kind, required=False) for name, kind, number in inner))
    raise ValueError(spark.name)


def _stored_names(table: Table, file: ParquetFile, field: NestedField, reader: Reader) -> set[str]:
    """The names of the column in the file, of which there is one: Spark ignores their case, and Iceberg does not."""
    named = [stored for stored in file.schema if stored.name.lower() == field.name.lower()]
    if len(named) > 1:
        raise refusal(table, reader.title, f"{file.address} has {named[0].name} and {named[1].name}")
    for stored in named:
        if not _reads_alike(stored.type, schema_to_pyarrow(field.field_type)):
            why = f"{file.address} stores {stored.name} as {stored.type}, for {field.field_type}"
            raise refusal(table, reader.title, why)
    return {stored.name for stored in named}


def _within(kind: IcebergType) -> list[MappedField]:
    match kind:
        case ListType():
            inner = [("element", kind.element_id, kind.element_type)]
        case MapType():
            inner = [("key", kind.key_id, kind.key_type), ("value", kind.value_id, kind.value_type)]
        case StructType():
            inner = [(field.name, field.field_id, field.field_type) for field in kind.fields]
        case _:
            inner = []
    return [MappedField(field_id=number, names=[name], fields=_within(of)) for name, number, of in inner]


def _reads_alike(stored: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether a column's form in a file needs no conversion but a widening that keeps every value."""
    types = pa.types
    if types.is_nested(expected):
        return _nested_alike(stored, expected)
    if types.is_decimal(expected):
        alike = types.is_decimal(stored) and stored.scale == expected.scale
        return bool(alike and stored.precision <= expected.precision)
    if types.is_timestamp(expected):
        # INT96, which does not say that its values are UTC, is known by its unit.
        if not types.is_timestamp(stored):
            return False
        return bool(stored.unit == "ns" or (stored.tz is None) == (expected.tz is None))
    for is_one in (types.is_signed_integer, types.is_floating):
        if is_one(expected):
            return bool(is_one(stored)) and stored.bit_width <= expected.bit_width
    return bool(_plain(stored) == _plain(expected))


def _nested_alike(stored: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_struct(expected):
        if not pa.types.is_struct(stored):
            return False
        named = {field.name: field.type for field in stored}
        return all(field.name in named and _reads_alike(named[field.name], field.type) for field in expected)
    if pa.types.is_map(expected):
        if not pa.types.is_map(stored):
            return False
        return _reads_alike(stored.key_type, expected.key_type) and _reads_alike(stored.item_type, expected.item_type)
    return bool(pa.types.is_list(stored)) and _reads_alike(stored.value_type, expected.value_type)


def _plain(kind: pa.DataType) -> pa.DataType:
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


class _Object(OutputFile):
    """A file that pyiceberg writes, kept in memory."""

    def __init__(self, location: str, written: dict[str, bytes]) -> None:
        super().__init__(location)
        self._written = written

    def __len__(self) -> int:
        return len(self._written[self.location])

    def exists(self) -> bool:
        return self.location in self._written

    def to_input_file(self) -> InputFile:
        raise NotImplementedError

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - the interface's
        return _Kept(self.location, self._written)


class _Kept(io.BytesIO):
    def __init__(self, location: str, written: dict[str, bytes]) -> None:
        super().__init__()
        self._location = location
        self._written = written

    def close(self) -> None:
        if not self.closed:
            self._written[self._location] = self.getvalue()
        super().close()


def _with_files(
    metadata: TableMetadata,
    files: Sequence[ParquetFile],
    partitions: Sequence[Record],
    place: str,
    written: dict[str, bytes],
) -> TableMetadata:
    schema, spec = metadata.schema(), metadata.spec()

    def entry(file: ParquetFile, partition: Record) -> ManifestEntry:
        given: dict[str, Any] = {
            "content": DataFileContent.DATA,
            "file_path": file.address,
            "file_format": FileFormat.PARQUET,
            "partition": partition,
            "record_count": file.rows,
            "file_size_in_bytes": file.size_bytes,
            **_statistics(schema, file),
        }
        added = ManifestEntryStatus.ADDED
        return ManifestEntry.from_args(status=added, snapshot_id=_SNAPSHOT, data_file=DataFile.from_args(**given))

    entries = _Object(f"{place}-m0.avro", written)
    with write_manifest(2, spec, schema, entries, _SNAPSHOT, "null") as manifest:
        for file, partition in zip(files, partitions, strict=True):
            manifest.add_entry(entry(file, partition))
    listed = _Object(f"{place}.avro", written)
    with write_manifest_list(2, listed, _SNAPSHOT, None, 1, "null") as manifests:
        manifests.add_manifests([manifest.to_manifest_file()])
    snapshot = Snapshot(
        snapshot_id=_SNAPSHOT,
        sequence_number=1,
        manifest_list=listed.location,
        summary=Summary(Operation.APPEND),
        schema_id=metadata.current_schema_id,
    )
    return metadata.model_copy(
        update={
            "snapshots": [snapshot],
            "current_snapshot_id": _SNAPSHOT,
            "last_sequence_number": 1,
            "refs": {"main": SnapshotRef.model_validate({"snapshot-id": _SNAPSHOT, "type": SnapshotRefType.BRANCH})},
        }
    )


def _statistics(schema: Schema, file: ParquetFile) -> dict[str, dict[int, Any]]:
    """The columns' statistics, by which engines order joins and leave out files."""
    found: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    by_name = {name.lower(): bounds for name, bounds in file.bounds.items()}
    for field in schema.fields:
        if (bounds := by_name.get(field.name.lower())) is None:
            continue
        found["value_counts"][field.field_id] = bounds.values
        found["null_value_counts"][field.field_id] = bounds.nulls
        if (ends := _as_bytes(field.field_type, bounds.least, bounds.greatest)) is not None:
            found["lower_bounds"][field.field_id], found["upper_bounds"][field.field_id] = ends
    return found


def _as_bytes(kind: IcebergType, least: Any, greatest: Any) -> tuple[bytes, bytes] | None:
    """A column's bounds in Iceberg's form; None where they would not hold for certain, as those of floating numbers."""
    if isinstance(kind, StringType) and isinstance(greatest, str):
        end = truncate_upper_bound_text_string(greatest, _BOUND_LETTERS)
        return None if end is None else (to_bytes(kind, least[:_BOUND_LETTERS]), to_bytes(kind, end))
    # By the very type, since a date and time is a date, too.
    if isinstance(kind, PrimitiveType) and type(greatest) is _BOUNDED.get(type(kind)):
        return to_bytes(kind, least), to_bytes(kind, greatest)
    return None


def _partition(table: Table, fields: Sequence[NestedField], texts: Sequence[str], reader: Reader) -> Record:
    """The values of a file's partition. Raises `InvalidInput` where one is not of its column's type."""

    def value(field: NestedField, text: str) -> Any:
        try:
            return _value(field.field_type, text)
        except ValueError as other:
            why = f"the partition {field.name}={text} has no value of the type {field.field_type}"
            raise refusal(table, reader.title, why) from other

    return Record(*(value(field, text) for field, text in zip(fields, texts, strict=True)))


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BITS = {IntegerType: 32, LongType: 64}
_BOOLEANS = {"true": True, "false": False}


def _value(kind: IcebergType, text: str) -> Any:
    """The value of a partition column that the catalog has as a text.

    Raises `ValueError` for one of another type, and for forms that other engines may read otherwise than Spark.
    """
    if text == NULL_PARTITION:
        return None
    match kind:
        case IntegerType() | LongType():
            bound = 1 << _BITS[type(kind)] - 1
            if _INTEGER.fullmatch(text) and -bound <= int(text) < bound:
                return int(text)
        case BooleanType():
            if text.lower() in _BOOLEANS:
                return _BOOLEANS[text.lower()]
        case DateType():
            if _DATE.fullmatch(text):
                return date_str_to_days(text)
        case _:
            return text
    raise ValueError(text)
