"""`penstock serve` from start to end: the first token, the records, the HTTP server, the graceful shutdown."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.home import Home, write_atomically
from penstock.service.access import EVERY_INSTANCE, Scope
from penstock.service.app import create_app
from penstock.service.context import Service
from penstock.service.server import GRACE_SECONDS, Listening, refuse_unsafe
from penstock.service.tokenstore import TokenStore


def first_token_file(home: Home) -> Path:
    return home.root / "service" / "admin.token"


def serve(home: Home, listening: Listening) -> None:
    """Until SIGTERM or SIGINT. Raises `InvalidInput` where it would be unsafe, before anything listens."""
    home.create()
    tokens = TokenStore(Database(home).engine())
    refuse_unsafe(listening, has_tokens=bool(tokens.list()))
    _ensure_first_token(home, tokens)
    service = Service(home, Engine(home), tokens)
    config = uvicorn.Config(
        create_app(service),
        host=listening.host,
        port=listening.port,
        http="h11",
        ws="none",
        ssl_certfile=listening.certificate,
        ssl_keyfile=str(listening.key) if listening.key else None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    print(f"Penstock at {listening.url}, administrator's token in {first_token_file(home)}", file=sys.stderr)
    uvicorn.Server(config).run()


def _ensure_first_token(home: Home, tokens: TokenStore) -> None:
    file = first_token_file(home)
    if tokens.list():
        return
    file.parent.mkdir(mode=0o700, exist_ok=True)
    _, text = tokens.create("first administrator", {EVERY_INSTANCE: Scope.ADMINISTER})
    write_atomically(file, text + "\n", mode=0o600)
