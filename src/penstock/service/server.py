"""The process of `penstock serve`: the first token, the database, the HTTP server, the graceful shutdown.

A connection that does not send a complete request head within the header timeout is closed, and one whose client does
not read its answers is aborted.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.catalog.database import Database
from penstock.engine.dispatcher import Dispatcher, Housekeeping
from penstock.engine.engine import Engine
from penstock.engine.repository.applications import CONNECTION_LOST
from penstock.engine.repository.retention import Retention, validate
from penstock.engine.tokens import EVERY_INSTANCE, Scope, TokenStore, first_token_file
from penstock.engine.webhooks import AllowedNetworks, Webhooks, signing_secret
from penstock.home import Home, write_atomically
from penstock.lake import registry
from penstock.lake.registry import Lakes
from penstock.model import DEFAULT_INSTANCE
from penstock.recovery import keep_going
from penstock.service import access_log
from penstock.service.app import ByPort, create_app
from penstock.service.context import NoReports, Reports, Service
from penstock.service.guards import RequestLimits
from penstock.service.ibm.configuration import instances_by_home
from penstock.service.listening import GRACE_SECONDS, Listening, bind, refuse_unsafe, spark_pages_listening
from penstock.service.spark_ui.access import SparkOrigin, validate_url
from penstock.service.spark_ui.pages import create_spark_app

HEADER_TIMEOUT_SECONDS = 15.0
LEAST_READ_BYTES = 64 << 10
"""The least that a client has to read of a full write buffer in `send_seconds`: 1 KiB/s, less than any network has."""


class TimeoutProtocol(H11Protocol):
    """HTTP/1.1 with a timeout for the request head, and one for answers that the client does not read.

    uvicorn waits for both without a limit: a thousand idle sockets would cost an attacker nothing, and the service all
    its descriptors. While a client does not read, the answer to its next pipelined request waits, and so does `close`,
    which sends the write buffer first. Such a connection is aborted within twice `send_seconds`.
    """

    send_seconds = RequestLimits.send_seconds
    _deadline: asyncio.TimerHandle | None = None
    _check: asyncio.TimerHandle | None = None
    _unread: int | None = None
    """The size of the write buffer at the last check; None unless the service was waiting for it to drain."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()
        self._check = self.loop.call_later(self.send_seconds, self._require_progress)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self._idle():
            self._expect_head()
        super().data_received(data)
        if not self._idle():
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._unread = None
        super().resume_writing()

    def _require_progress(self) -> None:
        """Abort the connection if its write buffer has hardly shrunk since the last check."""
        unread = self.transport.get_write_buffer_size()
        waiting = self.flow.write_paused or self.transport.is_closing()
        if waiting and self._unread is not None and unread > self._unread - LEAST_READ_BYTES:
            self.transport.abort()
            return
        self._unread = unread if waiting else None
        self._check = self.loop.call_later(self.send_seconds, self._require_progress)

    def _idle(self) -> bool:
        """Return whether no request is being answered; a cycle begins when its head is complete."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(HEADER_TIMEOUT_SECONDS, self._hang_up)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if self._idle() and self.transport is not None and not self.transport.is_closing():
            self.transport.close()


_MOST_CONNECTIONS = 1000
_HEAD_BYTES = 32 << 10
_HEAR_SECONDS = 1.0

_log = logging.getLogger(__name__)


def serve(
    home: Home,
    listening: Listening,
    *,
    log_level: str,
    retention: Retention | None = None,
    spark_ui_port: int | None = None,
    spark_ui_url: str | None = None,
    reports: Reports | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises `InvalidInput` before it listens where that would be unsafe.

    Spark's pages are on a port of their own, with the service's host and certificate; `spark_ui_url` is the origin that
    browsers see in front of it. `reports` are the lab's runs; none by default.
    """
    checked_retention = validate(retention or Retention())
    pages = spark_pages_listening(listening, spark_ui_port)
    origin = SparkOrigin(pages.port, None if spark_ui_url is None else validate_url(spark_ui_url))
    database = Database(home)
    database.require_own_login()
    home.create()
    tokens = TokenStore(database.engine())
    refuse_unsafe(listening, has_tokens=bool(tokens.list()))
    first_token = _ensure_first_token(home, tokens)
    access_log.configure_logging(log_level)
    service = Service(home, Engine(home), tokens, checked_retention, origin, reports=reports or NoReports())
    # Before anything listens: only an administrator can mend a key that does not decrypt the database's secrets.
    signing_secret(home, DEFAULT_INSTANCE)
    registry.adopt_unmarked(Lakes(home), instances_by_home(service.engine.queues.instances()))
    spark_app = create_spark_app(service, log_request=access_log.log_request)
    background_tasks = partial(
        _background_tasks,
        webhooks=Webhooks(service.engine.outbox, home, AllowedNetworks.from_environment()),
        spark_app=spark_app,
    )
    config = uvicorn.Config(
        ByPort(
            create_app(service, log_request=access_log.log_request, background_tasks=background_tasks),
            {pages.port: spark_app},
        ),
        http=TimeoutProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        ssl_certfile=listening.certificate,
        ssl_keyfile=str(listening.key) if listening.key else None,
        # The client's address is the connection's: a forwarding header may be forged.
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    listeners = [bind(listening), bind(pages, port_option="--spark-ui-port")]
    _announce(home, listening, first_token)
    _Server(config, service.closing).run(sockets=listeners)


class _Server(uvicorn.Server):
    """A server that announces the shutdown to streams and readiness as soon as the signal arrives.

    `run` returns afterwards: uvicorn's own raises the signal again, which would skip what follows it.
    """

    def __init__(self, config: uvicorn.Config, closing: threading.Event) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, _: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self._closing.set()


@asynccontextmanager
async def _background_tasks(service: Service, webhooks: Webhooks, spark_app: FastAPI) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    housekeeping = Housekeeping(service.engine, service.retention)
    workers = [
        threading.Thread(target=_hear, args=[service, loop], name="change notifier", daemon=True),
        threading.Thread(target=Dispatcher(service.engine).run, args=[service.closing], name="dispatcher", daemon=True),
        threading.Thread(target=webhooks.run, args=[service.closing], name="webhooks", daemon=True),
        threading.Thread(target=housekeeping.run, args=[service.closing], name="housekeeping", daemon=True),
    ]
    for worker in workers:
        worker.start()
    access_log.log_event("serving")
    try:
        async with spark_app.router.lifespan_context(spark_app):
            yield
    finally:
        service.closing.set()
        for worker in workers:
            await asyncio.to_thread(worker.join, GRACE_SECONDS)
        await asyncio.to_thread(service.iceberg.close)
        access_log.log_event("ended")


def _hear(service: Service, loop: asyncio.AbstractEventLoop) -> None:
    """Forward the database's notifications of changes, also across its failures and restarts."""
    keep_going("change notifier", lambda: _pass_on(service, loop), service.closing, log=_log, transient=CONNECTION_LOST)
    loop.call_soon_threadsafe(service.notify_all)


def _pass_on(service: Service, loop: asyncio.AbstractEventLoop) -> None:
    with service.engine.applications.changes() as changes:
        # For the changes before this connection listened.
        loop.call_soon_threadsafe(service.notify_all)
        while not service.closing.is_set():
            for application_id in changes.wait(_HEAR_SECONDS):
                loop.call_soon_threadsafe(service.notify, application_id)


def _ensure_first_token(home: Home, tokens: TokenStore) -> str | None:
    """Create an administrator's token for the owner of the state directory; return None if there are tokens already."""
    if tokens.list():
        return None
    file = first_token_file(home)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    _, text = tokens.create("first administrator", {EVERY_INSTANCE: Scope.ADMINISTER})
    write_atomically(file, text + "\n", mode=0o600)
    return text


def _announce(home: Home, listening: Listening, first_token: str | None) -> None:
    print(f"Penstock serves at {listening.url}", file=sys.stderr)
    if first_token is None:
        return
    print(f"  An administrator's token is in {first_token_file(home)}", file=sys.stderr)
    if sys.stderr.isatty():
        # In the fragment, which browsers do not send, so that it is in no log; never where output may be stored.
        print(f"  The console: {listening.url}/#token={first_token}", file=sys.stderr)
