"""IBM's intervals: the lower end inclusive, the upper exclusive, keywords for no limit and for now."""

from __future__ import annotations

import contextlib
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.repository.listing import Interval
from penstock.errors import InvalidInput
from penstock.service.ibm.responses import moment
from penstock.service.ibm.translation import parse_interval

NOW = datetime(2026, 11, 21, 22, 30, tzinfo=timezone.utc)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type]


def test_no_interval_is_no_limit() -> None:
    assert parse_interval("end_time_interval", None, NOW) == Interval()


def test_words_stand_for_no_limit_and_for_now() -> None:
    assert parse_interval("i", "BEGINNING,CURRENT", NOW) == Interval(None, NOW)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-21", at(2026, 11, 21)),
        ("2026-11-21T12:00Z", at(2026, 11, 21, 12)),
        ("2026-11-21T12:00:01", at(2026, 11, 21, 12, 0, 1)),
        ("2026-11-21T12:00:01.5Z", at(2026, 11, 21, 12, 0, 1, 500_000)),
        ("2026-11-21T12:00:01.123456789Z", at(2026, 11, 21, 12, 0, 1, 123_456)),
        ("2026-11-21T14:14:31.311+0000", at(2026, 11, 21, 14, 14, 31, 311_000)),
        ("2026-11-21T14:00:00+02:00", at(2026, 11, 21, 12)),
        ("2026-11-21T14:00:00 02:00", at(2026, 11, 21, 12)),
    ],
)
def test_times_are_read_as_clients_write_them(text: str, meant: datetime) -> None:
    assert parse_interval("i", f"{text},CURRENT", NOW) == Interval(meant, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21",
        "CURRENT,BEGINNING",
        "BEGINNING,CURRENT,CURRENT",
        "2026-13-01,CURRENT",
        "2026-11-21T12:00:00Z,2026-11-21T11:59:59Z",
        "0001-01-01T00:00:00+23:59,CURRENT",
        "yesterday,CURRENT",
        ",",
    ],
)
def test_what_is_no_interval_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_interval("end_time_interval", text, NOW)
    assert "?end_time_interval=BEGINNING" in caught.value.fix


@given(st.text(max_size=40))
def test_any_text_is_an_interval_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse_interval("i", f"{text},CURRENT", at(9999, 12, 31))


@given(st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(timezone.utc)))
def test_a_time_as_it_is_shown_is_read_as_the_same(time: datetime) -> None:
    shown = moment(time)
    assert parse_interval("i", f"{shown},CURRENT", at(9999, 12, 31, 23, 59, 59, 999_999)).after == time.replace(
        microsecond=time.microsecond // 1000 * 1000
    )
