"""Pure comparison of two engines' answers to one query; no I/O.

Two answers are the same when their rows are, in the query's order. Rows with equal sort keys may change places, and
where LIMIT cuts among such rows, each engine may return different ones of them.

Values that both engines compute exactly must be equal: integers, decimals, texts, dates, booleans and nulls. Where an
engine computes a number in floating point, it may differ by a `RELATIVE` part of its magnitude, and by the rounding of
the decimal that the other engine returns. Trailing blanks count, except in a `char` column.

`ADAPTATIONS` lists where the independent engine reads SQL differently from Spark, each with its reason. They change a
query's wording, never its meaning. `tests/unit/lab/workloads/test_tpcds_texts.py` catches a pattern that no longer
occurs in its query.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

Value = Any
Row = tuple[Value, ...]

RELATIVE = 1e-12
"""The accepted relative difference of two doubles: the order of additions costs a few last bits."""
RELATIVE_SINGLE = 1e-6
"""The same for single precision, which has seven digits."""
FEWEST_DIGITS = 6
"""Spark never rounds a quotient or average of decimals to fewer digits after the point."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint", "long", "short", "byte", "hugeint", "ubigint", "uinteger")
_SINGLES = ("float", "real")
_FLOATING = ("double", *_SINGLES)
_DECIMAL = re.compile(r"(?:decimal|numeric)\(\d+,\s*(\d+)\)")


@dataclass(frozen=True)
class Answer:
    """One engine's result of a query. `types` are the engine's own names, e.g. `decimal(17,2)`."""

    query: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[Row, ...]
    cut: bool = False
    """True where the engine cuts quotients and averages of decimals to their last digit, instead of rounding them."""

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Answer:
        """Parse a line of `answers.jsonl`."""
        types = tuple(value["types"])
        return Answer(
            value["query"],
            tuple(value["columns"]),
            types,
            tuple(row_from_engine(row, types) for row in value["rows"]),
            value.get("cut", False),
        )

    def to_json(self) -> dict[str, Any]:
        """The inverse of `from_json`."""
        return {
            "query": self.query,
            "columns": list(self.columns),
            "types": list(self.types),
            "rows": [
                [item if item is None or isinstance(item, int) else str(item) for item in row] for row in self.rows
            ],
        }


@dataclass(frozen=True)
class OrderedAnswer:
    """The independent engine's result, in the query's order.

    Behind its `visible` columns `extended` has those sort keys that the query does not return. `keys` are the positions
    of all sort keys. Only the first `limit` rows belong to the answer.
    """

    extended: Answer
    visible: int
    keys: tuple[int, ...]
    limit: int | None = None

    @property
    def answer(self) -> Answer:
        """The rows that the query returns."""
        found = self.extended
        rows = tuple(row[: self.visible] for row in found.rows[: self.limit])
        return Answer(found.query, found.columns[: self.visible], found.types[: self.visible], rows)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> OrderedAnswer:
        return OrderedAnswer(Answer.from_json(value), value["visible"], tuple(value["keys"]), value["limit"])

    def to_json(self) -> dict[str, Any]:
        """The inverse of `from_json`."""
        return {**self.extended.to_json(), "visible": self.visible, "keys": list(self.keys), "limit": self.limit}


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison with the `rows` rows of the reference.

    `missing` rows are in the reference alone, `unexpected` ones in the answer alone.
    """

    query: str
    same: bool
    note: str
    rows: int
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Tolerance:
    """The accepted difference of a number: a part of its magnitude, and an absolute amount."""

    relative: float
    absolute: float = 0.0

    def reach(self, magnitude: float) -> float:
        return self.absolute + self.relative * magnitude

    def accepts(self, a: float, b: float) -> bool:
        return abs(a - b) <= self.reach(max(abs(a), abs(b)))


Tolerances = Mapping[int, Tolerance]
"""The tolerance of each column that has one; the others must be equal."""


def tolerance(kind: str, other: str, *, cut: bool = False) -> Tolerance | None:
    """Return the tolerance between two engines' types of a column; None if both compute its values exactly.

    With `cut`, a decimal's last digit may be one less than the rounded one.
    """
    kinds = (kind.lower(), other.lower())
    if not any(kind.startswith(_FLOATING) for kind in kinds):
        return None
    relative = RELATIVE_SINGLE if any(kind.startswith(_SINGLES) for kind in kinds) else RELATIVE
    scales = [int(found[1]) for kind in kinds if (found := _DECIMAL.fullmatch(kind))]
    # Quotients have more digits than averages, and q66 adds two of them that Spark has rounded.
    errors = 2 if cut else 1
    units = [10.0**-scale * errors * (0.5 if scale <= FEWEST_DIGITS else 1) for scale in scales]
    return Tolerance(relative, max(units, default=0.0))


def compare(answer: Answer, reference: Answer) -> Verdict:
    """Compare the rows of both, in any order."""
    if len(answer.columns) != len(reference.columns):
        note = f"{len(answer.columns)} columns instead of {len(reference.columns)}"
        return Verdict(answer.query, False, note, len(reference.rows), reference.rows, answer.rows)
    answer, reference, allowed = _comparable(answer, reference)
    missing = _unpaired(reference.rows, answer.rows, allowed)
    unexpected = _unpaired(answer.rows, reference.rows, allowed)
    return _verdict(answer, len(reference.rows), missing, unexpected)


def compare_ordered(answer: Answer, reference: OrderedAnswer) -> Verdict:
    """Check that `answer` is one of the right answers to the query, in one of its right orders.

    The reference's rows are groups with equal sort keys; so each group's rows must stand in the group's places. At
    LIMIT, a `reference` with further rows allows any choice from the last group. Where only the last digits that an
    engine cuts differ, the note says so.
    """
    exact = _compare_ordered(replace(answer, cut=False), reference)
    if exact.same or not answer.cut:
        return exact
    found = _compare_ordered(answer, reference)
    return (
        replace(found, note="equal but for the last digit of decimals, which the engine cuts") if found.same else exact
    )


def _compare_ordered(answer: Answer, reference: OrderedAnswer) -> Verdict:
    expected = reference.answer
    size = len(expected.rows)
    if len(answer.columns) != len(expected.columns) or len(answer.rows) != size:
        return compare(answer, expected)
    whole = OrderedAnswer(reference.extended, reference.visible, reference.keys).answer
    answer, whole, allowed = _comparable(answer, whole)
    certain = eligible = size
    misplaced: tuple[int, int] | None = None
    for start, end in _tied_groups(reference, answer):
        if start >= size:
            break
        if end > size:
            certain, eligible = start, end
        if misplaced is None and _unpaired(answer.rows[start : min(end, size)], whole.rows[start:end], allowed):
            misplaced = (start, end)
    missing = _unpaired(whole.rows[:certain], answer.rows, allowed)
    unexpected = _unpaired(answer.rows, whole.rows[:eligible], allowed)
    if misplaced is None or missing or unexpected:
        return _verdict(answer, size, missing, unexpected)
    start, end = misplaced
    note = f"the rows are right, but from row {start + 1} not in the query's order"
    return Verdict(answer.query, False, note, size, whole.rows[start : min(end, size)], answer.rows[start:end])


def _verdict(answer: Answer, rows: int, missing: tuple[Row, ...], unexpected: tuple[Row, ...]) -> Verdict:
    if missing or unexpected:
        return Verdict(answer.query, False, _counts(missing, unexpected), rows, missing, unexpected)
    return Verdict(answer.query, True, "equal" if rows else "equal: neither engine returned a row", rows)


def _comparable(answer: Answer, reference: Answer) -> tuple[Answer, Answer, Tolerances]:
    """Return both without the padding of `char` columns, and the columns' tolerances."""
    kinds = list(zip(answer.types, reference.types, strict=True))
    padded = {index for index, pair in enumerate(kinds) if any(kind.lower().startswith("char(") for kind in pair)}
    allowed = {index: found for index, pair in enumerate(kinds) if (found := tolerance(*pair, cut=answer.cut))}
    if padded:
        answer, reference = _trimmed(answer, padded), _trimmed(reference, padded)
    return answer, reference, allowed


def _trimmed(answer: Answer, padded: set[int]) -> Answer:
    rows = (
        tuple(value.rstrip(" ") if index in padded and value is not None else value for index, value in enumerate(row))
        for row in answer.rows
    )
    return replace(answer, rows=tuple(rows))


def _tied_groups(reference: OrderedAnswer, answer: Answer) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each group of rows that a true tie or an engine's rounding may put in any order."""
    found = reference.extended
    # The other engine's type of a hidden key is unknown.
    hidden = len(found.types) - len(answer.types)
    kinds = [*answer.types, *[f"decimal(38,{FEWEST_DIGITS})"] * hidden]
    allowed = [tolerance(kinds[key], found.types[key], cut=answer.cut) for key in reference.keys]
    keys = [tuple(row[key] for key in reference.keys) for row in found.rows]
    start = 0
    for index in range(1, len(keys) + 1):
        if index == len(keys) or not _tied(keys[index - 1], keys[index], allowed):
            yield start, index
            start = index


def _tied(keys: Row, others: Row, allowed: Sequence[Tolerance | None]) -> bool:
    """Return whether these keys may change places: the first key that is not equal decides."""
    for one, other, tolerated in zip(keys, others, allowed, strict=True):
        if _exact(one) == _exact(other):
            continue
        if tolerated is None or not (_is_number(one) and _is_number(other)):
            return False
        a, b = float(one), float(other)
        return abs(a - b) <= 2 * tolerated.reach(max(abs(a), abs(b)))  # twice, since either may be rounded
    return True


def match_rows(left: Sequence[Row], right: Sequence[Row], allowed: Tolerances) -> list[int | None]:
    """Return a maximum matching of equal rows: for each row of `left` its partner's index in `right`, or None."""
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, rows in enumerate((left, right)):
        for index, row in enumerate(rows):
            groups.setdefault(_exact_part(row, allowed), ([], []))[side].append(index)
    partners: list[int | None] = [None] * len(left)
    for lefts, rights in groups.values():
        if lefts and rights:
            _pair_group((left, right), lefts, rights, allowed, partners)
    return partners


def _pair_group(
    sides: tuple[Sequence[Row], Sequence[Row]],
    lefts: list[int],
    rights: list[int],
    allowed: Tolerances,
    partners: list[int | None],
) -> None:
    """Bipartite matching by shortest augmenting paths, among rows that agree in every exact column."""
    left, right = sides
    numbers = [column for column in sorted(allowed) if _is_number(left[lefts[0]][column])]
    if not numbers:
        for one, other in zip(lefts, rights, strict=False):
            partners[one] = other
        return
    first = numbers[0]
    lefts = sorted(lefts, key=lambda index: float(left[index][first]))
    rights = sorted(rights, key=lambda index: float(right[index][first]))
    firsts = [float(right[index][first]) for index in rights]

    def candidates(index: int) -> list[int]:
        value = float(left[index][first])
        reach = 2 * allowed[first].reach(abs(value))
        window = rights[bisect.bisect_left(firsts, value - reach) : bisect.bisect_right(firsts, value + reach)]
        return [
            other
            for other in window
            if all(allowed[c].accepts(float(left[index][c]), float(right[other][c])) for c in numbers)
        ]

    owner: dict[int, int] = {}
    for start in lefts:
        came_from: dict[int, int] = {}
        queue = deque([start])
        free: int | None = None
        while queue and free is None:
            current = queue.popleft()
            for other in candidates(current):
                if other in came_from:
                    continue
                came_from[other] = current
                if other not in owner:
                    free = other
                    break
                queue.append(owner[other])
        while free is not None:
            current = came_from[free]
            partners[current], owner[free], free = free, current, partners[current]


def _unpaired(rows: Sequence[Row], others: Sequence[Row], allowed: Tolerances) -> tuple[Row, ...]:
    partners = match_rows(rows, others, allowed)
    return tuple(row for row, partner in zip(rows, partners, strict=True) if partner is None)


def _exact_part(row: Row, allowed: Tolerances) -> Hashable:
    """Return the part of a row that must be equal: all but the finite numbers in columns with a tolerance."""
    return tuple(
        ("inexact",) if index in allowed and _is_number(value) else _exact(value) for index, value in enumerate(row)
    )


def _exact(value: Value) -> Hashable:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return (type(value).__name__, value)
    # Python's numbers are equal, and have the same hash, across types.
    return ("number", "nan" if math.isnan(value) else value)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)


def _value(item: Any, kind: str) -> Value:
    if item is None:
        return None
    kind = kind.lower()
    if kind.startswith(_FLOATING):
        return float(item)
    if kind.startswith(("decimal", "numeric")):
        return Decimal(str(item))
    if kind.startswith(_INTEGERS) and not kind.startswith("interval"):
        return int(item)
    if isinstance(item, bool) or kind == "boolean":
        return item if isinstance(item, bool) else str(item).lower() == "true"
    return str(item)


def row_from_engine(row: Sequence[Any], types: Sequence[str]) -> Row:
    """Convert a row of another engine's Python values, or of JSON's, to those of `Answer`."""
    return tuple(_value(item, kind) for item, kind in zip(row, types, strict=True))


def _counts(missing: Sequence[Row], unexpected: Sequence[Row]) -> str:
    return f"{_rows(len(missing))} missing, {_rows(len(unexpected))} unexpected"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def format_difference(verdict: Verdict, columns: Sequence[str], *, most: int = 5) -> list[str]:
    """Return the rows that differ as lines of text: each expected row (-) and the found row (+) nearest to it."""
    lines = [f"{verdict.query}: {verdict.note}", "    " + " | ".join(columns)]
    found = list(verdict.unexpected)
    for expected in verdict.missing[:most]:
        lines.append("  - " + _text(expected))
        if found:
            nearest = max(found, key=lambda row: sum(a == b for a, b in zip(row, expected, strict=False)))
            found.remove(nearest)
            lines.append("  + " + _text(nearest))
    lines.extend("  + " + _text(row) for row in found[: max(0, most - len(verdict.missing))])
    hidden = max(len(verdict.missing), len(verdict.unexpected)) - most
    if hidden > 0:
        lines.append(f"    … and {hidden} more")
    return lines


def _text(row: Row) -> str:
    return " | ".join("NULL" if value is None else str(value) for value in row)


@dataclass(frozen=True)
class Adaptation:
    """A substitution in the text of `queries` for DuckDB; `pattern` is a case-insensitive regular expression."""

    queries: tuple[str, ...]
    pattern: str
    replacement: str
    why: str


DUCKDB_SETTINGS = {
    "default_null_order": "nulls_first_on_asc_last_on_desc",  # Spark's order; it decides which rows a LIMIT returns
    "ieee_floating_point_ops": "false",  # a division by zero is null, as in Spark outside its ANSI mode
}

EVERY_QUERY = "*"

ADAPTATIONS = (
    Adaptation(
        queries=(EVERY_QUERY,),
        pattern=r"`([^`]*)`",
        replacement=r'"\1"',
        why="Spark quotes names with backticks, DuckDB with double quotes as the standard does",
    ),
    Adaptation(
        queries=("q5", "q77", "q80"),
        pattern=r"\breturns\b",
        replacement='"returns"',
        why="RETURNS is a reserved word in DuckDB and a column alias in the query",
    ),
    Adaptation(
        queries=("q90",),
        pattern=r"\bat\b",
        replacement='"at"',
        why="AT is a reserved word in DuckDB and a table alias in the query",
    ),
    Adaptation(
        queries=("q2", "q78"),
        pattern=r"round\((\w+ / .+), 2\)",
        replacement=r"cast(round(cast(\1 AS decimal(38, 12)), 2) AS double)",
        why="Spark rounds the decimal digits of a quotient, DuckDB its binary ones: 1.005 becomes 1.01 and 1.00",
    ),
    Adaptation(
        queries=("q54",),
        pattern=r"cast\(\(revenue / 50\) AS INT\)",
        replacement="cast(trunc(revenue / 50) AS INT)",
        why="a cast to integer truncates in Spark and rounds in DuckDB",
    ),
    Adaptation(
        queries=("q84",),
        pattern=r"concat\(c_last_name, ', ', c_first_name\)",
        replacement="(c_last_name || ', ' || c_first_name)",
        why="concat of a null is null in Spark and ignores the null in DuckDB",
    ),
)


def to_duckdb(query: str, text: str) -> str:
    """Translate a query into the independent engine's dialect."""
    for adaptation in ADAPTATIONS:
        if query in adaptation.queries or EVERY_QUERY in adaptation.queries:
            text = re.sub(adaptation.pattern, adaptation.replacement, text, flags=re.IGNORECASE)
    return text
