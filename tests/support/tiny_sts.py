"""A minimal Security Token Service with configurable answers, which records its requests and serves an empty bucket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

Asked = dict[str, str]

_ISSUED = """<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>
<Expiration>{expiration}</Expiration></Credentials></{action}Result></{action}Response>"""
_EMPTY = "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
_DELETED = "<DeleteResult></DeleteResult>"
_KEPT = "<DeleteResult><Error><Key>nothing</Key><Code>{code}</Code></Error></DeleteResult>"
_REFUSED = "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"


@dataclass
class TinySts:
    """`answer` makes the credentials for a request; the client gets the error of a `Refused` that it raises."""

    answer: Callable[[Asked], tuple[str, str, str]] = lambda _: ("AKTEMP", "s3cret/temp", "token+temp")
    clock_offset_seconds: float = 0.0
    """The time by which this server's clock is ahead."""
    refuses_deletes: tuple[int, str] | None = None
    """The status and error code of its answer to a DeleteObjects."""
    gives_more: bool = False
    """Whether it issues credentials to whoever has temporary ones."""
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def issued(self, asked: Asked) -> tuple[str, str, str]:
        if "AKTEMP" in asked["signed by"] and not self.gives_more:
            raise Refused(403, "AccessDenied")
        return self.answer(asked)

    def now(self) -> float:
        return datetime.now(timezone.utc).timestamp() + self.clock_offset_seconds


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


@contextmanager
def serving(sts: TinySts) -> Iterator[TinySts]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, _EMPTY)

        def do_DELETE(self) -> None:
            self._say(204, "")

        def do_POST(self) -> None:
            if self.path.endswith("?delete"):
                self._delete()
                return
            asked = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            asked["signed by"] = self.headers.get("Authorization", "")
            sts.asked.append(asked)
            try:
                key, secret, token = sts.issued(asked)
                ends = datetime.fromtimestamp(sts.now() + float(asked["DurationSeconds"]), timezone.utc)
                status, text = (
                    200,
                    _ISSUED.format(
                        action=asked["Action"], key=key, secret=secret, token=token, expiration=ends.isoformat()
                    ),
                )
            except Refused as refused:
                status, text = refused.status, _REFUSED.format(code=refused.code, message=refused.message)
            self._say(status, text)

        def _delete(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, code = sts.refuses_deletes or (200, "")
            kept = _KEPT if status == 200 else _REFUSED
            self._say(status, kept.format(code=code, message="") if code else _DELETED)

        def _say(self, status: int, text: str) -> None:
            self.send_response_only(status)
            self.send_header("Date", formatdate(sts.now(), usegmt=True))
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    sts.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield sts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
