"""`penstock catalog`: the catalog's tables for engines other than Spark."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from penstock.cli import options
from penstock.engine.catalog_service import PORT, metastore_service
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.processes import handling_signals, not_ignored
from penstock.service.listening import Listening

app = typer.Typer(
    help="The catalog for engines other than Spark: Trino, Impala, Sail and others find its tables here.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def catalog() -> None:
    """Keep `serve` a command of its own: Typer would make the only one the group itself."""


@app.command()
def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port; 0 chooses a free one.", min=0, max=65535)] = PORT,
    lake: options.Lake = None,
    open_to_network: Annotated[
        bool, typer.Option("--open-to-network", help="Allow an address that other machines can reach.")
    ] = False,
) -> None:
    """Serve the Hive metastore's protocol until interrupted, and print its address once it does.

    Engines use the address as `hive.metastore.uris` (Trino: `hive.metastore.uri`). New tables are made in the lake.

    The protocol has no passwords. On a loopback address only processes of your own account and root are served. On any
    other one, whoever reaches the port can read, change and drop every table: put a firewall or network policy before.
    """
    if Listening(host, port).public and not open_to_network:
        raise InvalidInput(
            f"{host} is reachable from outside, and the metastore's protocol has no passwords",
            why="whoever reaches the port could read, change and drop every table",
            fix="--host 127.0.0.1; or --open-to-network behind a firewall that knows the engines' machines",
        )
    with metastore_service(Home.default(), lake, host, port) as service:
        numbers = not_ignored(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with handling_signals(lambda *_: service.end(), *numbers):
            typer.echo(service.url)
            typer.echo(f"New tables are made in lake {service.lake.name}; Ctrl-C ends the service", err=True)
            service.wait()
