from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import units


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("4g", "b", 4 << 30),
        ("512k", "b", 512 << 10),
        ("64MB", "b", 64 << 20),
        ("1T", "b", 1 << 40),
        ("100b", "m", 100),
        ("2048", "m", 2 << 30),
        ("-1", "b", -1),
        ("1.5g", "b", None),
        ("4 gigs", "b", None),
        ("", "b", None),
    ],
)
def test_sizes_are_read_as_spark_reads_them(text: str, unit: str, expected: int | None) -> None:
    assert units.parse_size(text, unit=unit) == expected


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("10s", "ms", 10),
        ("500ms", "s", 0.5),
        ("5min", "s", 300),
        ("2h", "s", 7200),
        ("120", "ms", 0.12),
        ("soon", "s", None),
    ],
)
def test_times_are_read_as_spark_reads_them(text: str, unit: str, expected: float | None) -> None:
    read = units.parse_seconds(text, unit=unit)
    assert read == (pytest.approx(expected) if expected is not None else None)


@given(st.integers(0, 1 << 40), st.sampled_from("bkmgtp"))
def test_the_suffix_wins_over_the_unit_of_bare_numbers(amount: int, suffix: str) -> None:
    assert units.parse_size(f"{amount}{suffix}", unit="m") == amount << (10 * "bkmgtp".index(suffix))


@given(st.text())
def test_no_text_makes_the_readers_fail(text: str) -> None:
    units.parse_size(text)
    units.parse_seconds(text)
    units.parse_number(text)
    units.parse_flag(text)
