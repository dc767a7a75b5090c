"""COSBench workload files: https://github.com/intel-cloud/cosbench, its user guide and its configuration classes.

Everything that changes the load on the store is supported or refused, with its line. The destination (`storage`,
`auth`), drivers and reporting are listed as ignored: the load goes to the lake, with the lake's own credentials, and
those in the file are never used.
"""

from __future__ import annotations

import xml.parsers.expat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn, TypeVar

from penstock.errors import InvalidInput, NotFound
from penstock.lab.loadgen.workload import (
    Division,
    Limit,
    Numbers,
    Operation,
    OperationKind,
    Sizes,
    Stage,
    Targets,
    Work,
    Workload,
    parse_numbers,
    parse_sizes,
)

MOST_BYTES = 1 << 20
MOST_ELEMENTS = 10_000


@dataclass
class Element:
    name: str
    line: int
    attributes: Mapping[str, str]
    children: list[Element] = field(default_factory=list)


def parse_xml(content: bytes, source: str) -> Element:
    """Return the root element. Raises `InvalidInput` with `source`, the file's name, and the line."""
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
            "entities could expand to any size, and no COSBench workload needs them",
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
    except ValueError as error:  # an encoding unknown to expat
        refuse(source, 1, "this is not well-formed XML", str(error))
    return root.children[0]


def refuse(source: str, line: int, problem: str, why: str = "") -> NoReturn:
    """Raise `InvalidInput` about a line of the file."""
    raise InvalidInput(f"{source}, line {line}: {problem}", why=why, fix="change that line, or remove it")


_MOST_WORKERS = 4096
_LONGEST_SECONDS = 366 * 24 * 3600

_KINDS = {
    "read": OperationKind.GET,
    "write": OperationKind.PUT,
    "list": OperationKind.LIST,
    "delete": OperationKind.DELETE,
}
_ELSEWHERE = ("storage", "auth")

# The children of each element, and the attributes without an effect on the load.
_CHILDREN = {
    "workload": ("workflow", *_ELSEWHERE),
    "workflow": ("workstage", *_ELSEWHERE),
    "workstage": ("work", *_ELSEWHERE),
    "work": ("operation", *_ELSEWHERE),
    "operation": (),
}
_ATTRIBUTES = {
    "workload": {"name", "description", "config"},
    "workflow": {"config"},
    "workstage": {"name", "closuredelay", "config"},
    "work": {
        *("name", "type", "workers", "division", "runtime", "rampup", "rampdown", "totalOps", "totalBytes", "config"),
    },
    "operation": {"type", "ratio", "division", "config"},
}
_IGNORED_ATTRIBUTES = {"work": {"interval", "driver", "afr"}, "operation": {"id"}}
_SETTINGS = {"containers", "objects", "sizes", "cprefix", "csuffix", "oprefix", "osuffix"}
_IGNORED_SETTINGS = {
    "hashcheck": "every GET is always verified",
    "createcontainer": "a container is a key prefix, which need not be created",
    "deletecontainer": "a container is a key prefix, which need not be deleted",
}

T = TypeVar("T")


@dataclass(frozen=True)
class CosbenchFile:
    """A workload, and a note for each ignored part of the file."""

    workload: Workload
    ignored: tuple[str, ...]


def read(path: Path) -> CosbenchFile:
    """Read a file. Raises `NotFound` where it cannot be read, `InvalidInput` with the line where it is invalid."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise NotFound(
            f"The workload file {path} cannot be read", why=error.strerror or str(error), fix="--cosbench FILE.xml"
        ) from error
    return parse(content, str(path))


def parse(content: bytes, source: str) -> CosbenchFile:
    """Parse a workload; errors name the file as `source`."""
    return _Reader(source).read(parse_xml(content, source))


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._ignored: dict[str, None] = {}
        self._written: dict[tuple[str, ...], Sizes | None] = {}

    def read(self, root: Element) -> CosbenchFile:
        if root.name != "workload":
            self._refuse(root, f"the root element is “{root.name}”, not “workload”")
        self._check_known(root)
        flows = [child for child in root.children if child.name == "workflow"]
        if len(flows) != 1:
            self._refuse(root, "a workload has exactly one workflow")
        self._check_known(flows[0])
        inherited = {**self._settings(root), **self._settings(flows[0])}
        stages = [self._stage(child, inherited) for child in flows[0].children if child.name == "workstage"]
        loaded = tuple(self._with_sizes(stage) for stage in stages if stage.works or stage.pause_seconds)
        if not any(stage.measured for stage in loaded):
            self._refuse(flows[0], "no workstage has anything to measure", "only work of type normal is measured")
        return CosbenchFile(Workload(root.attributes.get("name", "cosbench"), loaded), tuple(self._ignored))

    def _with_sizes(self, stage: Stage) -> Stage:
        """Copy the sizes from writes to the reads of the same objects, since a file gives them only for writes."""

        def sized(operation: Operation) -> Operation:
            if operation.kind is not OperationKind.GET:
                return operation
            return replace(operation, sizes=self._written.get(_names(operation.targets)))

        works = (replace(work, operations=tuple(map(sized, work.operations))) for work in stage.works)
        return replace(stage, works=tuple(works))

    def _stage(self, element: Element, inherited: Mapping[str, str]) -> Stage:
        self._check_known(element)
        settings = {**inherited, **self._settings(element)}
        elements = [child for child in element.children if child.name == "work"]
        if not elements:
            self._refuse(element, "a workstage needs at least one work")
        works = [self._work(child, settings) for child in elements]
        loaded = tuple(work for work in works if work is not None)
        measured = bool(loaded) and any(child.attributes.get("type", "normal") == "normal" for child in elements)
        pause = self._number(element, "closuredelay", 0, _LONGEST_SECONDS)
        return Stage(element.attributes.get("name", "stage"), loaded, float(pause), measured)

    def _work(self, element: Element, inherited: Mapping[str, str]) -> Work | None:
        self._check_known(element)
        settings = {**inherited, **self._settings(element)}
        kind = element.attributes.get("type", "normal")
        if kind in ("init", "dispose"):
            self._ignore(
                element, f"work of type {kind}", "containers are key prefixes, which need not be created or deleted"
            )
            return None
        if kind == "delay":
            return None  # the wait is the stage's closuredelay
        if kind in ("prepare", "cleanup"):
            return self._each_once(element, settings, OperationKind.PUT if kind == "prepare" else OperationKind.DELETE)
        if kind != "normal":
            self._refuse(
                element, f"there is no work of type “{kind}”", "types: init, prepare, normal, cleanup, dispose, delay"
            )
        return self._normal(element, settings)

    def _each_once(self, element: Element, settings: Mapping[str, str], kind: OperationKind) -> Work:
        for attribute in ("runtime", "totalOps", "totalBytes", "rampup", "rampdown"):
            if element.attributes.get(attribute, "0") != "0":
                self._ignore(element, attribute, "this type of work processes each object once")
        for child in element.children:
            if child.name == "operation":
                self._ignore(
                    child, f"operation of a {element.attributes['type']} work", "the work's own config decides"
                )
        operation = self._operation(element, kind, 1.0, settings, Division.OBJECT)
        return Work(self._name(element), self._workers(element), (operation,))

    def _normal(self, element: Element, settings: Mapping[str, str]) -> Work:
        division = self._division(element, Division.NONE)
        operations = []
        total = 0
        for child in element.children:
            if child.name != "operation":
                continue
            self._check_known(child)
            ratio = self._number(child, "ratio", 100, 100)
            total += ratio
            kind = _KINDS.get(child.attributes.get("type", ""))
            if kind is None:
                known = ", ".join(_KINDS)
                self._refuse(
                    child, f"operation “{child.attributes.get('type', '')}” is not supported", f"supported: {known}"
                )
            own = {**settings, **self._settings(child)}
            if ratio:
                operations.append(self._operation(child, kind, ratio, own, self._division(child, division)))
        if total != 100:
            self._refuse(element, f"the ratios of its operations add up to {total}", "they must add up to 100")
        runtime = self._number(element, "runtime", 0, _LONGEST_SECONDS)
        limit = Limit(
            float(runtime) if runtime else None,
            self._number(element, "totalOps", 0, 10**12) or None,
            self._number(element, "totalBytes", 0, 10**18) or None,
        )
        if limit.each_once:
            self._refuse(element, "this work has no end", "give it runtime, totalOps or totalBytes")
        return Work(
            self._name(element),
            self._workers(element),
            tuple(operations),
            limit,
            float(self._number(element, "rampup", 0, _LONGEST_SECONDS)),
            float(self._number(element, "rampdown", 0, _LONGEST_SECONDS)) if runtime else 0.0,
        )

    def _operation(
        self, element: Element, kind: OperationKind, ratio: float, settings: Mapping[str, str], division: Division
    ) -> Operation:
        if kind is OperationKind.LIST and "objects" in settings:
            self._ignore(element, "objects of a list", "a list covers a container")
        targets = Targets(
            self._choice(element, settings, "containers"),
            Numbers(1, 1) if kind is OperationKind.LIST else self._choice(element, settings, "objects"),
            settings.get("cprefix", "mycontainers"),
            settings.get("csuffix", ""),
            settings.get("oprefix", "myobjects"),
            settings.get("osuffix", ""),
            division,
        )
        names = _names(targets)
        sizes = None
        if kind is OperationKind.PUT:
            if "sizes" not in settings:
                self._refuse(element, "sizes are missing", "write in config: sizes=c(64)KB")
            sizes = self._parsed(element, parse_sizes, settings["sizes"])
            # Reads know the sizes where all writes under these names have the same ones.
            self._written[names] = sizes if self._written.get(names, sizes) == sizes else None
        return Operation(kind, ratio, targets, sizes)

    def _choice(self, element: Element, settings: Mapping[str, str], name: str) -> Numbers:
        if name not in settings:
            self._refuse(element, f"{name} are missing", f"write in config: {name}=u(1,100)")
        return self._parsed(element, parse_numbers, settings[name])

    def _settings(self, element: Element) -> dict[str, str]:
        """Parse `config="name=value;…"`. Errors name a setting but never its value, which might be a secret."""
        found: dict[str, str] = {}
        for part in element.attributes.get("config", "").split(";"):
            name, equals, value = part.partition("=")
            name = name.strip()
            if not part.strip():
                continue
            if not equals:
                self._refuse(element, "a part of config is not NAME=VALUE")
            why = _IGNORED_SETTINGS.get(name.lower())
            if why or (name, value.strip()) == ("content", "random"):
                self._ignore(element, name, why or "contents are always pseudo-random")
            elif name not in _SETTINGS:
                self._refuse(
                    element,
                    f"config has “{name[:40]}”, which is not supported",
                    f"supported: {', '.join(sorted(_SETTINGS))}",
                )
            else:
                found[name] = value.strip()
        return found

    def _check_known(self, element: Element) -> None:
        """Refuse, or list as ignored, the unsupported parts of an element."""
        for attribute in element.attributes:
            if attribute in _IGNORED_ATTRIBUTES.get(element.name, ()):
                self._ignore(element, attribute, "it does not change the load")
            elif attribute not in _ATTRIBUTES[element.name]:
                self._refuse(element, f"{element.name} has “{attribute}”, which is not supported")
        for child in element.children:
            if child.name not in _CHILDREN[element.name]:
                self._refuse(child, f"“{child.name}” is not supported inside {element.name}")
            if child.name in _ELSEWHERE:
                self._ignore(child, child.name, "the load goes to the lake, with the lake's credentials")

    def _name(self, element: Element) -> str:
        return element.attributes.get("name") or element.attributes.get("type", "work")

    def _workers(self, element: Element) -> int:
        found = self._number(element, "workers", 0, _MOST_WORKERS)
        if not found:
            self._refuse(element, "a work needs workers", 'write workers="8"')
        return found

    def _division(self, element: Element, default: Division) -> Division:
        text = element.attributes.get("division", default.value)
        if text not in [known.value for known in Division]:
            self._refuse(element, f"there is no division “{text[:40]}”", "use none, container or object")
        return Division(text)

    def _number(self, element: Element, attribute: str, default: int, most: int) -> int:
        text = element.attributes.get(attribute, str(default)).strip()
        if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > most:
            self._refuse(element, f"{attribute} is not a whole number from 0 to {most}")
        return int(text)

    def _parsed(self, element: Element, parser: Callable[[str], T], text: str) -> T:
        try:
            return parser(text)
        except ValueError as error:
            self._refuse(element, "a value in config is invalid", str(error))

    def _ignore(self, element: Element, what: str, why: str) -> None:
        self._ignored[f"line {element.line}: {what} is ignored: {why}"] = None

    def _refuse(self, element: Element, problem: str, why: str = "") -> NoReturn:
        refuse(self._source, element.line, problem, why)


def _names(targets: Targets) -> tuple[str, ...]:
    return (targets.container_prefix, targets.container_suffix, targets.object_prefix, targets.object_suffix)
