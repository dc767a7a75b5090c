"""What the NameNode says of its HDFS, and what the kernel says of the daemons."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from penstock import proc
from penstock.lake.hdfs.plan import Ports, Shape
from penstock.processes import ProcessId

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Health:
    """The NameNode's view. Bytes are raw: each copy of a block counts, and `capacity_bytes` is what the file systems of
    all DataNodes together have, however many of them are one file system."""

    live: int
    safe_mode: bool
    capacity_bytes: int
    used_bytes: int
    remaining_bytes: int
    files: int
    blocks: int
    under_replicated: int
    missing: int


@dataclass(frozen=True)
class Daemon:
    """`core_seconds` since it was started."""

    name: str
    process_id: int | None
    memory_bytes: int | None = None
    core_seconds: float | None = None


@dataclass(frozen=True)
class Status:
    """`health` is None where the NameNode does not answer."""

    name: str
    root: str
    shape: Shape
    ready: bool
    web: str
    health: Health | None
    daemons: tuple[Daemon, ...]
    directory: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def health(namenode: Ports) -> Health | None:
    """None where it does not answer (yet)."""
    system = _bean(namenode.http, "Hadoop:service=NameNode,name=FSNamesystemState")
    blocks = _bean(namenode.http, "Hadoop:service=NameNode,name=FSNamesystem")
    return None if system is None or blocks is None else judged(system, blocks)


def judged(system: Mapping[str, Any], blocks: Mapping[str, Any]) -> Health:
    """From two of the NameNode's beans, `FSNamesystemState` and `FSNamesystem`. Pure."""
    return Health(
        live=int(system["NumLiveDataNodes"]),
        safe_mode=system["FSState"] != "Operational",
        capacity_bytes=int(system["CapacityTotal"]),
        used_bytes=int(system["CapacityUsed"]),
        remaining_bytes=int(system["CapacityRemaining"]),
        files=int(system["FilesTotal"]),
        blocks=int(system["BlocksTotal"]),
        under_replicated=int(blocks["UnderReplicatedBlocks"]),
        missing=int(blocks["MissingBlocks"]),
    )


def local_reads(datanode: Ports) -> tuple[int, int] | None:
    """Of one DataNode since it was started: how often it told where a block's file is, and how many bytes of blocks it
    has sent itself. The proof of short-circuit reads; None where it does not answer."""
    activity = _bean(datanode.http, "Hadoop:service=DataNode,name=DataNodeActivity-*")
    return None if activity is None else (int(activity["BlocksGetLocalPathInfo"]), int(activity["BytesRead"]))


def watched(names: Iterable[str], running: Mapping[str, ProcessId]) -> tuple[Daemon, ...]:
    """Each daemon with what it has taken of the machine."""
    counted = {process.pid: process for process in proc.processes()}

    def seen(name: str) -> Daemon:
        process = running.get(name)
        known = counted.get(process.pid) if process else None
        if known is None:
            return Daemon(name, None)
        return Daemon(name, known.pid, proc.memory_bytes([known]), round(proc.core_seconds([known]), 2))

    return tuple(map(seen, names))


def _bean(port: int, query: str) -> Mapping[str, Any] | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", f"/jmx?qry={quote(query, safe='')}")
        answer = connection.getresponse()
        beans = json.loads(answer.read())["beans"] if answer.status == http.HTTPStatus.OK else []
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()
    return beans[0] if beans else None
