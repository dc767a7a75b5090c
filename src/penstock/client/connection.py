"""HTTP connection to a Penstock service: address, token, retries, and conversion of its errors."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import httpx

from penstock import __version__
from penstock.engine.tokens import first_token_file
from penstock.errors import InvalidInput, PenstockError, ServiceError, Unauthenticated, from_problem
from penstock.home import Home

SERVER_VARIABLE = "PENSTOCK_SERVER"
TOKEN_FILE_VARIABLE = "PENSTOCK_TOKEN_FILE"  # noqa: S105  names a file
CA_FILE_VARIABLE = "PENSTOCK_CA_FILE"
LOG_START_HEADER = "Penstock-Log-Start"
LOG_ATTEMPT_HEADER = "Penstock-Log-Attempt"

_ATTEMPTS = 3
_ATTEMPTS_ONCE_KNOWN = 8
"""Attempts for a service that has answered before, since it may be restarting."""
_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 5.0
_BUSY = frozenset({502, 503, 504})


def connect(
    url: str | None,
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    timeout_seconds: float = 30.0,
) -> Connection:
    """See `Client`."""
    address = (url or os.environ.get(SERVER_VARIABLE) or "").rstrip("/")
    parts = _split(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise InvalidInput(
            f"“{address}” is not the address of a service" if address else "No address of a service was given",
            fix=f"give https://HOST:PORT with --server or {SERVER_VARIABLE}",
        )
    here = _is_here(parts.hostname)
    if parts.scheme == "http" and not here:
        raise InvalidInput(
            f"The token would be sent unencrypted to {parts.hostname}",
            why="the address begins with http",
            fix=f"use https://{parts.netloc}; the service needs --tls-cert and --tls-key, or a TLS proxy",
        )
    secret = _given(token) if token else _token(token_file, here=here)
    authorities = ca_file or os.environ.get(CA_FILE_VARIABLE)
    return Connection(
        httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {secret}", "User-Agent": f"penstock/{__version__}"},
            timeout=httpx.Timeout(timeout_seconds, connect=10.0),
            verify=_context(Path(authorities)) if authorities else True,
            # Proxies of the environment do not apply to this machine; a redirect would leak the token.
            trust_env=not here,
            follow_redirects=False,
        ),
        address,
    )


class Connection:
    """A connection to one service.

    Raises its errors as their classes of `penstock.errors`, and `ServiceError` without a response.
    """

    def __init__(self, client: httpx.Client, address: str) -> None:
        self._client = client
        self._address = address
        self._known = False

    def close(self) -> None:
        self._client.close()

    def json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        repeatable: bool = False,
    ) -> Any:
        """Return the response's JSON, or None. GET and `repeatable` requests are retried without a response."""
        options: dict[str, Any] = {"params": params, "json": json, "headers": headers}
        if timeout_seconds is not None:
            options["timeout"] = timeout_seconds
        response = self._request(method, path, options, repeatable=repeatable or method == "GET")
        return _json(response) if response.content else None

    def content(self, path: str, *, params: Mapping[str, Any]) -> bytes:
        return self._request("GET", path, {"params": params}, repeatable=True).content

    def put_file(self, path: str, file: Path, *, params: Mapping[str, Any]) -> Any:
        with file.open("rb") as content:
            # The upload may wait for the lake.
            options = {"content": content, "params": params, "timeout": httpx.Timeout(300.0, connect=10.0)}
            return _json(self._request("PUT", path, options, repeatable=False))

    def follow(
        self, path: str, *, start: int = 0, tail: int | None = None, attempt: int | None = None
    ) -> Generator[bytes, None, int | None]:
        """Stream a log to its end; returns its attempt, or None if the log's name contains the attempt."""
        broken = 0
        while True:
            params: dict[str, Any] = {"follow": "true", **({"start": start} if tail is None else {"tail": tail})}
            if attempt is not None:
                params["attempt"] = attempt
            try:
                with self._stream(path, params) as response:
                    self._known = True
                    start, tail = int(response.headers.get(LOG_START_HEADER, start)), None
                    if (named := response.headers.get(LOG_ATTEMPT_HEADER)) is not None:
                        attempt = int(named)
                    for piece in response.iter_bytes():
                        start, broken = start + len(piece), 0
                        yield piece
            except (httpx.TransportError, ServiceError) as error:
                broken += 1
                if broken >= self._attempts:
                    raise self._unreachable(error) from error
                _pause(broken)
            else:
                return attempt

    @contextlib.contextmanager
    def _stream(self, path: str, params: Mapping[str, Any]) -> Iterator[httpx.Response]:
        # A log may be silent for any time.
        timeout = httpx.Timeout(30.0, read=None)
        with self._client.stream("GET", quote(path), params=params, timeout=timeout) as response:
            if not response.is_success:
                response.read()
                raise _error_of(response)
            yield response

    def _request(self, method: str, path: str, options: Mapping[str, Any], *, repeatable: bool) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            last = attempt >= self._attempts
            try:
                response = self._client.request(method, quote(path), **options)
            except httpx.TransportError as error:
                # A request that was never sent is always safe to retry.
                if last or not (repeatable or isinstance(error, httpx.ConnectError)):
                    raise self._unreachable(error) from error
            else:
                self._known = True
                # Redirects are not followed, so that a redirected request was not carried out.
                if response.is_success:
                    return response
                if last or not repeatable or response.status_code not in _BUSY:
                    raise _error_of(response)
            _pause(attempt)

    @property
    def _attempts(self) -> int:
        return _ATTEMPTS_ONCE_KNOWN if self._known else _ATTEMPTS

    def _unreachable(self, error: Exception) -> ServiceError:
        return ServiceError(
            f"The service at {self._address} does not answer",
            why=str(error) or type(error).__name__,
            fix=f"curl {self._address}/health/ready; penstock serve starts one",
        )


def _pause(attempt: int) -> None:
    time.sleep(min(_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS))


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise _stranger(response) from error


def _error_of(response: httpx.Response) -> PenstockError:
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code in _BUSY and not isinstance(body, dict):
        return ServiceError(
            f"The service at {response.url.host} is overloaded",
            why=f"it answered {response.status_code} {response.reason_phrase}",
            fix="retry later",
        )
    if not isinstance(body, dict) or "problem" not in body:
        return _stranger(response)
    return from_problem(body)


def _stranger(response: httpx.Response) -> ServiceError:
    form = " without JSON" if response.is_success else ""
    return ServiceError(
        f"The server at {response.url.host} is not a Penstock service",
        why=f"it answered {response.status_code} {response.reason_phrase}{form}",
        fix="check the address and any proxies",
    )


def _token(file: str | Path | None, *, here: bool) -> str:
    named = file or os.environ.get(TOKEN_FILE_VARIABLE)
    path = Path(named).expanduser() if named else first_token_file(Home.default()) if here else None
    if path is None:
        raise Unauthenticated(
            "No token was given",
            why=f"{TOKEN_FILE_VARIABLE} is not set",
            fix="write the token to a file of mode 600 and name it there",
        )
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise Unauthenticated(
            f"There is no token in {path}",
            why=getattr(error, "strerror", "") or "it is not text",
            fix=f"penstock token create NAME --output FILE creates one; {TOKEN_FILE_VARIABLE} names the file",
        ) from error
    if not _is_token(text):
        raise Unauthenticated(
            f"{path} does not contain a token", fix="write one line, as penstock token create printed it"
        )
    return text


def _given(token: str) -> str:
    # The HTTP library would quote the header, and with it the token, in its error.
    if not _is_token(text := token.strip()):
        raise Unauthenticated(
            "The given token is not a token",
            why="it is not one word of ASCII characters",
            fix="give it as penstock token create printed it",
        )
    return text


def _is_token(text: str) -> bool:
    return text.isascii() and bool(text) and not any(character <= " " for character in text)


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        # The port is parsed when it is read, and the HTTP library refuses more hosts than the standard library.
        _ = parts.port, httpx.URL(address)
    except (ValueError, httpx.InvalidURL) as error:
        raise InvalidInput(
            f"“{address}” is not the address of a service",
            why=str(error),
            fix=f"give https://HOST:PORT with --server or {SERVER_VARIABLE}",
        ) from error
    return parts


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _context(authorities: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authorities))
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"{authorities} does not contain a certificate", why=str(error), fix="give a PEM file"
        ) from error
