"""The published description of these APIs has every response."""

from __future__ import annotations

from pathlib import Path

from tests.unit.service.ibm.dialect_world import World


def test_every_answer_with_a_body_is_described(tmp_path: Path) -> None:
    paths = World(tmp_path).named().get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        if path.startswith(("/v3", "/v4", "/ae")):
            for method, operation in methods.items():
                for status, answer in operation["responses"].items():
                    if status not in ("204", "default"):
                        schema = answer["content"]["application/json"]["schema"]
                        assert schema.keys() & {"$ref", "items", "additionalProperties"}, f"{method} {path} {status}"
