"""Response times of the pages of a long list: `python -m benchmarks.service.pages_of_many HOME --applications 10000`.

The applications are copies of one, spread over a year, ten instances, three states and a hundred names and tags. The
default order is read from the first page to the last and back, every other order and every filter for some pages. The
exit code is 2 where a page took longer than 100 ms.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from benchmarks.service.generated_records import measured
from benchmarks.service.reporting import missed, progress, spread
from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.engine.repository.listing import SORTS, Interval, Page, Query
from penstock.home import Home
from penstock.model import State
from tests.support.fake_engine import FakeEngine, specification

_MOST_MS = 100.0
_COPIES = sa.text(
    """
    INSERT INTO applications
        (id, engine, state, name, tags, spec, submitted_at, started_at, ended_at, instance, summary)
    SELECT 'app-load-' || n, engine, (ARRAY['finished', 'failed', 'stopped'])[n % 3 + 1], 'name-' || n % 100,
        jsonb_build_array('tag-' || n % 100), jsonb_set(spec, '{name}', to_jsonb('name-' || n % 100)),
        at, at + interval '9 s', at + n % 99 * interval '1 min',
        'instance-' || n % 10, jsonb_build_object('lines', repeat('summary ', 200))
    FROM (SELECT n, engine, spec, now() - n % 365 * interval '1 day' - n * interval '1 s' AS at
          FROM applications, generate_series(1, :count) n WHERE id = :id) copies
    """
)


def fill(engine: Engine, home: Home, count: int) -> None:
    one = engine.enqueue(specification(home, 0))
    with Database(home).engine().begin() as connection:
        connection.execute(_COPIES, {"count": count, "id": one.id})


def queries(engine: Engine) -> Iterator[tuple[str, Query]]:
    oldest = engine.applications.page(Query(sort="submitted_at", limit=1)).items[0].submitted_at
    for sort in SORTS:
        yield sort, Query(sort=sort)
        yield f"-{sort}", Query(sort=f"-{sort}")
    yield "state", Query(states=(State.FAILED,))
    yield "rare state", Query(states=(State.RUNNING,))
    yield "instance", Query(instances=("instance-3",))
    yield "tag", Query(tags=("tag-7",))
    yield "name", Query(name="name-42")
    yield "interval", Query(submitted=Interval(oldest + timedelta(days=100), oldest + timedelta(days=200)))
    yield "all of it", Query(states=(State.FAILED,), instances=("instance-3", "instance-4"), tags=("tag-3",))


def walk(engine: Engine, query: Query, *, pages: int) -> tuple[list[float], int]:
    """Read up to `pages` pages forward and all of them back.

    Returns the milliseconds of each page, and the number of applications on the pages forward.
    """
    took, seen = [], 0

    def page(of: Query) -> Page:
        began = time.perf_counter()
        found = engine.applications.page(of)
        took.append((time.perf_counter() - began) * 1000)
        return found

    found = page(query)
    seen = len(found.items)
    while found.next and len(took) < pages:
        found = page(replace(query, page=found.next))
        seen += len(found.items)
    while found.previous:
        found = page(replace(query, page=found.previous))
    return took, seen


def run(home: Home, count: int) -> Mapping[str, Any]:
    engine = FakeEngine(home)
    fill(engine, home, count)
    progress(f"{count} applications are recorded")
    lists: dict[str, Any] = {}
    for name, query in queries(engine):
        took, seen = walk(engine, query, pages=count if query == Query() else 12)
        lists[name] = {"applications": seen, "pages": len(took), "ms": spread(took, 1)}
        progress(f"{name}: {len(took)} pages, the slowest {max(took):.1f} ms")
    result = {"lists": lists, "slowest_ms": max(found["ms"]["most"] for found in lists.values())}
    return {**result, "missed": missed(result, least={}, most={"slowest_ms": _MOST_MS})}


if __name__ == "__main__":
    raise SystemExit(measured("pages_of_many", __doc__, run))
