"""`penstock sql`: SQL statements on a dedicated cluster; results are transported through the lake."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, NoReturn, Optional

import typer

from penstock.cli import foreground, options
from penstock.cli.foreground import Output, display
from penstock.cli.output import FORMATS, Result, write
from penstock.cli.target import Target, catalog_tables, target, usual_instance
from penstock.engine.engines.choice import AUTO, Choice, Tables, choose
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.registry import SPARK, engine_named
from penstock.engine.interactive import sessions
from penstock.engine.interactive.sessions import limit_of
from penstock.errors import InvalidInput, MissingRequirement, NotFound, PenstockError
from penstock.model import Application, ApplicationSpec, ClusterSize, State

if TYPE_CHECKING:
    from penstock.catalog.tables import Table


@dataclass(frozen=True)
class SqlResult:
    """A finished run. `results` are those of the statements that started, in order; a failed one has an `error`."""

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
    engine: QueryEngine = SPARK,
    instance: str | None = None,
) -> ApplicationSpec:
    """The specification of an SQL application, by default in the usual instance.

    `limit` is the maximum number of rows per result.
    """
    found = target.lake(lake).name
    spec = sessions.application(engine, name=name, lake=found, size=size, limit=limit, settings=settings)
    return replace(spec, instance=instance or usual_instance(target))


def stored_statements(target: Target, application: Application) -> str:
    """The statements of an earlier run. Raises `NotFound` if they, or their lake, no longer exist."""
    try:
        return target.exchange(target.lake(application.spec.lake)).stored_statements(application)
    except NotFound as error:
        raise NotFound(
            f"The statements of {application.id} cannot be run again",
            why=": ".join(filter(None, (error.problem, error.why))),
            fix=error.fix,
        ) from error


def run(target: Target, spec: ApplicationSpec, text: str, *, errors: IO[bytes] | None) -> SqlResult:
    """Run statements on a dedicated cluster; the driver's standard error goes to `errors`."""
    found = target.lake(spec.lake)
    exchange = target.exchange(found)
    key = f"{sessions.RESULTS}{secrets.token_hex(8)}.jsonl"
    with exchange.send_statements(text) as source:
        arguments = sessions.arguments(output=f"{found.root}/{key}", limit=sessions.limit_of(spec), source=source)
        submitted = target.submit(replace(spec, arguments=arguments, idempotency_key=None))
        # Progress is for a terminal; a script needs the results, and standard error only after a failure.
        quiet = not sys.stderr.isatty()
        ended = foreground.follow(
            target, submitted, display(quiet=quiet), Output(target.artifacts.read, out=None, err=errors)
        )
    return SqlResult(ended, exchange.take_results(ended, key, text))


def answers(target: Target, spec: ApplicationSpec, text: str, *, problem: str, fix: str) -> Sequence[Result]:
    """Run statements that must all succeed and return their results.

    Raises `PenstockError` with `problem`, Spark's message and `fix` if a statement fails. If the application itself
    fails, explains why and exits with its exit code.
    """
    ran = run(target, spec, text, errors=None)
    if ran.error is not None:
        raise PenstockError(problem, why=ran.error, fix=fix)
    if code := foreground.exit_code(ran.application):
        foreground.report_result(ran.application)
        raise SystemExit(code)
    return ran.results


@options.sized(options.EVERY_SIZE)
def sql(
    text: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[STATEMENTS]", help="One or more statements, separated by semicolons."),
    ] = None,
    file: Annotated[Optional[Path], typer.Option("--file", "-f", help="Read the statements from a file.")] = None,  # noqa: UP045
    *,
    output_format: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    limit: Annotated[int, typer.Option(help="Maximum number of rows per result.", min=1)] = 1000,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="spark; duckdb, sail or trino: one program that reads; or auto.", show_default="the instance's, spark"
        ),
    ] = None,
    instance: options.Instance = None,
    sized: options.Sized,
    conf: Annotated[Optional[list[str]], typer.Option(metavar="KEY=VALUE", help="Spark setting; repeatable.")] = None,  # noqa: UP045
    lake: options.Lake = None,
) -> None:
    """Run SQL statements on a dedicated cluster and print their results.

    Statements run in order. The first failure ends the run, with exit code 1.

    With --engine sail (in Spark's SQL), duckdb or trino (in their own) they run in one program with --driver-cores and
    --driver-memory: DuckDB or Sail answers a question about some gigabytes in a second or two. All read the catalog's
    Parquet and Iceberg tables, and refuse what they would read otherwise than Spark. Sail cuts decimal quotients, and
    Spark rounds. penstock engines list says which are installed. With --engine auto Sail answers questions whose
    functions were compared with Spark's, about tables that it can hold, and Spark all else; standard error says why.
    """
    if output_format not in FORMATS:
        raise InvalidInput(f"There is no format “{output_format}”", fix=f"--format {' or '.join(FORMATS)}")
    given, at = _statements(text, file), target()
    queue = at.instance(instance)
    wanted = engine or queue.engine or SPARK.name

    def spec(chosen: QueryEngine) -> ApplicationSpec:
        size, settings = sized(chosen.usual_size(at.usual_size())), options.pairs(conf, "--conf")
        return application(at, lake, size, limit=limit, settings=settings, engine=chosen, instance=queue.name)

    if wanted != AUTO:
        _run(at, spec(engine_named(wanted)), given, output_format=output_format)
    quick = spec(engine_named("sail"))
    choice = _choice(at, quick, given)
    typer.echo(f"{engine_named(choice.engine).title}, since {choice.why}", err=True)
    ran = _tried(at, quick, given) if choice.engine != SPARK.name else None
    if ran is None:
        _run(at, spec(SPARK), given, output_format=output_format)
    _show(ran, quick, output_format=output_format)


def _choice(at: Target, spec: ApplicationSpec, text: str) -> Choice:
    """Choose Sail, as which the application would run, or Spark."""
    if spec.settings or spec.size.executors:
        return Choice(SPARK.name, "settings and executors are Spark's")
    found = {table.full_name: table for table in catalog_tables(None)}
    names: dict[str, set[str]] = {}
    for table in found.values():
        names.setdefault(table.database.lower(), set()).add(table.name.lower())
    lake = at.lake(spec.lake)

    def size(table: Table) -> int | None:
        return at.bytes_below(lake, table.location) if table.size_bytes is None else table.size_bytes

    known = Tables(names, lambda name: found[name], size)
    return choose(text, known, most_bytes=spec.size.driver.memory_bytes // 2)


def _tried(at: Target, spec: ApplicationSpec, text: str) -> SqlResult | None:
    """The results of an engine that only reads; None, with the reason on standard error, where it had not all."""
    try:
        ran = run(at, spec, text, errors=None)
    except (InvalidInput, MissingRequirement) as refusal:
        problem = refusal.problem
    else:
        if ran.application.state is not State.FAILED:
            return ran
        problem = ran.error or f"{ran.application.id} failed"
    typer.echo(f"Spark instead: {problem.splitlines()[0]}", err=True)
    return None


def run_again(engine: Target, before: Application, *, output_format: str) -> NoReturn:
    """Run an earlier application's statements again and print the results. Raises as `stored_statements` does."""
    _run(engine, before.spec, stored_statements(engine, before), output_format=output_format)


def _run(engine: Target, spec: ApplicationSpec, text: str, *, output_format: str) -> NoReturn:
    _show(run(engine, spec, text, errors=sys.stderr.buffer), spec, output_format=output_format)


def _show(ran: SqlResult, spec: ApplicationSpec, *, output_format: str) -> NoReturn:
    write(ran.results, output_format, sys.stdout, limit=limit_of(spec))
    ended = ran.application
    # The error of a failed statement explains more than the driver's exit code.
    quiet = ended.exit_code == 1 or (not sys.stderr.isatty() and ended.reason is None)
    raise SystemExit(foreground.report_result(ended, quiet=quiet))


def _statements(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise InvalidInput(
            "Give either statements or a file of statements", fix='penstock sql "SHOW TABLES", or -f FILE'
        )
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotFound(f"There is no file {file}", fix=f"ls -l '{file.parent}'") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} cannot be read", why=str(error), fix="give a UTF-8 text file") from error
    if not text or not text.strip():
        raise InvalidInput("No statement was given", fix='penstock sql "SHOW TABLES"')
    return text
