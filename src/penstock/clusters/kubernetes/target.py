"""The cluster file of a home: the Kubernetes cluster for its applications, and the properties of their pods."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.formats import Entry, parse, read
from penstock.model import Capacity, Node
from penstock.units import parse_size

Json = Mapping[str, Any]

_FIX = "penstock cluster example prints such a file, with every key explained"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,511}")


@dataclass(frozen=True)
class Scratch:
    """The place of shuffle and spill of each pod.

    It is an `emptyDir` of that size on the node's disk or in its memory, or below a directory of the nodes (`path`),
    which may be a device of its own.
    """

    medium: str = "disk"
    size_bytes: int = 20 << 30
    path: str | None = None


@dataclass(frozen=True)
class CacheTier:
    """A directory on each node that outlives the pods, and the maximum size of its content."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Target:
    """The content of a cluster file.

    `context` and `kubeconfig` are None for the default ones, or where the engine runs in a pod itself.
    """

    namespace: str
    image: str
    kubeconfig: str | None = None
    context: str | None = None
    pull_policy: str | None = None
    pull_secrets: tuple[str, ...] = ()
    service_account: str = "default"
    executor_service_account: str | None = None
    labels: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    node_selector: Json = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    affinity: Json = field(default_factory=dict)
    priority_class: str | None = None
    scratch: Scratch = field(default_factory=Scratch)
    page_cache: Mapping[str, CacheTier] = field(default_factory=dict)
    """The tiers by name: `memory`, `disk`."""
    environment_from: tuple[str, ...] = ()
    """Secrets whose keys are environment variables of driver and executors."""
    overhead: float | None = None
    """Memory beside the heap, as a share of it, unless the user's settings name one; at least 384 MiB. None: Spark's
    defaults, 0.10, and 0.40 for Python."""
    cpu_request: float = 1.0
    """The share of each core that a pod requests; its limit is the whole cores."""
    start_timeout_seconds: float = 600.0
    """The time that a driver pod may lack a node or its image before its application fails."""
    capacity: Capacity | None = None
    """The permanent maximum for all applications together; an autoscaler adds missing nodes. None: the capacity of the
    nodes, without a maximum."""
    largest_node: Node | None = None
    """The largest node that there will ever be; None if undeclared."""
    driver_template: Json = field(default_factory=dict)
    executor_template: Json = field(default_factory=dict)


def read_target(path: Path) -> Target:
    """Read a cluster file. Raises `InvalidInput`, which names the line."""
    return _target(read(path, fix=_FIX))


def parse_target(text: str, source: str) -> Target:
    return _target(parse(text, source))


def _target(entry: Entry) -> Target:
    given = entry.mapping()
    readers = _READERS
    for name, value in given.items():
        if name not in readers and name != "kind":
            value.unknown(name, ("kind", *readers))
    if "kind" not in given or given["kind"].value != "kubernetes":
        entry.fail("does not name a known kind of cluster", fix=f"kind: kubernetes; {_FIX}")
    for required in ("namespace", "image"):
        if required not in given:
            entry.fail(f"lacks {required}:", fix=_FIX)
    if "largest_node" in given and "capacity" not in given:
        given["largest_node"].fail("has no effect without capacity:", fix="capacity: {cores: 64, memory: 256Gi}")
    return Target(**{name: readers[name](value) for name, value in given.items() if name != "kind"})


def _matching(pattern: re.Pattern[str], fix: str) -> Callable[[Entry], str]:
    def one(entry: Entry) -> str:
        if not isinstance(entry.value, str) or not pattern.fullmatch(entry.value):
            entry.fail(f"cannot be {entry.value!r}", fix=fix)
        return str(entry.value)

    return one


_name = _matching(
    re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"), "a name has lower-case letters, digits, '-' and '.'"
)
_text = _matching(re.compile(r".+"), "give a text")
_directory = _matching(re.compile(r"/.+"), "give an absolute path")


def _list_of(one: Callable[[Entry], Any]) -> Callable[[Entry], tuple[Any, ...]]:
    def several(entry: Entry) -> tuple[Any, ...]:
        if not isinstance(entry.value, list):
            entry.fail("is not a list", fix="write `- value`, one per line")
        return tuple(one(item) for item in entry.value)

    return several


def _object(entry: Entry) -> dict[str, Any]:
    entry.mapping()
    value: dict[str, Any] = entry.plain()
    return value


def _labels(entry: Entry) -> dict[str, str]:
    return {name: _text_or_empty(value) for name, value in entry.items()}


def _text_or_empty(entry: Entry) -> str:
    if not isinstance(entry.value, str):
        entry.fail(f"is {entry.value!r}, not a string", fix=f"quote it: '{entry.value}'")
    return str(entry.value)


def _size(entry: Entry) -> int:
    # Kubernetes writes Gi for Spark's g.
    found = parse_size(str(entry.value).lower().replace("i", ""))
    if not found or found < 0:
        entry.fail(f"is {entry.value!r}, not a size", fix="write it like 512m, 20g or 20Gi")
    return found


def _share(entry: Entry) -> float:
    if isinstance(entry.value, bool) or not isinstance(entry.value, (int, float)) or not 0 <= entry.value <= 4:
        entry.fail(f"is {entry.value!r}, not a share", fix="write it like 0.10")
    return float(entry.value)


def _cpu_request(entry: Entry) -> float:
    share = _share(entry)
    if not 0.01 <= share <= 1:
        entry.fail(f"is {entry.value!r}, not a share of a core", fix="1.0 requests whole cores, 0.5 half of each")
    return share


def _part(entry: Entry, known: Mapping[str, Callable[[Entry], Any]], required: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {}
    for name, value in entry.items():
        if name not in known:
            value.unknown(name, tuple(known))
        found[name] = known[name](value)
    for name in required:
        if name not in found:
            entry.fail(f"lacks {name}:", fix=_FIX)
    return found


def _scratch(entry: Entry) -> Scratch:
    readers = {"medium": lambda value: value.one_of(("disk", "memory")), "size": _size, "path": _directory}
    values = _part(entry, readers)
    if "size" in values:
        values["size_bytes"] = values.pop("size")
    return Scratch(**values)


def _page_cache(entry: Entry) -> dict[str, CacheTier]:
    def tier(value: Entry) -> CacheTier:
        values = _part(value, {"path": _directory, "size": _size}, ("path", "size"))
        return CacheTier(values["path"], values["size"])

    return _part(entry, {"memory": tier, "disk": tier})


def _cores_and_memory(entry: Entry) -> tuple[int, int]:
    values = _part(entry, {"cores": lambda value: value.integer(at_least=1), "memory": _size}, ("cores", "memory"))
    return values["cores"], values["memory"]


_READERS: Mapping[str, Callable[[Entry], Any]] = {
    "namespace": _matching(_DNS_LABEL, "a namespace has at most 63 lower-case letters, digits and '-'"),
    "image": _matching(_IMAGE, "REGISTRY/NAME:TAG, as penstock image build names it"),
    "kubeconfig": _text,
    "context": _text,
    "pull_policy": lambda entry: entry.one_of(("Always", "IfNotPresent", "Never")),
    "pull_secrets": _list_of(_name),
    "service_account": _name,
    "executor_service_account": _name,
    "labels": _labels,
    "annotations": _labels,
    "node_selector": _labels,
    "tolerations": _list_of(_object),
    "affinity": _object,
    "priority_class": _name,
    "scratch": _scratch,
    "page_cache": _page_cache,
    "environment_from": _list_of(_name),
    "overhead": _share,
    "cpu_request": _cpu_request,
    "start_timeout_seconds": lambda entry: float(entry.integer(at_least=1)),
    "capacity": lambda entry: Capacity(*_cores_and_memory(entry)),
    "largest_node": lambda entry: Node(*_cores_and_memory(entry)),
    "driver_template": _object,
    "executor_template": _object,
}
