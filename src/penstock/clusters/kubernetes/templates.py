"""A user's pod template under what Penstock says of the same pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYED = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
"""Lists whose entries are told apart by that key: as in the API's own strategic merge."""


def merged(template: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Both; where they differ, `own`. Of lists with named entries those of one name are merged, of others all are
    taken."""
    result = dict(template)
    for name, value in own.items():
        below = template.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[name] = merged(below, value)
        elif isinstance(value, list) and isinstance(below, list):
            result[name] = _lists(below, value, _KEYED.get(name))
        else:
            result[name] = value
    return result


def _lists(below: list[Any], own: list[Any], key: str | None) -> list[Any]:
    if key is None:
        return [*own, *(entry for entry in below if entry not in own)]
    others = {entry.get(key): entry for entry in below}
    ours = [merged(others.pop(entry.get(key), {}), entry) for entry in own]
    return [*ours, *others.values()]
