"""What the keeper answers over HTTP, to who knows the cluster's token.

`GET /status`, `GET /artefacts/NAME?start=&at_most=`, `GET /published/NAME`, `GET /pages`, `GET /tunnel/PORT` (to be
upgraded), `POST /stop`, `POST /kill`, `POST /release` for the engine; `POST /nodes/ADDRESS`,
`POST /executors/N/log?offset=` and `POST /executors/N/end` for executors.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.clusters.kubernetes import places
from penstock.clusters.kubernetes.pod import tunnel
from penstock.home import open_below, write_atomically

_EXECUTOR = re.compile(r"/executors/(\d{1,9})/(log|end)")
_NODE = re.compile(r"/nodes/([0-9a-fA-F.:]{2,45})")
_NODE_NAME = re.compile(rb"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PUBLISHED = re.compile(r"/published/([a-z][a-z0-9.-]{0,63})")
_TUNNEL = re.compile(r"/tunnel/(\d{1,5})")
_MOST_BODY = 2 << 20
_MOST_PIECE = 8 << 20


class Answering(Protocol):
    def status(self) -> dict[str, object]: ...
    def pages(self) -> dict[str, object]: ...
    def release(self) -> None: ...


def serve(keeper: Answering, token: str, *, port: int = places.KEEPER_PORT) -> ThreadingHTTPServer:
    """A server in a thread of its own."""

    class Handler(_Handler):
        pass

    Handler.keeper, Handler.token = keeper, token
    server = _Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """A thousand executors bring their words twice a second, and a browser asks for a page's parts at once."""


class _Handler(BaseHTTPRequestHandler):
    keeper: Answering
    token: str
    appending = threading.Lock()
    timeout = 30

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if not self._may():
            return
        if asked.path == "/status":
            self._answer(json.dumps(self.keeper.status()).encode())
        elif asked.path == "/pages":
            self._answer(json.dumps(self.keeper.pages()).encode())
        elif asked.path.startswith("/artefacts/"):
            said = parse_qs(asked.query)
            self._piece(unquote(asked.path.removeprefix("/artefacts/")), said)
        elif published := _PUBLISHED.fullmatch(asked.path):
            self._published(published[1])
        elif way := _TUNNEL.fullmatch(asked.path):
            self._tunnel(int(way[1]))
        else:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        asked = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if not self._may():
            return
        if length > _MOST_BODY:
            self._answer(b"", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(length)
        if executor := _EXECUTOR.fullmatch(asked.path):
            self._from_executor(int(executor[1]), executor[2], body, parse_qs(asked.query))
        elif node := _NODE.fullmatch(asked.path):
            self._node(node[1], body)
        elif asked.path in ("/stop", "/kill"):
            (places.WORK / asked.path.removeprefix("/")).touch()
            self._answer(b"")
        elif asked.path == "/release":
            self.keeper.release()
            self._answer(b"")
        else:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def _may(self) -> bool:
        if hmac.compare_digest(self.headers.get(places.TOKEN_HEADER, ""), self.token):
            return True
        self.close_connection = True
        self._answer(b"", HTTPStatus.FORBIDDEN)
        return False

    def _piece(self, name: str, said: dict[str, list[str]]) -> None:
        try:
            with open_below(places.ARTEFACTS, name) as file:
                file.seek(int(said.get("start", ["0"])[0]))
                self._answer(file.read(min(int(said.get("at_most", [str(_MOST_PIECE)])[0]), _MOST_PIECE)))
        except FileNotFoundError:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def _published(self, name: str) -> None:
        try:
            self._answer((places.PUBLISHED / name).read_bytes())
        except FileNotFoundError:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def _tunnel(self, port: int) -> None:
        self.close_connection = True
        if self.headers.get("Upgrade", "") != tunnel.UPGRADE:
            self._answer(b"", HTTPStatus.UPGRADE_REQUIRED)
        elif (far := tunnel.connect(port)) is None:
            self._answer(b"", HTTPStatus.BAD_GATEWAY)
        else:
            self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", tunnel.UPGRADE)
            self.end_headers()
            tunnel.join(self.connection, far)

    def _node(self, address: str, name: bytes) -> None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            self._answer(b"", HTTPStatus.BAD_REQUEST)
            return
        if not _NODE_NAME.fullmatch(name):
            self._answer(b"", HTTPStatus.BAD_REQUEST)
            return
        places.NODES.mkdir(parents=True, exist_ok=True)
        write_atomically(places.NODES / address, name, mode=0o644)
        self._answer(b"")

    def _from_executor(self, number: int, what: str, body: bytes, said: dict[str, list[str]]) -> None:
        if what == "end":
            write_atomically(places.WORK / "ends" / f"executor-{number}.json", body, mode=0o644)
        else:
            with self.appending, (places.ARTEFACTS / f"executor-{number}.log").open("ab") as log:
                already = log.tell() - int(said.get("offset", ["0"])[0])
                log.write(body[max(already, 0) :])
        self._answer(b"")

    def _answer(self, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: a poll each second is no news."""
