"""The fake service of the console's tests has only addresses and fields that the real one has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import fake_service, places, world
from tests.unit.service.fakes import Stage

APPLICATION = world.application(1, "a", "running", age=1, spec={"webhooks": ["https://hooks.example.org/penstock"]})
TABLE = places.tables()[0]
READ = {
    **places.answers(),
    "self": {**places.caller(), "scopes": ["read"]},
    "applications": {"items": world.applications(), "next": None},
    f"applications/{APPLICATION['id']}": APPLICATION,
    f"applications/{APPLICATION['id']}/events": {"items": world.events(APPLICATION)},
    f"applications/{APPLICATION['id']}/deliveries": {"items": world.deliveries(APPLICATION)},
    f"applications/{APPLICATION['id']}/logs": {"items": [{"name": "driver.log", "bytes": None}]},
    f"tables/{TABLE['database']}.{TABLE['name']}": TABLE,
    f"tables/{TABLE['database']}.{TABLE['name']}/preview": places.preview(),
    "sessions/x/address": {"address": "sc://localhost:15002/;token=abc"},
}
"""Paths below `/v1/` that a GET returns."""

CHANGES = [
    ("post", "applications"),
    ("post", "applications/x/rerun"),
    ("post", "applications/x/stop"),
    ("post", "tokens"),
    ("put", f"files/{'0' * 64}/job.py"),
    ("get", "changes"),
    ("get", "applications/x/logs/driver.log"),
]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(Stage(tmp_path_factory.mktemp("home")).app.openapi())


def operation(described: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """Return the most specific match: a part of an address may also be a parameter's value."""
    found = [
        (template.count("{"), -len(template), methods[method])
        for template, methods in described["paths"].items()
        if method in methods
        and re.fullmatch(re.sub(r"\{(\w+)\}", _parameter, template.replace(".", r"\.")), f"/v1/{path}")
    ]
    return min(found, key=lambda one: one[:2])[2] if found else None


def _parameter(found: re.Match[str]) -> str:
    return ".+" if found.group(1) in ("name", "path") else "[^/]+"


def strangers(value: Any, schema: dict[str, Any], described: dict[str, Any], at: str = "") -> Iterator[str]:
    """Yield the fields of `value` that no matching schema has."""
    schema = _resolved(schema, described)
    if "anyOf" in schema:
        possible = [one for one in schema["anyOf"] if _is_kind(value, _resolved(one, described))]
        choices = [list(strangers(value, one, described, at)) for one in possible]
        yield from min(choices, key=len, default=[f"{at}: {value!r}"])
    elif isinstance(value, dict) and "properties" in schema:
        for name, part in value.items():
            if name in schema["properties"]:
                yield from strangers(part, schema["properties"][name], described, f"{at}.{name}")
            else:
                yield f"{at}.{name}"
    elif isinstance(value, list):
        for part in value:
            yield from strangers(part, schema.get("items", {}), described, f"{at}[]")


def _resolved(schema: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    found = described["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    return dict(found)


def _is_kind(value: Any, schema: dict[str, Any]) -> bool:
    kinds = {type(None): "null", dict: "object", list: "array", str: "string", bool: "boolean"}
    kind = schema.get("type")
    return kind is None or kind == kinds.get(type(value), kind if kind in ("integer", "number") else "")


@pytest.mark.parametrize("path", sorted(READ))
def test_what_it_answers_is_described(described: dict[str, Any], path: str) -> None:
    found = operation(described, "get", path)
    assert found is not None
    schema = found["responses"]["200"]["content"]["application/json"]["schema"]
    assert "$ref" in schema, "the description says nothing of its fields"
    assert sorted(set(strangers(READ[path], schema, described))) == []


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_what_it_takes_is_described(described: dict[str, Any], method: str, path: str) -> None:
    assert operation(described, method, path) is not None


def test_it_answers_nothing_else() -> None:
    """The lists above have every address in its code."""
    code = Path(fake_service.__file__).read_text("utf-8")
    named = set(re.findall(r'path == "([^"]+)"', code)) | set(re.findall(r'path\.endswith\("/?([^"]+)"\)', code))
    known = " ".join([*READ, *(path for _, path in CHANGES)])
    assert {name for name in named if name not in known} == set()
