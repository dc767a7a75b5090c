"""YAML files that people write: read so that every complaint can name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Entry:
    """A value and where it stands. `value` is a scalar, a list of entries, or a mapping of names to entries."""

    value: Any
    source: str
    line: int
    key: str
    """The keys that lead to it, with dots; empty for the file's whole content."""

    def wrong(self, what: str, *, fix: str = "") -> NoReturn:
        """Raise `InvalidInput` that points here."""
        where = f"{self.source}, line {self.line}"
        raise InvalidInput(f"{where}: {self.key or 'the file'} {what}", fix=fix)

    def mapping(self) -> Mapping[str, Entry]:
        if not isinstance(self.value, dict):
            self.wrong("is not a mapping of names to values", fix="write `name: value`, one a line, indented alike")
        return self.value

    def items(self) -> Iterator[tuple[str, Entry]]:
        yield from self.mapping().items()

    def plain(self) -> Any:
        """The value without its places, as `yaml.safe_load` gives it."""
        if isinstance(self.value, dict):
            return {name: entry.plain() for name, entry in self.value.items()}
        if isinstance(self.value, list):
            return [entry.plain() for entry in self.value]
        return self.value


def parse(text: str, source: str) -> Entry:
    """`source` names the file in complaints. Raises `InvalidInput` for what is no YAML, and for a key given twice."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Entry({}, source, 1, "")
        return _entry(loader, node, source, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}, line {mark.line + 1}" if mark else source
        raise InvalidInput(f"{where}: this is not YAML", why=str(error.problem or error.context)) from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"{source}: this is not YAML", why=str(error)) from error
    finally:
        loader.dispose()


def _entry(loader: yaml.SafeLoader, node: yaml.Node, source: str, key: str) -> Entry:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Entry] = {}
        for name_node, value_node in node.value:
            name = str(name_node.value)
            inner = _entry(loader, value_node, source, f"{key}.{name}" if key else name)
            if name in found:
                again = Entry(None, source, name_node.start_mark.line + 1, inner.key)
                again.wrong(f"was given on line {found[name].line} already")
            found[name] = inner
        return Entry(found, source, line, key)
    if isinstance(node, yaml.SequenceNode):
        inner_entries = [_entry(loader, inner, source, f"{key}[{index}]") for index, inner in enumerate(node.value)]
        return Entry(inner_entries, source, line, key)
    try:
        return Entry(loader.construct_object(node), source, line, key)
    except ValueError as error:  # a date such as 2026-13-45
        Entry(None, source, line, key).wrong(f"is no value: {error}")
