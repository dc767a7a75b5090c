"""A right answer is accepted in any rounding of its numbers and any order its query allows; a wrong one never is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lab.answers import (
    RELATIVE,
    Answer,
    OrderedAnswer,
    Tolerance,
    Verdict,
    compare,
    compare_ordered,
    format_difference,
    match_rows,
    tolerance,
)

TYPES = ("string", "bigint", "decimal(7,2)", "double")
NEAR = 0.8 * RELATIVE

# Few different values, since comparisons go wrong with ties, duplicates and near misses.
texts = st.sampled_from(["a", "b", None])
integers = st.sampled_from([1, 2, None])
decimals = st.sampled_from([Decimal("0.00"), Decimal("0.01"), Decimal("10.00"), None])
doubles = st.sampled_from([0.0, -0.0, 1.0, 1.0 + NEAR, 1.0 + 2 * NEAR, float("nan"), None])
rows = st.tuples(texts, integers, decimals, doubles)
tables = st.lists(rows, max_size=6)

Rows = list[tuple[object, ...]]


def answer(content: Rows, types: tuple[str, ...] = TYPES) -> Answer:
    return Answer("q1", tuple(f"c{i}" for i in range(len(types))), types, tuple(content))


def ordered(
    content: Rows, types: tuple[str, ...], keys: tuple[int, ...], limit: int | None = None, hidden: int = 0
) -> OrderedAnswer:
    return OrderedAnswer(answer(content, types), len(types) - hidden, keys, limit)


@dataclass(frozen=True)
class Case:
    """An answer of Spark's and DuckDB's reference, whose sort keys are in the columns `keys`."""

    claim: str
    types: str
    reference: Rows
    found: Rows
    keys: tuple[int, ...] = ()
    limit: int | None = None
    hidden: int = 0

    def verdict(self) -> Verdict:
        pairs = [kinds.partition("~") for kinds in self.types.split("; ")]
        spark, duckdb = ([pair[0] for pair in pairs], [pair[2] or pair[0] for pair in pairs])
        visible = len(pairs) - self.hidden
        line = {"query": "q1", "columns": spark[:visible], "types": spark[:visible], "rows": self.found}
        parsed = Answer.from_json(line)
        extended = Answer.from_json({**line, "columns": duckdb, "types": duckdb, "rows": self.reference})
        return compare_ordered(parsed, OrderedAnswer(extended, visible, self.keys, self.limit))


RATIO, AVERAGE = "decimal(38,17)~double", "decimal(11,6)~double"
SUM = "decimal(17,2)~decimal(38,2)"
NAMED = "string; int"
ABC: Rows = [("a", 1), ("b", 2), ("c", 3)]

WRONG = (
    Case("a ratio below 0.005 is off by 1 %", RATIO, [(0.0041,)], [("0.00414100000000000",)]),
    Case("a ratio below 0.005 is zero", RATIO, [(0.0041,)], [("0.00000000000000000",)]),
    Case("a ratio is off by 1e-11", RATIO, [(12.25,)], [("12.25000000012250000",)]),
    Case("a ratio is inverted", RATIO, [(0.8,)], [("1.25000000000000000",)]),
    Case("a ratio is a percentage", "double", [(0.25,)], [(25.0,)]),
    Case("an average is off by 1e-4", AVERAGE, [(37.123456,)], [("37.127168",)]),
    Case("an average is off by one unit of the last place", AVERAGE, [(37.123456,)], [("37.123457",)]),
    Case("a large average is off by one unit of the last place", AVERAGE, [(9876.5,)], [("9876.500001",)]),
    Case("an average is cut instead of rounded", AVERAGE, [(2 / 3,)], [("0.666666",)]),
    Case("an average counts nulls as zeros", AVERAGE, [(3.0,)], [("2.000000",)]),
    Case("an average of integers is off by 1e-9", "double", [(123456789.5,)], [(123456789.625,)]),
    Case("a deviation is that of the population", "double", [(1.2909944487358056,)], [(1.118033988749895,)]),
    Case("a tiny double is zero", "double", [(1e-12,)], [(0.0,)]),
    Case("the last digit of an exact sum is off by one", SUM, [("123456789012.34",)], [("123456789012.35",)]),
    Case("a sum beyond a double's digits is off by one", SUM, [("12345678901234567.01",)], [("12345678901234567.02",)]),
    Case("a sum is rounded to a whole number", SUM, [("10.49",)], [("10.00",)]),
    Case("a sign is lost", SUM, [("-5.00",)], [("5.00",)]),
    Case("a count is off by one", "bigint", [(10**15,)], [(10**15 + 1,)]),
    Case("an integer's value is a text's", "string~int", [(7,)], [("7",)]),
    Case("a null is zero", SUM, [(None,)], [("0.00",)]),
    Case("a null is not-a-number", "double", [(None,)], [("NaN",)]),
    Case("a null is empty", "string", [(None,)], [("",)]),
    Case("a null's row is missing", NAMED, [(None, 1), ("a", 1)], [("a", 1)]),
    Case("a row is there twice", NAMED, ABC, [*ABC, ("c", 3)]),
    Case("a row replaces another", NAMED, ABC, [("a", 1), ("b", 2), ("b", 2)]),
    Case("there are no rows", NAMED, ABC, []),
    Case("a text is truncated", "string", [("Brand #11",)], [("Brand #1",)]),
    Case("a text has another case", "string", [("Brand",)], [("brand",)]),
    Case("a text of varying length ends in a blank", "string", [("x",)], [("x ",)]),
    Case("a date is off by a day", "date", [("2000-02-29",)], [("2000-03-01",)]),
    Case("a boolean is inverted", "boolean", [(True,)], [(False,)]),
    Case("columns are swapped", "int; int", [(1, 2)], [(2, 1)]),
    Case("two rows are swapped under ORDER BY", NAMED, ABC, [ABC[1], ABC[0], ABC[2]], keys=(0,)),
    Case("the order is descending", NAMED, ABC, ABC[::-1], keys=(1,)),
    Case("nulls are last instead of first", NAMED, [(None, 1), ("a", 2)], [("a", 2), (None, 1)], keys=(0,)),
    Case(
        "rows are swapped under a sort key that is not returned",
        "string; int",
        [("a", 1), ("b", 2)],
        [("b",), ("a",)],
        keys=(1,),
        hidden=1,
    ),
    Case("the second sort key is ignored", "int; int", [(1, 1), (1, 2)], [(1, 2), (1, 1)], keys=(0, 1)),
    Case("LIMIT cuts a row before the tied ones", NAMED, [("a", 1), ("b", 2), ("c", 2)], [("b", 2), ("c", 2)], (1,), 2),
    Case("LIMIT keeps a row behind the tied ones", NAMED, ABC, [("a", 1), ("c", 3)], (1,), 2),
    Case("LIMIT cuts one row too many", NAMED, ABC, [("a", 1)], (1,), 2),
)

RIGHT = (
    Case("an average is rounded to its scale", AVERAGE, [(2 / 3,)], [("0.666667",)]),
    Case("an average on the edge is rounded up", AVERAGE, [(0.0000005,)], [("0.000001",)]),
    Case("a ratio has more digits than a double", RATIO, [(12.3456789012345678,)], [("12.34567890123456789",)]),
    Case("doubles differ in the last bits", "double", [(0.1 + 0.2,)], [(0.3,)]),
    Case("a large double differs in its last digits", "double", [(1.2345678901234e18,)], [(1.2345678901235e18,)]),
    Case("zero has a sign", "double", [(0.0,)], [(-0.0,)]),
    Case("neither is a number", "double", [(float("nan"),)], [("NaN",)]),
    Case("single precision has seven digits", "float", [(0.10000000149011612,)], [(0.1,)]),
    Case("a decimal has more zeros", "decimal(9,4)~decimal(38,2)", [("2.50",)], [("2.5000",)]),
    Case("an integer is a decimal", "bigint~decimal(38,0)", [("3",)], [(3,)]),
    Case("an integer is wider", "int~hugeint", [(3,)], [(3,)]),
    Case("a text of fixed length is padded", "char(4)~varchar", [("ab",)], [("ab  ",)]),
    Case("nulls are equal", "string; double", [(None, None)], [(None, None)]),
    Case("no ORDER BY asks for an order", NAMED, ABC, ABC[::-1]),
    Case("rows with equal sort keys change places", NAMED, [("a", 1), ("b", 1)], [("b", 1), ("a", 1)], (1,)),
    Case(
        "rows change places whose averages Spark rounds to the same",
        f"string; {AVERAGE}",
        [("b", 1.0000001), ("a", 1.0000002)],
        [("a", "1.000000"), ("b", "1.000000")],
        keys=(1, 0),
    ),
    Case("LIMIT keeps another of the tied rows", NAMED, [("a", 1), ("b", 2), ("c", 2)], [("a", 1), ("c", 2)], (1,), 2),
    Case("LIMIT without ORDER BY keeps any row", NAMED, ABC, [("c", 3)], (), 1),
)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.claim)
def test_a_wrong_answer_is_caught(case: Case) -> None:
    verdict = case.verdict()
    assert not verdict.same
    assert verdict.missing or verdict.unexpected


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.claim)
def test_a_right_answer_passes(case: Case) -> None:
    verdict = case.verdict()
    assert verdict.same, format_difference(verdict, ())
    assert verdict.rows == min(len(case.reference), case.limit or len(case.reference))


def test_an_answer_without_rows_is_named_as_such() -> None:
    verdict = compare(answer([]), answer([]))
    assert (verdict.same, verdict.rows, verdict.note) == (True, 0, "equal: neither engine returned a row")


def test_only_the_order_of_rows_may_be_wrong() -> None:
    found = Case("swapped", NAMED, ABC, [ABC[0], ABC[2], ABC[1]], keys=(1,)).verdict()
    assert found.note == "the rows are right, but from row 2 not in the query's order"
    assert (found.missing, found.unexpected) == ((("b", 2),), (("c", 3),))


def same_row(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    def same(x: object, y: object) -> bool:
        if isinstance(x, float) and isinstance(y, float):
            return (math.isnan(x) and math.isnan(y)) or Tolerance(RELATIVE).accepts(x, y)
        return type(x) is type(y) and x == y

    return all(map(same, a, b))


def reference_judgement(a: Rows, b: Rows) -> bool:
    """The definition itself: some order of `b` agrees with `a` row by row."""
    return len(a) == len(b) and any(all(map(same_row, a, order)) for order in itertools.permutations(b))


@settings(max_examples=300, deadline=None)
@given(tables, tables)
def test_agrees_with_the_definition(a: Rows, b: Rows) -> None:
    assert compare(answer(a), answer(b)).same == reference_judgement(a, b)


@given(tables, st.randoms())
def test_the_order_of_rows_never_matters_without_sort_keys(content: Rows, dice: object) -> None:
    shuffled = list(content)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare(answer(content), answer(shuffled)).same
    assert compare_ordered(answer(shuffled), ordered(content, TYPES, ())).same


@given(tables.filter(len))
def test_a_lost_row_is_reported(content: Rows) -> None:
    verdict = compare(answer(content[1:]), answer(content))
    assert not verdict.same
    assert len(verdict.missing) == 1


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), max_size=6),
    st.integers(1, 4) | st.none(),
    st.data(),
)
def test_an_ordered_answer_is_right_exactly_when_some_engine_could_have_given_it(
    content: Rows, limit: int | None, data: st.DataObject
) -> None:
    in_order = sorted(content, key=lambda row: row[1])
    types = ("string", "bigint")
    candidate = data.draw(st.permutations(content) | st.permutations(in_order))[:limit]
    possible = {
        tuple(order[:limit])
        for order in itertools.permutations(content)
        if [row[1] for row in order] == [row[1] for row in in_order]
    }
    verdict = compare_ordered(answer(candidate, types), ordered(in_order, types, (1,), limit))
    assert verdict.same == (tuple(candidate) in possible)


def test_a_tie_at_the_limit_may_be_cut_either_way() -> None:
    types = ("string", "int")
    whole = ordered([("a", 1), ("b", 2), ("c", 2)], types, (1,), 2)
    assert compare_ordered(answer([("a", 1), ("c", 2)], types), whole).same
    assert not compare_ordered(answer([("b", 2), ("c", 2)], types), whole).same
    assert not compare_ordered(answer([("a", 1), ("x", 2)], types), whole).same
    assert not compare_ordered(answer([("a", 1)], types), whole).same


def test_keys_that_only_rounding_tells_apart_are_tied() -> None:
    whole = ordered([("a", 0.1 + 0.2), ("b", 0.3000000001)], ("string", "double"), (1,), 1, hidden=1)
    assert compare_ordered(answer([("b",)], ("string",)), whole).same
    apart = replace(whole, extended=answer([("a", 0.3), ("b", 0.300003)], ("string", "double")))
    assert not compare_ordered(answer([("b",)], ("string",)), apart).same


@pytest.mark.parametrize(
    ("kinds", "a", "b", "accepted"),
    [
        (("double", "double"), 1.0, 1.0 + 0.9e-12, True),
        (("double", "double"), 1.0, 1.0 + 1.1e-12, False),
        (("double", "double"), 2e7, 2e7 + 0.000019, True),
        (("decimal(11,6)", "double"), 1.0, 1.0000005, True),
        (("decimal(11,6)", "double"), 1.0, 1.000000501, False),
        (("decimal(38,12)", "double"), 0.01, 0.010000000001, True),
        (("decimal(38,12)", "double"), 0.01, 0.0100000000011, False),
        (("decimal(15,2)", "double"), 0.0, 0.005, True),
        (("decimal(15,2)", "double"), 0.0, 0.00501, False),
        (("float", "double"), 1.0, 1.0000009, True),
    ],
)
def test_tolerance_follows_type_and_magnitude(kinds: tuple[str, str], a: float, b: float, accepted: bool) -> None:
    found = tolerance(*kinds)
    assert found is not None
    assert found.accepts(a, b) is accepted
    assert tolerance(*reversed(kinds)) == found


@pytest.mark.parametrize("kind", ["decimal(17,2)", "bigint", "hugeint", "string", "date", "boolean"])
def test_what_both_engines_compute_exactly_has_no_tolerance(kind: str) -> None:
    assert tolerance(kind, "decimal(38,2)") is None


def test_a_chain_of_near_values_still_finds_the_pairing() -> None:
    """A greedy matching would leave 0.000 and 0.010, which are beyond the tolerance."""
    left = [(0.004,), (0.0,)]
    right = [(0.0,), (0.008,)]
    assert match_rows(left, right, {0: Tolerance(0.0, 0.0051)}) == [1, 0]


def test_integers_are_never_rounded() -> None:
    big = 10**15
    assert not compare(answer([(big,)], ("bigint",)), answer([(big + 1,)], ("bigint",))).same


def test_an_integer_may_be_another_engines_decimal() -> None:
    assert compare(answer([(3,)], ("bigint",)), answer([(Decimal(3),)], ("decimal(38,0)",))).same


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
    assert read.rows == ((Decimal("12.50"), 3, "007", "2001-02-03", None),)
    assert Answer.from_json(read.to_json()) == read
    behind = OrderedAnswer(read, 4, (4, 0), 100)
    assert OrderedAnswer.from_json(behind.to_json()) == behind


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


AVERAGES = ("string", "decimal(11,6)")


@pytest.mark.parametrize(("found", "same"), [("0.666667", True), ("0.666666", True), ("0.666665", False)])
def test_only_of_an_engine_that_cuts_may_a_decimal_s_last_digit_be_one_less(found: str, same: bool) -> None:
    reference = ordered([("a", 2 / 3)], ("string", "double"), (0,))
    given = answer([("a", Decimal(found))], AVERAGES)
    assert compare_ordered(given, reference).same is (found == "0.666667")
    verdict = compare_ordered(replace(given, cut=True), reference)
    assert verdict.same is same
    if same:
        assert verdict.note == (
            "equal" if found == "0.666667" else "equal but for the last digit of decimals, which the engine cuts"
        )


def test_of_an_engine_that_cuts_all_other_values_are_exact() -> None:
    reference = ordered([("a", Decimal("1.00"))], ("string", "decimal(7,2)"), (0,))
    assert not compare_ordered(
        replace(answer([("a", Decimal("0.99"))], ("string", "decimal(7,2)")), cut=True), reference
    ).same
