"""What the API shows: records, with what is known of a cluster while it lives."""

from __future__ import annotations

from typing import Any

from penstock.engine.application import Application
from penstock.service.context import Service


def application(service: Service, found: Application) -> dict[str, Any]:
    """`progress` and `ui` are null unless it runs."""
    seen = service.engine.observe(found)
    return {
        **found.to_json(),
        "priority": found.spec.priority,
        "progress": dict(seen.progress) if seen is not None and seen.progress is not None else None,
        "ui": f"/v1/applications/{found.id}/ui/" if seen is not None and seen.ui_url else None,
    }
