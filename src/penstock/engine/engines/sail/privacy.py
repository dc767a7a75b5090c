"""Sail's server for this process alone: it asks nobody who he is, and every account of a machine reaches the loopback.

Sail has no setting for a single client. So once this process is connected, it closes the kernel's sockets beneath Sail:
the one that listens, and those of other processes that were quicker.
"""

from __future__ import annotations

import contextlib
import os
import socket

from penstock.processes import ESTABLISHED, LISTENS, tcp_sockets


def close_to_others(port: int) -> None:
    """Stop to listen at a port of this process, and end the connections that other processes have there."""
    for one in tcp_sockets(os.getpid()):
        if (one.local, one.state) == (port, LISTENS) and one.descriptor is not None:
            with socket.socket() as placeholder:
                # The server keeps a descriptor that it may close, of a socket that nobody reaches.
                os.dup2(placeholder.fileno(), one.descriptor)
    found = tcp_sockets(os.getpid())
    ours = {one.local for one in found if one.remote == port and one.descriptor is not None}
    for one in found:
        if one.descriptor is None or (one.local, one.state) != (port, ESTABLISHED) or one.remote in ours:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(one.descriptor)) as stranger:
            stranger.shutdown(socket.SHUT_RDWR)
