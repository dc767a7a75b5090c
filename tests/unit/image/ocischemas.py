"""The OCI specification's own schemas of an image's documents."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

_DIRECTORY = Path(__file__).parent / "schemas"


@cache
def validator(name: str) -> Any:
    """Return the validator of a schema: `config`, `image-manifest`, `image-index` or `image-layout`."""
    files = {path.name: json.loads(path.read_text("utf-8")) for path in _DIRECTORY.glob("*.json")}
    # The schemas refer to each other's files; in one document, every reference is local.
    together = {file: _within(schema, file) for file, schema in files.items()}
    return jsonschema_rs.Draft4Validator(
        {"definitions": together, "allOf": [{"$ref": f"#/definitions/{name}-schema.json"}]}, validate_formats=True
    )


def _within(schema: Any, file: str) -> Any:
    if isinstance(schema, list):
        return [_within(part, file) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        named, _, pointer = reference.partition("#")
        return {"$ref": f"#/definitions/{named or file}{pointer}"}
    return {key: _within(part, file) for key, part in schema.items() if not (key == "id" and isinstance(part, str))}
