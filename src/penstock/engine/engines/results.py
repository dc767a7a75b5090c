"""The rows of a DuckDB result in the form of Spark's results: JSON values, and the names of Spark's types. Pure.

The form is that of `io.penstock.application.JsonValues`, so that an answer reads the same from either engine.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pyarrow as pa
from pyarrow import types

from penstock.errors import InvalidInput

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    # Spark has no types without a sign: the next larger one holds all their values.
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.null(): "void",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": type_name(field.type)} for field in schema]


def type_name(kind: pa.DataType) -> str:
    """Spark's name of a type. A type that Spark does not have is shown as `string`.

    Raises `InvalidInput` for an interval, whose units and values are not those of Spark in other engines.
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if types.is_duration(kind) or types.is_interval(kind):
        raise InvalidInput(
            "The result has an interval",
            why="the units and values of intervals are not those of Spark in other engines",
            fix="use --engine spark, or select the dates or times themselves",
        )
    return next((name(kind) for is_one, name in _FAMILIES if is_one(kind)), "string")


_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]], ...] = (
    (types.is_decimal, lambda kind: f"decimal({kind.precision},{kind.scale})"),
    (types.is_timestamp, lambda kind: "timestamp_ntz" if kind.tz is None else "timestamp"),
    (types.is_map, lambda kind: f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"),
    (types.is_struct, lambda kind: f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"),
    (types.is_nested, lambda kind: f"array<{type_name(kind.value_type)}>"),
)


def rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> tuple[list[list[Any]], bool]:
    """The first `limit` rows, and whether there are more."""
    found: list[list[Any]] = []
    for batch in batches:
        for index in range(batch.num_rows):
            if len(found) == limit:
                return found, True
            found.append([value(column[index]) for column in batch.columns])
    return found, False


def value(scalar: pa.Scalar) -> Any:
    """The JSON form of a value: a number where JSON's readers keep it exact, else a text."""
    if not scalar.is_valid:
        return None
    form = next((form for is_one, form in _FORMS if is_one(scalar.type)), None)
    if form is not None:
        return form(scalar)
    found = scalar.as_py()
    return found if isinstance(found, (bool, int)) else str(found)


def _map(scalar: pa.Scalar) -> dict[str, Any]:
    return {_key(value(pair["key"])): value(pair["value"]) for pair in scalar.values}


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _struct(scalar: pa.Scalar) -> dict[str, Any]:
    names = _keys([field.name for field in scalar.type])
    return {name: value(scalar[index]) for index, name in enumerate(names)}


def _keys(names: Sequence[str]) -> list[str]:
    """Return the keys of a struct's fields: JSON keeps one value of a key, so a repeated name gets a number (`a_1`)."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        free = (key for key in numbered if key not in found and key not in names)
        found[name if name not in found else next(free)] = None
    return list(found)


def _floating(scalar: pa.Scalar) -> float | str:
    number = scalar.as_py()
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    # The shortest text of a single: as a double, 0.1 would be 0.10000000149011612.
    return float(str(numpy.float32(number))) if types.is_float32(scalar.type) else float(number)


def _moment(scalar: pa.Scalar) -> str:
    """A point in time as `java.sql.Timestamp` writes it; a local time as `java.time.LocalDateTime` does."""
    per_second = _PER_SECOND[scalar.type.unit]
    seconds, rest = divmod(scalar.value, per_second)
    at = _EPOCH + timedelta(seconds=seconds)
    digits = f"{rest * (10**9 // per_second):09d}"
    if scalar.type.tz is not None:
        return f"{at.astimezone(ZoneInfo(scalar.type.tz)):%Y-%m-%d %H:%M:%S}.{digits.rstrip('0') or '0'}"
    while digits.endswith("000"):
        digits = digits[:-3]
    seconds_text = f":{at:%S}" if at.second or digits else ""
    return f"{at:%Y-%m-%dT%H:%M}{seconds_text}{f'.{digits}' if digits else ''}"


def _is_binary(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


_FORMS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Scalar], Any]], ...] = (
    (types.is_map, _map),
    (types.is_struct, _struct),
    (types.is_nested, lambda scalar: [value(element) for element in scalar.values]),
    (types.is_timestamp, _moment),
    (types.is_decimal, lambda scalar: format(scalar.as_py(), "f")),
    (types.is_floating, _floating),
    (types.is_uint64, lambda scalar: str(scalar.as_py())),
    (_is_binary, lambda scalar: base64.b64encode(scalar.as_py()).decode()),
)
