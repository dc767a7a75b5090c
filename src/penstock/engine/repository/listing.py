"""Applications page by page (keyset pagination): filters, order, and the place at which a page begins.

A page begins after the last application of the one before it, not at a number: what is submitted meanwhile neither
repeats nor hides anything, and the thousandth page costs what the first does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from penstock.catalog.connection import reading
from penstock.engine.repository import schema
from penstock.engine.repository.applications import application_of
from penstock.errors import InvalidInput
from penstock.model import Application, State

MOST_PER_PAGE = 500
SORTS = ("submitted_at", "started_at", "ended_at", "name")
"""Each may have a `-` before it: descending."""

NEVER = "infinity"
"""The time of what has not happened, in the order of times: after all that has."""

_MOST_CURSOR_CHARACTERS = 2000


@dataclass(frozen=True)
class Interval:
    """From `after` (included) to `before` (excluded); None is without bound."""

    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True)
class Query:
    """Of several states, instances: any of them; of several tags: all. `name` is exact; `search` is
    a part of the name or of the id, in any case.

    An interval with a bound leaves out what has no such time (yet). `page` is a `Page`'s `next` or `previous`; it
    belongs to the sort it was made with.
    """

    states: tuple[State, ...] = ()
    tags: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    name: str | None = None
    search: str | None = None
    submitted: Interval = Interval()
    started: Interval = Interval()
    ended: Interval = Interval()
    sort: str = "-submitted_at"
    limit: int = 50
    page: str | None = None


@dataclass(frozen=True)
class Page:
    items: list[Application]
    next: str | None = None
    previous: str | None = None


@dataclass(frozen=True)
class Cursor:
    """The application a page begins after; or, `backwards`, ends before."""

    sort: str
    key: str
    id: str
    backwards: bool = False

    def text(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(list(asdict(self).values())).encode()).decode().rstrip("=")

    @staticmethod
    def parse(text: str, *, sort: str) -> Cursor:
        """Raises `InvalidInput` for anything `text` did not make, and for one of another order."""
        cursor = _parsed(text) if len(text) <= _MOST_CURSOR_CHARACTERS else None
        if cursor is None:
            raise InvalidInput(
                "page is not understood", why="it is not one that a listing gave", fix="begin again without page"
            )
        if cursor.sort != sort:
            raise InvalidInput(
                "page belongs to another order",
                why=f"it was made with sort={cursor.sort}",
                fix="begin again without page",
            )
        return cursor


def _parsed(text: str) -> Cursor | None:
    try:
        parts = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(parts, list) or [type(part) for part in parts] != [str, str, str, bool]:
            return None
        cursor = Cursor(*parts)
        if cursor.sort.removeprefix("-") not in SORTS or "\0" in cursor.key + cursor.id:
            return None
        if not cursor.sort.endswith("name") and cursor.key != NEVER:
            datetime.fromisoformat(cursor.key)
    except (ValueError, RecursionError):
        return None
    return cursor


def checked(query: Query) -> Query:
    """The same; raises `InvalidInput` where a part of it cannot be."""
    if query.sort.removeprefix("-") not in SORTS:
        raise InvalidInput(
            "sort is not understood", why=f"applications are sorted by {', '.join(SORTS)}", fix="sort=-submitted_at"
        )
    if not 1 <= query.limit <= MOST_PER_PAGE:
        raise InvalidInput(f"limit must be from 1 to {MOST_PER_PAGE}", fix="limit=50")
    return query


_table = schema.applications


class Listing:
    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._reading = reading(engine)
        self._mine = _table.c.engine == owner

    def page(self, query: Query) -> Page:
        """Raises `InvalidInput` where the query cannot be."""
        query = checked(query)
        column = query.sort.removeprefix("-")
        cursor = Cursor.parse(query.page, sort=query.sort) if query.page is not None else None
        backwards = cursor is not None and cursor.backwards
        descending = query.sort.startswith("-") != backwards
        key = _key(column)
        statement = _table.select().where(self._mine, *_conditions(query))
        if cursor is not None:
            position = sa.tuple_(_literal(column, cursor.key), sa.literal(cursor.id))
            place = sa.tuple_(key, _table.c.id)
            statement = statement.where(place < position if descending else place > position)
        order = [sa.desc(part) if descending else sa.asc(part) for part in (key, _table.c.id)]
        with self._reading.connect() as connection:
            rows = connection.execute(statement.order_by(*order).limit(query.limit + 1)).all()
        more = len(rows) > query.limit
        shown = list(rows[: query.limit])
        if backwards:
            shown.reverse()
        # Whoever came from somewhere can go back there.
        has_next, has_previous = (True, more) if backwards else (more, cursor is not None)
        return Page(
            [application_of(row) for row in shown],
            next=_cursor(query.sort, shown[-1], backwards=False) if has_next and shown else None,
            previous=_cursor(query.sort, shown[0], backwards=True) if has_previous and shown else None,
        )

    def search(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[Application]:
        """Newest first, without pages. Of every instance where none is named."""
        if (wanted := None if instances is None else tuple(instances)) == ():
            return []
        query = Query(states=tuple(states), tags=tuple(tags), instances=wanted or ())
        statement = _table.select().where(self._mine, *_conditions(query))
        statement = statement.order_by(_table.c.submitted_at.desc(), _table.c.id.desc()).limit(limit)
        with self._reading.connect() as connection:
            return [application_of(row) for row in connection.execute(statement)]

    def counts(self) -> dict[str, dict[State, int]]:
        """How many applications each instance has in each state it has any in."""
        statement = (
            sa.select(_table.c.instance, _table.c.state, sa.func.count())
            .where(self._mine)
            .group_by(_table.c.instance, _table.c.state)
        )
        found: dict[str, dict[State, int]] = {}
        with self._reading.connect() as connection:
            for instance, state, count in connection.execute(statement):
                found.setdefault(instance, {})[State(state)] = count
        return found


def _conditions(query: Query) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if query.states:
        found.append(_table.c.state.in_([state.value for state in query.states]))
    if query.instances:
        found.append(_table.c.instance.in_(query.instances))
    if query.name is not None:
        found.append(_table.c.name == query.name)
    if query.search is not None:
        parts = (column.icontains(query.search, autoescape=True) for column in (_table.c.name, _table.c.id))
        found.append(sa.or_(*parts))
    if query.tags:
        found.append(_table.c.tags.contains(list(query.tags)))
    for column, interval in (
        (_table.c.submitted_at, query.submitted),
        (_table.c.started_at, query.started),
        (_table.c.ended_at, query.ended),
    ):
        found += _within(column, interval)
    return found


def _within(column: sa.Column[Any], interval: Interval) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if interval.after is not None:
        found.append(column >= interval.after)
    if interval.before is not None:
        found.append(column < interval.before)
    return found


def _key(column: str) -> sa.ColumnElement[Any]:
    """What the indexes hold: a time that is not there counts as the end of all time."""
    found = _table.c[column]
    # Written out, since a parameter would not be the index's own expression.
    return found if column in ("name", "submitted_at") else sa.func.coalesce(found, sa.text(f"'{NEVER}'"))


def _literal(column: str, key: str) -> sa.ColumnElement[Any]:
    return sa.literal(key) if column == "name" else sa.cast(sa.literal(key), sa.DateTime(timezone=True))


def _cursor(sort: str, row: sa.Row[Any], *, backwards: bool) -> str:
    key: datetime | str | None = row._mapping[sort.removeprefix("-")]
    text = key.isoformat() if isinstance(key, datetime) else key
    return Cursor(sort, NEVER if text is None else text, row.id, backwards).text()
