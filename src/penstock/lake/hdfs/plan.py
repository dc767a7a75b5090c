"""What an HDFS of this machine is made of, and what to start next. Pure: no I/O, no clock."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from penstock.errors import Conflict, InvalidInput

NAMENODE = "namenode"
_USUAL_DATANODES = 3
"""HDFS's own idea of enough: each block is on three."""
_MOST_DATANODES = 16

_NAME = re.compile(r"[a-z][a-z0-9-]{1,30}[a-z0-9]")
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}")


def checked_name(name: str) -> str:
    """The same; `InvalidInput` for what cannot be a name service."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"“{name[:80]}” cannot be the name of an HDFS",
            why="its addresses begin with it: 3 to 32 lower-case letters, digits and '-', a letter first",
            fix="choose another name, such as hdfs",
        )
    return name


def checked_namenode(address: str) -> str:
    """The same; `InvalidInput` for what is not a host and a port."""
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(
            f"“{address[:80]}” is no NameNode's address",
            why="it is a host and a port",
            fix="--namenode nn.example:8020",
        )
    return address


@dataclass(frozen=True)
class Shape:
    """`remote`: the DataNodes pass for other hosts, so that blocks are read over TCP and no task is near them."""

    datanodes: int
    replication: int
    remote: bool = False

    def daemons(self) -> tuple[str, ...]:
        return (NAMENODE, *(f"datanode.{number}" for number in range(1, self.datanodes + 1)))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Asked:
    """What a user says of the shape; None where nothing."""

    datanodes: int | None = None
    replication: int | None = None
    remote: bool | None = None


def shaped(before: Shape | None, asked: Asked, *, running: bool) -> Shape:
    """The shape to have now. `before` is that of the HDFS as it was formatted or last changed.

    DataNodes can be added, and another replication holds for what is written from then on. `InvalidInput` for what
    cannot be, `Conflict` for what cannot be while it runs.
    """
    if before is None:
        datanodes = _USUAL_DATANODES if asked.datanodes is None else asked.datanodes
        wanted = Shape(datanodes, min(_USUAL_DATANODES, datanodes))
    else:
        wanted = replace(before, datanodes=before.datanodes if asked.datanodes is None else asked.datanodes)
    if asked.replication is not None:
        wanted = replace(wanted, replication=asked.replication)
    if asked.remote is not None:
        wanted = replace(wanted, remote=asked.remote)
    if not 1 <= wanted.datanodes <= _MOST_DATANODES:
        raise InvalidInput(
            f"{wanted.datanodes} DataNodes cannot be had here",
            why=f"each is a process with a port of its own; there are 1 to {_MOST_DATANODES}",
            fix=f"--datanodes {_USUAL_DATANODES}",
        )
    if before is not None and wanted.datanodes < before.datanodes:
        raise InvalidInput(
            f"This HDFS has {before.datanodes} DataNodes and cannot do with {wanted.datanodes}",
            why="the blocks of those that went would go with them",
            fix="penstock lake hdfs wipe, which removes its data; then up with fewer",
        )
    if not 1 <= wanted.replication <= wanted.datanodes:
        raise InvalidInput(
            f"A block cannot be on {wanted.replication} of {wanted.datanodes} DataNodes",
            why="each copy of a block is on another DataNode",
            fix=f"--replication {wanted.datanodes}, or more DataNodes",
        )
    if before is not None and running and wanted.remote != before.remote:
        raise Conflict(
            "A running HDFS cannot move nearer or farther",
            why="the DataNodes have told the NameNode what they are called",
            fix="penstock lake hdfs down, then up again; the data stays",
        )
    return wanted


def serves(shape: Shape, running: Collection[str]) -> bool:
    """Whether the NameNode runs and, by today's replication, a DataNode with each block: fewer are missing than there
    are copies."""
    return NAMENODE in running and shape.datanodes - (len(running) - 1) < shape.replication


@dataclass(frozen=True)
class Ports:
    """What one daemon listens on, on 127.0.0.1. `data` is a DataNode's alone: blocks come and go there."""

    rpc: int
    http: int
    data: int = 0

    @staticmethod
    def of(numbers: Mapping[str, int]) -> Ports:
        return Ports(int(numbers["rpc"]), int(numbers["http"]), int(numbers["data"]))

    def all(self) -> tuple[int, ...]:
        return tuple(port for port in (self.rpc, self.http, self.data) if port)


class Action(enum.Enum):
    FORMAT = "format"
    START = "start"
    WAIT = "wait"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class Step:
    """`daemons` are those to start, or those that failed; `reason` is what is waited for."""

    action: Action
    daemons: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Seen:
    """`started`: what this command has started already; `listening`: what of `running` takes connections. `live` is how
    many DataNodes the NameNode counts, None while it does not answer; one that was killed it counts for a while.
    `missing`: blocks no DataNode has told of that may yet do so."""

    formatted: bool
    running: frozenset[str]
    started: frozenset[str] = frozenset()
    listening: frozenset[str] = frozenset()
    live: int | None = None
    safe_mode: bool = True
    missing: int = 0


def next_step(shape: Shape, seen: Seen) -> Step:
    """What brings it nearer to being up. A daemon that was started and is gone again will not stay a second time."""
    if not seen.formatted:
        return Step(Action.FORMAT)
    missing = [name for name in shape.daemons() if name not in seen.running]
    if gone := tuple(name for name in missing if name in seen.started):
        return Step(Action.FAILED, gone)
    if missing:
        return Step(Action.START, tuple(missing))
    if waits_for := _unready(shape, seen):
        return Step(Action.WAIT, reason=waits_for)
    return Step(Action.READY)


def _unready(shape: Shape, seen: Seen) -> str:
    if seen.live is None:
        return "the NameNode does not answer yet"
    if deaf := sorted(seen.running - seen.listening):
        return f"not listening yet: {', '.join(deaf)}"
    if seen.live < shape.datanodes:
        return f"{seen.live} of {shape.datanodes} DataNodes have told the NameNode of themselves"
    # It leaves its safe mode when it knows of 999 in 1000 blocks, which of a few are none.
    return "the NameNode still learns which blocks there are" if seen.safe_mode or seen.missing else ""
