"""A daemon's administrative socket: what it says of itself, also while the monitor says nothing."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

from penstock.lake.ceph.configuration import SOCKETS


def ask(directory: Path, entity: str, command: str, *, patience_seconds: float = 2.0) -> Any:
    """The parsed answer of the daemon with Ceph's name `entity`; None where it has none to give, or not in time."""
    try:
        # By a descriptor, since the directory's own path may be longer than a socket's address can be.
        held = os.open(directory / SOCKETS, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(patience_seconds)
            connection.connect(f"/proc/self/fd/{held}/{entity}.asok")
            connection.sendall(json.dumps({"prefix": command}).encode() + b"\0")
            length = struct.unpack(">I", _read(connection, 4))[0]
            return json.loads(_read(connection, length))
    except (OSError, ValueError, EOFError):
        return None
    finally:
        os.close(held)


def _read(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content
