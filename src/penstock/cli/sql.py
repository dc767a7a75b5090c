"""`penstock sql`: statements on a cluster of their own; results come back through the lake."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from penstock.cli import foreground, options
from penstock.cli.progress import Output, display
from penstock.cli.results import FORMATS, write
from penstock.clusters.plan import BUILT_IN
from penstock.engine.application import ApplicationSpec
from penstock.engine.engine import Engine
from penstock.errors import InvalidInput, NotFound
from penstock.home import Home, write_atomically

_RUNNER = "io.penstock.sql.SqlRunner"


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
    home = Home.default()
    engine = Engine(home)
    key = f"penstock/results/{secrets.token_hex(8)}.jsonl"
    found = engine.lake(lake)
    with _private_file(home, text) as source:
        spec = ApplicationSpec(
            application=BUILT_IN,
            main_class=_RUNNER,
            name="sql",
            profile="sql",
            lake=found.name,
            size=options.cluster_size(
                driver_cores=None,
                driver_memory=driver_memory,
                executors=executors,
                executor_cores=executor_cores,
                executor_memory=executor_memory,
            ),
            settings=options.pairs(conf, "--conf"),
            arguments=("--output", f"{found.root}/{key}", "--limit", str(limit), "--statements-file", str(source)),
        )
        application = engine.submit(spec)
        # A terminal is shown what happens; a script gets the answer, and standard error only where it fails.
        quiet = not sys.stderr.isatty()
        ended = foreground.drive(
            engine, application, display(quiet=quiet), Output(engine.read, out=None, err=sys.stderr.buffer)
        )
    write(_take(engine, found.name, key), output_format, sys.stdout, limit=limit)
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


def _take(engine: Engine, lake: str, key: str) -> list[Mapping[str, Any]]:
    """The results, which are gone from the lake then; none where the driver did not get as far."""
    store = engine.store(lake)
    try:
        lines = store.get(key).decode().splitlines()
    except NotFound:
        return []
    store.delete(key)
    return [json.loads(line) for line in lines]
