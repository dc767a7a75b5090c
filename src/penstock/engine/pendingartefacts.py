"""Logs and event logs of ended applications that their lake did not take yet, in the records.

Services that share secrets through the database share these, too: the state directory of each may end with its pod. A
volume in their place would have to be writable by pods of several nodes, which few clusters have; the database is there
anyway, is backed up, and takes what comes in one transaction. It is no place for gigabytes, so what is kept in it is
bounded, for an application and in all. What exceeds the bounds stays in the state directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from penstock.engine import schema

PLACE = "the engine's database"
"""In a summary, as the place of the artefacts, where an address of the lake is otherwise."""

MOST_OF_APPLICATION = 64 << 20
MOST_IN_ALL = 1 << 30

_PART_BYTES = 1 << 20
_ORDER_LOCK = 7031_0002

_table, _applications = schema.pending_artefacts, schema.applications
_length = sa.func.octet_length(_table.c.content)


class PendingArtefacts:
    """Of one engine; see `Records` for `owner`. Any number of processes may be at it at once."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    def put(self, application_id: str, files: Mapping[str, Path]) -> set[str]:
        """Keep the files by their artefacts' names, all at once, in place of what was kept by these names.

        Returns the names of those that there is room for: the smallest, as many as keep to the bounds.
        """
        with self._engine.begin() as connection:
            # Two that look at the same free room would both take it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ORDER_LOCK)))
            connection.execute(
                sa.delete(_table).where(_table.c.application_id == application_id, _table.c.name.in_(files))
            )
            total = sa.select(sa.func.coalesce(sa.func.sum(_length), 0))
            own = connection.execute(total.where(_table.c.application_id == application_id)).scalar_one()
            everybody = connection.execute(total).scalar_one()
            room = min(MOST_OF_APPLICATION - own, MOST_IN_ALL - everybody)
            taken = set()
            for name, path in sorted(files.items(), key=lambda item: item[1].stat().st_size):
                size = path.stat().st_size
                if size > room:
                    break
                room -= size
                taken.add(name)
                self._put(connection, application_id, name, path)
            return taken

    def _put(self, connection: sa.Connection, application_id: str, name: str, path: Path) -> None:
        with path.open("rb") as file:
            part, content = 0, file.read(_PART_BYTES)
            while content or part == 0:  # an empty file has one empty part
                row = {"application_id": application_id, "name": name, "part": part, "engine": self._owner}
                connection.execute(_table.insert().values(**row, content=content))
                part, content = part + 1, file.read(_PART_BYTES)

    def load(self, application_id: str, name: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """The bytes [start, start + length), fewer where it ends before; None where it is not kept here."""
        first, skipped = divmod(start, _PART_BYTES)
        its = sa.and_(_table.c.application_id == application_id, _table.c.name == name)
        wanted = sa.select(_table.c.content).where(its, _table.c.part >= first).order_by(_table.c.part)
        if length is not None:
            wanted = wanted.where(_table.c.part <= (start + max(length, 1) - 1) // _PART_BYTES)
        with self._engine.connect() as connection:
            parts = connection.execute(wanted).scalars().all()
            if not parts and not connection.execute(sa.select(sa.exists().where(its))).scalar_one():
                return None
        found = b"".join(parts)[skipped:]
        return found if length is None else found[:length]

    def sizes(self, application_id: str) -> dict[str, int]:
        """How many bytes each of them has, by name."""
        query = sa.select(_table.c.name, sa.func.sum(_length)).where(_table.c.application_id == application_id)
        with self._engine.connect() as connection:
            return {name: int(size) for name, size in connection.execute(query.group_by(_table.c.name))}

    def over(self) -> list[str]:
        """The applications that are over and whose artefacts are kept here: nobody else is about to add to them."""
        ended = sa.and_(_applications.c.summary.is_not(None), _applications.c.cluster.is_(None))
        query = (
            sa.select(_table.c.application_id)
            .join(_applications, _applications.c.id == _table.c.application_id)
            .where(_table.c.engine == self._owner, _applications.c.ended_at.is_not(None), ended)
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query.distinct().order_by(_table.c.application_id)).scalars())

    def brought(self, application_id: str, place: str) -> None:
        """Forget what was kept of the application, whose artefacts are at `place` now, as its summary says from here
        on."""
        known = sa.cast({"artefacts": place}, JSONB)
        summary = _applications.c.summary.op("-")("artefacts_problem").op("||")(known)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_table).where(_table.c.application_id == application_id))
            connection.execute(
                sa.update(_applications)
                .where(_applications.c.id == application_id, _applications.c.summary["artefacts"].astext == PLACE)
                .values(summary=summary)
            )
