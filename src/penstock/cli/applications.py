"""`penstock run|apps|show|logs|stop|rerun`: run applications on dedicated clusters, inspect and stop them."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from penstock.cli import foreground, options
from penstock.cli.foreground import Output, display
from penstock.cli.output import (
    STYLES,
    closing_line,
    count,
    duration,
    lake_line,
    moment,
    plain_console,
    size,
    skipped_line,
    took,
)
from penstock.cli.sql import run_again
from penstock.cli.target import Target, target, usual_instance
from penstock.engine.engines.registry import engine_named, is_statements
from penstock.errors import InvalidInput
from penstock.model import SPARK_ENGINE, Application, ApplicationSpec, State
from penstock.summary import IoMetrics, SkippingMetrics

Several = Optional[list[str]]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


@options.sized(options.EVERY_SIZE)
def run(
    application: Annotated[
        str, typer.Argument(metavar="APP", help="Python file or jar, on this machine or in the lake.")
    ],
    arguments: Annotated[Several, typer.Argument(metavar="[ARGS]...", help="Arguments for the application.")] = None,
    *,
    sized: options.Sized,
    engine: Annotated[
        str, typer.Option(help="spark; or sail: a Python file in one process that reads, without a JVM.")
    ] = SPARK_ENGINE,
    main_class: Annotated[Optional[str], typer.Option("--class", help="Main class of a jar.")] = None,  # noqa: UP045
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Name of the application.", show_default="the file's name"),
    ] = None,
    conf: Annotated[Several, typer.Option(metavar="KEY=VALUE", help="Spark setting; repeatable.")] = None,
    env: Annotated[
        Several, typer.Option(metavar="NAME=VALUE", help="Environment variable for driver and executors.")
    ] = None,
    jars: Annotated[Several, typer.Option(metavar="PATH", help="Additional jars for the class path.")] = None,
    py_files: Annotated[Several, typer.Option(metavar="PATH", help="Python modules (.py, .zip, .egg, .whl).")] = None,
    files: Annotated[Several, typer.Option(metavar="PATH", help="Files that SparkFiles.get finds.")] = None,
    tag: Annotated[Several, typer.Option(help="Label to filter lists by; repeatable.")] = None,
    time_limit: Annotated[Optional[str], typer.Option(help="Stop the application after this time, e.g. 2h.")] = None,  # noqa: UP045
    profile: Annotated[str, typer.Option(help="Workload profile (penstock profile list).")] = "default",
    lake: options.Lake = None,
    instance: options.Instance = None,
    priority: Annotated[int, typer.Option(help="Priority in the instance, -100 to 100; higher starts first.")] = 0,
    retries: Annotated[int, typer.Option(help="Retries after failures of the cluster, not of the application.")] = 0,
    webhook: Annotated[
        Several, typer.Option(metavar="URL", help="URL that the service calls on every change of state.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the id and return.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON; the output goes to stderr.")
    ] = False,
) -> None:
    """Run a Spark application on a dedicated cluster, which ends with it.

    Options come before APP; everything after APP is passed to the application. The exit code is the application's own:
    128+n for signal n, 124 when the time limit is reached, 130 when the application was stopped. Ctrl-C stops it.

    With --engine sail, a Python file that keeps to Spark Connect (DataFrames and SQL, no SparkContext) asks Sail, in
    one process, instead of a cluster. It reads the catalog's Parquet and Iceberg tables and the lake's files. What
    writes is refused.
    """
    at = target()
    spec = ApplicationSpec(
        application=application,
        arguments=tuple(arguments or ()),
        size=sized(engine_named(engine).usual_size(at.usual_size())),
        name=name or Path(application).name,
        main_class=main_class,
        profile=profile,
        lake=lake,
        settings=options.pairs(conf, "--conf"),
        environment=options.pairs(env, "--env"),
        jars=options.paths(jars),
        files=options.paths(files),
        python_files=options.paths(py_files),
        tags=tuple(tag or ()),
        time_limit_seconds=options.seconds(time_limit, "--time-limit"),
        instance=instance or usual_instance(at),
        priority=priority,
        retries=retries,
        webhooks=tuple(webhook or ()),
        engine=engine,
    )
    submit_and_follow(at, spec, detach=detach, as_json=as_json)


def submit_and_follow(engine: Target, spec: ApplicationSpec, *, detach: bool, as_json: bool) -> None:
    """Submit an application and follow it; exits with the application's exit code."""
    _follow(engine, engine.submit(spec, _warn), detach=detach, as_json=as_json)


def _warn(warning: str) -> None:
    typer.echo(f"Warning: {warning}", err=True)


def _follow(engine: Target, submitted: Application, *, detach: bool, as_json: bool) -> None:
    if detach:
        engine.detach(submitted.id)
        typer.echo(json.dumps(submitted.to_json()) if as_json else submitted.id)
        return
    out = sys.stderr.buffer if as_json else sys.stdout.buffer
    output = Output(engine.artifacts.read, out=out, err=sys.stderr.buffer)
    try:
        ended = foreground.follow(engine, submitted, display(quiet=as_json), output)
    except BrokenPipeError:
        # As with `| head`: its supervision, which keeps the time limit, must not end with its reader.
        engine.detach(submitted.id)
        with contextlib.suppress(BrokenPipeError):
            typer.echo(f"{submitted.id} goes on without a reader of its output: penstock show {submitted.id}", err=True)
        raise
    if as_json:
        typer.echo(json.dumps(ended.to_json()))
    raise SystemExit(foreground.report_result(ended, quiet=as_json))


Id = Annotated[str, typer.Argument(metavar="ID", help="Application id, a unique prefix of it, or “last”.")]

_STREAMS = {"log": "driver.log", "out": "driver.out", "err": "driver.err"}


def apps(
    state: Annotated[Optional[list[str]], typer.Option(help="Only applications in this state; repeatable.")] = None,  # noqa: UP045
    tag: Annotated[Optional[list[str]], typer.Option(help="Only applications with this tag; repeatable.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(help="Maximum number to list.", min=1)] = 50,
    as_json: options.Json = False,
) -> None:
    """List applications, newest first."""
    engine = _engine()
    found = engine.list(states=[_state(text) for text in state or ()], tags=tag or (), limit=limit)
    if as_json:
        typer.echo(json.dumps([application.to_json() for application in found], indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    table.add_column("id", no_wrap=True, overflow="ignore", min_width=22)
    for title in ("name", "state", "submitted", "time", "cluster"):
        table.add_column(title)
    for application in found:
        shape = application.spec.size
        table.add_row(
            application.id,
            Text(application.spec.name),
            Text(application.state.value, style=STYLES.get(application.state, "")),
            moment(application.submitted_at),
            duration(took(application)),
            f"{shape.executors} × {shape.executor.cores} cores" if shape.executors else f"{shape.driver.cores} cores",
        )
    plain_console().print(table if found else "No applications yet: penstock run examples/pi.py")


def show(application_id: Id, as_json: options.Json = False) -> None:
    """Show the details of an application."""
    engine = _engine()
    application = engine.get(application_id)
    events = list(engine.applications.events(application.id))
    if as_json:
        shown = [{**event, "at": event["at"].isoformat()} for event in events]
        typer.echo(json.dumps({**application.to_json(), "events": shown}, indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    console = plain_console()
    table = Table.grid(padding=(0, 2))
    for label, value in _facts(application):
        table.add_row(Text(label, style="bold"), Text(value))
    console.print(table)
    console.print()
    history = Table("when", "what", "state", box=None, header_style="bold")
    for event in events:
        history.add_row(moment(event["at"]), event["event"], event["to_state"])
    console.print(history)


def logs(
    application_id: Id,
    process: Annotated[str, typer.Option(help="driver, executor-1, executor-2, …")] = "driver",
    stream: Annotated[str, typer.Option(help="Driver stream: log (Spark's log), out or err.")] = "log",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the application ends.")] = False,
    tail: Annotated[Optional[int], typer.Option(help="Print only the last N lines.", min=0)] = None,  # noqa: UP045
) -> None:
    """Print the logs of an application's processes; an executor has a single log."""
    engine = _engine()
    application = engine.get(application_id)
    name = _artifact(process, stream)
    if tail is not None:
        so_far = engine.artifacts.load(application.id, name)
        _write([b"".join(so_far.splitlines(keepends=True)[-tail or len(so_far) :])])
        if follow and not application.state.final:
            _write(engine.artifacts.follow(application.id, name, start=len(so_far)))
    elif follow:
        _write(engine.artifacts.follow(application.id, name))
    else:
        _write([engine.artifacts.load(application.id, name)])


def stop(application_id: Id) -> None:
    """Stop an application and wait until its cluster is removed."""
    engine = _engine()
    already = engine.get(application_id)
    if already.state.final:
        typer.echo(f"{already.id} has already ended: {already.state.value}")
        return
    typer.echo(closing_line(engine.stop(already.id)))


def rerun(
    application_id: Id,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the id and return.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run an application again, as a new one with the same file, arguments, size and settings.

    For `penstock sql`, the statements run again and their new results are printed, as JSON with --json.
    """
    engine = _engine()
    before = engine.get(application_id)
    if is_statements(before.spec):
        if detach:
            raise InvalidInput(
                "SQL statements cannot be rerun with --detach",
                why="this command prints their results",
                fix="omit --detach",
            )
        run_again(engine, before, output_format="json" if as_json else "table")
    _follow(engine, engine.rerun(before.id, _warn), detach=detach, as_json=as_json)


def _engine() -> Target:
    engine = target()
    engine.reconcile()
    return engine


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        known = ", ".join(state.value for state in State)
        raise InvalidInput(
            f"There is no state “{text}”", why=f"the states are {known}", fix="--state running"
        ) from None


def _artifact(process: str, stream: str) -> str:
    if process == "driver":
        if stream not in _STREAMS:
            raise InvalidInput(f"There is no stream “{stream}”", why="there are log, out and err", fix="--stream out")
        return _STREAMS[stream]
    kind, _, number = process.partition("-")
    if kind != "executor" or not number.isdigit():
        raise InvalidInput(
            f"There is no process “{process}”",
            why="there are driver, executor-1, executor-2, …",
            fix="--process executor-1",
        )
    return f"{process}.log"


def _write(pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def _facts(application: Application) -> Iterable[tuple[str, str]]:
    spec, reason = application.spec, application.reason
    yield "id", application.id
    yield "name", spec.name
    yield "state", application.state.value
    if reason:
        yield "why", reason.message
        if reason.fix:
            yield "fix", reason.fix
    yield "application", " ".join([spec.application, *spec.arguments])
    yield "driver", f"{spec.size.driver.cores} cores, {size(spec.size.driver.memory_bytes)}"
    executor = spec.size.executor
    if spec.size.executors:
        yield "executors", f"{spec.size.executors} × {executor.cores} cores, {size(executor.memory_bytes)}"
    yield "instance", f"{spec.instance}, priority {spec.priority}" if spec.priority else spec.instance
    yield "profile, lake", f"{spec.profile}, {spec.lake}"
    yield "submitted", moment(application.submitted_at)
    yield "started", moment(application.started_at)
    yield "ended", moment(application.ended_at)
    for attempt in application.attempts:
        yield f"attempt {attempt.number}", attempt.reason.message
    if application.cost:
        yield "cost", f"{application.cost.amount:.4f} {application.cost.currency}"
    if application.exit_code is not None:
        yield "exit code", str(application.exit_code)
    yield from _effort(application.summary or {})


def _effort(summary: Any) -> Iterable[tuple[str, str]]:
    if "task_ms" in summary:
        yield "tasks", f"{count(summary['tasks'])} in {duration(summary['task_ms'] / 1000)}"
        yield "read", f"{size(summary['bytes_read'])}, {count(summary['rows_read'])} rows"
        yield "written", f"{size(summary['bytes_written'])}, {count(summary['rows_written'])} rows"
        yield "shuffle", f"{size(summary['shuffle_write_bytes'])}, spilt {size(summary['spill_disk_bytes'])}"
    if summary.get("scratch_memory_bytes") is not None:
        yield "scratch", _scratch(summary)
    if skipped := SkippingMetrics.of(summary):
        yield "skipped", skipped_line(skipped)
    if use := IoMetrics.of(summary):
        yield "lake", lake_line(use)
    if summary.get("peak_rss_bytes") is not None and summary.get("cpu_seconds") is not None:
        yield "memory, CPU", f"{size(summary['peak_rss_bytes'])} at most, {duration(summary['cpu_seconds'])}"
    if "artefacts" in summary:
        yield "artifacts", summary["artefacts"]


def _scratch(summary: Any) -> str:
    """Memory and disk that shuffle and spill took, for an application with a memory budget for them."""
    used = f"{size(summary['scratch_memory_bytes'])} in memory"
    if summary["scratch_disk_bytes"]:
        used += f", {size(summary['scratch_disk_bytes'])} on disk"
    return f"{used}: {summary['scratch_fell_over']}" if summary["scratch_fell_over"] else used
