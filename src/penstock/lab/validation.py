"""Validation of a run's answers against an independent engine: DuckDB, reading the same Parquet files as Spark.

DuckDB's answer depends only on the rows, the query's text and its version, so it is computed once for data of one
scale, in any layout. The downloaded files and the answers are in the home's cache, for the newest rows only.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from penstock.errors import LakeError, MissingRequirement, PenstockError
from penstock.home import Home, write_json
from penstock.lab import answers
from penstock.lab.answers import Answer, OrderedAnswer, Verdict, format_difference
from penstock.lake.model import ObjectStore
from penstock.units import MIB


class ReferenceEngine:
    """DuckDB over `<directory>/<table>/**/*.parquet`; Hive partition columns come from the directory names.

    `scratch` is for data that does not fit into `memory_bytes`. The caller closes it.
    """

    def __init__(self, directory: Path, *, scratch: Path, memory_bytes: int = 2 << 30) -> None:
        import duckdb  # noqa: PLC0415  commands read this module for the options of its workloads alone

        self._connection = duckdb.connect()
        self._connection.execute("SET memory_limit = ?", [f"{memory_bytes // MIB}MiB"])
        self._connection.execute("SET temp_directory = ?", [str(scratch)])
        for name, value in answers.DUCKDB_SETTINGS.items():
            self._connection.execute(f"SET {name} = '{value}'")
        for table in sorted(path for path in directory.iterdir() if any(path.rglob("*.parquet"))):
            files = str(table / "**" / "*.parquet").replace("'", "''")
            self._connection.execute(  # a view takes no parameters
                f"CREATE VIEW \"{table.name}\" AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)"  # noqa: S608 - the lab's own paths
            )

    def close(self) -> None:
        self._connection.close()

    def answer(self, query: str, text: str, *, whole: bool = False) -> OrderedAnswer:
        """Return the result with its sort keys; with `whole`, also the rows behind the query's final LIMIT."""
        plan = self._parse(answers.to_duckdb(query, text))
        node = plan["statements"][0]["node"]
        limit = _final_limit(node)
        if whole:
            node["modifiers"] = [part for part in node["modifiers"] if part["type"] != "LIMIT_MODIFIER"]
        keys, hidden = _expose_sort_keys(node)
        found = self._run(query, self._scalar("SELECT json_deserialize_sql(?)", json.dumps(plan)))
        names = [name.lower() for name in found.columns]
        positions = tuple(key if isinstance(key, int) else names.index(key) for key in keys)
        return OrderedAnswer(found, len(names) - hidden, positions, limit)

    def _run(self, query: str, sql: str) -> Answer:
        cursor = self._connection.execute(sql)
        columns = tuple(column[0] for column in cursor.description)
        types = tuple(str(column[1]).lower() for column in cursor.description)
        return Answer(query, columns, types, tuple(answers.row_from_engine(row, types) for row in cursor.fetchall()))

    def _parse(self, sql: str) -> Any:
        return json.loads(self._scalar("SELECT json_serialize_sql(?)", sql.strip().rstrip(";")))

    def _scalar(self, sql: str, parameter: str) -> str:
        row = self._connection.execute(sql, [parameter]).fetchone()
        if row is None:
            raise AssertionError(f"no row from {sql}")
        return str(row[0])


def _final_limit(node: dict[str, Any]) -> int | None:
    for part in node["modifiers"]:
        if part["type"] == "LIMIT_MODIFIER" and part["limit"] is not None:
            return int(part["limit"]["value"]["value"])
    return None


def _expose_sort_keys(node: dict[str, Any]) -> tuple[list[int | str], int]:
    """Make every sort key a column of the result.

    Returns the output column of each key (its position or name), and the number of appended columns.
    """
    orders = [order for part in node["modifiers"] if part["type"] == "ORDER_MODIFIER" for order in part["orders"]]
    keys: list[int | str] = []
    hidden = 0
    outputs = {name for column in node.get("select_list", []) if (name := _output_name(column))}
    for order in orders:
        expression = order["expression"]
        if expression["type"] == "VALUE_CONSTANT":
            keys.append(int(expression["value"]["value"]) - 1)
        elif expression["type"] == "COLUMN_REF" and (
            node["type"] != "SELECT_NODE"
            or (len(expression["column_names"]) == 1 and _output_name(expression) in outputs)
        ):
            keys.append(str(_output_name(expression)))
        else:
            name = f"penstock_sort_key_{hidden}"
            node["select_list"].append({**expression, "alias": name})
            keys.append(name)
            hidden += 1
    return keys, hidden


def _output_name(column: dict[str, Any]) -> str | None:
    if column.get("alias"):
        return str(column["alias"]).lower()
    names = column.get("column_names")
    return str(names[-1]).lower() if names else None


def download(store: ObjectStore, prefix: str, target: Path) -> int:
    """Copy every Parquet data file below `prefix` to `target`, with the same paths; return their total bytes.

    A complete local file is not copied again. Raises `MissingRequirement` when the disk has too little space.
    """
    objects = [item for item in store.list(prefix) if item.key.endswith(".parquet") and not _hidden(item.key)]
    if not objects:
        raise LakeError(f"No Parquet files below {prefix}", fix="load the data again: penstock lab tpcds --reload")
    target.mkdir(parents=True, exist_ok=True)
    missing = [item for item in objects if not _have(target / item.key[len(prefix) :].lstrip("/"), item.size)]
    needed = sum(item.size for item in missing)
    free = shutil.disk_usage(target).free
    if needed > free * 0.9:
        raise MissingRequirement(
            f"Checking the answers needs {needed // MIB} MiB of disk, and {target} has {free // MIB} MiB free",
            why="the independent engine reads a local copy of the same files",
            fix="free some space, or measure without checking: --no-validate",
        )
    for item in missing:
        file = target / item.key[len(prefix) :].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(file.name + ".partial")
        store.download(item.key, partial)
        partial.replace(file)
    return sum(item.size for item in objects)


def _hidden(key: str) -> bool:
    """Return whether Spark's readers skip the key: files below a directory such as `_skipindex` are not data."""
    return any(part.startswith(("_", ".")) for part in key.split("/"))


def _have(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


class AnswerKey:
    """The reference answers for the data set at `prefix`, whose manifest is `manifest`."""

    def __init__(self, home: Home, store: ObjectStore, prefix: str, manifest: bytes) -> None:
        self._directory = (
            home.cache / "answers" / _short_hash(_rows_of_manifest(manifest) + metadata.version("duckdb").encode())
        )
        self._files = self._directory / f"files-{_short_hash(manifest + prefix.encode())}"
        self._store = store
        self._prefix = prefix
        self._reference: ReferenceEngine | None = None
        self._unreadable: PenstockError | None = None
        self._forget_others()

    def close(self) -> None:
        if self._reference is not None:
            self._reference.close()
            self._reference = None

    def expected(self, query: str, text: str) -> OrderedAnswer:
        digest = _short_hash(f"keys {answers.to_duckdb(query, text)}".encode())
        file = self._directory / f"{query}-{digest}.json"
        if file.exists():
            return OrderedAnswer.from_json(json.loads(file.read_text(encoding="utf-8")))
        answer = self._engine().answer(query, text)
        write_json(file, answer.to_json())
        return answer

    def check(self, answer: Answer, text: str) -> Verdict:
        """Return the verdict. The full result is computed only where rows tied at a LIMIT may explain a difference."""
        expected = self.expected(answer.query, text)
        verdict = answers.compare_ordered(answer, expected)
        if verdict.same or expected.limit is None or len(answer.rows) != len(expected.extended.rows):
            return verdict
        return answers.compare_ordered(answer, self._engine().answer(answer.query, text, whole=True))

    def _engine(self) -> ReferenceEngine:
        if self._reference is None:
            for other in self._directory.glob("files-*"):
                if other != self._files:
                    shutil.rmtree(other, ignore_errors=True)
            self._download()
            self._reference = ReferenceEngine(self._files, scratch=self._directory / "scratch")
        return self._reference

    def _download(self) -> None:
        if self._unreadable is not None:
            raise self._unreadable  # instead of another attempt for each query
        try:
            download(self._store, self._prefix, self._files)
        except PenstockError as error:
            self._unreadable = error
            raise

    def _forget_others(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in self._directory.parent.iterdir():
            if other != self._directory:
                shutil.rmtree(other, ignore_errors=True)


def _rows_of_manifest(manifest: bytes) -> bytes:
    """Return the part of a manifest that determines the rows: scale, generator, and the rows of each table."""
    found = json.loads(manifest)
    rows = {table["table"]: table["rows"] for table in found["tables"]}
    return json.dumps([found["scale"], found.get("versions"), rows], sort_keys=True).encode()


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def check_answers(
    key: AnswerKey, lines: Iterable[Mapping[str, Any]], texts: Mapping[str, str], now: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield a sample of kind `answer` for each line of an application's `answers.jsonl`, with its `whose` if any.

    An answer that cannot be checked is `unchecked`, with the reason in its note, and so is a line without `rows`.
    """
    found = list(lines)
    for index, line in enumerate(found, start=1):
        now(f"{line['query']} ({index} of {len(found)})")
        whose = {"whose": line["whose"]} if "whose" in line else {}
        yield {**_check_answer(key, line, texts[line["query"]]), **whose}


def _check_answer(key: AnswerKey, line: Mapping[str, Any], text: str) -> dict[str, Any]:
    import duckdb  # noqa: PLC0415  as above

    if "rows" not in line:
        return _unchecked(line["query"], "the application left no answer")
    answer = Answer.from_json(line)
    try:
        verdict = key.check(answer, text)
    except (duckdb.Error, PenstockError) as error:
        return _unchecked(line["query"], f"DuckDB has no answer: {error}")
    sample = {
        "query": answer.query,
        "verdict": "equal" if verdict.same else "different",
        "rows": verdict.rows,
        "note": verdict.note,
    }
    return sample if verdict.same else {**sample, "lines": format_difference(verdict, answer.columns)}


def _unchecked(query: str, why: str) -> dict[str, Any]:
    return {"query": query, "verdict": "unchecked", "rows": 0, "note": why.splitlines()[0]}
