"""The keeper's end of a way to a port of the driver's loopback: a connection to either, and every byte passed on."""

from __future__ import annotations

import contextlib
import socket
import threading

UPGRADE = "penstock-tunnel"
"""The protocol that a connection to the keeper is upgraded to (RFC 9110, 7.8): the API server's proxy passes any on."""

_PIECE = 1 << 16
_CONNECT_SECONDS = 5.0


def connect(port: int) -> socket.socket | None:
    """The driver's side; None where nothing listens there."""
    try:
        far = socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS)
    except OSError:
        return None
    far.settimeout(None)
    return far


def join(near: socket.socket, far: socket.socket) -> None:
    """Returns when both sides have said all they had to say."""
    near.settimeout(None)
    back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
    back.start()
    _pass_on(near, far)
    back.join()
    far.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
