"""The JSON form of frozen dataclasses, in which files, the database and the API hold them.

Each field stands under its name, a time in ISO 8601, an enumeration as its value. Fields that only a later release
knows are ignored. A field that is absent or null has its default, so that values of earlier releases are accepted.
"""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from types import UnionType
from typing import Any, TypeVar

_R = TypeVar("_R", bound="JsonRecord")


@dataclass(frozen=True)
class JsonRecord:
    """A dataclass with a JSON form. A tuple stays one, which `json` writes as an array."""

    def to_json(self) -> dict[str, Any]:
        return {name: _written(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls: type[_R], value: Mapping[str, Any]) -> _R:
        """The inverse of `to_json`. Raises `TypeError` if a field without a default is missing."""
        kind: Any = cls
        return typing.cast(_R, _dataclass_reader(kind)(value))


def _written(value: Any) -> Any:
    # `asdict` would copy every value, and a submission is written three times.
    if is_dataclass(value):
        return {name: _written(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, tuple):
        return tuple(map(_written, value))
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, enum.Enum):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else value


def _reader(kind: Any) -> Callable[[Any], Any]:
    arguments = typing.get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass_reader(kind)
    if isinstance(kind, UnionType):
        inner = _reader(arguments[0])
        return lambda value: None if value is None else inner(value)
    if typing.get_origin(kind) is tuple:
        inner = _reader(arguments[0])
        return lambda value: tuple(map(inner, value))
    if kind is datetime:
        return datetime.fromisoformat
    return kind if isinstance(kind, type) and issubclass(kind, enum.Enum) else lambda value: value


@functools.cache
def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    readers = {name: _reader(of) for name, of in typing.get_type_hints(kind).items()}
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def read(value: Mapping[str, Any]) -> Any:
        given = [name for name in readers if name in value and (name in required or value[name] is not None)]
        return kind(**{name: readers[name](value[name]) for name in given})

    return read
