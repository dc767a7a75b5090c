"""The statements by which an application's row changes: each also keeps the event of the change, and tells of it.

One statement each, since it is the turns between here and the database that an application's life is made of; and each
is put together and compiled once, which costs more than all that the database does for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from penstock.engine import schema
from penstock.engine.claims import CHANNEL

_table, _events = schema.applications, schema.events
_NEW, _HAPPENED = "new_", "happened_"
_EVENT = ("at", "event", "from_state", "to_state", "detail")


def new(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the row as parameters of either statement."""
    return {_NEW + name: value for name, value in row.items()}


def happened(event: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the event as parameters of either statement."""
    return {_HAPPENED + name: value for name, value in event.items()}


@cache
def submission(columns: tuple[str, ...]) -> sa.Select[Any]:
    """Adds a row of these columns, unless its idempotency key is known; answers one row where it did."""
    # The dialect's own `on_conflict_do_nothing` would have it compiled anew each time.
    row = sa.select(*_parameters(columns)).suffix_with("ON CONFLICT (engine, instance, idempotency_key) DO NOTHING")
    return _told(_table.insert().from_select(columns, row))


@cache
def transition(columns: tuple[str, ...]) -> sa.Select[Any]:
    """Changes these columns of the row `which` where its state is still `before`; answers one row where it was."""
    # Not `id`: in an update a parameter of a column's name is taken for that column's new value.
    row = dict(zip(columns, _parameters(columns), strict=True))
    mine = sa.and_(_table.c.id == sa.bindparam("which"), _table.c.state == sa.bindparam("before"))
    return _told(_table.update().where(mine).values(row))


def _parameters(columns: tuple[str, ...]) -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(_NEW + name, type_=_table.c[name].type) for name in columns]


def _told(change: sa.Insert | sa.Update) -> sa.Select[Any]:
    changed = change.returning(_table.c.id).cte("changed")
    values = [sa.bindparam(_HAPPENED + name, type_=_events.c[name].type) for name in _EVENT]
    kept = (
        _events.insert()
        .from_select(["application_id", *_EVENT], sa.select(changed.c.id, *values))
        .returning(_events.c.application_id)
        .cte("kept")
    )
    return sa.select(sa.func.pg_notify(CHANNEL, kept.c.application_id))
