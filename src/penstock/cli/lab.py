"""`penstock lab`: measure the field's workloads, look back at what was measured, and compare."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from penstock.errors import InvalidInput, ValidationFailed
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.engine.application import ClusterSize
    from penstock.lab.bench import Bench
    from penstock.lab.records import Run
    from penstock.lab.report.document import Table as Rows
    from penstock.lab.suites import tpcds

app = typer.Typer(
    help="Measure workloads, check their answers, report and compare.", no_args_is_help=True, add_completion=False
)

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
Scale = Annotated[float, typer.Option(help="TPC-DS scale factor: about this many GB of raw data.", min=0.001)]
Queries = Annotated[Optional[str], typer.Option(help="Only these, e.g. q3,q7.")]  # noqa: UP045
QuerySet = Annotated[str, typer.Option("--set", help="all (104), io54 (the I/O-intensive ones), or nine.")]
Iterations = Annotated[int, typer.Option(help="How often each query runs.", min=1)]
Warmup = Annotated[int, typer.Option(help="Rounds before the counted ones.", min=0)]
Validate = Annotated[bool, typer.Option(help="Check every answer against DuckDB.")]
ObjectSize = Annotated[str, typer.Option(help="Size of the objects of the large tables, e.g. 32m.")]
Reload = Annotated[bool, typer.Option("--reload", help="Generate the data again even where the lake has it.")]
LakeName = Annotated[Optional[str], typer.Option("--lake", help="Which lake; the default one if not given.")]  # noqa: UP045
Profile = Annotated[str, typer.Option(help="Workload profile (penstock profile list).")]
Settings = Annotated[Optional[list[str]], typer.Option("--conf", help="KEY=VALUE, a Spark setting.")]  # noqa: UP045
DriverMemory = Annotated[Optional[str], typer.Option(help="Heap of the driver, e.g. 2g.")]  # noqa: UP045
Executors = Annotated[Optional[int], typer.Option(help="Number of executors.", min=1)]  # noqa: UP045
ExecutorCores = Annotated[Optional[int], typer.Option(help="Cores of each executor.", min=1)]  # noqa: UP045
ExecutorMemory = Annotated[Optional[str], typer.Option(help="Heap of each executor, e.g. 4g.")]  # noqa: UP045
Repetitions = Annotated[int, typer.Option(help="How often each arm is measured.", min=1)]
Output = Annotated[Optional[Path], typer.Option("--output", "-o", help="Where to write; else standard output.")]  # noqa: UP045


@app.command("tpcds")
def tpcds_command(
    *,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: QuerySet = "all",
    iterations: Iterations = 1,
    warmup: Warmup = 0,
    validate: Validate = True,
    object_size: ObjectSize = "32m",
    reload: Reload = False,
    lake: LakeName = None,
    profile: Profile = "tpcds",
    conf: Settings = None,
    driver_memory: DriverMemory = None,
    executors: Executors = None,
    executor_cores: ExecutorCores = None,
    executor_memory: ExecutorMemory = None,
) -> None:
    """Run TPC-DS on a dedicated cluster. Exit code 9 when an answer differs, 1 when a query failed."""
    from penstock.lab.progress import Terminal
    from penstock.lab.suites import tpcds

    options = _options(scale, queries, query_set, object_size)
    options = replace(
        options,
        size=_size(driver_memory, executors, executor_cores, executor_memory),
        iterations=iterations,
        warmup=warmup,
        validate=validate,
        reload=reload,
        profile=profile,
        settings=_settings(conf),
    )
    console = Console()
    with Terminal(console).showing() as listener:
        run = tpcds.measure(_bench(lake), options, listener)
    show_queries(console, run)
    console.print(f"Report: penstock lab report {run.description.id} -o report.html", highlight=False)
    end_as(run)


@app.command("startup")
def startup_command(
    *,
    repetitions: Repetitions = 10,
    lake: LakeName = None,
    profile: Profile = "default",
    driver_memory: DriverMemory = None,
    executors: Executors = None,
    executor_cores: ExecutorCores = None,
    executor_memory: ExecutorMemory = None,
) -> None:
    """Measure from submission to the first task: Penstock against plain spark-submit, in turns."""
    from penstock.lab.progress import Terminal
    from penstock.lab.suites import startup

    console = Console()
    size = _size(driver_memory, executors, executor_cores, executor_memory)
    with Terminal(console).showing() as listener:
        runs = startup.measure(_bench(lake), size=size, repetitions=repetitions, profile=profile, listener=listener)
    _tell(console, runs)
    if any(run.outcome == "failed" for run in runs):
        raise typer.Exit(1)


@app.command("against-plain")
def against_plain_command(
    *,
    scale: Scale = 1,
    repetitions: Repetitions = 3,
    queries: Queries = None,
    query_set: QuerySet = "all",
    validate: Validate = True,
    object_size: ObjectSize = "32m",
    lake: LakeName = None,
    driver_memory: DriverMemory = None,
    executors: Executors = None,
    executor_cores: ExecutorCores = None,
    executor_memory: ExecutorMemory = None,
) -> None:
    """Run TPC-DS through Penstock and through plain Spark with S3A's defaults, in turns, on equal terms."""
    from penstock.lab.progress import Terminal
    from penstock.lab.suites import against_plain

    options = replace(
        _options(scale, queries, query_set, object_size),
        size=_size(driver_memory, executors, executor_cores, executor_memory),
        validate=validate,
    )
    console = Console()
    with Terminal(console).showing() as listener:
        plain, ours = against_plain.measure(_bench(lake), options, repetitions=repetitions, listener=listener)
    _tell(console, [plain, ours])
    for run in (plain, ours):
        end_as(run)


@app.command("runs")
def runs_command() -> None:
    """List the runs recorded on this machine, oldest first."""
    from penstock.lab import records

    home = Home.default()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("run", "workload", "arm", "scale", "outcome"):
        table.add_column(column, no_wrap=True)
    for run_id in records.runs(home):
        run = records.load(home.root / "lab" / run_id)
        scale = f"{run.description.scale:g}" if run.description.scale else ""
        table.add_row(run_id, run.description.workload, run.description.arm, scale, run.outcome)
    Console().print(table)


@app.command("report")
def report_command(
    runs: Annotated[list[str], typer.Argument(help="Runs: ids, unique parts of them, directories, or `last`.")],
    output: Output = None,
    form: Annotated[Optional[str], typer.Option("--format", help="html, md or json.")] = None,  # noqa: UP045
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Make the report of a run, or of runs to be compared, from their raw samples alone."""
    from penstock.lab.report import make

    suffix = output.suffix.lstrip(".") if output else ""
    chosen = form or (suffix if suffix in make.FORMS else "html")
    if chosen not in make.FORMS:
        raise InvalidInput(f"There is no format {chosen}", fix=f"choose one of {', '.join(make.FORMS)}")
    text = make.FORMS[chosen](_find(runs))
    if output is None and browse:
        output = Path("penstock-report.html")
    if output is None:
        sys.stdout.write(text)
        return
    write_report(output, text)
    typer.echo(f"Written to {output}")
    if browse:
        webbrowser.open(output.absolute().as_uri())


@app.command("compare")
def compare_command(
    baseline: Annotated[str, typer.Argument(help="A run: its id, a unique part of it, or a directory.")],
    candidate: Annotated[str, typer.Argument(help="The run to set against it.")],
    output: Output = None,
) -> None:
    """Compare two runs of one workload: medians, ratio, its interval, and what is only noise."""
    from penstock.lab.report import make

    runs = _find([baseline, candidate])
    if output is not None:
        form = output.suffix.lstrip(".")
        write_report(output, make.FORMS.get(form, make.as_html)(runs))
        typer.echo(f"Written to {output}")
    _tell(Console(), runs)


def write_report(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {path}", why=str(error.strerror), fix="choose another file with --output"
        ) from error


def show_queries(console: Console, run: Run) -> None:
    """The table at the end of a run: a line per query, then the total."""
    from penstock.lab.report import make
    from penstock.lab.report.document import Table as Rows

    document = make.document([run])
    console.print()
    for section in document.sections:
        if section.title in ("Every query", "Answers that differ"):
            for part in section.parts:
                if isinstance(part, Rows):
                    console.print(_table(part))
                    console.print()
    colour = "green" if document.good else "red"
    console.print(f"[bold {colour}]{document.headline}[/]", highlight=False)


def end_as(run: Run) -> None:
    """Raise what the run's outcome calls for."""
    if run.outcome == "different_answers":
        wrong = [str(sample["query"]) for sample in run.of_kind("answer") if sample["verdict"] != "equal"]
        raise ValidationFailed(
            f"{len(wrong)} of {len(run.of_kind('answer'))} answers differ from the independent engine's",
            why=f"the rows of {', '.join(wrong)} are shown above",
            fix=f"penstock lab report {run.description.id} keeps them",
        )
    if run.outcome != "ok":
        raise typer.Exit(1)


def _tell(console: Console, runs: list[Run]) -> None:
    from penstock.lab.report import make
    from penstock.lab.report.document import Table as Rows

    document = make.document(runs)
    tables = [part for section in document.sections[:-1] for part in section.parts if isinstance(part, Rows)]
    for table in tables:
        console.print(_table(table))
        console.print()
    console.print(f"[bold]{document.headline}[/]", highlight=False)
    names = " ".join(run.description.id for run in runs)
    console.print(f"Report: penstock lab report {names} -o report.html", highlight=False, soft_wrap=True)


def _table(part: Rows) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(part.columns):
        table.add_column(column, justify="right" if index in part.numeric else "left", no_wrap=index in part.numeric)
    for row in part.rows:
        table.add_row(*(f"[green]{c}[/]" if c == "✓" else f"[red]{c}[/]" if c.startswith("✗") else c for c in row))
    return table


def _bench(lake: str | None) -> Bench:
    from penstock.lab.bench import Bench

    return Bench.open(Home.default(), lake)


def _find(names: list[str]) -> list[Run]:
    """From this machine, else from the default lake where there is one."""
    from penstock.lab import records
    from penstock.lake.objects import open_store
    from penstock.lake.registry import Lakes

    home = Home.default()
    lakes = Lakes(home)
    store = open_store(home, lakes.get()) if lakes.default() else None
    return [records.find(home, name, store) for name in names]


def default_options(scale: float) -> tpcds.Options:
    return _options(scale, None, "all", "32m")


def _options(scale: float, queries: str | None, query_set: str, object_size: str) -> tpcds.Options:
    from penstock.lab.suites import queries as known
    from penstock.lab.suites import tpcds

    data = tpcds.DataSet(scale, _bytes(object_size, "--object-size"))
    return tpcds.Options(data=data, size=_size(), queries=known.select(queries, query_set))


def _size(
    driver_memory: str | None = None,
    executors: int | None = None,
    executor_cores: int | None = None,
    executor_memory: str | None = None,
) -> ClusterSize:
    """What was asked for; the rest as any application gets it on this machine."""
    from penstock.clusters import machine
    from penstock.engine.application import ClusterSize, ProcessSize

    default = machine.default_size(machine.capacity())
    driver, executor = default.driver.memory_bytes, default.executor.memory_bytes
    return ClusterSize(
        driver=ProcessSize(default.driver.cores, _bytes(driver_memory, "--driver-memory") if driver_memory else driver),
        executor=ProcessSize(
            executor_cores or default.executor.cores,
            _bytes(executor_memory, "--executor-memory") if executor_memory else executor,
        ),
        executors=executors or default.executors,
    )


def _bytes(text: str, option: str) -> int:
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in units or not number.isdigit() or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a size", why="it is a number with k, m, g or t", fix=f"{option} 32m"
        )
    return int(number) << units[unit]


def _settings(conf: list[str] | None) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in conf or []]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise InvalidInput(f"--conf {key} has no value", fix="--conf KEY=VALUE")
    return {key.strip(): value for key, _, value in pairs}
