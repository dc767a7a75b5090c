"""The common part of drivers that run SQL statements in one process: command line, progress, results in the lake.

The results have the form of `io.penstock.sql.SqlRunner`, and so have the exit codes: 0, 1 for a statement that failed,
after which none runs without `--keep-going`, and 2 for a wrong command line. They wait in a file for the end, and are
stored every few seconds before: a process that is killed loses those of its last seconds alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import TZPATH, available_timezones

from penstock.engine.engines.access import Catalog, LakeAccess
from penstock.errors import MissingRequirement, PenstockError
from penstock.home import write_json
from penstock.lake.model import Lake
from penstock.model import ProcessSize

_log = logging.getLogger("penstock.statements")

_STORE_SECONDS = 5.0
"""The least time between two stores of the results."""
_STORE_PAUSES = 20
"""The same as a multiple of the time that the first of them took: storing takes a twentieth of the time at most."""

S = TypeVar("S")


@dataclass(frozen=True)
class Given:
    """The input of a driver: its size, its access, and the statements' text."""

    size: ProcessSize
    lake: LakeAccess
    catalog: Catalog
    script: str
    output: str
    """The address of the results."""
    limit: int | None
    """The largest number of rows per result, None for all."""
    keep_going: bool
    progress: Progress
    artifacts: Path
    """The directory of logs, which are kept."""

    def answers(self, texts: Sequence[str], execute: Callable[[str], dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Execute statements as `in_turn` does."""
        return in_turn(texts, str, execute, keep_going=self.keep_going, progress=self.progress)


def main(arguments: list[str], run: Callable[[Given], Iterable[dict[str, Any]]]) -> int:
    """Run a driver, whose `run` gives the statements' results, and return its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("access", type=Path)
    parser.add_argument("cluster", type=Path)
    parser.add_argument("artifacts", type=Path)
    parser.add_argument("--output", required=True)
    parser.add_argument("--statements-file", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--keep-going", action="store_true")
    given = parser.parse_args(arguments)
    log_below(given.artifacts)
    try:
        return _run(given, run)
    except PenstockError as error:
        print(error, file=sys.stderr)
        return 1


def _run(given: argparse.Namespace, run: Callable[[Given], Iterable[dict[str, Any]]]) -> int:
    started = time.monotonic()
    size, lake, metastore = opened(json.loads(given.access.read_text(encoding="utf-8")))
    problem = None
    with Results(lake, given.output, Path.cwd() / "results.jsonl") as results:
        for result in run(
            Given(
                size,
                lake,
                metastore,
                lake.read_text(given.statements_file),
                given.output,
                given.limit,
                given.keep_going,
                Progress(given.cluster),
                given.artifacts,
            )
        ):
            results.add(result)
            problem = problem or result.get("error")
    summarize(given.cluster, started)
    if problem is not None:
        print(problem, file=sys.stderr)
    return 0 if problem is None else 1


class Results:
    """The results of the statements that have ended: lines of a file, which are stored in the lake at an address.

    Stores all at the end of a `with` block. After an exception those that there are, if any, are stored.
    """

    def __init__(self, lake: LakeAccess, address: str, file: Path) -> None:
        self._lake = lake
        self._key = lake.lake.key(address)
        self._path = file
        self._file = file.open("w", encoding="utf-8")
        self._stored = time.monotonic()
        self._pause = _STORE_SECONDS

    def __enter__(self) -> Results:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._file:
            if error is None:
                self._store()
            elif self._file.tell():
                self._store_early()

    def add(self, result: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
        if time.monotonic() - self._stored >= self._pause:
            self._store_early()

    def _store_early(self) -> None:
        started = time.monotonic()
        try:
            self._store()
        except PenstockError as error:
            # The store at the end is the one that counts.
            _log.warning("the results so far were not stored: %s", error)
        self._stored = time.monotonic()
        self._pause = max(_STORE_SECONDS, _STORE_PAUSES * (self._stored - started))

    def _store(self) -> None:
        self._file.flush()
        self._lake.store.put(self._key, self._path)


def log_below(artifacts: Path) -> None:
    """Write this process's log to `driver.log` in the directory of what an application leaves."""
    form = "%(asctime)s %(message)s"
    logging.basicConfig(filename=artifacts / "driver.log", level=logging.INFO, format=form, encoding="utf-8")


def opened(access: Mapping[str, Any]) -> tuple[ProcessSize, LakeAccess, Catalog]:
    """The size, the lake and the catalog of a driver, by the content of its file (`one_process`)."""
    lake = LakeAccess(Lake.from_json(access["lake"]))
    return ProcessSize(access["cores"], access["memory_bytes"]), lake, Catalog(access["metastore"])


def summarize(cluster: Path, started: float) -> None:
    """Write the summary of a driver that started at this moment of the monotonic clock."""
    write_json(cluster / "summary.json", {"elapsed_ms": round((time.monotonic() - started) * 1000)})


class Progress:
    """The driver's `progress.json`: the statements are the tasks of one stage."""

    def __init__(self, cluster: Path) -> None:
        self._file = cluster / "progress.json"

    def show(self, done: int, statements: int) -> None:
        stage = {"id": 0, "name": "statements", "tasks": statements, "done": done, "running": 1, "failed": 0}
        others = ("stages_done", "tasks_failed", "rows_read", "bytes_read", "bytes_written", "shuffle_bytes")
        write_json(
            self._file,
            {
                "description": f"statement {done + 1} of {statements}" if done < statements else "",
                "stages": [stage] if done < statements else [],
                "tasks_done": done,
                **dict.fromkeys(others, 0),
                "updated_ms": round(time.time() * 1000),
            },
        )


def in_turn(
    statements: Sequence[S],
    text: Callable[[S], str],
    execute: Callable[[S], dict[str, Any]],
    *,
    keep_going: bool,
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    """Execute statements until one fails or, with `keep_going`, all of them.

    A result of `execute` has `columns`, `rows` and `truncated`, or an `error`; a `PenstockError` becomes one.
    """
    for done, statement in enumerate(statements):
        progress.show(done, len(statements))
        started_ms, started = round(time.time() * 1000), time.monotonic()
        try:
            result = execute(statement)
        except PenstockError as error:
            result = {"error": str(error)}
        taken = (time.monotonic() - started) * 1000
        _log.info("statement %d of %d: %.0f ms", done + 1, len(statements), taken)
        yield {"statement": text(statement), **result, "started_ms": started_ms, "elapsed_ms": taken}
        if "error" in result and not keep_going:
            return
    progress.show(len(statements), len(statements))


def local_zone(localtime: Path = Path("/etc/localtime")) -> str:
    """The name of the machine's time zone, which Spark's session has too: as Java, by the file's contents if need be.

    Raises `MissingRequirement` for a zone without a name.
    """
    if named := os.environ.get("TZ", "").removeprefix(":"):
        return named
    file = localtime.resolve()
    _, found, name = str(file).partition("/zoneinfo/")
    if found:
        return name
    if not file.exists():
        return "UTC"
    content = file.read_bytes()
    names = [name for name in sorted(available_timezones()) if _has_content(name, content)]
    if not names:
        raise MissingRequirement(
            "The machine's time zone has no name",
            why=f"{localtime} is none of the zones in {', '.join(TZPATH)}",
            fix="set the variable TZ, for example TZ=Europe/Berlin, or use --engine spark",
        )
    return names[0]


def _has_content(zone: str, content: bytes) -> bool:
    files = [Path(root, zone) for root in TZPATH]
    return any(
        file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content for file in files
    )
