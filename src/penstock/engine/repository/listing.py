"""The reading of applications: one by its id, lists, and pages with filters, order and cursors (keyset pagination).

A page begins after the last application of the preceding page, not at an offset: concurrent submissions neither repeat
nor hide applications, and the thousandth page costs as much as the first.
"""

from __future__ import annotations

import base64
import builtins
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from penstock.catalog.connection import autocommit_engine
from penstock.engine.repository import schema
from penstock.engine.repository.applications import application_of, unknown
from penstock.engine.repository.claims import SUPERVISED, Changes, has_dispatcher, listening
from penstock.engine.repository.queues import BEFORE_LAUNCH, ON_CLUSTER
from penstock.errors import InvalidInput
from penstock.model import Application, State

MOST_PER_PAGE = 500
SORTS = ("submitted_at", "started_at", "ended_at", "name")
"""The sort orders; a leading `-` means descending."""

NEVER = "infinity"
"""The sort key of a time that is not set yet: after all others."""

_MOST_CURSOR_CHARACTERS = 2000


@dataclass(frozen=True)
class Interval:
    """A time interval from `after` (inclusive) to `before` (exclusive); None is unbounded."""

    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True)
class Query:
    """A query for one page. An application matches any of the states and instances, and all of the tags.

    `name` is exact; `search` is a part of the name or id, case-insensitive. A bounded interval excludes applications
    without that time. `page` is the `next` or `previous` of a `Page` and belongs to the sort it was created with.
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
    """The application after which a page begins or, `backwards`, before which it ends."""

    sort: str
    key: str
    id: str
    backwards: bool = False

    def text(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(list(asdict(self).values())).encode()).decode().rstrip("=")

    @staticmethod
    def parse(text: str, *, sort: str) -> Cursor:
        """Parse the result of `text`. Raises `InvalidInput` for any other text, and for a cursor of another sort."""
        cursor = _parsed(text) if len(text) <= _MOST_CURSOR_CHARACTERS else None
        if cursor is None:
            raise InvalidInput("page is invalid", why="no listing returned it", fix="begin again without page")
        if cursor.sort != sort:
            raise InvalidInput(
                "page belongs to another sort order",
                why=f"it was created with sort={cursor.sort}",
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
        # PostgreSQL refuses a text that is not UTF-8, which a lone surrogate is not.
        f"{cursor.key}{cursor.id}".encode()
        if not cursor.sort.endswith("name") and not _is_time(cursor.sort, cursor.key):
            return None
    except (ValueError, RecursionError):
        return None
    return cursor


def _is_time(sort: str, key: str) -> bool:
    """Return whether the key is as `_cursor` writes it: PostgreSQL refuses other forms that Python reads."""
    if key == NEVER:
        return not sort.endswith("submitted_at")
    at = datetime.fromisoformat(key)
    return at.tzinfo == timezone.utc and at.isoformat() == key


def validate(query: Query) -> Query:
    """Return the query. Raises `InvalidInput` where a part of it is invalid."""
    if query.sort.removeprefix("-") not in SORTS:
        raise InvalidInput(
            "sort is invalid", why=f"applications can be sorted by {', '.join(SORTS)}", fix="sort=-submitted_at"
        )
    if not 1 <= query.limit <= MOST_PER_PAGE:
        raise InvalidInput(f"limit must be from 1 to {MOST_PER_PAGE}", fix="limit=50")
    return query


_table, _events, _deliveries = schema.applications, schema.events, schema.deliveries

_ALIVE = sa.or_(_table.c.ended_at.is_(None), ON_CLUSTER)
_LEFT_TO_A_DISPATCHER = sa.and_(_table.c.dispatched, BEFORE_LAUNCH, _table.c.cluster.is_(None))


class ApplicationReader:
    """The applications of one engine as they are recorded, for readers. An id may be a unique prefix, or `last`."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = autocommit_engine(engine)
        self._owner = owner
        self._mine = _table.c.engine == owner

    def get(self, prefix: str) -> Application:
        """Find an application by its id, by a unique prefix of it, or by `last`: the newest submission.

        Raises `NotFound`, and `InvalidInput` where the prefix is ambiguous.
        """
        query = _table.select().where(self._mine).limit(3)
        if prefix == "last":
            query = query.order_by(_table.c.submitted_at.desc(), _table.c.id.desc()).limit(1)
        else:
            query = query.where(_table.c.id.startswith(prefix, autoescape=True)).order_by(_table.c.id)
        with self._reading.connect() as connection:
            rows = connection.execute(query).all()
        exact = [row for row in rows if row.id == prefix]
        if len(exact or rows) > 1:
            raise InvalidInput(
                f"“{prefix}” is the beginning of several ids",
                why=", ".join(row.id for row in rows) + (" …" if len(rows) > 2 else ""),
                fix="give more letters of the id",
            )
        if not rows:
            raise unknown(prefix)
        return application_of((exact or rows)[0])

    def page(self, query: Query) -> Page:
        """Raises `InvalidInput` where the query is invalid."""
        query = validate(query)
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
        shown = [*rows[: query.limit]]
        if backwards:
            shown.reverse()
        # A client that came from another page can return to it.
        has_next, has_previous = (True, more) if backwards else (more, cursor is not None)
        return Page(
            [application_of(row) for row in shown],
            next=_cursor(query.sort, shown[-1], backwards=False) if has_next and shown else None,
            previous=_cursor(query.sort, shown[0], backwards=True) if has_previous and shown else None,
        )

    def list(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> builtins.list[Application]:
        """Applications, newest first, without pages, of all instances unless some are named."""
        if (wanted := None if instances is None else tuple(instances)) == ():
            return []
        query = Query(states=tuple(states), tags=tuple(tags), instances=wanted or ())
        statement = _table.select().where(self._mine, *_conditions(query))
        statement = statement.order_by(_table.c.submitted_at.desc(), _table.c.id.desc()).limit(limit)
        with self._reading.connect() as connection:
            return [application_of(row) for row in connection.execute(statement)]

    def counts(self) -> dict[str, dict[State, int]]:
        """Numbers of applications by instance and state; zeros are left out."""
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

    def events(self, application_id: str) -> builtins.list[dict[str, Any]]:
        """The application's events, oldest first: `at`, `event`, `from_state`, `to_state`, `detail`."""
        query = _events.select().where(_events.c.application_id == application_id).order_by(_events.c.id)
        with self._reading.connect() as connection:
            return [
                {name: row._mapping[name] for name in ("at", "event", "from_state", "to_state", "detail")}
                for row in connection.execute(query)
            ]

    def deliveries(self, application_id: str) -> builtins.list[dict[str, Any]]:
        """The application's webhook deliveries, oldest first, including those still due."""
        query = _deliveries.select().where(_deliveries.c.application_id == application_id).order_by(_deliveries.c.id)
        with self._reading.connect() as connection:
            return [
                {
                    "id": row.id,
                    "url": row.url,
                    "state": row.body["data"]["state"],
                    "tries": row.tries,
                    "due_at": row.due_at,
                    "delivered_at": row.delivered_at,
                    "problem": row.problem,
                }
                for row in connection.execute(query)
            ]

    def unsupervised(self) -> builtins.list[str]:
        """Ids of the applications that lack a supervisor, oldest first.

        They have not ended or still hold a cluster, and no dispatcher has yet to start them.
        """
        query = (
            sa.select(_table.c.id)
            .where(self._mine, _ALIVE, sa.not_(_LEFT_TO_A_DISPATCHER), sa.not_(SUPERVISED))
            .order_by(_table.c.submitted_at)
        )
        with self._reading.connect() as connection:
            return [*connection.execute(query).scalars()]

    def dispatched(self) -> bool:
        """Return whether a process starts waiting applications."""
        with self._reading.connect() as connection:
            return bool(connection.execute(sa.select(has_dispatcher(self._owner))).scalar())

    def changes(self, *, dispatching: bool = False) -> AbstractContextManager[Changes]:
        """Receive the ids of changing applications within the block; one connection serves any number of readers.

        With `dispatching`, other processes also rely on this one to start waiting applications.
        """
        return listening(self._engine, dispatching_for=self._owner if dispatching else None)


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
    """The expression in the indexes, where a missing time counts as infinity."""
    found = _table.c[column]
    # A literal, since an expression with a parameter would not match the index.
    return found if column in ("name", "submitted_at") else sa.func.coalesce(found, sa.text(f"'{NEVER}'"))


def _literal(column: str, key: str) -> sa.ColumnElement[Any]:
    return sa.literal(key) if column == "name" else sa.cast(sa.literal(key), sa.DateTime(timezone=True))


def _cursor(sort: str, row: sa.Row[Any], *, backwards: bool) -> str:
    key: datetime | str | None = row._mapping[sort.removeprefix("-")]
    text = key.astimezone(timezone.utc).isoformat() if isinstance(key, datetime) else key
    return Cursor(sort, NEVER if text is None else text, row.id, backwards).text()
