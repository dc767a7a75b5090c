"""`penstock apps|show|logs|stop|rerun`: applications, now and before."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Optional

import typer

from penstock.cli import options
from penstock.cli.console import STYLES, closing_line, count, duration, lake_line, moment, size, skipped_line, took
from penstock.cli.run import submit_and_follow
from penstock.cli.sql import run_again
from penstock.cli.target import Target, target
from penstock.engine.interactive.sessions import is_statements
from penstock.errors import InvalidInput
from penstock.model import Application, State
from penstock.summary import LakeUse, Skipped

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id, the beginning of one, or “last”.")]

_STREAMS = {"log": "driver.log", "out": "driver.out", "err": "driver.err"}


def apps(
    state: Annotated[Optional[list[str]], typer.Option(help="Only in this state; repeatable.")] = None,  # noqa: UP045
    tag: Annotated[Optional[list[str]], typer.Option(help="Only with this tag; repeatable.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 50,
    as_json: options.Json = False,
) -> None:
    """List applications, the newest first."""
    engine = _engine()
    found = engine.list(states=[_state(text) for text in state or ()], tags=tag or (), limit=limit)
    if as_json:
        typer.echo(json.dumps([application.to_json() for application in found], indent=2))
        return
    from rich.console import Console
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
            f"{shape.executors} × {shape.executor.cores} cores",
        )
    Console().print(table if found else "No applications yet: penstock run examples/pi.py")


def show(application_id: Id, as_json: options.Json = False) -> None:
    """Show all that is known of an application."""
    engine = _engine()
    application = engine.get(application_id)
    events = list(engine.events(application.id))
    if as_json:
        shown = [{**event, "at": event["at"].isoformat()} for event in events]
        typer.echo(json.dumps({**application.to_json(), "events": shown}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
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
    stream: Annotated[str, typer.Option(help="Of the driver: log (Spark's own), out or err.")] = "log",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
    tail: Annotated[Optional[int], typer.Option(help="Only so many last lines.", min=0)] = None,  # noqa: UP045
) -> None:
    """Show what an application's processes wrote; an executor's streams are one."""
    engine = _engine()
    application = engine.get(application_id)
    name = _artefact(process, stream)
    if tail is not None:
        so_far = engine.artefact(application.id, name)
        _write([b"".join(so_far.splitlines(keepends=True)[-tail or len(so_far) :])])
        if follow and not application.state.final:
            _write(engine.follow(application.id, name, start=len(so_far)))
    elif follow:
        _write(engine.follow(application.id, name))
    else:
        _write([engine.artefact(application.id, name)])


def stop(application_id: Id) -> None:
    """End an application, and return when nothing of its cluster is left."""
    engine = _engine()
    already = engine.get(application_id)
    if already.state.final:
        typer.echo(f"{already.id} has already ended: {already.state.value}")
        return
    typer.echo(closing_line(engine.stop(already.id)))


def rerun(
    application_id: Id,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print its id and return.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run an application again, as a new one with the same file, arguments, size and settings.

    Of `penstock sql`, the statements: what they answer now is printed, with --json as JSON.
    """
    engine = _engine()
    before = engine.get(application_id)
    if is_statements(before.spec):
        if detach:
            raise InvalidInput(
                "Statements cannot be detached from",
                why="this command prints what they answer",
                fix="leave out --detach",
            )
        run_again(engine, before, output_format="json" if as_json else "table")
    spec = replace(before.spec, idempotency_key=None)
    submit_and_follow(engine, spec, detach=detach, as_json=as_json)


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


def _artefact(process: str, stream: str) -> str:
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
    if skipped := Skipped.of(summary):
        yield "skipped", skipped_line(skipped)
    if use := LakeUse.of(summary):
        yield "lake", lake_line(use)
    if summary.get("peak_rss_bytes") is not None and summary.get("cpu_seconds") is not None:
        yield "memory, CPU", f"{size(summary['peak_rss_bytes'])} at most, {duration(summary['cpu_seconds'])}"
    if "artefacts" in summary:
        yield "artefacts", summary["artefacts"]


def _scratch(summary: Any) -> str:
    """Where shuffle and spill went, of an application that was to have them in memory."""
    told = f"{size(summary['scratch_memory_bytes'])} in memory"
    if summary["scratch_disk_bytes"]:
        told += f", {size(summary['scratch_disk_bytes'])} on disk"
    return f"{told}: {summary['scratch_fell_over']}" if summary["scratch_fell_over"] else told
