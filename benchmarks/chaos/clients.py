"""Mapping of a connection to the process of an application: faults must hit no other process."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_ESTABLISHED = "01"
_MARK = b"PENSTOCK_APPLICATION="


@dataclass(frozen=True)
class Client:
    pid: int
    application: str
    role: str
    """`driver` or `executor`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def client_process(port: int, server_port: int) -> Client | None:
    """The application's process that is connected from `port` of this machine; None where the client is another one."""
    inode = _inode(port, server_port)
    if inode is None:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            application = _application(process)
            if application and _holds(process, inode):
                arguments = (process / "cmdline").read_bytes()
                role = "executor" if b"--executor-id" in arguments else "driver"
                return Client(int(process.name), application, role)
    return None


def _inode(port: int, server_port: int) -> str | None:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
                fields = line.split()
                local, remote = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
                if (local, remote, fields[3]) == (port, server_port, _ESTABLISHED):
                    return fields[9]
    return None


def _application(process: Path) -> str | None:
    for entry in (process / "environ").read_bytes().split(b"\0"):
        if entry.startswith(_MARK):
            return entry.removeprefix(_MARK).decode()
    return None


def _holds(process: Path, inode: str) -> bool:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            if str(descriptor.readlink()) == f"socket:[{inode}]":
                return True
    return False
