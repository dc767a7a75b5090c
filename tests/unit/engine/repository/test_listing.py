"""A page token cannot be forged, and any value sent as one is understood or refused."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.repository.listing import MOST_PER_PAGE, NEVER, SORTS, Cursor, Query, validate
from penstock.errors import InvalidInput

sorts = st.sampled_from([sign + sort for sort in SORTS for sign in ("", "-")])


@given(sorts, st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), st.booleans())
def test_a_cursor_is_read_as_it_was_written(sort: str, name: str, backwards: bool) -> None:
    key = name if sort.endswith("name") else NEVER
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


def test_a_page_of_one_order_is_none_of_another() -> None:
    with pytest.raises(InvalidInput, match="another sort order"):
        Cursor.parse(Cursor("name", "a", "b").text(), sort="-name")


@pytest.mark.parametrize(
    "query", [Query(sort="id"), Query(sort="--name"), Query(sort=""), Query(limit=0), Query(limit=MOST_PER_PAGE + 1)]
)
def test_a_query_that_cannot_be_is_refused(query: Query) -> None:
    with pytest.raises(InvalidInput):
        validate(query)
