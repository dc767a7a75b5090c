"""Where the independent engine reads SQL differently from Spark: each adaptation as data, with its reason.

Only words are changed, never what is asked. A pattern that no longer occurs in its query is out of date
and is caught by `tests/unit/lab/test_query_texts.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Adaptation:
    queries: tuple[str, ...]
    pattern: str
    replacement: str
    why: str


SESSION = {
    "default_null_order": "nulls_first_on_asc_last_on_desc",  # Spark's order; it decides which rows a LIMIT keeps
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
        why="a cast to integer cuts the fraction off in Spark and rounds in DuckDB",
    ),
    Adaptation(
        queries=("q84",),
        pattern=r"concat\(c_last_name, ', ', c_first_name\)",
        replacement="(c_last_name || ', ' || c_first_name)",
        why="concat of a null is null in Spark and leaves the null out in DuckDB",
    ),
)


def adapted(query: str, text: str) -> str:
    """The query in the independent engine's words."""
    for adaptation in ADAPTATIONS:
        if query in adaptation.queries or EVERY_QUERY in adaptation.queries:
            text = re.sub(adaptation.pattern, adaptation.replacement, text, flags=re.IGNORECASE)
    return text
