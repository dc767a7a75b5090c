"""Kubernetes' own schemas as closed JSON schemas, which find a misspelt field without a cluster.

`python tests/support/kubernetes/objects.py SWAGGER` regenerates them from `api/openapi-spec/swagger.json` of
Kubernetes (Apache-2.0): the kinds that the chart and the applications' pods use, without descriptions.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

_FILE = Path(__file__).parent / "kubernetes-1.34.json"
_KINDS = {
    "admissionregistration.k8s.io/v1": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "v1": (
        "ConfigMap",
        "LimitRange",
        "Namespace",
        "PersistentVolumeClaim",
        "Pod",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "apps/v1": ("DaemonSet", "Deployment", "StatefulSet"),
    "discovery.k8s.io/v1": ("EndpointSlice",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_EITHER = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


def check(thing: dict[str, Any]) -> None:
    """Validate an object. Raises `jsonschema_rs.ValidationError`, or `KeyError` for an unknown kind."""
    _validators()[thing["apiVersion"], thing["kind"]].validate(thing)


@cache
def _validators() -> dict[tuple[str, str], Any]:
    kept = json.loads(_FILE.read_text("utf-8"))
    return {
        tuple(key.rsplit(" ", 1)): jsonschema_rs.Draft7Validator(
            {"definitions": kept["definitions"], "$ref": reference}
        )
        for key, reference in kept["kinds"].items()
    }


def _bundled(swagger: dict[str, Any]) -> dict[str, Any]:
    definitions = swagger["definitions"]
    kinds = {}
    for name, definition in definitions.items():
        for described in definition.get("x-kubernetes-group-version-kind", []):
            version = "/".join(filter(None, (described["group"], described["version"])))
            if described["kind"] in _KINDS.get(version, ()):
                kinds[f"{version} {described['kind']}"] = f"#/definitions/{name}"
                # Every object needs its kind and version; the schemas require neither.
                definition["required"] = sorted({*definition.get("required", []), "apiVersion", "kind", "metadata"})
    needed: dict[str, Any] = {}
    waiting = [reference.rpartition("/")[2] for reference in kinds.values()]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = _closed(name, definitions[name])
            waiting += [found.rpartition("/")[2] for found in _references(needed[name])]
    return {"kinds": kinds, "definitions": needed}


def _closed(name: str, schema: Any) -> Any:
    if name == _EITHER:
        return {"type": ["integer", "string"]}
    if name == _QUANTITY:
        return {"type": ["number", "string"], "pattern": r"^[0-9.]+(m|[kMGTPE]|[KMGTPE]i)?$"}
    if isinstance(schema, list):
        return [_closed("", part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {field: _closed("", part) for field, part in value.items()} if key == "properties" else _closed("", value)
        for key, value in schema.items()
        if key not in ("description", "default", "format") and not key.startswith("x-kubernetes")
    }
    if "properties" in kept and "additionalProperties" not in kept:
        kept["additionalProperties"] = False
    return kept


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for part in schema for found in _references(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return own + [found for part in schema.values() for found in _references(part)]


if __name__ == "__main__":
    bundled = _bundled(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    _FILE.write_text(json.dumps(bundled, sort_keys=True, separators=(",", ":")) + "\n", "utf-8")
