"""Prices as data: the packaged file, and over it what a file of the user's says."""

from __future__ import annotations

import typing
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from penstock import yamlfile
from penstock.prices.model import Amortisation, Compute, Medium, Power, Prices, Source, Storage
from penstock.yamlfile import Entry

PACKAGED = "prices.yaml"

_SECTIONS = {"amortisation": Amortisation, "compute": Compute, "power": Power, "storage": Storage}
_TOP = ("currency", "date", *_SECTIONS, "media")
_SHARES = frozenset({"busy_share", "fill_share"})
_ABOVE_ZERO = frozenset({"years", "busy_share", "fill_share", "drives_per_node", "tb_per_drive"})

Section = TypeVar("Section")


def prices(path: Path | None = None) -> Prices:
    """The packaged prices, with what `path` gives in their place. `InvalidInput` names its line and key."""
    entries = [yamlfile.parse(packaged(), PACKAGED)]
    if path is not None:
        entries.append(yamlfile.read(path, fix="start from penstock lab price --template"))
    return _build(entries)


def packaged() -> str:
    """The packaged file, with its comments."""
    return resources.files("penstock.prices").joinpath(PACKAGED).read_text(encoding="utf-8")


def _build(files: list[Entry]) -> Prices:
    texts: dict[str, str] = {}
    numbers: dict[str, Source] = {}
    for file in files:
        for name, entry in file.items():
            if name not in _TOP:
                entry.unknown(name, _TOP)
            elif name in ("currency", "date"):
                texts[name] = _text(entry)
            elif name == "media":
                for inner in entry.mapping().values():
                    _take_section(inner, Medium, numbers, texts)
            else:
                _take_section(entry, _SECTIONS[name], numbers, texts)
    media = dict.fromkeys(key[len("media.") :].rpartition(".")[0] for key in numbers if key.startswith("media."))
    return Prices(
        currency=texts["currency"],
        date=texts["date"],
        **{name: _section(kind, numbers, texts, name, files[-1]) for name, kind in _SECTIONS.items()},
        media={name: _section(Medium, numbers, texts, f"media.{name}", files[-1]) for name in media},
        sources=numbers,
    )


def _take_section(entry: Entry, kind: type[Any], numbers: dict[str, Source], texts: dict[str, str]) -> None:
    kinds = typing.get_type_hints(kind)
    for name, inner in entry.items():
        if name not in kinds:
            inner.unknown(name, kinds)
        elif kinds[name] is str:
            texts[inner.key] = _text(inner)
        else:
            numbers[inner.key] = _price(inner, name)


def _section(
    kind: type[Section], numbers: dict[str, Source], texts: dict[str, str], prefix: str, last: Entry
) -> Section:
    given: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type] # a type variable cannot say that it is a dataclass
        key = f"{prefix}.{field.name}"
        if key in numbers:
            given[field.name] = numbers[key].value
        elif key in texts:
            given[field.name] = texts[key]
        elif field.name == "title":
            given[field.name] = prefix.rpartition(".")[2]
        else:
            last.wrong(f"lacks {key}", fix="a medium of your own needs all of the prices that the packaged ones have")
    return kind(**given)


def _price(entry: Entry, name: str) -> Source:
    number, source = entry, entry.source
    if isinstance(entry.value, dict):
        unknown = entry.value.keys() - {"value", "source"}
        if unknown:
            entry.value[min(unknown)].wrong(
                "is not known", fix=f"write {name}: {{value: 1.5, source: where it is from}}"
            )
        if "value" not in entry.value:
            entry.wrong("has no value", fix=f"write {name}: {{value: 1.5, source: where it is from}}")
        number = entry.value["value"]
        source = _text(entry.value["source"]) if "source" in entry.value else entry.source
    value = number.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        number.wrong(f"is not a number but {value!r}", fix=f"write {name}: 1.5")
    if not 0 <= value < float("inf"):  # NaN is not either
        number.wrong(f"is {value}: a price cannot be negative or without bounds")
    if name in _ABOVE_ZERO and value == 0:
        number.wrong("must be above 0")
    if name in _SHARES and value > 1:
        number.wrong(f"is {value}, but a share is at most 1")
    if name == "pue" and value < 1:
        number.wrong(f"is {value}, but a site never draws less than its machines")
    return Source(float(value), source)


def _text(entry: Entry) -> str:
    if entry.value is None or isinstance(entry.value, (dict, list)):
        entry.wrong("is not a text")
    return str(entry.value)
