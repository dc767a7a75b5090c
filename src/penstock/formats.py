"""File formats that people, Java and Hadoop share: YAML with positions, properties, configuration XML, PEM.

The YAML reader keeps positions, so that every error names the file, the line and the key. The writers of properties and
configuration files guarantee that `java.util.Properties.load` and Hadoop's `Configuration` read back exactly the given
keys and values.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn
from xml.sax.saxutils import escape

import yaml

from penstock.errors import InvalidInput

_MOST_BYTES = 256 << 10
_DEEPEST = 20


@dataclass(frozen=True)
class Entry:
    """A value with its position. `value` is a scalar, a list of entries, or a mapping of names to entries."""

    value: Any
    source: str
    line: int
    """The line of its key, if it has one."""
    key: str
    """The path of keys to it, with dots; empty for the file's whole content."""

    def fail(self, what: str, *, fix: str = "") -> NoReturn:
        """Raise an `InvalidInput` that names this position."""
        where = f"{self.source}, line {self.line}"
        raise InvalidInput(f"{where}: {self.key or 'the file'} {what}", fix=fix)

    def mapping(self) -> Mapping[str, Entry]:
        if not isinstance(self.value, dict):
            self.fail("is not a mapping of names to values", fix="write `name: value`, one a line, indented alike")
        return self.value

    def items(self) -> Iterator[tuple[str, Entry]]:
        yield from self.mapping().items()

    def unknown(self, name: str, known: Collection[str]) -> NoReturn:
        """Raise an `InvalidInput` for an unknown name, which suggests the closest `known` one."""
        near = get_close_matches(name, known, n=1)
        self.fail("is not known", fix=f"did you mean {near[0]}?" if near else f"it can be {', '.join(known)}")

    def integer(self, *, at_least: int) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < at_least:
            self.fail(f"is not a whole number of at least {at_least} but {self.value!r}")
        return self.value

    def one_of(self, known: Collection[str]) -> str:
        if self.value not in known:
            self.fail(f"cannot be {self.value!r}", fix=f"choose one of {', '.join(known)}")
        return str(self.value)

    def plain(self) -> Any:
        """The value without positions, as `yaml.safe_load` returns it."""
        if isinstance(self.value, dict):
            return {name: entry.plain() for name, entry in self.value.items()}
        if isinstance(self.value, list):
            return [entry.plain() for entry in self.value]
        return self.value


def read(path: Path, *, fix: str) -> Entry:
    """Parse a file. Raises `InvalidInput` where it cannot be read, is too large, or is not YAML."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise InvalidInput(f"{path} is too large", why=f"it has more than {_MOST_BYTES >> 10} KiB", fix=fix)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read", why=error.strerror or str(error), fix=fix) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text in UTF-8", why=str(error), fix=fix) from error
    return parse(text, str(path))


def parse(text: str, source: str) -> Entry:
    """Parse a text; `source` names the file in errors.

    Raises `InvalidInput` for text that is not YAML, for a duplicate key, and for constructs with unbounded expansion:
    aliases, and nesting deeper than a person writes.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return Entry({}, source, 1, "") if node is None else _entry(loader, node, source, "", 1)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}, line {mark.line + 1}" if mark else source
        raise InvalidInput(f"{where}: this is not YAML", why=str(error.problem or error.context)) from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"{source}: this is not YAML", why=str(error)) from error


class _Loader(yaml.SafeLoader):
    """The safe loader, restricted to constructs whose cost is bounded by the size of the text."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not supported: repeat the value", mark)
        if self._depth == _DEEPEST:
            raise yaml.composer.ComposerError(None, None, f"it is nested more than {_DEEPEST} deep", mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _entry(loader: yaml.SafeLoader, node: yaml.Node, source: str, key: str, line: int) -> Entry:
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Entry] = {}
        for name_node, value_node in node.value:
            name, at = str(name_node.value), name_node.start_mark.line + 1
            inner = _entry(loader, value_node, source, f"{key}.{name}" if key else name, at)
            if name in found:
                inner.fail(f"is already on line {found[name].line}")
            found[name] = inner
        return Entry(found, source, line, key)
    if isinstance(node, yaml.SequenceNode):
        inner_entries = [
            _entry(loader, inner, source, f"{key}[{index}]", inner.start_mark.line + 1)
            for index, inner in enumerate(node.value)
        ]
        return Entry(inner_entries, source, line, key)
    try:
        return Entry(loader.construct_object(node), source, line, key)
    except ValueError as error:  # a date such as 2026-13-45
        Entry(None, source, line, key).fail(f"is not a valid value: {error}")


def configuration_xml(settings: Mapping[str, str]) -> str:
    """The content of a `…-site.xml`."""
    properties = "".join(
        f"  <property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{properties}</configuration>\n'


def url_host(host: str) -> str:
    """A host as URLs write it: IPv6 addresses in brackets (RFC 3986, 3.2.2), others unchanged."""
    return f"[{host}]" if ":" in host else host


_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_MOST_CERTIFICATE_BYTES = 4 << 20


def sql_text(text: str) -> str:
    """Return the text as a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def certificates(path: str) -> list[str]:
    """The certificates in the file, in PEM, without its other content, such as a private key.

    Raises `InvalidInput` where there is none, or the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            found = _CERTIFICATE.findall(file.read(_MOST_CERTIFICATE_BYTES).decode("utf-8", errors="replace"))
        if found:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(found))
            return found
        why = "it has no -----BEGIN CERTIFICATE-----"
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    raise InvalidInput(
        f"{path} contains no valid certificates",
        why=why,
        fix="give the certificate of the authority that signed those of the endpoints, as PEM "
        "(openssl x509 -inform der -in ca.der -out ca.pem converts one in DER)",
    )


_ESCAPES = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\f": "\\f",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
    "!": "\\!",
}


def as_properties(settings: Mapping[str, str]) -> str:
    """The content of a properties file, in pure ASCII, so that the reader's encoding does not matter."""
    return "".join(f"{_escaped(key, spaces=True)}={_escaped(value)}\n" for key, value in sorted(settings.items()))


def _escaped(text: str, *, spaces: bool = False) -> str:
    out = []
    for index, letter in enumerate(text):
        if letter == " " and (spaces or index == 0):
            out.append("\\ ")
        elif letter in _ESCAPES:
            out.append(_ESCAPES[letter])
        elif " " <= letter <= "~":
            out.append(letter)
        else:
            units = letter.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2)]
    return "".join(out)
