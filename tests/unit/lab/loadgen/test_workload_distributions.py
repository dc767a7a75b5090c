"""Sizes and numbers in COSBench's notation."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.loadgen.workload import Numbers, format_size, parse_numbers, parse_sizes


@given(st.integers(1, 4000), st.integers(0, 4000), st.sampled_from(["B", "KB", "MB"]), st.integers(), st.text())
def test_a_uniform_size_is_a_whole_number_of_units_between_its_ends(
    low: int, more: int, unit: str, seed: int, name: str
) -> None:
    sizes = parse_sizes(f"u({low},{low + more}){unit}" if low + more <= 5000 else "u(1,2)B")
    found = sizes.of(seed, name)
    assert sizes.smallest <= found <= sizes.largest
    assert found % sizes.unit == 0


@given(st.integers(), st.text())
def test_the_size_of_an_object_follows_from_its_name(seed: int, name: str) -> None:
    sizes = parse_sizes("h(1|64|10,64|512|70,512|2048|20)KB")
    assert sizes.of(seed, name) == sizes.of(seed, name)


def test_a_histogram_draws_its_buckets_as_often_as_their_weights_say() -> None:
    sizes = parse_sizes("h(1|9|10,10|99|70,100|999|20)KB")
    drawn = Counter(len(str(sizes.of(1, f"c1/o{number}") // 1000)) for number in range(4000))
    assert [round(drawn[digits] / 4000, 1) for digits in (1, 2, 3)] == [0.1, 0.7, 0.2]


def test_the_mean_is_that_of_what_is_drawn() -> None:
    sizes = parse_sizes("h(1|9|1,100|200|3)B")
    drawn = [sizes.of(1, str(number)) for number in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(sizes.mean, rel=0.02)
    assert sizes.mean == (5 + 3 * 150) / 4


def test_units_are_powers_of_ten_as_cosbench_has_them() -> None:
    assert parse_sizes("c(64)KB").largest == 64_000
    assert parse_sizes("c(2)GB").largest == 2_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "64KB",
        "c(64)",
        "c(64)KiB",
        "c(1,2)KB",
        "u(5)KB",
        "u(9,1)KB",
        "c(0)KB",
        "h(1|2)KB",
        "h(1|2|0)KB",
        "h(2|1|5)KB",
        *["c(6)GB", "u(1,,2)KB", "c(-1)KB", "h(1|2|3|4)KB", "c(9999999999999)B", "c(٣)KB"],
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_sizes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c(7)", Numbers(7, 7, in_turn=True)),
        ("u(1,100)", Numbers(1, 100)),
        ("r(5,9)", Numbers(5, 9, in_turn=True)),
        ("s(5,9)", Numbers(5, 9, in_turn=True)),
        ("5-9", Numbers(5, 9, in_turn=True)),
    ],
)
def test_numbers(text: str, expected: Numbers) -> None:
    assert parse_numbers(text) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "c(1,2)", "u(1)", "r(0,5)", "u(9,1)", "h(1|2|3)", "u(a,b)", "u(1,99999999999)"]
)
def test_what_is_no_range_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_numbers(text)


@given(st.integers(1, 50), st.integers(0, 300), st.integers(1, 60))
def test_the_shares_of_workers_are_all_there_is_and_overlap_only_where_there_is_too_little(
    low: int, more: int, workers: int
) -> None:
    numbers = Numbers(low, low + more)
    shares = [numbers.share(index, workers) for index in range(workers)]
    given_out = [number for share in shares for number in range(share.low, share.high + 1)]
    assert set(given_out) == set(range(numbers.low, numbers.high + 1))
    assert len(given_out) == max(len(numbers), workers)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(1, 1 << 40))
def test_a_named_size_is_exact(count: int) -> None:
    units = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    number, unit = format_size(count).split()
    assert int(number) * units[unit] == count
