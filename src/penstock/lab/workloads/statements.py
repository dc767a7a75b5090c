"""Queries as the statements of an engine that is not Spark: its application, and its results as the lab's samples."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

from penstock.engine.engines.contract import QueryEngine
from penstock.lab.answers import DUCKDB_SETTINGS, to_duckdb
from penstock.lab.launchers import JobResult
from penstock.lab.session import Session


@dataclass(frozen=True)
class Dialect:
    """How an engine is asked: its settings before the queries, and their texts in its words."""

    settings: tuple[str, ...]
    quote: str
    translate: Callable[[str, str], str]
    """The text of a query, by its name and its text as Spark runs it."""
    cuts: bool = False
    """See `Answer.cut`."""


_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _in_trinos_words(text: str) -> str:
    """The query for Trino.

    Its quotients and averages of decimals keep the digits of their inputs, so they are doubles, rounded by decimal
    digits and cut to integers as Spark's. It compares dates with dates alone, where Spark takes a text for one.
    """
    query = sqlglot.parse_one(text, read="spark")
    for one in [*query.find_all(exp.Avg, exp.Div)]:
        one.set("this", exp.cast(one.this, "double"))
    for one in [*query.find_all(exp.Round)]:
        one.set("this", exp.cast(one.this, "decimal(38, 12)"))
    for one in [*query.find_all(exp.Cast)]:
        if one.to.is_type("int") and one.find(exp.Div):
            one.set("this", exp.func("TRUNCATE", one.this))
    for one in [*query.find_all(exp.Literal)]:
        if one.is_string and _DATE.fullmatch(one.this) and not isinstance(one.parent, exp.Cast):
            one.replace(exp.cast(one.copy(), "date"))
    return query.sql("trino")


DIALECTS: Mapping[str, Dialect] = {
    "duckdb": Dialect(tuple(f"SET {name} = '{value}'" for name, value in DUCKDB_SETTINGS.items()), '"', to_duckdb),
    # As Spark's, since q90 divides by zero at small scales.
    "trino": Dialect((), '"', lambda _, text: _in_trinos_words(text)),
    "sail": Dialect(("SET spark.sql.ansi.enabled = false",), "`", lambda _, text: text, cuts=True),
}
"""By the engines' names."""


@dataclass(frozen=True)
class QueryScript:
    """The queries of one application, each `iterations` times after `warm_iterations` uncounted rounds, in order."""

    dialect: Dialect
    database: str
    queries: Mapping[str, str]
    """The texts as Spark runs them, by their names."""
    iterations: int = 1
    warm_iterations: int = 0

    @property
    def text(self) -> str:
        dialect, quote = self.dialect, self.dialect.quote
        queries = [dialect.translate(name, text).strip().rstrip(";") for name, text in self.queries.items()]
        statements = (*dialect.settings, f"USE {quote}{self.database}{quote}", *queries * self._rounds)
        return "".join(f"{statement};\n" for statement in statements)

    @property
    def before(self) -> int:
        """The number of statements before the first query."""
        return len(self.dialect.settings) + 1

    @property
    def _rounds(self) -> int:
        return self.warm_iterations + self.iterations

    def position(self, statement: int) -> str | None:
        """Describe the statement of this number, from 1, as `q3 (5 of 104)`; None before the first query."""
        index = statement - self.before - 1
        names = list(self.queries)
        return f"{names[index % len(names)]} ({index + 1} of {len(names) * self._rounds})" if index >= 0 else None

    def samples(self, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The sample of each counted execution, as Spark's power run writes it."""
        return [_sample(name, iteration, result) for name, iteration, result in self._counted(results)]

    def answers(self, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The different answers of each query's counted executions, in order, without those that failed.

        Equal answers are checked once, and an answer that only one iteration gave is checked too.
        """
        found: dict[bytes, dict[str, Any]] = {}
        for name, _, result in self._counted(results):
            if "error" not in result:
                line = self._answer(name, result)
                found.setdefault(hashlib.sha256(json.dumps(line).encode()).digest(), line)
        return list(found.values())

    def _answer(self, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "query": name,
            "columns": [column["name"] for column in result["columns"]],
            "types": [column["type"] for column in result["columns"]],
            "rows": result["rows"],
            **({"cut": True} if self.dialect.cuts else {}),
        }

    def _counted(self, results: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, Mapping[str, Any]]]:
        found = []
        for index, result in enumerate(results[self.before :]):
            rounds, place = divmod(index, len(self.queries))
            if rounds >= self.warm_iterations:
                found.append((list(self.queries)[place], rounds - self.warm_iterations + 1, result))
        return found


def _sample(name: str, iteration: int, result: Mapping[str, Any]) -> dict[str, Any]:
    times = {"started_ms": result["started_ms"], "elapsed_ms": result["elapsed_ms"]}
    if "error" in result:
        return {"query": name, "iteration": iteration, **times, "rows": 0, "status": "failed", "error": result["error"]}
    return {"query": name, "iteration": iteration, **times, "rows": len(result["rows"]), "status": "ok"}


def run_script(
    session: Session,
    engine: QueryEngine,
    script: QueryScript,
    *,
    key: str,
    role: str,
    name: str,
    doing: Callable[[str], None],
) -> tuple[JobResult, list[dict[str, Any]]]:
    """Run the script in one application of the engine; return its result, and a line for each statement that ended.

    Raises the application's failure where it stored no line.
    """

    def progress(description: str) -> None:
        statement = description.removeprefix("statement ").partition(" ")[0]
        doing((script.position(int(statement)) if statement.isdigit() else None) or description)

    output = f"{session.key(key)}/results.jsonl"
    with session.bench.engine.exchange(session.bench.lake).send_statements(script.text) as source:
        ran = session.application(
            role,
            None,
            ("--output", session.uri(output), "--statements-file", source, "--keep-going"),
            name=name,
            engine=engine,
            doing=progress,
            must_succeed=False,
        )
    return ran, session.report_of(ran, output)
