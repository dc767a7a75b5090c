"""The audit in the records; the database itself refuses to change or remove what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from penstock.engine import schema
from penstock.engine.auditing import Audit, AuditPage

_table = schema.audit

_MOST_CHARACTERS = 500


class AuditLog:
    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    def add(self, entries: Iterable[Audit]) -> None:
        """All of them or none. Texts are cut to 500 characters: nobody fills the disk through the audit."""
        rows = [{"engine": self._owner, **_bounded(asdict(entry))} for entry in entries]
        with self._engine.begin() as connection:
            connection.execute(_table.insert(), rows)

    def page(self, *, limit: int, before: int | None) -> AuditPage:
        query = _table.select().where(_table.c.engine == self._owner).order_by(_table.c.id.desc()).limit(limit + 1)
        if before is not None:
            query = query.where(_table.c.id < before)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        shown = rows[:limit]
        items = [
            Audit(row.at, row.actor, row.action, row.subject, row.instance, row.outcome, row.address, row.detail)
            for row in shown
        ]
        return AuditPage(items, next=shown[-1].id if len(rows) > limit else None)


def _bounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[:_MOST_CHARACTERS] if isinstance(value, str) else value for name, value in values.items()}
