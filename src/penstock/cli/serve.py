"""`penstock serve`: the engine behind a REST API, with a console."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from penstock.cli import keeping
from penstock.home import Home
from penstock.service.listening import PORT, Listening

PemFile = Optional[Path]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


class LogLevel(str, enum.Enum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve(
    *,
    host: Annotated[
        str, typer.Option(help="Where to listen; another than this machine's own needs TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port.", min=1, max=65535)] = PORT,
    spark_ui_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="TCP port of Spark's own pages; the next one if not given.", min=1, max=65535),
    ] = None,
    spark_ui_url: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="URL", help="How browsers reach that port, where something is in front of it."),
    ] = None,
    tls_cert: Annotated[PemFile, typer.Option(metavar="FILE", help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[PemFile, typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,
    keep_events: keeping.Events = keeping.EVENTS,
    keep_deliveries: keeping.Deliveries = keeping.DELIVERIES,
    keep_audit: keeping.Audit = keeping.AUDIT,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is written to standard error, as JSON lines.")
    ] = LogLevel.INFO,
) -> None:
    """Serve the REST API and the console until interrupted; applications go on without it.

    Every call needs a token (penstock token create). On this machine's own address the first start makes one for an
    administrator, in a file only you can read; commands of the same state directory find it by themselves.

    Spark's own pages run users' code. They have a port of their own, so that they cannot read the console's token.
    """
    from penstock.service.serving import serve as run

    run(
        Home.default(),
        Listening(host, port, tls_cert, tls_key),
        log_level=log_level.value,
        spark_ui_port=spark_ui_port,
        spark_ui_url=spark_ui_url,
        retention=keeping.retention(keep_events, keep_deliveries, keep_audit),
    )
