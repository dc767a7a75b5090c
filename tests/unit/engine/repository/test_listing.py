"""A page token cannot be forged, and any value sent as one is understood or refused."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.engine.repository.listing import MOST_PER_PAGE, NEVER, SORTS, Cursor, Query, validate
from penstock.errors import InvalidInput

sorts = st.sampled_from([sign + sort for sort in SORTS for sign in ("", "-")])
names = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
times = st.datetimes(timezones=st.just(timezone.utc)).map(datetime.isoformat)


@given(sorts, names, st.one_of(times, st.just(NEVER)), st.booleans())
def test_a_cursor_is_read_as_it_was_written(sort: str, name: str, time: str, backwards: bool) -> None:
    assume(time != NEVER or not sort.endswith("submitted_at"))
    key = name if sort.endswith("name") else time
    cursor = Cursor(sort, key, "app-1", backwards)
    assert Cursor.parse(cursor.text(), sort=sort) == cursor


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "ä",
        "x" * 100_000,
        encoded(None),
        encoded([]),
        encoded({"sort": "name"}),
        encoded(["name", "a", "b", 1]),
        encoded(["name", "a\0", "b", True]),
        encoded(["submitted_at", "yesterday", "b", True]),
        encoded(["spec", "a", "b", True]),
        base64.urlsafe_b64encode(b"[" * 1400).decode(),
    ],
)
def test_what_no_listing_gave_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="page is invalid"):
        Cursor.parse(text, sort="name")


@pytest.mark.parametrize(
    ("sort", "key", "id_"),
    [
        ("submitted_at", NEVER, "b"),
        ("-submitted_at", NEVER, "b"),
        ("ended_at", "2026-W01-1", "b"),
        ("ended_at", "20260101T000000+00:00", "b"),
        ("ended_at", "2026-01-01T00:00:00Z", "b"),
        ("ended_at", "2026-01-01T00:00:00+23:59", "b"),
        ("ended_at", "2026-01-01T00:00:00+00:00:00.000001", "b"),
        ("ended_at", "2026-01-01\ud80000:00:00+00:00", "b"),
        ("ended_at", "2026-01-01T00:00:00", "b"),
        ("name", "\ud800", "b"),
        ("name", "a", "\udfff"),
    ],
)
def test_a_key_that_the_database_would_refuse_is_refused_before_it_is_asked(sort: str, key: str, id_: str) -> None:
    with pytest.raises(InvalidInput, match="page is invalid"):
        Cursor.parse(Cursor(sort, key, id_).text(), sort=sort)


def test_a_page_of_one_order_is_none_of_another() -> None:
    with pytest.raises(InvalidInput, match="another sort order"):
        Cursor.parse(Cursor("name", "a", "b").text(), sort="-name")


@pytest.mark.parametrize(
    "query", [Query(sort="id"), Query(sort="--name"), Query(sort=""), Query(limit=0), Query(limit=MOST_PER_PAGE + 1)]
)
def test_a_query_that_cannot_be_is_refused(query: Query) -> None:
    with pytest.raises(InvalidInput):
        validate(query)
