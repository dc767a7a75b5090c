"""The engine of a script in Spark's SQL: Sail where it is known to answer as Spark does, Spark for all else. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock import units
from penstock.catalog.tables import Table
from penstock.engine.engines.sail.statements import code_of, split, writes

AUTO = "auto"
"""The name on command lines, in the place of an engine's."""

_COMPUTES = re.compile(r"[/*%]|\b(?:avg|div)\b", re.IGNORECASE)
"""Arithmetic in which Sail is known, or may be, to give other last digits of decimals than Spark."""
_STAR = re.compile(r"(?:[(,.]|\b(?:select|distinct|all))\s*\*", re.IGNORECASE)
"""Stars that are no product."""
_DECIMAL_WORDS = re.compile(r"\d\.\d|\.\d|\d\.|\b\d+bd\b|\b(?:decimal|numeric|dec)\b", re.IGNORECASE)
_ASKS = re.compile(
    r"[\s(]*(?:select|with|values|from|table|use|create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view)\b", re.IGNORECASE
)
"""Other statements have results of other columns in Sail, or change how Spark answers."""
_UNSURE = re.compile(
    r"\b(?:version|timestamp)\s+as\s+of\b|\bsystem_(?:version|time)\b|\w+\s*\.\s*`[^`]*/"
    r"|\b(?:rlike|regexp|ilike|lateral|pivot|unpivot|tablesample|cluster|distribute|sort)\b|::|\|\||->|[\[~^&|]",
    re.IGNORECASE,
)
_CALL = re.compile(r"(`[^`]*`|\b[a-z_]\w*)\s*\(", re.IGNORECASE)
_FUNCTIONS = "abs|avg|coalesce|concat|count|grouping|max|min|rank|stddev_samp|substr|sum|upper"
"""The functions of TPC-DS, whose answers the lab has compared."""
_COMPARED = re.compile(
    rf"{_FUNCTIONS}|all|and|as|between|by|cube|distinct|else|except|exists|from|in|intersect|join|not|on|or|over|rollup"
    "|select|sets|then|union|using|values|when|where|with",
    re.IGNORECASE,
)
"""The same, and the words that stand before a bracket."""
_WORD = re.compile(r"`((?:[^`]|``)+)`|(\w+|\.)")
_OTHERWISE = ("tinyint", "smallint", "char")
"""Types that Sail shows as others, or refuses."""


@dataclass(frozen=True)
class Choice:
    """An engine by its name, and the reason in a sentence's words."""

    engine: str
    why: str


@dataclass(frozen=True)
class Tables:
    """The catalog, as far as a choice needs it: the names in each database, a table by its full name, and its bytes.

    A size is None where nobody knows it.
    """

    names: Mapping[str, set[str]]
    table: Callable[[str], Table]
    size: Callable[[Table], int | None]


def choose(script: str, catalog: Tables, *, most_bytes: int) -> Choice:
    """Choose the engine of a script; one process is given no more than `most_bytes` of tables.

    A word of the script that may name a table is taken for one, which can only lead to Spark.
    """
    statements = split(script)
    code = " ".join(map(code_of, statements))
    if why := _unlike(statements, code):
        return Choice("spark", why)
    tables = [catalog.table(name) for name in named(code, catalog.names)]
    why = next(filter(None, map(_refusal, tables)), None) or _inexact(code, tables)
    if why is not None:
        return Choice("spark", why)
    sizes = {one.full_name: catalog.size(one) for one in tables}
    if unknown := next((name for name, size in sizes.items() if size is None), None):
        return Choice("spark", f"the size of {unknown} is not known: ANALYZE TABLE")
    total = sum(size or 0 for size in sizes.values())
    if total > most_bytes:
        return Choice(
            "spark", f"the tables have {units.size(total)}, and one process is given {units.size(most_bytes)}"
        )
    read = f"it only reads {units.size(total)}" if tables else "it names no table"
    return Choice("sail", f"{read}, in ways in which Sail answers as Spark does")


def named(code: str, names: Mapping[str, set[str]]) -> list[str]:
    """The full names of all tables that a word of the code may mean, in any database unless it names one."""
    words = [(quoted.replace("``", "`") or other).lower() for quoted, other in _WORD.findall(code)]
    found = set()
    for index, word in enumerate(words):
        before = words[index - 2] if index > 1 and words[index - 1] == "." else None
        of = names if before is None or before not in names else [before]
        found |= {f"{database}.{word}" for database in of if word in names[database]}
    return sorted(found)


def _unlike(statements: Sequence[str], code: str) -> str | None:
    """The reason against Sail that lies in the statements alone."""
    other = next((one for one in statements if writes(one) or not _ASKS.match(code_of(one))), None)
    if other is not None:
        return f"“{code_of(other).split(maxsplit=1)[0]}” is no plain question"
    unsure = _UNSURE.search(code)
    found = unsure[0] if unsure else next((of for of in _CALL.findall(code) if not _COMPARED.fullmatch(of)), None)
    return None if found is None else f"nobody has compared Sail's “{found}” with Spark's"


def _inexact(code: str, tables: Sequence[Table]) -> str | None:
    """The reason against Sail that lies in arithmetic with decimals."""
    exact = [one.full_name for one in tables if _has(one, "decimal")]
    computes = _COMPUTES.search(_STAR.sub(" ", code))
    if computes is None or not (exact or _DECIMAL_WORDS.search(code)):
        return None
    where = f"the decimals of {exact[0]}" if exact else "decimals"
    return f"it computes with {where} (“{computes[0]}”), of which Sail cuts digits"


def _refusal(table: Table) -> str | None:
    if table.kind == "view":
        return f"{table.full_name} is a view"
    if table.format not in ("parquet", "iceberg"):
        return f"the format of {table.full_name} is {table.format}"
    kind = next((kind for kind in _OTHERWISE if _has(table, kind)), None)
    return None if kind is None else f"{table.full_name} has a column of {kind}, which Sail has not"


def _has(table: Table, kind: str) -> bool:
    return any(re.search(rf"\b{kind}\b", column.type, re.IGNORECASE) for column in table.columns)
