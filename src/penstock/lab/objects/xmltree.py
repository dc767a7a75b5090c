"""XML from strangers as elements that know their lines: nothing is expanded or fetched, and the size is bounded."""

from __future__ import annotations

import xml.parsers.expat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from penstock.errors import InvalidInput

MOST_BYTES = 1 << 20
MOST_ELEMENTS = 10_000


@dataclass
class Element:
    name: str
    line: int
    attributes: Mapping[str, str]
    children: list[Element] = field(default_factory=list)


def parse(content: bytes, source: str) -> Element:
    """The outermost element. `source` is how the file is called in errors, which are `InvalidInput` with the line."""
    if len(content) > MOST_BYTES:
        raise InvalidInput(f"{source} is too large", why="it has more than 1 MiB", fix="give an XML workload file")
    parser = xml.parsers.expat.ParserCreate()
    root = Element("", 0, {})
    path = [root]
    count = 0

    def declared(*_: object) -> NoReturn:
        refuse(
            source,
            parser.CurrentLineNumber,
            "a document type declaration is not allowed",
            "it could expand to any size, and no COSBench workload needs one",
        )

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS:
            refuse(source, parser.CurrentLineNumber, f"there are more than {MOST_ELEMENTS} elements")
        element = Element(name, parser.CurrentLineNumber, attributes)
        path[-1].children.append(element)
        path.append(element)

    def end(_: str) -> None:
        path.pop()

    parser.StartDoctypeDeclHandler = declared
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(content, True)
    except xml.parsers.expat.ExpatError as error:
        why = f"{xml.parsers.expat.ErrorString(error.code)}; in a value, < and & are written &lt; and &amp;"
        refuse(source, error.lineno, "this is not well-formed XML", why)
    except ValueError as error:  # an encoding expat does not know
        refuse(source, 1, "this is not well-formed XML", str(error))
    return root.children[0]


def refuse(source: str, line: int, problem: str, why: str = "") -> NoReturn:
    """Raise `InvalidInput` about a line of the file."""
    raise InvalidInput(f"{source}, line {line}: {problem}", why=why, fix="change that line, or take it out")
