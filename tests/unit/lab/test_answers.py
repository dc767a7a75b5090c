"""A right answer is accepted in any order and rounding of its rows; a wrong one never is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lab.answers import Answer, OrderedAnswer, compare, compare_top, format_difference, is_close, match_rows

TYPES = ("string", "bigint", "decimal(7,2)", "double")

# Few different values, since comparisons go wrong with ties, duplicates and near misses.
texts = st.sampled_from(["a", "b", None])
integers = st.sampled_from([1, 2, None])
numbers = st.sampled_from([0.0, 0.004, 0.008, 10.0, 10.005, 10.01, None])
rows = st.tuples(texts, integers, numbers, numbers)
tables = st.lists(rows, max_size=6)


def answer(content: list[tuple[object, ...]], types: tuple[str, ...] = TYPES) -> Answer:
    return Answer("q1", tuple(f"c{i}" for i in range(len(types))), types, tuple(content))


def same_row(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    def same(x: object, y: object) -> bool:
        if isinstance(x, float) and isinstance(y, float):
            return is_close(x, y)
        return type(x) is type(y) and x == y

    return all(map(same, a, b))


def reference_judgement(a: list[tuple[object, ...]], b: list[tuple[object, ...]]) -> bool:
    """The definition itself: some order of `b` agrees with `a` row by row."""
    return len(a) == len(b) and any(all(map(same_row, a, order)) for order in itertools.permutations(b))


@settings(max_examples=300, deadline=None)
@given(tables, tables)
def test_agrees_with_the_definition(a: list[tuple[object, ...]], b: list[tuple[object, ...]]) -> None:
    assert compare(answer(a), answer(b)).same == reference_judgement(a, b)


@given(tables, st.randoms())
def test_the_order_of_rows_never_matters(content: list[tuple[object, ...]], dice: object) -> None:
    shuffled = list(content)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare(answer(content), answer(shuffled)).same


@given(tables.filter(len))
def test_a_lost_row_is_reported(content: list[tuple[object, ...]]) -> None:
    verdict = compare(answer(content[1:]), answer(content))
    assert not verdict.same
    assert len(verdict.missing) == 1


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), max_size=6), st.integers(1, 4), st.data())
def test_a_top_list_is_right_exactly_when_some_engine_could_have_given_it(
    content: list[tuple[object, ...]], limit: int, data: st.DataObject
) -> None:
    ordered = sorted(content, key=lambda row: row[1])
    types = ("string", "bigint")
    whole = OrderedAnswer(answer(ordered, types), tuple((row[1],) for row in ordered), limit)
    candidate = data.draw(st.permutations(content).map(lambda rows: rows[:limit]))
    possible = {
        tuple(sorted(order[:limit]))
        for order in itertools.permutations(content)
        if [row[1] for row in order] == [row[1] for row in ordered]
    }
    assert compare_top(answer(candidate, types), whole).same == (tuple(sorted(candidate)) in possible)


def test_a_tie_at_the_limit_may_be_cut_either_way() -> None:
    whole = OrderedAnswer(answer([("a", 1), ("b", 2), ("c", 2)], ("string", "int")), ((1,), (2,), (2,)), 2)
    assert compare_top(answer([("a", 1), ("c", 2)], ("string", "int")), whole).same
    assert not compare_top(answer([("b", 2), ("c", 2)], ("string", "int")), whole).same
    assert not compare_top(answer([("a", 1), ("x", 2)], ("string", "int")), whole).same
    assert not compare_top(answer([("a", 1)], ("string", "int")), whole).same


def test_keys_that_only_rounding_tells_apart_are_tied() -> None:
    whole = OrderedAnswer(answer([("a",), ("b",)], ("string",)), ((0.1 + 0.2,), (0.3000000001,)), 1)
    assert compare_top(answer([("b",)], ("string",)), whole).same


@pytest.mark.parametrize(("a", "b", "expected"), [(1.0, 1.005, True), (1.0, 1.006, False), (2e7, 2e7 + 19, True)])
def test_tolerance_is_half_a_cent_or_a_millionth(a: float, b: float, expected: bool) -> None:
    assert is_close(a, b) is expected


def test_a_chain_of_near_values_still_finds_the_pairing() -> None:
    """A greedy matching would leave 0.000 and 0.010, which are beyond the tolerance."""
    left = [(0.004,), (0.0,)]
    right = [(0.0,), (0.008,)]
    assert match_rows(left, right, frozenset({0})) == [1, 0]


def test_integers_are_never_rounded() -> None:
    big = 10**15
    assert not compare(answer([(big,)], ("bigint",)), answer([(big + 1,)], ("bigint",))).same


def test_an_integer_may_be_another_engines_decimal() -> None:
    assert compare(answer([(3,)], ("bigint",)), answer([(3.0,)], ("decimal(38,0)",))).same


def test_null_is_neither_zero_nor_empty() -> None:
    assert not compare(answer([(None,)], ("double",)), answer([(0.0,)], ("double",))).same
    assert not compare(answer([(None,)], ("string",)), answer([("",)], ("string",))).same


def test_a_missing_column_is_a_difference() -> None:
    assert not compare(answer([("a",)], ("string",)), answer([("a", 1)], ("string", "int"))).same


def test_values_are_read_by_the_type_that_goes_with_them() -> None:
    line = {
        "query": "q1",
        "columns": ["d", "i", "t", "day", "n"],
        "types": ["decimal(7,2)", "int", "string", "date", "double"],
        "rows": [["12.50", 3, "007", "2001-02-03", None]],
    }
    read = Answer.from_json(line)
    assert read.rows == ((12.5, 3, "007", "2001-02-03", None),)
    assert Answer.from_json(read.to_json()) == read


def test_the_difference_shows_expected_and_found_rows_next_to_each_other() -> None:
    verdict = compare(answer([("a", 2), ("b", 5)], ("string", "int")), answer([("b", 4), ("a", 1)], ("string", "int")))
    assert format_difference(verdict, ("name", "count")) == [
        "q1: 2 rows missing, 2 rows unexpected",
        "    name | count",
        "  - b | 4",
        "  + b | 5",
        "  - a | 1",
        "  + a | 2",
    ]
