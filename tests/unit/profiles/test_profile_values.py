from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.profiles import values


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
    assert values.size_in_bytes(text, unit=unit) == expected


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
    read = values.seconds(text, unit=unit)
    assert read == (pytest.approx(expected) if expected is not None else None)


@given(st.integers(0, 1 << 40), st.sampled_from("bkmgtp"))
def test_the_suffix_wins_over_the_unit_of_bare_numbers(amount: int, suffix: str) -> None:
    assert values.size_in_bytes(f"{amount}{suffix}", unit="m") == amount << (10 * "bkmgtp".index(suffix))


@given(st.text())
def test_no_text_makes_the_readers_fail(text: str) -> None:
    values.size_in_bytes(text)
    values.seconds(text)
    values.number(text)
    values.flag(text)
