"""What the API shows: records, with what is known of a cluster while it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from penstock.engine.artifacts import PLACE
from penstock.engine.engine import Engine
from penstock.model import CORES_PER_CORE, Application, State, promised
from penstock.service.ourpaths import OurPaths

_PLACES = (PLACE, "artefacts_problem")
_QUEUED = (State.ACCEPTED, State.WAITING)


class Shown(Protocol):
    """What is looked at here of the service."""

    engine: Engine
    paths: OurPaths


def application(service: Shown, found: Application) -> dict[str, Any]:
    """`progress` and `ui` are null unless it runs; `cost` is that of its clusters until now."""
    seen = service.engine.observe(found)
    known = found.to_json()
    hidden = service.paths.hidden_in
    return {
        **known,
        "reason": hidden(known["reason"]),
        "attempts": hidden(known["attempts"]),
        "summary": _outside(service, known["summary"]),
        "cost": cost(service, found),
        "priority": found.spec.priority,
        "progress": hidden(dict(seen.progress)) if seen is not None and seen.progress is not None else None,
        "ui": f"/v1/applications/{found.id}/ui" if found.can_be_watched else None,
    }


def _outside(service: Shown, summary: dict[str, Any] | None) -> dict[str, Any] | None:
    """Where artefacts are that could not be brought to the lake, and why, names directories."""
    if not summary:
        return summary
    named = {name: service.paths.hidden(str(summary[name])) for name in _PLACES if name in summary}
    return {**summary, **named}


def cost(service: Shown, found: Application) -> dict[str, Any] | None:
    so_far = service.engine.cost(found)
    return asdict(so_far) if so_far is not None else None


def queue(service: Shown, sees: Callable[[str], bool], instance: str | None = None) -> dict[str, Any]:
    """Who waits in all instances or in one, as far as the caller `sees` their instances; what there is, and its use."""
    waiting = {found.id: found for found in service.engine.list(states=_QUEUED)}
    items = []
    for place in service.engine.queue(instance):
        # What was admitted between the two looks waits no more.
        if (found := waiting.get(place.id)) is None or not sees(place.instance):
            continue
        share = promised(found.spec.size)
        items.append(
            {
                "id": place.id,
                "name": found.spec.name,
                "instance": place.instance,
                "priority": found.spec.priority,
                "position": place.position,
                "submitted_at": found.submitted_at.isoformat(),
                "reason": asdict(place.reason) if place.reason else None,
                "cores": share.cores,
                "memory_bytes": share.memory_bytes,
            }
        )
    capacity = service.engine.capacity()
    used = service.engine.uses().values()
    return {
        "items": items,
        "capacity": {
            "cores": capacity.cores,
            "promisable_cores": int(capacity.cores * CORES_PER_CORE),
            "memory_bytes": capacity.memory_bytes,
        },
        "used": {
            "cores": sum(use.cores for use in used),
            "memory_bytes": sum(use.memory_bytes for use in used),
            "running": sum(use.running for use in used),
            "waiting": sum(use.waiting for use in used),
        },
    }
