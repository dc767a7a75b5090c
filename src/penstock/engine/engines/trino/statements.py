"""The statements of a script in Trino's SQL, what Trino may do with each, and the types of their results. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

_PART = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'? | "(?:[^"]|"")*"?) | (?P<blank>\s+ | --[^\n]* | /\*.*?(?:\*/|\Z)) | (?P<end>;)
    | (?P<code>.)""",
    re.VERBOSE | re.DOTALL,
)
_READING = re.compile(
    r"[\s(]*(?:select|with|values|table|explain|show|describe|use|set|reset|prepare|execute|deallocate)\b",
    re.IGNORECASE,
)


def split(script: str) -> list[str]:
    """Cut a script at each `;` that is not inside quotes or a comment. Parts without code are left out."""
    found, start, has_code = [], 0, False
    for part in _PART.finditer(script):
        if part.lastgroup == "end":
            if has_code:
                found.append(script[start : part.start()].strip())
            start, has_code = part.end(), False
        has_code |= part.lastgroup in ("quoted", "code")
    return [*found, script[start:].strip()] if has_code else found


def reads(statement: str) -> bool:
    """Return whether the statement begins as one that reads, whatever comments come before it."""
    code = "".join(" " if part.lastgroup == "blank" else part[0] for part in _PART.finditer(statement))
    return _READING.match(code) is not None


_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "varbinary": pa.binary(),
    "unknown": pa.null(),
}
_TYPE = re.compile(r"(?P<name>\w+)(?:\((?P<inner>.*)\))?(?P<more>.*)", re.DOTALL)
_FIELD = re.compile(r"""(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>\w+))\s+(?P<type>.+)""", re.DOTALL)
_BRACKETS = re.compile(
    r"""(?P<quoted>"(?:[^"]|"")*") | (?P<open>\() | (?P<close>\)) | (?P<comma>,) | .""", re.VERBOSE | re.DOTALL
)


def arrow_type(text: str, zone: str) -> pa.DataType:
    """The type of a result's column by Trino's name of it; points in time are shown in a zone.

    A type that Spark does not have (`time`, `uuid`, `json`) is a text.
    """
    found = _TYPE.fullmatch(text.strip())
    name, inner, more = (found["name"].lower(), found["inner"] or "", found["more"]) if found else (text, "", "")
    if name in _PLAIN and not more:
        return _PLAIN[name]
    made = pa.string()
    match name:
        case "decimal":
            precision, scale = inner.split(",")
            made = pa.decimal128(int(precision), int(scale))
        case "timestamp":
            made = pa.timestamp("us", zone if "with time zone" in more else None)
        case "interval":
            made = pa.month_day_nano_interval()
        case "array":
            made = pa.list_(arrow_type(inner, zone))
        case "map":
            key, of = _list(inner)
            made = pa.map_(arrow_type(key, zone), arrow_type(of, zone))
        case "row":
            made = pa.struct([_field(index, part, zone) for index, part in enumerate(_list(inner))])
    return made


def _field(index: int, text: str, zone: str) -> pa.Field:
    found = _FIELD.fullmatch(text)
    if found is None:
        return pa.field(f"col{index + 1}", arrow_type(text, zone))
    name = found["plain"] or found["quoted"].replace('""', '"')
    return pa.field(name, arrow_type(found["type"], zone))


def _list(text: str) -> Iterator[str]:
    """The parts of a list, cut at commas outside brackets and quotes."""
    depth, start = 0, 0
    for part in _BRACKETS.finditer(text):
        depth += {"open": 1, "close": -1}.get(part.lastgroup or "", 0)
        if part.lastgroup == "comma" and depth == 0:
            yield text[start : part.start()].strip()
            start = part.end()
    yield text[start:].strip()


def value(found: Any, kind: pa.DataType) -> Any:
    """A value of Trino's client as PyArrow takes it for the type."""
    if found is None:
        return None
    types = pa.types
    nested: tuple[tuple[Callable[[pa.DataType], bool], Callable[[], Any]], ...] = (
        (types.is_list, lambda: [value(one, kind.value_type) for one in found]),
        (types.is_map, lambda: [(value(k, kind.key_type), value(v, kind.item_type)) for k, v in found.items()]),
        (types.is_struct, lambda: {f.name: value(one, f.type) for f, one in zip(kind, found, strict=True)}),
        (types.is_string, lambda: str(found)),
    )
    return next((convert() for is_one, convert in nested if is_one(kind)), found)
