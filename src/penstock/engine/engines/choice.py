"""The engine of a script in Spark's SQL: Sail where it is known to answer as Spark does, Spark for all else. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock import units
from penstock.catalog.tables import Table
from penstock.engine.engines.sail.statements import code_of, split, writes
from penstock.engine.engines.table_files import filled_column

AUTO = "auto"
"""The name on command lines, in the place of an engine's."""

_COMPUTES = re.compile(r"[/*%]|\b(?:avg|div)\b", re.IGNORECASE)
"""Arithmetic in which Sail is known, or may be, to give other last digits of decimals than Spark."""
_STAR = re.compile(r"(?:[(,.]|\b(?:select|distinct|all))\s*\*", re.IGNORECASE)
"""Stars that are no product."""
_DECIMALS = re.compile(r"(?<!\w)\d*\.\d|(?<![\w.])\d+\.|\b\d+bd\b|\b(?:decimal|numeric|dec)\b", re.IGNORECASE)
_SIGNED_ZEROS = re.compile(r"/|(?<!\w)[\d.]*\d\.?(?:e[+-]?\d+|[df]\b)|\b(?:float|double|real)\b", re.IGNORECASE)
"""Literals and the operator that give floating-point numbers, among them -0.0, unless their input is decimal."""
_AVERAGES = re.compile(r"\b(?:avg|stddev_samp)\s*\(", re.IGNORECASE)
"""Functions that give floating-point numbers, though -0.0 only for -0.0, unless their input is decimal."""
_REMAINDER = re.compile("%")
"""The operator that gives -0.0 for negative floating-point numbers."""
_INTEGER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_LONG = re.compile(r"(?<![\w.])(?:\d{10,}|\d+l)\b", re.IGNORECASE)
_TIMESTAMPS = re.compile(r"\b(?:timestamp|timestamp_ltz)\b", re.IGNORECASE)
_DATES = re.compile(r"\b(?:date|timestamp_ntz)\b", re.IGNORECASE)
_SUM = re.compile(r"\bsum\s*\(", re.IGNORECASE)
_CONCAT = re.compile(r"\bconcat\s*\(", re.IGNORECASE)
_OTHER_TEXTS = re.compile(r"\b(?:substr|upper)\s*\(", re.IGNORECASE)
_SET_OPERATION = re.compile(r"\b(?:except|intersect|minus|union)\b", re.IGNORECASE)
_BRANCH = re.compile(
    r"\b(?:then|else)\b(?:\s*(?P<value>-?\s*\d{1,9}|''|[a-z_][\w.]*)\s*(?=\b(?:when|else|end)\b))?", re.IGNORECASE
)
"""The result of a branch of CASE; its value is None where it is more than a literal or a column."""
_COALESCE = re.compile(
    r"\bcoalesce\s*\((?:\s*(?:[a-z_]\w*\.)*(?P<column>[a-z_]\w*)\s*,\s*(?P<value>\d{1,9}|'')\s*\))?", re.IGNORECASE
)
"""A coalesce; it has no groups where it is not one of a column and a literal."""
_VALUES = re.compile(r"\bvalues\b", re.IGNORECASE)
_ORDER = re.compile(r"\b(?:over|rank|order\s+by)\b", re.IGNORECASE)
_LISTS = re.compile(r"\bin\s*\((?!\s*(?:select|with|values|from|table)\b)|\bor\b", re.IGNORECASE)
"""Lists of values, and the operator from chains of which Sail makes such lists."""
_COMPARISONS = re.compile(
    r"[<=>]|\b(?:between|case|cube|distinct|group|in|like|max|min|natural|rollup|table|using)\b|\(\s*from\b",
    re.IGNORECASE,
)
"""The operators and words that compare values or group by them, with those that do so without naming a column."""
_FLOATING = ("float", "double", "real")
_SELECT_LIST = re.compile(r"\bselect\b(?P<items>.*?)(?=\bfrom\b|$)", re.IGNORECASE | re.DOTALL)
_SHOWN_ITEM = re.compile(
    r"\s*(?:(?P<total>(?:avg|count|stddev_samp|sum)\s*\(\s*[\w.]+\s*\))|(?:[\w.]+|(?:\w+\.)*\*))"
    r"(?:\s+(?:as\s+)?(?P<alias>\w+))?\s*",
    re.IGNORECASE,
)
"""An item of a select list that shows a column or its total, without comparing its values."""
_COUNT_ROWS = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_INTERVAL = re.compile(r"\binterval\b", re.IGNORECASE)
_PRECISION = re.compile(r"\bdecimal\((\d+)", re.IGNORECASE)
_WIDEST_TO_SUM = 28
"""The largest precision of decimals whose sums have room for ten more digits, as Spark's type of the sum does."""
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)*`")
_SMALL_LITERALS = re.compile(
    r"(?P<before>[(,=<>]|\b(?:select|between|and|then|else))\s*"
    r"(?:[+-]\s*(?:\d{1,9}(?:\.\d*)?|\.\d+)|\d{1,4}\s*[+*-]\s*\d{1,4})(?![\w.])",
    re.IGNORECASE,
)
"""Literals with a sign, and sums and products of two literals that are too small to overflow."""
_DAYS = re.compile(r"(?:\bdate\s*''|(?P<column>\b\w+))\s*[+-]\s*interval\s+\d{1,6}\s+days?\b(?!\s*\d)", re.IGNORECASE)
"""A date some days later or earlier."""
_ASKS = re.compile(
    r"[\s(]*(?:select|with|values|from|table|use|create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view)\b", re.IGNORECASE
)
"""Other statements have results of other columns in Sail, or change how Spark answers."""
_UNSURE = re.compile(
    r"\b(?:version|timestamp)\s+as\s+of\b|\bsystem_(?:version|time)\b|\w+\s*\.\s*`[^`]*/|\br''"
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
_SHOWN_ALIKE = re.compile(r"string|int|bigint|date|boolean", re.IGNORECASE)
"""The types whose values are the same texts in both engines."""


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
    question = _Question(_QUOTED_NAME.sub("``", code), tables)
    why = next(filter(None, (*map(_refusal, tables), *(rule(question) for rule in _RULES))), None)
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


@dataclass(frozen=True)
class _Question:
    """A script, without its texts, its comments and the quoted names, and the tables that it may name."""

    code: str
    tables: Sequence[Table]

    def having(self, *kinds: str) -> str | None:
        """Return the first table with a column of one of the types."""
        return next((one.full_name for one in self.tables if any(_has(one, kind) for kind in kinds)), None)

    def found(self, words: re.Pattern[str]) -> str | None:
        """Return the first match in the code, in quotes as a sentence has it."""
        match = words.search(self.code)
        return match and f"“{match[0].strip()}”"

    def types_of(self, name: str) -> set[str]:
        """Return the types of all columns of this name."""
        columns = (column for table in self.tables for column in table.columns)
        return {column.type.lower() for column in columns if column.name.lower() == name.lower()}

    @property
    def signed_zeros(self) -> str | None:
        return self.having(*_FLOATING) or self.computed_zeros

    @property
    def computed_zeros(self) -> str | None:
        remainder = self.found(_REMAINDER) if self.found(_AVERAGES) else None
        return self.found(_SIGNED_ZEROS) or remainder

    @property
    def floats(self) -> str | None:
        return self.signed_zeros or self.found(_AVERAGES)

    @property
    def decimals(self) -> str | None:
        return self.having("decimal") or self.found(_DECIMALS)

    @property
    def timestamps(self) -> str | None:
        return self.having("timestamp") or self.found(_TIMESTAMPS)


def _cut_digits(question: _Question) -> str | None:
    computes = _COMPUTES.search(_STAR.sub(" ", question.code))
    if computes is None or question.decimals is None:
        return None
    table = question.having("decimal")
    decimals = f"the decimals of {table}" if table else "decimals"
    return f"it computes with {decimals} (“{computes[0]}”), of which Sail cuts digits"


def _intervals(question: _Question) -> str | None:
    if question.found(_INTERVAL) is None:
        return None
    if timestamps := question.timestamps:
        return f"Sail adds intervals to timestamps ({timestamps}) without the session's time zone"
    if _INTERVAL.search(_without_days(question)):
        return "Sail computes with intervals otherwise than Spark, except for days before or after a date"
    return None


def _overflow(question: _Question) -> str | None:
    rest = _SMALL_LITERALS.sub(r"\g<before> ", _STAR.sub(" ", _without_days(question)))
    if computes := re.search(r"[+*-]", rest):
        return f"“{computes[0]}” overflows silently in Sail, and fails in Spark"
    if question.found(_SUM) is None:
        return None
    wide = next((one.full_name for one in question.tables if _is_wide(one)), None) or question.found(_LONG)
    return wide and f"a sum of large numbers ({wide}) overflows silently in Sail, and fails in Spark"


def _without_days(question: _Question) -> str:
    """The code without the days that are added to dates and subtracted from them."""

    def rest(match: re.Match[str]) -> str:
        column = match["column"]
        return " " if column is None or question.types_of(column) == {"date"} else match[0]

    return _DAYS.sub(rest, question.code)


def _is_wide(table: Table) -> bool:
    """Return whether the sum of a column may exceed the type that Spark gives it."""
    precisions = (int(found) for one in table.columns for found in _PRECISION.findall(one.type))
    return _has(table, "bigint") or any(precision > _WIDEST_TO_SUM for precision in precisions)


def _zones(question: _Question) -> str | None:
    dates = question.having("date", "timestamp_ntz") or question.found(_DATES)
    if dates is None and question.having("timestamp") and _is_ambiguous(question):
        # Iceberg enters timestamps with and without a zone into the metastore alike.
        dates = question.having("timestamp")
    if dates is None or (timestamps := question.timestamps) is None:
        return None
    return (
        f"Sail compares timestamps ({timestamps}) with dates and with times without a zone ({dates}) "
        "regardless of the session's time zone"
    )


def _is_ambiguous(question: _Question) -> bool:
    found = [table for table in question.tables for column in table.columns if "timestamp" in column.type.lower()]
    several = len(found) > 1 or question.found(_TIMESTAMPS) is not None
    return several and any(table.format == "iceberg" for table in found)


def _mixed_numbers(question: _Question) -> str | None:
    floats, decimals = question.floats, question.decimals
    if floats is None or decimals is None:
        return None
    return f"Sail compares floating-point numbers ({floats}) with decimals ({decimals}) otherwise than Spark"


def _texts(question: _Question) -> str | None:
    other = question.floats or question.timestamps
    if question.found(_CONCAT):
        columns = (column.type for table in question.tables for column in table.columns)
        other = other or question.decimals or next((kind for kind in columns if not _SHOWN_ALIKE.fullmatch(kind)), None)
    elif question.found(_OTHER_TEXTS) is None:
        return None
    return other and f"some values ({other}) become other texts in Sail than in Spark"


def _branches(question: _Question) -> str | None:
    if operation := question.found(_SET_OPERATION):
        return f"Sail gives the rows of {operation} the types of the first query, and Spark a type that holds all"
    results = {_kind(match["value"]) for match in _BRANCH.finditer(question.code)} - {"null"}
    if None in results or len(results) > 1:
        return "Sail gives CASE the type of its first branch, and Spark a type that holds all branches"
    return None


def _kind(value: str | None) -> str | None:
    """The same text for values of the same type: `integer` for such literals, a column's own name."""
    return "integer" if value and value.lstrip("- ").isdigit() else value and value.lower()


def _fallbacks(question: _Question) -> str | None:
    """The reason that lies in values of several types in one column: those of `coalesce` and of VALUES."""
    for match in _COALESCE.finditer(question.code):
        types = question.types_of(match["column"] or "")
        if not types or types - ({"string"} if match["value"] == "''" else {"int", "bigint"}):
            return "only coalesce of a column and a literal of its type, text or integer, has Spark's type in Sail"
    mixed = question.floats or question.decimals or question.found(_LONG) or ("''" in question.code and "texts")
    if question.found(_VALUES) and question.found(_INTEGER) and mixed:
        return f"VALUES of integers and others ({mixed}) may have another type in Sail than in Spark"
    return None


def _order(question: _Question) -> str | None:
    zeros = question.signed_zeros if question.found(_ORDER) else None
    return zeros and f"Sail ranks -0.0 before 0.0 among floating-point numbers ({zeros}), and Spark ranks them alike"


def _lists(question: _Question) -> str | None:
    # Sail compares the bits of a list's values (apache/datafusion#25186).
    zeros = question.computed_zeros if question.found(_LISTS) else None
    return zeros and f"Sail does not find -0.0 ({zeros}) in lists and chains of OR that have 0, and Spark does"


def _not_numbers(question: _Question) -> str | None:
    if question.found(_COMPARISONS) is None:
        return None
    rest = _without_shown(_COUNT_ROWS.sub("count(1)", question.code), question.tables)
    words = _words(rest)
    # A quoted name may be any column's, and a star or a natural join has them all.
    hidden = "``" in rest or _STAR.search(rest) or words & {"natural", "table"} or re.search(r"\(\s*from\b", rest)
    for table in question.tables:
        if (names := _floating_columns(table)) and (hidden or names & words):
            return f"Sail compares NaN and -0.0 among floating-point numbers ({table.full_name}) otherwise than Spark"
    return None


def _without_shown(code: str, tables: Sequence[Table]) -> str:
    """The code without the select list, if there is one alone and it only shows its floating-point numbers."""
    lists = list(_SELECT_LIST.finditer(code))
    if len(lists) != 1 or _words(code) & {"distinct", "natural"}:
        return code
    rest = f"{code[: lists[0].start()]} {code[lists[0].end() :]}"
    words = _words(rest)
    floating = {name for table in tables for name in _floating_columns(table)}
    for text in lists[0]["items"].split(","):
        item = _SHOWN_ITEM.fullmatch(text)
        if item is None:
            return code
        if "*" in text or floating & _words(text):
            # GROUP BY may name an item that is no total by its number, or as one of ALL; any clause by its alias.
            grouped = "group" in words and item["total"] is None
            if grouped or (item["alias"] or "").lower() in words:
                return code
    return rest


def _words(code: str) -> set[str]:
    return set(re.findall(r"\w+", code.lower()))


def _floating_columns(table: Table) -> set[str]:
    return {one.name.lower() for one in table.columns if any(_is_of(one.type, kind) for kind in _FLOATING)}


_RULES: tuple[Callable[[_Question], str | None], ...] = (
    _cut_digits,
    _intervals,
    _overflow,
    _zones,
    _mixed_numbers,
    _texts,
    _branches,
    _fallbacks,
    _order,
    _lists,
    _not_numbers,
)
"""The rules against Sail that lie in operators and types, each of which returns its reason."""


def _refusal(table: Table) -> str | None:
    if table.kind == "view":
        return f"{table.full_name} is a view"
    if table.format not in ("parquet", "iceberg"):
        return f"the format of {table.full_name} is {table.format}"
    if filled := filled_column(table):
        return f"Sail does not fill in the default of {table.full_name}'s column {filled.name}"
    if _has(table, "collate"):
        return f"{table.full_name} has a column with a collation, which Sail has not"
    kind = next((kind for kind in _OTHERWISE if _has(table, kind)), None)
    return None if kind is None else f"{table.full_name} has a column of {kind}, which Sail has not"


def _has(table: Table, kind: str) -> bool:
    return any(_is_of(column.type, kind) for column in table.columns)


def _is_of(column_type: str, kind: str) -> bool:
    """Return whether the type, or a type within it, is of a kind."""
    return re.search(rf"\b{kind}\b", column_type, re.IGNORECASE) is not None
