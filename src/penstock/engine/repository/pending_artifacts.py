"""Artifacts that could not reach their lake yet, in the database.

They wait here because the state directory of a pod may end with the pod, a volume would have to be writable by pods of
several nodes, and the database exists anyway and is backed up. It is no place for gigabytes, so the pending bytes are
bounded, for one application and in all; the rest waits in the state directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from penstock.engine.repository import schema

PENDING_PLACE = "the engine's database"
"""The place of pending artifacts in a summary, instead of an address in the lake."""

MOST_OF_APPLICATION = 64 << 20
MOST_IN_ALL = 1 << 30

_PART_BYTES = 1 << 20
_ORDER_LOCK = 7031_0003

_table, _applications = schema.pending_artifacts, schema.applications
_length = sa.func.octet_length(_table.c.content)


class PendingArtifacts:
    """The pending artifacts of one engine (`owner` names the engine). Any number of processes may use them at once."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    def put(self, application_id: str, files: Mapping[str, Path]) -> set[str]:
        """Store the files under their artifact names in one transaction, replacing earlier contents of these names.

        Returns the names of the files that were stored: the smallest ones, as many as fit within the bounds.
        """
        with self._engine.begin() as connection:
            # Without the lock, two writers that see the same free room would both take it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ORDER_LOCK)))
            connection.execute(
                sa.delete(_table).where(_table.c.application_id == application_id, _table.c.name.in_(files))
            )
            total = sa.select(sa.func.coalesce(sa.func.sum(_length), 0))
            own = connection.execute(total.where(_table.c.application_id == application_id)).scalar_one()
            in_all = connection.execute(total).scalar_one()
            room = min(MOST_OF_APPLICATION - own, MOST_IN_ALL - in_all)
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
        """The bytes [start, start + length), fewer at the artifact's end; None where it is not stored here."""
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
        """Sizes in bytes of the application's pending artifacts, by name."""
        query = sa.select(_table.c.name, sa.func.sum(_length)).where(_table.c.application_id == application_id)
        with self._engine.connect() as connection:
            return {name: int(size) for name, size in connection.execute(query.group_by(_table.c.name))}

    def released_applications(self) -> list[str]:
        """The released applications with pending artifacts: no supervisor is about to add to them.

        An application that ended while it waited for its next attempt has artifacts of earlier ones, but no summary.
        """
        released = sa.and_(_applications.c.ended_at.is_not(None), _applications.c.cluster.is_(None))
        query = (
            sa.select(_table.c.application_id)
            .join(_applications, _applications.c.id == _table.c.application_id)
            .where(_table.c.engine == self._owner, released)
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query.distinct().order_by(_table.c.application_id)).scalars())

    def mark_uploaded(self, application_id: str, place: str) -> None:
        """Forget the application's pending artifacts; record their new place in its summary, if it has one."""
        known = sa.cast({"artefacts": place}, JSONB)
        summary = _applications.c.summary.op("-")("artefacts_problem").op("||")(known)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_table).where(_table.c.application_id == application_id))
            connection.execute(
                sa.update(_applications)
                .where(
                    _applications.c.id == application_id, _applications.c.summary["artefacts"].astext == PENDING_PLACE
                )
                .values(summary=summary)
            )
