"""Asking for applications page by page: what is wanted, in which order, and where a page begins. Plain data.

A page begins after the last application of the one before it, not at a number: what is submitted meanwhile neither
repeats nor hides anything, and the thousandth page costs what the first does.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from datetime import datetime

from penstock.engine.application import Application, State
from penstock.errors import InvalidInput

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
