"""One worker's S3 requests over libcurl: it signs, sends and receives; content is made and verified on the way.

libcurl was chosen by measurement over S3 clients for Python: 25 to 30 µs of processor time per small request against
160 to 340 µs, no retries of its own that would hide errors, the store's exact status and code, and one HTTP request per
operation. One `Transfer` reuses its connection for one request after another.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import pycurl

from penstock.lab.objects.content import Content
from penstock.lab.objects.failures import error_code, kind_of_answer, kind_of_break
from penstock.lab.objects.plan import Request
from penstock.lab.objects.tally import WRONG_CONTENT, WRONG_LENGTH
from penstock.lab.objects.workload import Kind
from penstock.lake.model import Credentials, Lake

_PIECE = 256 * 1024  # of a GET as it arrives; below content.LONGEST_PIECE
_UPLOAD_PIECE = 256 * 1024
_CONNECT_SECONDS = 5
_STALLED_SECONDS = 30
_LISTED_KEYS = 1000  # one page, the most that S3 gives
_KEPT_ERROR_BYTES = 4096
_OBJECT_SIZE = re.compile(rb"content-(?:length:\s*(\d+)|range:\s*bytes\s+\d+-\d+/(\d+))", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """Where requests go: a bucket behind one gateway, and a key prefix in it."""

    lake: Lake
    credentials: Credentials
    endpoint: str
    prefix: str

    def url(self, request: Request) -> str:
        base = self.endpoint
        if self.lake.path_style:
            base += f"/{self.lake.bucket}"
        else:
            parts = urlsplit(self.endpoint)
            base = f"{parts.scheme}://{self.lake.bucket}.{parts.netloc}"
        key = f"{self.prefix}/{request.name}"
        if request.kind is Kind.LIST:
            return f"{base}/?list-type=2&max-keys={_LISTED_KEYS}&prefix={quote(key + '/', safe='')}"
        return f"{base}/{quote(key)}"


@dataclass(frozen=True)
class Outcome:
    """How a request ended. `error` is its kind, empty for success; times are microseconds since it was started."""

    error: str
    detail: str
    transferred: int
    verified: int
    total_us: int
    first_byte_us: int | None


class Transfer:
    """Not for several threads. `curl` is driven by the caller's multi handle between `start` and `finish`."""

    def __init__(self, address: Address, content: Content) -> None:
        self._address = address
        self._content = content
        self.curl = self._handle()
        self._clear(Request(0, Kind.GET, ""))

    def start(self, request: Request) -> None:
        """Set the handle up for a request."""
        if request.kind is not self._request.kind:
            self._become(request.kind)
        self._clear(request)
        curl = self.curl
        curl.setopt(curl.URL, self._address.url(request))
        if request.kind is Kind.PUT:
            curl.setopt(curl.INFILESIZE_LARGE, request.size)
        elif request.kind is Kind.RANGE:
            curl.setopt(curl.RANGE, f"{request.start}-{request.last}")
        self._started = time.monotonic()

    def finish(self, broken: int | None = None, why: str = "") -> Outcome:
        """What became of the request; `broken` is libcurl's error number where it gave up."""
        total_us = int(self.curl.getinfo(pycurl.TOTAL_TIME_T))
        first = self._first_byte
        first_us = None if first is None else min(total_us, int((first - self._started) * 1e6))
        error, detail = self._judged(broken, why)
        moved = self._sent if self._request.kind is Kind.PUT else self._received
        verified = self._received if self._request.kind in (Kind.GET, Kind.RANGE) else 0
        if self._request.kind is Kind.LIST:
            moved = 0  # names are not contents: a rate of bytes would mix the two
        return Outcome(error, detail, 0 if error else moved, 0 if error else verified, total_us, first_us)

    def close(self) -> None:
        self.curl.close()

    def _become(self, kind: Kind) -> None:
        """Change the handle's method."""
        curl = self.curl
        curl.setopt(curl.HTTPGET, 1)  # first: it takes UPLOAD back
        curl.unsetopt(curl.CUSTOMREQUEST)
        curl.unsetopt(curl.RANGE)
        if kind is Kind.PUT:
            curl.setopt(curl.UPLOAD, 1)
        elif kind is Kind.DELETE:
            curl.setopt(curl.CUSTOMREQUEST, "DELETE")

    def _judged(self, broken: int | None, why: str) -> tuple[str, str]:
        request = self._request
        if self._checked and request.size is not None and self._size not in (None, request.size):
            return WRONG_LENGTH, f"{request.name}: the object has {self._size} bytes instead of {request.size}"
        if self._wrong_at is not None:  # before `broken`: the transfer was ended on purpose
            return WRONG_CONTENT, f"{request.name} differs at byte {self._wrong_at}"
        if broken is not None:
            return kind_of_break(broken), f"{request.name}: {why}"
        status = self._status
        if status >= 300 or (request.kind is Kind.RANGE and status != 206):
            code = error_code(bytes(self._kept))
            return kind_of_answer(status, code), f"{request.name}: {status} {code}".strip()
        return self._judged_content()

    def _judged_content(self) -> tuple[str, str]:
        request = self._request
        if request.kind in (Kind.GET, Kind.RANGE):
            expected = request.length if request.length is not None else self._size
            if self._received != expected or not expected:  # none is written empty
                return WRONG_LENGTH, f"{request.name}: {self._received} bytes instead of {expected}"
        if request.kind is Kind.LIST and not bytes(self._kept).rstrip().endswith(b"</ListBucketResult>"):
            return WRONG_CONTENT, f"{request.name}: not a listing"
        return "", ""

    def _clear(self, request: Request) -> None:
        self._request = request
        self._sent = 0
        self._received = 0
        self._place = None if request.size is None else self._content.place(request.name, request.size)
        self._status = 0
        self._size: int | None = None
        self._first_byte: float | None = None
        self._wrong_at: int | None = None
        self._checked = False
        self._kept = bytearray()

    def _on_body(self, data: bytes) -> int | None:
        if self._first_byte is None:
            self._first_byte = time.monotonic()
            self._checked = self._is_content()
        if not self._checked:
            # Of a listing its end is looked at, of an error document its beginning.
            self._kept += data
            if self._request.kind is Kind.LIST:
                del self._kept[:-_KEPT_ERROR_BYTES]
            else:
                del self._kept[_KEPT_ERROR_BYTES:]
            return None
        offset = self._request.start + self._received
        if self._place is None or not self._content.is_piece(self._place, offset, data):
            self._wrong_at = offset
            return 0  # fewer than given: libcurl ends the transfer and its connection
        self._received += len(data)
        return None

    def _is_content(self) -> bool:
        """Whether what arrives is an object's bytes; fixes where in the block they should stand."""
        if self._request.kind not in (Kind.GET, Kind.RANGE):
            return False
        if self._status != (206 if self._request.kind is Kind.RANGE else 200):
            return False
        if self._size is not None:
            self._place = self._content.place(self._request.name, self._size)
        return True

    def _on_header(self, line: bytes) -> None:
        if line.startswith(b"HTTP/"):
            self._status = int(line.split(None, 2)[1])
        elif (found := _OBJECT_SIZE.match(line)) and (found[2] or self._request.kind is Kind.GET):
            # Of a part, Content-Length says how long the part is; Content-Range how large the object.
            self._size = int(found[1] or found[2])

    def _to_send(self, at_most: int) -> bytes:
        length = min(at_most, (self._request.size or 0) - self._sent)
        piece = self._content.piece(self._place or 0, self._sent, length)
        self._sent += length
        return piece

    def _rewind(self, offset: int, _: int) -> int:
        # A kept connection that the store had closed: libcurl sends the body again on a new one.
        self._sent = offset
        return int(pycurl.SEEKFUNC_OK)

    def _handle(self) -> Any:
        lake, credentials = self._address.lake, self._address.credentials
        curl = pycurl.Curl()
        curl.setopt(curl.NOSIGNAL, 1)
        curl.setopt(curl.HTTP_VERSION, curl.CURL_HTTP_VERSION_1_1)
        curl.setopt(curl.TCP_NODELAY, 1)
        curl.setopt(curl.CONNECTTIMEOUT, _CONNECT_SECONDS)
        curl.setopt(curl.LOW_SPEED_LIMIT, 1)
        curl.setopt(curl.LOW_SPEED_TIME, _STALLED_SECONDS)
        curl.setopt(curl.BUFFERSIZE, _PIECE)
        curl.setopt(curl.UPLOAD_BUFFERSIZE, _UPLOAD_PIECE)
        curl.setopt(curl.AWS_SIGV4, f"aws:amz:{lake.region}:s3")
        curl.setopt(curl.USERNAME, credentials.access_key)
        curl.setopt(curl.PASSWORD, credentials.secret_key)
        # Hashing each body would make this a benchmark of SHA-256; TLS protects it where there is TLS.
        headers = ["x-amz-content-sha256: UNSIGNED-PAYLOAD", "Expect:"]
        if credentials.session_token:
            headers.append(f"x-amz-security-token: {credentials.session_token}")
        curl.setopt(curl.HTTPHEADER, headers)
        if bundle := os.environ.get("AWS_CA_BUNDLE") or _botocore_bundle(self._address.endpoint):
            curl.setopt(curl.CAINFO, bundle)
        curl.setopt(curl.HEADERFUNCTION, self._on_header)
        curl.setopt(curl.WRITEFUNCTION, self._on_body)
        curl.setopt(curl.READFUNCTION, self._to_send)
        curl.setopt(curl.SEEKFUNCTION, self._rewind)
        return curl


def _botocore_bundle(endpoint: str) -> str | None:
    """The authorities the lake's other client trusts: pycurl's own libcurl looks for none of the system's."""
    if not endpoint.startswith("https:"):
        return None
    from botocore.httpsession import get_cert_path  # noqa: PLC0415  only where it is needed: it takes a while

    return str(get_cert_path(True))
