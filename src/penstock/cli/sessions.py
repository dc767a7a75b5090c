"""`penstock session start|list|address|stop`: clusters for interactive work over Spark Connect or JDBC."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Optional
from urllib.parse import urlsplit

import typer

from penstock.cli import options
from penstock.cli.options import server
from penstock.cli.output import STYLES, closing_line, duration, moment
from penstock.cli.target import target, usual_instance
from penstock.engine.interactive.sessions import Session, SessionClient, SessionProtocol, SessionRequest

app = typer.Typer(
    no_args_is_help=True,
    help="Clusters for interactive work: any notebook over Spark Connect, any BI tool over JDBC.",
    add_completion=False,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="Session id, a unique prefix of it, or “last”.")]
Text = Optional[str]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


@app.command()
@options.sized(options.EVERY_SIZE)
def start(
    *,
    sized: options.Sized,
    name: Annotated[str, typer.Option(help="Its name.")] = "session",
    jdbc: Annotated[bool, typer.Option("--jdbc", help="Serve JDBC, with HiveServer2's protocol.")] = False,
    idle_timeout: Annotated[str, typer.Option(help="End the session when it has been idle for this long.")] = "30m",
    time_limit: Annotated[Text, typer.Option(help="End the session after this time, even in use, e.g. 8h.")] = None,
    profile: Annotated[str, typer.Option(help="Workload profile (penstock profile list).")] = "sql",
    conf: Annotated[Optional[list[str]], typer.Option(metavar="KEY=VALUE", help="Spark setting; repeatable.")] = None,  # noqa: UP045
    tag: Annotated[Optional[list[str]], typer.Option(help="Label to filter lists by; repeatable.")] = None,  # noqa: UP045
    lake: options.Lake = None,
    instance: options.Instance = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the id and return.")] = False,
    as_json: options.Json = False,
) -> None:
    """Start a cluster for interactive work and print its address, which includes the token.

    PySpark's own client connects to it: SPARK_REMOTE=$(penstock session start) python, then use SparkSession.builder.

    With --jdbc the address is a URL for Hive's JDBC driver, which beeline, DBeaver and most BI tools have.
    """
    engine = target()
    there = engine.sessions
    size = sized(engine.usual_size())
    session = there.start(
        SessionRequest(
            size=size,
            name=name,
            protocol=SessionProtocol.JDBC if jdbc else SessionProtocol.CONNECT,
            idle_seconds=options.seconds(idle_timeout, "--idle-timeout") or 0,
            profile=profile,
            lake=lake,
            settings=options.pairs(conf, "--conf"),
            tags=tuple(tag or ()),
            time_limit_seconds=options.seconds(time_limit, "--time-limit"),
            instance=instance or usual_instance(engine),
        )
    )
    if detach:
        typer.echo(json.dumps(session.to_json()) if as_json else session.id)
        return
    try:
        session = there.wait(session.id)
    except KeyboardInterrupt:
        print(f" {session.id} is still starting; to stop it: penstock session stop {session.id}", file=sys.stderr)
        raise
    found = there.address(session.id)
    if as_json:
        typer.echo(json.dumps({**session.to_json(), "address": found}))
        return
    print(f"{session.id} ends after {duration(session.idle_seconds)} of idleness", file=sys.stderr)
    if way := tunnel(found, server()):
        print(f"It runs on the service's machine; to reach it from here: {way}", file=sys.stderr)
    typer.echo(found)


@app.command("list")
def list_(
    ended: Annotated[bool, typer.Option("--all", help="Include ended sessions.")] = False,
    limit: Annotated[int, typer.Option(help="Maximum number to list.", min=1)] = 50,
    as_json: options.Json = False,
) -> None:
    """List sessions, newest first."""
    found = _existing().list(ended=ended, limit=limit)
    if as_json:
        typer.echo(json.dumps([session.to_json() for session in found], indent=2))
        return
    if not found:
        typer.echo("There are no sessions; penstock session start starts one")
        return
    _show(found)


@app.command()
def address(session_id: Id) -> None:
    """Print a session's address, which includes the token."""
    typer.echo(_existing().address(session_id))


@app.command()
def stop(session_id: Id) -> None:
    """Stop a session and wait until its cluster is removed."""
    session = _existing().get(session_id)
    if session.application.state.final:
        typer.echo(f"{session.id} has already ended: {session.application.state.value}")
        return
    typer.echo(closing_line(target().stop(session.id)))


def tunnel(address: str, url: str | None) -> str | None:
    """The SSH command that makes a session of the service at `url` reachable from here; None on the same machine."""
    host = urlsplit(url).hostname if url else None
    if host in (None, "localhost", "127.0.0.1", "::1"):
        return None
    port = urlsplit(address.removeprefix("jdbc:")).port
    return f"ssh -L {port}:localhost:{port} {host}"


def _show(found: list[Session]) -> None:
    from rich.table import Table
    from rich.text import Text as Styled

    from penstock.cli.output import plain_console

    table = Table(box=None, header_style="bold")
    for title in ("id", "name", "state", "submitted", "address", "idle timeout"):
        table.add_column(title, no_wrap=title in ("id", "address"))
    for session in found:
        state = session.application.state
        table.add_row(
            session.id,
            Styled(session.application.spec.name),
            Styled(state.value, style=STYLES.get(state, "")),
            moment(session.application.submitted_at),
            session.address or "-",
            duration(session.idle_seconds),
        )
    plain_console().print(table)


def _existing() -> SessionClient:
    engine = target()
    engine.reconcile()
    return engine.sessions
