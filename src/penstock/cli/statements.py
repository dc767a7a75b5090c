"""SQL statements as an application: run on a cluster of their own, with what they answer brought back by the lake."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from penstock.cli import foreground
from penstock.cli.progress import Output, display
from penstock.cli.results import Result
from penstock.clusters.plan import BUILT_IN
from penstock.engine import artefacts
from penstock.engine.application import Application, ApplicationSpec, ClusterSize
from penstock.engine.engine import Engine
from penstock.errors import NotFound, PenstockError
from penstock.home import Home, write_atomically
from penstock.lake.base import ObjectStore

_RUNNER = "io.penstock.sql.SqlRunner"
_STATEMENTS = "statements.sql"
"""Among an application's artefacts."""


@dataclass(frozen=True)
class Ran:
    """`results` are those of the statements that were begun, in order; the last has an `error` where it failed."""

    application: Application
    results: Sequence[Result]

    @property
    def error(self) -> str | None:
        return next((str(result["error"]) for result in self.results if "error" in result), None)


def application(
    engine: Engine,
    lake: str | None,
    size: ClusterSize,
    *,
    name: str = "sql",
    limit: int = 100_000,
    settings: Mapping[str, str] | None = None,
) -> ApplicationSpec:
    """What `run` runs; `limit` is the most rows of each result."""
    return ApplicationSpec(
        application=BUILT_IN,
        main_class=_RUNNER,
        name=name,
        profile="sql",
        lake=engine.lake(lake).name,
        size=size,
        settings=settings or {},
        arguments=("--limit", str(limit)),
    )


def limit_of(spec: ApplicationSpec) -> int:
    return int(spec.arguments[spec.arguments.index("--limit") + 1])


def is_statements(spec: ApplicationSpec) -> bool:
    """Whether it was made by `application`."""
    return spec.application == BUILT_IN and spec.main_class == _RUNNER


def kept(engine: Engine, application: Application) -> str:
    """The statements of an earlier run.

    Raises `NotFound` where they were not kept: the command that ran them was killed, or could not reach the lake.
    """
    try:
        return engine.artefact(application.id, _STATEMENTS).decode()
    except NotFound:
        raise NotFound(
            f"The statements of {application.id} were not kept",
            why="the command that ran them ended before they were brought to the lake",
            fix="give them again: penstock sql, with -f FILE where they are many",
        ) from None


def run(engine: Engine, spec: ApplicationSpec, text: str, *, errors: IO[bytes] | None) -> Ran:
    """On a cluster of their own; `errors` is where the driver's own standard error goes."""
    found = engine.lake(spec.lake)
    key = f"penstock/results/{secrets.token_hex(8)}.jsonl"
    with _private_file(engine.home, text) as source:
        arguments = (
            "--output",
            f"{found.root}/{key}",
            "--limit",
            str(limit_of(spec)),
            "--statements-file",
            str(source),
        )
        submitted = engine.submit(replace(spec, arguments=arguments, idempotency_key=None))
        # A terminal is shown what happens; a script gets the answer, and standard error only where it fails.
        quiet = not sys.stderr.isatty()
        ended = foreground.drive(engine, submitted, display(quiet=quiet), Output(engine.read, out=None, err=errors))
    store = engine.store(found.name)
    # To be run again: the private file is gone, and an application's arguments are no place for them.
    store.put(artefacts.prefix(ended.id) + _STATEMENTS, text.encode())
    return Ran(ended, _take(store, key))


def answers(engine: Engine, spec: ApplicationSpec, text: str, *, problem: str, fix: str) -> Sequence[Result]:
    """The results of statements that all succeed.

    Raises `PenstockError` with `problem` and `fix` around what Spark says of the one that does not. Where the
    application itself does not end well, says why and ends the command with its exit code.
    """
    ran = run(engine, spec, text, errors=None)
    if ran.error is not None:
        raise PenstockError(problem, why=ran.error, fix=fix)
    if code := foreground.exit_code(ran.application):
        foreground.conclude(ran.application)
        raise SystemExit(code)
    return ran.results


@contextlib.contextmanager
def _private_file(home: Home, text: str) -> Iterator[Path]:
    """Statements may hold what no list of processes should show."""
    home.create()
    path = home.cache / f"statements-{secrets.token_hex(8)}.sql"
    write_atomically(path, text)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _take(store: ObjectStore, key: str) -> list[Result]:
    """The results, which are gone from the lake then; none where the driver did not get as far."""
    try:
        lines = store.get(key).decode().splitlines()
    except NotFound:
        return []
    store.delete(key)
    return [json.loads(line) for line in lines]
