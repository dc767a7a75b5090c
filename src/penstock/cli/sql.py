"""`penstock sql`: statements on a cluster of their own; results come back through the lake."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn, Optional

import typer

from penstock.cli import foreground, options
from penstock.cli.progress import Output, display
from penstock.cli.results import FORMATS, write
from penstock.clusters.plan import BUILT_IN
from penstock.engine import artefacts
from penstock.engine.application import Application, ApplicationSpec
from penstock.engine.engine import Engine
from penstock.errors import InvalidInput, NotFound
from penstock.home import Home, write_atomically
from penstock.lake.base import ObjectStore

_RUNNER = "io.penstock.sql.SqlRunner"
_STATEMENTS = "statements.sql"
"""Among an application's artefacts."""


def sql(
    statements: Annotated[Optional[str], typer.Argument(help="One or more statements, with ; between.")] = None,  # noqa: UP045
    file: Annotated[Optional[Path], typer.Option("--file", "-f", help="Read them from a file.")] = None,  # noqa: UP045
    *,
    output_format: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    limit: Annotated[int, typer.Option(help="At most so many rows of each result.", min=1)] = 1000,
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
    conf: Annotated[Optional[list[str]], typer.Option(metavar="KEY=VALUE", help="A Spark setting.")] = None,  # noqa: UP045
    lake: options.Lake = None,
) -> None:
    """Run SQL statements on a cluster of their own and print what they answer.

    Statements run in order and the first that fails ends the run, with exit code 1.
    """
    if output_format not in FORMATS:
        raise InvalidInput(f"There is no format “{output_format}”", fix=f"--format {' or '.join(FORMATS)}")
    text = _statements(statements, file)
    engine = Engine(Home.default())
    spec = ApplicationSpec(
        application=BUILT_IN,
        main_class=_RUNNER,
        name="sql",
        profile="sql",
        lake=engine.lake(lake).name,
        size=options.cluster_size(
            driver_cores=None,
            driver_memory=driver_memory,
            executors=executors,
            executor_cores=executor_cores,
            executor_memory=executor_memory,
        ),
        settings=options.pairs(conf, "--conf"),
        arguments=("--limit", str(limit)),
    )
    _run(engine, spec, text, output_format=output_format)


def is_statements(spec: ApplicationSpec) -> bool:
    """Whether it was submitted by `penstock sql`."""
    return spec.application == BUILT_IN and spec.main_class == _RUNNER


def run_again(engine: Engine, before: Application, *, output_format: str) -> NoReturn:
    """Run the statements of an earlier `penstock sql` and print what they answer now.

    Raises `NotFound` where they were not kept: the command that ran them was killed, or could not reach the lake.
    """
    try:
        text = engine.artefact(before.id, _STATEMENTS).decode()
    except NotFound:
        raise NotFound(
            f"The statements of {before.id} were not kept",
            why="the command that ran them ended before they were brought to the lake",
            fix="give them again: penstock sql, with -f FILE where they are many",
        ) from None
    _run(engine, before.spec, text, output_format=output_format)


def _run(engine: Engine, spec: ApplicationSpec, text: str, *, output_format: str) -> NoReturn:
    """On a cluster of its own; `spec` is complete but for where statements and results are."""
    found = engine.lake(spec.lake)
    key = f"penstock/results/{secrets.token_hex(8)}.jsonl"
    limit = spec.arguments[spec.arguments.index("--limit") + 1]
    with _private_file(engine.home, text) as source:
        arguments = ("--output", f"{found.root}/{key}", "--limit", limit, "--statements-file", str(source))
        application = engine.submit(replace(spec, arguments=arguments, idempotency_key=None))
        # A terminal is shown what happens; a script gets the answer, and standard error only where it fails.
        quiet = not sys.stderr.isatty()
        ended = foreground.drive(
            engine, application, display(quiet=quiet), Output(engine.read, out=None, err=sys.stderr.buffer)
        )
    store = engine.store(found.name)
    # To be run again: the private file is gone, and an application's arguments are no place for them.
    store.put(artefacts.prefix(application.id) + _STATEMENTS, text.encode())
    write(_take(store, key), output_format, sys.stdout, limit=int(limit))
    # A statement that fails has already said so, in better words than the driver's exit code.
    quiet = ended.exit_code == 1 or (quiet and ended.reason is None)
    raise SystemExit(foreground.conclude(ended, quiet=quiet))


def _statements(statements: str | None, file: Path | None) -> str:
    if (statements is None) == (file is None):
        raise InvalidInput(
            "Give the statements or a file with them, one of the two", fix='penstock sql "SHOW TABLES", or -f FILE'
        )
    if file is None:
        text = statements or ""
    else:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotFound(f"There is no file {file}", fix=f"ls -l '{file.parent}'") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} cannot be read", why=str(error), fix="give a text file in UTF-8") from error
    if not text.strip():
        raise InvalidInput("There is no statement", fix='penstock sql "SHOW TABLES"')
    return text


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


def _take(store: ObjectStore, key: str) -> list[Mapping[str, Any]]:
    """The results, which are gone from the lake then; none where the driver did not get as far."""
    try:
        lines = store.get(key).decode().splitlines()
    except NotFound:
        return []
    store.delete(key)
    return [json.loads(line) for line in lines]
