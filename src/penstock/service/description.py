"""The published OpenAPI description: what FastAPI derives from the routes, and what it cannot know."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from penstock.service import problems

_TAGS = {
    "applications": "Spark applications, each on a cluster of its own: submit, list, show, wait, stop, run again.",
    "logs": "What an application's processes wrote, while it runs and afterwards.",
    "sql": "What SQL statements answered.",
    "files": "Bringing an application's files to the lake.",
    "sessions": "Clusters for interactive work over Spark Connect.",
    "instances": "Who shares the machine, by which part, and who waits for what.",
    "data": "Tables, lakes, profiles and the page cache.",
    "tokens": "Who may use this service.",
    "audit": "Who did what.",
    "lab": "What was measured here.",
    "IBM Analytics Engine": "Its v3 and v4, for programs written for it.",
    "IBM Analytics Engine, older jobs API": "With the cluster's size in the body.",
    "self": "What the caller may do.",
    "health": "For whoever operates the service.",
}
_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details, with the problem, why, and how to fix it.",
    "required": ["type", "title", "status", "detail", "problem", "why", "fix", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string", "description": "The status in words."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The whole explanation."},
        "problem": {"type": "string", "description": "What is wrong, in one sentence."},
        "why": {"type": "string"},
        "fix": {"type": "string", "description": "What to do about it."},
        "code": {"type": "string", "description": "The kind of problem, for programs.", "examples": ["not_found"]},
        "instance": {"type": ["string", "null"], "description": "The request; its id is in the service's journal."},
        "errors": {
            "type": "array",
            "description": "Of a request that is not as described: where, and what.",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_ANY_PROBLEM = {
    "description": "It was not done: what the problem is, why, and how to fix it.",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_METHODS = frozenset({"get", "put", "post", "patch", "delete", "head", "options"})
_OPEN = ("/health/",)


def install(app: FastAPI) -> None:
    """Publish it at `/openapi.json`."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of this service: penstock token create NAME, or POST /v1/tokens.",
        }
    }
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                _complete(operation, guarded=not path.startswith(_OPEN))
    return found


def _complete(operation: dict[str, Any], *, guarded: bool) -> None:
    operation["responses"].pop("422", None)
    # One description for every refusal: the body's `code` tells them apart better than a list of numbers.
    operation["responses"]["default"] = _ANY_PROBLEM
    if guarded:
        operation["security"] = [{"token": []}]
