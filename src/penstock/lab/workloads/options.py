"""Options of workloads: how the fields of a suite are given on the command line and in lab files.

A field is annotated with its option: `scale: Annotated[float, Option("Scale factor.", least=0.001)] = 1`. The command,
its variant in `penstock lab scale` and the keys of lab files are generated from the annotations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from penstock import units
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite

S = TypeVar("S", bound="Suite")


@dataclass(frozen=True)
class Option:
    """An option of a field. Its default is the field's."""

    help: str
    name: str = ""
    """The field's name by default, without the unit `bytes`."""
    parse: Callable[[Any, str], Any] | None = None
    """Convert the given text to the field's value; the second argument names the option in errors."""
    show: Callable[[Any], Any] | None = None
    """Convert a value of the field to the option's, the inverse of `parse`; `None` for a default that is not shown."""
    default_note: str = ""
    """The description of the default in the help, where it is not a value."""
    least: float | None = None
    most: float | None = None
    kind: type | None = None
    """The type of a given value: by default text if it is parsed, else the field's type."""
    repeated: bool = False
    panel: str = ""
    file_only: bool = False
    """True for a key of lab files that is no option of the command."""


@dataclass(frozen=True)
class Computed:
    """The value of a field that is computed from the values of several options, by their keys.

    The options are texts without a default, unless they say otherwise; a value that is not given is None.
    """

    compute: Callable[..., Any]
    keys: tuple[str, ...]
    show: Callable[[Any], Mapping[str, Any]]
    """Return options, by their keys, from which `compute` makes the value."""


@dataclass(frozen=True)
class SuiteOption:
    """An option of a suite, with the name, type and default that its field gives it."""

    workload: str
    option: Option
    name: str
    kind: type
    default: Any

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def key(self) -> str:
        """The key in lab files."""
        return self.name.replace("-", "_")

    def value(self, given: Any) -> Any:
        """The value of text from the command line, or of plain YAML. Raises `InvalidInput`."""
        if self.kind is bool:
            if not isinstance(given, bool):
                raise InvalidInput(f"{self.key} must be true or false, not {given!r}", fix=f"write {self.key}: true")
            return given
        several = list(given) if isinstance(given, (list, tuple)) else [given]
        if any(one is None or isinstance(one, (bool, list, dict)) for one in several):
            raise InvalidInput(f"{self.key} cannot be {given!r}", fix="write a number, a text, or a list of these")
        texts = [str(one) for one in several]
        if self.option.repeated:
            return texts
        text = ",".join(texts)
        if self.kind in (int, float):
            return self._number(text)
        return self.option.parse(text, self.flag) if self.option.parse else text

    def _number(self, text: str) -> float:
        try:
            found: float = self.kind(text)
        except ValueError:
            self._refuse(f"{text!r} is not a {'whole number' if self.kind is int else 'number'}")
        least, most = self.option.least, self.option.most
        if least is not None and found < least:
            self._refuse(f"{text} is less than {least:g}")
        if most is not None and found > most:
            self._refuse(f"{text} is more than {most:g}")
        return found

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInput(
            f"Invalid value for '{self.flag}'", why=why, fix=f"penstock lab {self.workload} --help lists the options"
        )


def options_of(suite: type[Suite]) -> list[SuiteOption]:
    """The options of a suite, in the order of its fields."""
    return [option for options, _ in _declared(suite).values() for option in options]


def suite_of(suite: type[S], given: Mapping[str, Any]) -> S:
    """The suite with the values given by their keys, and defaults otherwise. Raises `InvalidInput`."""
    declared = _declared(suite)
    values: dict[str, Any] = {}
    for options, _ in declared.values():
        for option in options:
            if option.key in given or option.default is not None:
                values[option.key] = option.value(given.get(option.key, option.default))
    fields: dict[str, Any] = {}
    for name, (options, source) in declared.items():
        if source is not None:
            fields[name] = source.compute(*(values.get(key) for key in source.keys))
        elif options[0].key in values:
            fields[name] = values[options[0].key]
    return suite(**fields)


def options_given(suite: Suite) -> dict[str, Any]:
    """The options, by their keys, from which `suite_of` makes this suite, without those that have their default."""
    defaults = {field.name: field.default for field in dataclasses.fields(suite)}
    found: dict[str, Any] = {}
    for name, (options, source) in _declared(type(suite)).items():
        value, option = getattr(suite, name), options[0]
        if value == defaults[name]:
            continue
        if source is not None:
            found |= source.show(value)
        else:
            found[option.key] = option.option.show(value) if option.option.show else value
    return found


def _declared(suite: type[Suite]) -> dict[str, tuple[list[SuiteOption], Computed | None]]:
    """The options of each field that has some, and how its value follows from them if there are several."""
    hints = get_type_hints(suite, include_extras=True)
    found: dict[str, tuple[list[SuiteOption], Computed | None]] = {}
    for field in dataclasses.fields(suite):
        if get_origin(hints[field.name]) is not Annotated:
            continue
        kind, *notes = get_args(hints[field.name])
        source = next((note for note in notes if isinstance(note, Computed)), None)
        given = [note for note in notes if isinstance(note, Option)]
        options = [
            _option(suite.workload, field, str if source or note.parse else kind, note, several=source is not None)
            for note in given
        ]
        found[field.name] = (options, source)
    return found


def _option(workload: str, field: dataclasses.Field[Any], kind: type, option: Option, *, several: bool) -> SuiteOption:
    default = None if several else field.default
    if option.show:
        default = option.show(field.default)
    name = option.name or field.name.removesuffix("_bytes").replace("_", "-")
    return SuiteOption(workload, option, name, option.kind or kind, default)


def size(help: str, **more: Any) -> Option:
    return Option(help, parse=units.require_size, show=units.short_size, **more)


def numbers(help: str, of: str = "", *, least: int = 1, **more: Any) -> Option:
    """An option for several whole numbers with commas; `of` says in errors of what."""
    return Option(
        help,
        parse=lambda text, option: parse_numbers(text, option, of, least=least),
        show=lambda default: ",".join(map(str, default)),
        **more,
    )


def duration(help: str, **more: Any) -> Option:
    return Option(help, parse=units.require_seconds, show=short_seconds, **more)


def path(help: str, **more: Any) -> Option:
    """An option for a file or directory; the field is text, empty if the option is not given."""
    return Option(
        help, parse=lambda text, _: str(Path(text).absolute()), show=lambda text: text or None, kind=Path, **more
    )


def parse_numbers(text: str, option: str, of: str, *, least: int = 1) -> tuple[int, ...]:
    """The numbers of `1,2,4`, each at least `least`. Raises `InvalidInput`, which names the option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 and int(part) >= least for part in parts):
        raise InvalidInput(f"{option} {text} is not a list of numbers{of and f' {of}'}", fix=f"{option} 1,2,4,8")
    return tuple(map(int, parts))


def parse_names(text: str, _: str) -> tuple[str, ...]:
    """The names of `parquet,orc`."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_count(text: str, option: str) -> int:
    """A million for `1m`. Raises `InvalidInput`, which names the option."""
    powers = {"k": 3, "m": 6, "b": 9}
    number, power = (text[:-1], powers[text[-1].lower()]) if text[-1:].lower() in powers else (text, 0)
    if not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a number",
            why="a number is whole, with k, m or b for thousands, millions and billions",
            fix=f"{option} 10m",
        )
    return int(number + "0" * power)


def short_count(count: int) -> str:
    """`1m` for a million, as `parse_count` reads it."""
    for power, letter in ((9, "b"), (6, "m"), (3, "k")):
        if count and count % 10**power == 0:
            return f"{count // 10**power}{letter}"
    return str(count)


def short_seconds(seconds: float) -> str:
    """`90s`, `1500ms`: the text that `units.parse_seconds` reads."""
    return f"{seconds:.0f}s" if seconds % 1 == 0 else f"{seconds * 1000:.0f}ms"


def parse_whole_seconds(text: str, option: str) -> int:
    """Seconds of `30m`. Raises `InvalidInput`, which names the option."""
    seconds = {"s": 1, "m": 60, "h": 3600}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in seconds or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a time", why="a time is a number with s, m or h", fix=f"{option} 60s"
        )
    return int(number) * seconds[unit]


Reload = Annotated[bool, Option("Generate the data again even if the lake has it.")]
ObjectSize = Annotated[int, size("Size of the objects, e.g. 32m.")]
Keep = Annotated[bool, Option("Keep the objects in the lake.")]
