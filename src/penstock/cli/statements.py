"""SQL statements as an application: run on a cluster of their own, with what they answer brought back by the lake."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO

from penstock.cli import foreground
from penstock.cli.progress import Output, display
from penstock.cli.results import Result
from penstock.cli.target import Target
from penstock.engine.interactive import sessions
from penstock.errors import NotFound, PenstockError
from penstock.model import Application, ApplicationSpec, ClusterSize


@dataclass(frozen=True)
class Ran:
    """`results` are those of the statements that were begun, in order; the last has an `error` where it failed."""

    application: Application
    results: Sequence[Result]

    @property
    def error(self) -> str | None:
        return next((str(result["error"]) for result in self.results if "error" in result), None)


def application(
    target: Target,
    lake: str | None,
    size: ClusterSize,
    *,
    name: str = "sql",
    limit: int = 100_000,
    settings: Mapping[str, str] | None = None,
) -> ApplicationSpec:
    """What `run` runs; `limit` is the most rows of each result."""
    return sessions.application(name=name, lake=target.lake(lake).name, size=size, limit=limit, settings=settings)


def kept(target: Target, application: Application) -> str:
    """The statements of an earlier run.

    Raises `NotFound` where they were not kept: the command that ran them was killed, or could not reach the lake.
    """
    try:
        return target.exchange(target.lake(application.spec.lake)).kept(application)
    except NotFound:
        raise NotFound(
            f"The statements of {application.id} were not kept",
            why="the command that ran them ended before they were brought to the lake",
            fix="give them again: penstock sql, with -f FILE where they are many",
        ) from None


def run(target: Target, spec: ApplicationSpec, text: str, *, errors: IO[bytes] | None) -> Ran:
    """On a cluster of their own; `errors` is where the driver's own standard error goes."""
    found = target.lake(spec.lake)
    exchange = target.exchange(found)
    key = f"{sessions.RESULTS}{secrets.token_hex(8)}.jsonl"
    with exchange.given(text) as source:
        arguments = sessions.arguments(output=f"{found.root}/{key}", limit=sessions.limit_of(spec), source=source)
        submitted = target.submit(replace(spec, arguments=arguments, idempotency_key=None))
        # A terminal is shown what happens; a script gets the answer, and standard error only where it fails.
        quiet = not sys.stderr.isatty()
        ended = foreground.drive(target, submitted, display(quiet=quiet), Output(target.read, out=None, err=errors))
    return Ran(ended, exchange.taken(ended, key, text))


def answers(target: Target, spec: ApplicationSpec, text: str, *, problem: str, fix: str) -> Sequence[Result]:
    """The results of statements that all succeed.

    Raises `PenstockError` with `problem` and `fix` around what Spark says of the one that does not. Where the
    application itself does not end well, says why and ends the command with its exit code.
    """
    ran = run(target, spec, text, errors=None)
    if ran.error is not None:
        raise PenstockError(problem, why=ran.error, fix=fix)
    if code := foreground.exit_code(ran.application):
        foreground.conclude(ran.application)
        raise SystemExit(code)
    return ran.results
