"""JVM options of several layers made one: concatenated in order, and free of pairs that no JVM starts with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from penstock.errors import InvalidInput

_KEYS = re.compile(r"spark\.(driver|executor)\.(extra|default)JavaOptions")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_FLAG = re.compile(r"-XX:[+-]?(\w+)")
_PROPERTY = re.compile(r"-D([^=]+)")
_SIZE = re.compile(r"-X(mx|ms|mn|ss)")
_UNCHECKED = re.compile(r"-Dspark\.|-XX:(Flags|VMOptionsFile)=|(?<!\S)@")

OPTION_FILES = ("@", "-XX:Flags=", "-XX:VMOptionsFile=")
"""How options begin that have Java read more options from a file, which nobody has checked."""

VARIABLES = frozenset({"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"})
"""Environment variables from which Java takes options by itself."""


def holds_options(key: str) -> bool:
    return _KEYS.fullmatch(key) is not None


def carries_settings(variable: str, value: str) -> bool:
    """Whether Java would read a Spark setting, or more options from a file, from that environment variable."""
    # Java leaves quotes out wherever they stand: -D'spark.x'=1 is one of Spark's.
    return variable in VARIABLES and _UNCHECKED.search(re.sub("[\"'\\\\]", "", value)) is not None


def split(key: str, options: str) -> list[str]:
    """The options as the shell, and Spark, would take them apart. Raises `InvalidInput` for an open quote."""
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InvalidInput(
            f"{key} cannot be taken apart into JVM options",
            why=str(error).lower(),
            fix="close the quote, or put a backslash before a quote that is part of a value",
        ) from error


def join(key: str, layers: Sequence[str]) -> str:
    """All options in order; one that is given again is kept at its last place only.

    A JVM takes the last of two values of a flag, but refuses to start with two garbage collectors: so choosing one
    drops the choice of the layers below.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for options in layers:
        given = list(_with_arguments(split(key, options)))
        if any(_chooses_collector(option) for option in given):
            kept = {name: option for name, option in kept.items() if not _chooses_collector(option)}
        for option in given:
            name = _identity(option)
            kept.pop(name, None)
            kept[name] = option
    return shlex.join(word for option in kept.values() for word in option)


def _with_arguments(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Options such as `--add-opens a/b=C`, whose value is a word of its own, stay together."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and option:
            yield tuple(option)
            option = []
        option.append(word)
    if option:
        yield tuple(option)


def _chooses_collector(option: tuple[str, ...]) -> bool:
    return _COLLECTOR.fullmatch(option[0]) is not None


def _identity(option: tuple[str, ...]) -> str:
    """What the option is about; two options with one identity cannot both hold."""
    for pattern in (_FLAG, _PROPERTY, _SIZE):
        if match := pattern.match(option[0]):
            return f"{pattern.pattern} {match[1]}"
    return shlex.join(option)
