"""The record of who did what. Plain data; kept by the database so that nothing in it can be changed afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Audit:
    """Who did what. `outcome` is `done` or `refused`; `detail` holds no secret."""

    at: datetime
    actor: str
    action: str
    subject: str = ""
    instance: str | None = None
    outcome: str = "done"
    address: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "at": self.at.isoformat()}


@dataclass(frozen=True)
class AuditPage:
    """The newest first. `next` is given to `audit_page` as `before`."""

    items: list[Audit]
    next: int | None = None
