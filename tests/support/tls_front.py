"""A certificate authority for tests, and TLS in front of a store that has none."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    authority: Path
    """The authority's certificate, in PEM."""
    server: Path
    key: Path


def certificates(directory: Path, *names: str) -> Certificates:
    """Issue a server certificate for these host names by an authority that no other program trusts."""
    directory.mkdir(parents=True, exist_ok=True)
    authority, authority_key = directory / "ca.pem", directory / "ca.key"
    server, key, request, extensions = (directory / name for name in ("server.pem", "server.key", "request", "ext"))
    extensions.write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in names), encoding="ascii")
    openssl(
        "req", "-x509", *NEW_KEY, "-keyout", authority_key, "-out", authority, "-subj", "/CN=An authority", "-days", "2"
    )
    openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", "/CN=A gateway")
    signing = ("-CA", authority, "-CAkey", authority_key, "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", request, "-out", server, "-extfile", extensions, *signing)
    return Certificates(authority, server, key)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments: object) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TlsFront:
    """A TLS listener on a port of 127.0.0.1 that passes every byte on, including the Host header."""

    def __init__(self, certificates: Certificates, target: tuple[str, int]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.key)
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._context = context
        self.connections = 0
        """The connections whose client trusted the certificate."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        # A thread that waits in accept keeps a socket open even after close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as client:
            self.connections += 1
            with socket.create_connection(self._target) as store:
                back = threading.Thread(target=_pass_on, args=[store, client], daemon=True)
                back.start()
                _pass_on(client, store)
                back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def fronts(certificates: Certificates, target: tuple[str, int], count: int) -> Iterator[list[TlsFront]]:
    made = [TlsFront(certificates, target) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.close()
