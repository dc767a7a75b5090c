"""The tables of the catalog, read directly from the metastore's tables in PostgreSQL."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, text

from penstock.codec import JsonRecord
from penstock.errors import NotFound

OWNER = "penstock.instance"
"""The property of a database that names the instance it belongs to."""

_COLUMN_STATISTICS = "spark.sql.statistics.colStats."


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """Spark's name of the type (`decimal(7,2)`, `struct<a:int>`, `string collate UTF8_LCASE`)."""
    partition: bool = False
    analyzed: bool = False
    """True where `ANALYZE TABLE … FOR COLUMNS` collected statistics of the column."""
    comment: str = ""
    default: str | None = None
    """The value, as SQL, that Spark reads from files without the column; None for NULL."""


@dataclass(frozen=True)
class Table(JsonRecord):
    """One table or view.

    `rows` and `size_bytes` are Spark's last measurements, or an Iceberg table's of its last commit; None without any.
    `location` is empty for a view. `partitions` is the number in the catalog; None for a table without partitions.
    """

    database: str
    name: str
    kind: str
    format: str
    location: str
    partitions: int | None
    rows: int | None
    size_bytes: int | None
    columns: tuple[Column, ...]
    keeps_files: bool = False
    """True for an Iceberg table that may share files with others: Iceberg deletes none (`gc.enabled` is false)."""

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def statistics(self) -> str:
        """The statistics for the optimizer: `none`, `table` (rows or bytes), or `columns` (also of some columns)."""
        if any(column.analyzed for column in self.columns):
            return "columns"
        return "none" if self.rows is None and self.size_bytes is None else "table"

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "statistics": self.statistics}


def matches_table(pattern: str | None, database: str, name: str) -> bool:
    """Return whether a shell pattern of `DATABASE.TABLE`, or of `TABLE` alone, matches the table, ignoring case."""
    if pattern is None:
        return True
    subject = f"{database}.{name}" if "." in pattern else name
    return fnmatchcase(subject.lower(), pattern.lower())


@dataclass(frozen=True)
class Partition:
    """One partition; `values` are in the order of the table's partition columns, as the metastore has them: texts."""

    location: str
    values: tuple[str, ...]


def read_tables(connection: Connection, chosen: Callable[[str, str], bool]) -> list[Table]:
    """Return the tables whose database and name are chosen, ordered by both, with four queries for any number."""
    rows = [row for row in connection.execute(_TABLES).mappings() if chosen(row["database"], row["name"])]
    chosen_ids = {"tables": [row["id"] for row in rows]}
    if not rows:
        return []
    parameters: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(_PARAMETERS, chosen_ids).mappings():
        parameters[row["table"]][row["name"]] = row["value"] or ""
    columns: defaultdict[int, list[Column]] = defaultdict(list)
    for row in connection.execute(_COLUMNS, chosen_ids).mappings():
        columns[row["table"]].append(Column(row["name"], row["type"], row["partition"], comment=row["comment"] or ""))
    partitions = {row["table"]: row["count"] for row in connection.execute(_PARTITIONS, chosen_ids).mappings()}
    return [_table(row, parameters[row["id"]], columns[row["id"]], partitions.get(row["id"], 0)) for row in rows]


def read_names(connection: Connection) -> dict[str, set[str]]:
    """Return the names of each database's tables and views."""
    found: dict[str, set[str]] = {name: set() for (name,) in connection.execute(_DATABASES)}
    for row in connection.execute(_TABLES).mappings():
        found[row["database"]].add(row["name"])
    return found


def read_partition_locations(connection: Connection, table: Table) -> list[str]:
    """Return the locations of the partitions, ordered by the partitions' names."""
    chosen = {"database": table.database, "table": table.name}
    return [location for (location,) in connection.execute(_PARTITION_LOCATIONS, chosen) if location]


def read_partitions(connection: Connection, table: Table) -> list[Partition]:
    """Return the partitions, ordered by their names."""
    chosen = {"database": table.database, "table": table.name}
    found: dict[str, tuple[str, list[str]]] = {}
    for row in connection.execute(_PARTITION_VALUES, chosen).mappings():
        found.setdefault(row["name"], (row["location"], []))[1].append(row["value"])
    return [Partition(location, tuple(values)) for location, values in found.values()]


def read_metadata_location(connection: Connection, table: Table) -> str:
    """Return the address of an Iceberg table's current metadata. Raises `NotFound` where the table is gone."""
    chosen = {"database": table.database, "table": table.name}
    found = connection.execute(_METADATA_LOCATION, chosen).scalar()
    if found is None:
        raise NotFound(f"There is no table {table.full_name}", why="it was dropped meanwhile", fix="penstock tables")
    return str(found)


def read_owners(connection: Connection) -> dict[str, str]:
    """Return the instances of the databases that belong to one, by the databases' names in lower case."""
    return {name.lower(): instance for name, instance in connection.execute(_OWNERS, {"owner": OWNER}) if instance}


def _table(row: RowMapping, parameters: Mapping[str, str], columns: Iterable[Column], partitions: int) -> Table:
    view = row["kind"] == "VIRTUAL_VIEW"
    all_columns = _spark_columns(parameters) or tuple(columns)
    analyzed = {
        key.removeprefix(_COLUMN_STATISTICS).rpartition(".")[0]
        for key in parameters
        if key.startswith(_COLUMN_STATISTICS)
    }
    partitioned = any(column.partition for column in all_columns)
    measured = "" if _is_iceberg(parameters) else "spark.sql.statistics."
    return Table(
        database=row["database"],
        name=row["name"],
        kind="view" if view else "external" if row["kind"] == "EXTERNAL_TABLE" else "managed",
        format="" if view else _format(row, parameters),
        location="" if view else _location(row),
        partitions=partitions if partitioned else None,
        rows=_number(parameters.get(f"{measured}numRows")),
        size_bytes=_number(parameters.get(f"{measured}totalSize")),
        columns=tuple(replace(column, analyzed=column.name in analyzed) for column in all_columns),
        keeps_files=_is_iceberg(parameters) and any(parameters.get(key, "").lower() == "false" for key in _DELETES),
    )


_DELETES = ("external.table.purge", "gc.enabled")
"""The property that lets Iceberg delete a table's files: in the metastore it has the first name."""


def _is_iceberg(parameters: Mapping[str, str]) -> bool:
    return parameters.get("table_type", "").lower() == "iceberg"


def _format(row: RowMapping, parameters: Mapping[str, str]) -> str:
    if _is_iceberg(parameters):
        return "iceberg"
    if provider := parameters.get("spark.sql.sources.provider"):
        return provider.lower()
    # A Hive table (STORED AS …) has only the name of the class that reads it.
    reader = (row["input_format"] or "").lower()
    return next((name for name in ("parquet", "orc", "avro", "rcfile", "sequencefile") if name in reader), "text")


def _location(row: RowMapping) -> str:
    # For tables that Hive cannot read, Spark stores a placeholder as location, and the true path in the options.
    return row["path"] or row["location"] or ""


def _spark_columns(parameters: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the schema as Spark stored it, in the user's case; empty where there are only Hive's own columns.

    Spark splits the JSON into parts that fit the metastore's column, and stores the partition columns separately.
    """
    whole = parameters.get("spark.sql.sources.schema")
    if whole is None:
        count = _number(parameters.get("spark.sql.sources.schema.numParts")) or 0
        whole = "".join(parameters.get(f"spark.sql.sources.schema.part.{index}", "") for index in range(count))
    try:
        fields = json.loads(whole)["fields"] if whole else []
    except (ValueError, KeyError, TypeError):  # another engine's schema
        return ()
    count = _number(parameters.get("spark.sql.sources.schema.numPartCols")) or 0
    partition = {parameters.get(f"spark.sql.sources.schema.partCol.{index}") for index in range(count)}
    return tuple(
        Column(
            field["name"],
            _type_name(field),
            field["name"] in partition,
            comment=field.get("metadata", {}).get("comment", ""),
            default=_default(field),
        )
        for field in fields
    )


_NULL = re.compile(r"\s*(?:null|cast\s*\(\s*null\s+as\s[\w\s<>:,()]*\))\s*", re.IGNORECASE)


def _default(field: Mapping[str, Any]) -> str | None:
    # CURRENT_DEFAULT, in contrast, is only the value of later INSERTs.
    default = field.get("metadata", {}).get("EXISTS_DEFAULT")
    return None if default is None or _NULL.fullmatch(default) else str(default)


def _type_name(field: Mapping[str, Any]) -> str:
    # Spark stores char(n), varchar(n) and collated strings as strings, and the declared type in the metadata.
    metadata = field.get("metadata", {})
    collations = metadata.get("__COLLATIONS", {})
    if declared := metadata.get("__CHAR_VARCHAR_TYPE_STRING"):
        return " collate ".join([str(declared), *map(_collation, dict.fromkeys(collations.values()))])
    return sql_type(field["type"], field["name"], collations)


def _collation(identifier: str) -> str:
    """The name in an identifier with a provider: `UNICODE_CI` for `icu.UNICODE_CI`."""
    return identifier.rpartition(".")[2]


_SQL_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def sql_type(value: Any, path: str = "", collations: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the SQL name of a type in Spark's JSON: `array<bigint>` for `{"type": "array", "elementType": "long"}`.

    `collations` are those of the strings within the field, by their paths: `tags.element`, `names.key`.
    """
    if isinstance(value, str):
        name = _SQL_NAMES.get(value, value)
        return f"{name} collate {_collation(collations[path])}" if path in collations else name
    if value["type"] == "array":
        return f"array<{sql_type(value['elementType'], f'{path}.element', collations)}>"
    if value["type"] == "map":
        key, of = (sql_type(value[f"{part}Type"], f"{path}.{part}", collations) for part in ("key", "value"))
        return f"map<{key},{of}>"
    if value["type"] == "struct":
        return "struct<" + ",".join(f"{part['name']}:{_type_name(part)}" for part in value["fields"]) + ">"
    return str(value["type"])


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


_TABLES = text("""
    SELECT t."TBL_ID" AS id, d."NAME" AS database, t."TBL_NAME" AS name, t."TBL_TYPE" AS kind,
           s."LOCATION" AS location, s."INPUT_FORMAT" AS input_format, p."PARAM_VALUE" AS path
    FROM "TBLS" t
    JOIN "DBS" d ON d."DB_ID" = t."DB_ID"
    LEFT JOIN "SDS" s ON s."SD_ID" = t."SD_ID"
    LEFT JOIN "SERDE_PARAMS" p ON p."SERDE_ID" = s."SERDE_ID" AND p."PARAM_KEY" = 'path'
    ORDER BY d."NAME", t."TBL_NAME"
""")

_PARAMETERS = text("""
    SELECT "TBL_ID" AS table, "PARAM_KEY" AS name, "PARAM_VALUE" AS value
    FROM "TABLE_PARAMS" WHERE "TBL_ID" IN :tables
""").bindparams(bindparam("tables", expanding=True))

_COLUMNS = text("""
    SELECT t."TBL_ID" AS table, c."COLUMN_NAME" AS name, c."TYPE_NAME" AS type, c."COMMENT" AS comment,
           false AS partition, c."INTEGER_IDX" AS position
    FROM "TBLS" t JOIN "SDS" s ON s."SD_ID" = t."SD_ID" JOIN "COLUMNS_V2" c ON c."CD_ID" = s."CD_ID"
    WHERE t."TBL_ID" IN :tables
    UNION ALL
    SELECT "TBL_ID", "PKEY_NAME", "PKEY_TYPE", "PKEY_COMMENT", true, "INTEGER_IDX"
    FROM "PARTITION_KEYS" WHERE "TBL_ID" IN :tables
    ORDER BY 1, 5, 6
""").bindparams(bindparam("tables", expanding=True))

_PARTITIONS = text("""
    SELECT "TBL_ID" AS table, count(*) AS count FROM "PARTITIONS" WHERE "TBL_ID" IN :tables GROUP BY "TBL_ID"
""").bindparams(bindparam("tables", expanding=True))

_DATABASES = text('SELECT "NAME" FROM "DBS"')

_PARTITION_VALUES = text("""
    SELECT p."PART_NAME" AS name, s."LOCATION" AS location, v."PART_KEY_VAL" AS value
    FROM "PARTITIONS" p
    JOIN "TBLS" t ON t."TBL_ID" = p."TBL_ID" JOIN "DBS" d ON d."DB_ID" = t."DB_ID" JOIN "SDS" s ON s."SD_ID" = p."SD_ID"
    JOIN "PARTITION_KEY_VALS" v ON v."PART_ID" = p."PART_ID"
    WHERE d."NAME" = :database AND t."TBL_NAME" = :table
    ORDER BY p."PART_NAME", v."INTEGER_IDX"
""")

_METADATA_LOCATION = text("""
    SELECT p."PARAM_VALUE" FROM "TABLE_PARAMS" p
    JOIN "TBLS" t ON t."TBL_ID" = p."TBL_ID" JOIN "DBS" d ON d."DB_ID" = t."DB_ID"
    WHERE d."NAME" = :database AND t."TBL_NAME" = :table AND p."PARAM_KEY" = 'metadata_location'
""")

_OWNERS = text("""
    SELECT d."NAME", p."PARAM_VALUE" FROM "DATABASE_PARAMS" p JOIN "DBS" d ON d."DB_ID" = p."DB_ID"
    WHERE p."PARAM_KEY" = :owner
""")

_PARTITION_LOCATIONS = text("""
    SELECT s."LOCATION" FROM "PARTITIONS" p
    JOIN "TBLS" t ON t."TBL_ID" = p."TBL_ID" JOIN "DBS" d ON d."DB_ID" = t."DB_ID" JOIN "SDS" s ON s."SD_ID" = p."SD_ID"
    WHERE d."NAME" = :database AND t."TBL_NAME" = :table
    ORDER BY p."PART_NAME"
""")
