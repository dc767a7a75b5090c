"""Sail's server for this process alone: it asks nobody who he is, and every account of a machine reaches the loopback.

Sail has no setting for a single client. So once this process is connected, it closes the kernel's sockets beneath Sail:
the one that listens, and those of other processes that were quicker.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ESTABLISHED, _LISTENS = "01", "0A"


@dataclass(frozen=True)
class _Socket:
    """A TCP socket of this machine, by its ports and its number in the kernel."""

    local: int
    remote: int
    state: str
    inode: str


def close_to_others(port: int) -> None:
    """Stop to listen at a port of this process, and end the connections that other processes have there."""
    descriptors = _descriptors()
    for listener in [one for one in _sockets() if (one.local, one.state) == (port, _LISTENS)]:
        with socket.socket() as placeholder:
            # The server keeps a descriptor that it may close, of a socket that nobody reaches.
            os.dup2(placeholder.fileno(), descriptors[listener.inode])
    found, descriptors = list(_sockets()), _descriptors()
    ours = {one.local for one in found if one.remote == port and one.inode in descriptors}
    for one in found:
        if (one.local, one.state) == (port, _ESTABLISHED) and one.remote not in ours and one.inode in descriptors:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptors[one.inode])) as stranger:
                stranger.shutdown(socket.SHUT_RDWR)


def _descriptors() -> dict[str, int]:
    """This process's descriptors of sockets, by the sockets' numbers."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            target = str(entry.readlink())
            if target.startswith("socket:["):
                found[target.removeprefix("socket:[").removesuffix("]")] = int(entry.name)
    return found


def _sockets() -> Iterator[_Socket]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(f"/proc/self/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                local, remote = (int(fields[index].rpartition(":")[2], 16) for index in (1, 2))
                yield _Socket(local, remote, fields[3], fields[9])
