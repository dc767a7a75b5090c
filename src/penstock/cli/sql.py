"""`penstock sql`: statements on a cluster of their own; results come back through the lake."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn, Optional

import typer

from penstock.cli import foreground, options, statements
from penstock.cli.results import FORMATS, write
from penstock.cli.target import Target, target
from penstock.engine.interactive.sessions import limit_of
from penstock.errors import InvalidInput, NotFound
from penstock.model import Application, ApplicationSpec


def sql(
    text: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[STATEMENTS]", help="One or more statements, with ; between."),
    ] = None,
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
    given = _statements(text, file)
    engine = target()
    size = options.cluster_size(
        engine.usual_size(),
        driver_cores=None,
        driver_memory=driver_memory,
        executors=executors,
        executor_cores=executor_cores,
        executor_memory=executor_memory,
    )
    spec = statements.application(engine, lake, size, limit=limit, settings=options.pairs(conf, "--conf"))
    _run(engine, spec, given, output_format=output_format)


def run_again(engine: Target, before: Application, *, output_format: str) -> NoReturn:
    """Run the statements of an earlier application and print what they answer now. Raises as `statements.kept`."""
    _run(engine, before.spec, statements.kept(engine, before), output_format=output_format)


def _run(engine: Target, spec: ApplicationSpec, text: str, *, output_format: str) -> NoReturn:
    ran = statements.run(engine, spec, text, errors=sys.stderr.buffer)
    write(ran.results, output_format, sys.stdout, limit=limit_of(spec))
    ended = ran.application
    # A statement that fails has already said so, in better words than the driver's exit code.
    quiet = ended.exit_code == 1 or (not sys.stderr.isatty() and ended.reason is None)
    raise SystemExit(foreground.conclude(ended, quiet=quiet))


def _statements(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise InvalidInput(
            "Give the statements or a file with them, one of the two", fix='penstock sql "SHOW TABLES", or -f FILE'
        )
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotFound(f"There is no file {file}", fix=f"ls -l '{file.parent}'") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} cannot be read", why=str(error), fix="give a text file in UTF-8") from error
    if not text or not text.strip():
        raise InvalidInput("There is no statement", fix='penstock sql "SHOW TABLES"')
    return text
