"""The engine as the feed sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import NotFound
from penstock.model import State
from penstock.service import views
from penstock.service.feed import Event, Instances

_MOST_QUEUED = 200
"""Told of the queue each time it changes: more than a page shows, less than would slow it down."""


class Happenings:
    def __init__(self, service: views.Shown) -> None:
        self._service = service

    def application(self, application_id: str) -> Event | None:
        try:
            found = self._service.engine.get(application_id)
        except NotFound:
            return None
        return Event("application", found.spec.instance, views.application(self._service, found))

    def progress(self) -> Iterable[Event]:
        for found in self._service.engine.list(states=[State.RUNNING]):
            seen = self._service.engine.observe(found)
            if seen is not None and seen.progress is not None:
                more = {"id": found.id, "cost": views.cost(self._service, found)}
                shown = self._service.paths.hidden_in(dict(seen.progress))
                yield Event("progress", found.spec.instance, {**shown, **more})

    def queue(self, instances: Instances) -> Mapping[str, Any]:
        seen = views.queue(self._service, lambda name: instances is None or name in instances)
        # With how many there are: the list is cut, and `used` counts those that these listeners do not see.
        return {**seen, "items": seen["items"][:_MOST_QUEUED], "waiting": len(seen["items"])}
