"""Spark's names of types, as the catalog has them, taken apart for engines that have types of their own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ATOM = re.compile(r"(?P<name>[a-z_]+)(?:\((?P<numbers>\d+(?:,\s*\d+)*)\))?", re.IGNORECASE)
_NESTED = {"array": ("element",), "map": ("key", "value")}


@dataclass(frozen=True)
class SparkType:
    """A type: `decimal(7,2)` is a name with numbers, `struct<a:int>` a name with fields.

    The fields of an array are named `element`, those of a map `key` and `value`.
    """

    name: str
    """In lower case."""
    numbers: tuple[int, ...] = ()
    fields: tuple[tuple[str, SparkType], ...] = ()

    @property
    def is_text(self) -> bool:
        return self.name in ("string", "char", "varchar")

    def contains(self, *names: str) -> bool:
        """Return whether the type, or one within it, has one of the names."""
        return self.name in names or any(kind.contains(*names) for _, kind in self.fields)


def parse(text: str) -> SparkType:
    """Raises `ValueError` for what is no type."""
    if atom := _ATOM.fullmatch(text.strip()):
        numbers = (atom["numbers"] or "").split(",")
        return SparkType(atom["name"].lower(), tuple(int(number) for number in numbers if number))
    name, bracket, inner = text.strip().partition("<")
    name, parts = name.lower(), list(_split(inner[:-1]))
    if not bracket or not inner.endswith(">"):
        raise ValueError(text)
    if name == "struct" and all(":" in part for part in parts):
        fields = (part.partition(":") for part in parts)
        return SparkType(name, fields=tuple((field.strip(), parse(kind)) for field, _, kind in fields))
    if len(parts) != len(_NESTED.get(name, ())):
        raise ValueError(text)
    return SparkType(name, fields=tuple(zip(_NESTED[name], map(parse, parts), strict=True)))


def _split(text: str) -> Iterator[str]:
    """The parts of a list, cut at commas outside brackets."""
    depth, start = 0, 0
    for position, letter in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()
