"""Pure comparison of two engines' answers to one query; no I/O.

Two answers are the same when their rows can be paired one to one, in any order: integers, texts, dates and nulls
equal, other numbers within 1e-6 relative or 0.0051 absolute (engines round decimal division and averages differently;
the seed queries round to cents). Where a query cuts an ordered result with LIMIT and several rows are tied at the cut,
each engine may return different ones of them; `compare_top` accepts exactly those choices and no others.

`ADAPTATIONS` lists where the independent engine reads SQL differently from Spark, each with its reason. They change a
query's wording, never its meaning. `tests/unit/lab/workloads/test_tpcds_texts.py` catches a pattern that no longer
occurs in its query.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = Any
Row = tuple[Value, ...]

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 0.0051
KEY_TOLERANCE = 1e-6
"""For sort keys, relative and absolute: only rows that rounding inside an engine can swap count as tied."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint", "long", "short", "byte", "hugeint", "ubigint", "uinteger")
_INEXACT = ("decimal", "double", "float", "real", "numeric")


@dataclass(frozen=True)
class Answer:
    """One engine's result of a query. `types` are the engine's own names, e.g. `decimal(17,2)`."""

    query: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[Row, ...]

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Answer:
        """Parse a line of `answers.jsonl`."""
        types = tuple(value["types"])
        rows = tuple(tuple(_value(item, kind) for item, kind in zip(row, types, strict=True)) for row in value["rows"])
        return Answer(value["query"], tuple(value["columns"]), types, rows)

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
    """The whole ordered result behind a query that ends in LIMIT: `keys[i]` are the sort keys of `answer.rows[i]`."""

    answer: Answer
    keys: tuple[Row, ...]
    limit: int


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison: `missing` rows are in the reference alone, `unexpected` ones in the answer alone."""

    query: str
    same: bool
    note: str
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()


def compare(answer: Answer, reference: Answer) -> Verdict:
    """Compare the rows of both, in any order."""
    if len(answer.columns) != len(reference.columns):
        note = f"{len(answer.columns)} columns instead of {len(reference.columns)}"
        return Verdict(answer.query, False, note, reference.rows, answer.rows)
    inexact = _inexact_columns(answer, reference)
    partners = match_rows(answer.rows, reference.rows, inexact)
    unexpected = tuple(row for row, partner in zip(answer.rows, partners, strict=True) if partner is None)
    taken = {partner for partner in partners if partner is not None}
    missing = tuple(row for index, row in enumerate(reference.rows) if index not in taken)
    if missing or unexpected:
        return Verdict(answer.query, False, _counts(missing, unexpected), missing, unexpected)
    return Verdict(answer.query, True, "equal")


def compare_top(answer: Answer, whole: OrderedAnswer) -> Verdict:
    """Check that `answer` is one of the right answers to "the first `limit` rows of `whole`".

    All rows clearly before the cut must be present; the others must be among those tied with the row at the cut.
    By the theorem of Mendelsohn and Dulmage it suffices to check the two conditions one at a time.
    """
    rows = whole.answer.rows
    size = min(whole.limit, len(rows))
    if len(answer.columns) != len(whole.answer.columns) or len(answer.rows) != size:
        return compare(answer, Answer(answer.query, whole.answer.columns, whole.answer.types, rows[:size]))
    edge = whole.keys[size - 1] if size else ()
    tied = [_tied(keys, edge) for keys in whole.keys]
    certain = [row for index, row in enumerate(rows[:size]) if not tied[index]]
    eligible = certain + [row for index, row in enumerate(rows) if tied[index]]
    inexact = _inexact_columns(answer, whole.answer)
    unexpected = _unpaired(answer.rows, eligible, inexact)
    missing = _unpaired(certain, answer.rows, inexact)
    if missing or unexpected:
        return Verdict(answer.query, False, _counts(missing, unexpected), missing, unexpected)
    return Verdict(answer.query, True, f"equal; rows tied at LIMIT {whole.limit} were chosen differently")


def match_rows(left: Sequence[Row], right: Sequence[Row], inexact: frozenset[int]) -> list[int | None]:
    """Return a maximum matching of equal rows: for each row of `left` its partner's index in `right`, or None."""
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, rows in enumerate((left, right)):
        for index, row in enumerate(rows):
            groups.setdefault(_exact_part(row, inexact), ([], []))[side].append(index)
    partners: list[int | None] = [None] * len(left)
    for lefts, rights in groups.values():
        if lefts and rights:
            _pair_group((left, right), lefts, rights, sorted(inexact), partners)
    return partners


def is_close(a: float, b: float) -> bool:
    return abs(a - b) <= max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * max(abs(a), abs(b)))


def _pair_group(
    sides: tuple[Sequence[Row], Sequence[Row]],
    lefts: list[int],
    rights: list[int],
    inexact: list[int],
    partners: list[int | None],
) -> None:
    """Bipartite matching by shortest augmenting paths, among rows that agree in every exact column."""
    left, right = sides
    numbers = [column for column in inexact if _is_number(left[lefts[0]][column])]
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
        reach = 2 * max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * abs(value))
        window = rights[bisect.bisect_left(firsts, value - reach) : bisect.bisect_right(firsts, value + reach)]
        return [
            other for other in window if all(is_close(float(left[index][c]), float(right[other][c])) for c in numbers)
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


def _unpaired(rows: Sequence[Row], others: Sequence[Row], inexact: frozenset[int]) -> tuple[Row, ...]:
    partners = match_rows(rows, others, inexact)
    return tuple(row for row, partner in zip(rows, partners, strict=True) if partner is None)


def _exact_part(row: Row, inexact: frozenset[int]) -> Hashable:
    """Return the part of a row that must be equal: all but the finite numbers in inexact columns."""
    return tuple(
        ("number",) if index in inexact and _is_number(value) else _exact(value) for index, value in enumerate(row)
    )


def _exact(value: Value) -> Hashable:
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value)
    return (type(value).__name__, value)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _tied(keys: Row, edge: Row) -> bool:
    """Return whether rounding or a true tie may put these keys on either side of the edge's.

    The first key that is not equal decides: rounding may swap it only if it is nearly equal.
    """
    for key, at_edge in zip(keys, edge, strict=True):
        if _exact(key) == _exact(at_edge):
            continue
        if isinstance(key, float) and isinstance(at_edge, float):
            return math.isclose(key, at_edge, rel_tol=KEY_TOLERANCE, abs_tol=KEY_TOLERANCE)
        return False
    return True


def _inexact_columns(answer: Answer, reference: Answer) -> frozenset[int]:
    pairs = zip(answer.types, reference.types, strict=True)
    return frozenset(index for index, kinds in enumerate(pairs) if any(is_inexact(kind) for kind in kinds))


def is_inexact(kind: str) -> bool:
    return kind.lower().startswith(_INEXACT)


def _value(item: Any, kind: str) -> Value:
    if item is None:
        return None
    kind = kind.lower()
    if kind.startswith(_INEXACT):
        return float(item)
    if kind.startswith(_INTEGERS) and not kind.startswith("interval"):
        return int(item)
    if isinstance(item, bool) or kind == "boolean":
        return item if isinstance(item, bool) else str(item).lower() == "true"
    return str(item)


def row_from_engine(row: Sequence[Any], types: Sequence[str]) -> Row:
    """Convert a row of another engine's Python values to those of `Answer`."""
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
