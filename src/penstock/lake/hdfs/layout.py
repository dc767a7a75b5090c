"""The layout of an HDFS of this machine: shape, ports, configuration files, the next daemon, its state file."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock.errors import Conflict, InvalidInput
from penstock.formats import configuration_xml
from penstock.home import read_json, write_json
from penstock.processes import are_free_again, free_ports

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


CONFIGURATION = "conf"
DATA = "data"
TEMPORARY = "tmp"

_HOST = "127.0.0.1"
_MAIN = {
    NAMENODE: "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
# The names of a lab's data, not of a company's: a NameNode needs some 150 bytes for each file and for each block.
_HEAP_MIB = {NAMENODE: 512, "datanode": 384}

_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:penstock.log}
appender.file.filePattern = ${sys:penstock.log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 16MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
logger.missing.name = org.apache.hadoop.util.NativeCodeLoader
logger.missing.level = error
# A line for each block and for each request would be most of the work of a small file.
logger.blocks.name = BlockStateChange
logger.blocks.level = warn
logger.state.name = org.apache.hadoop.hdfs.StateChange
logger.state.level = warn
logger.trace.name = org.apache.hadoop.hdfs.server.datanode.DataNode.clienttrace
logger.trace.level = warn
logger.datanode.name = org.apache.hadoop.hdfs.server.datanode.DataNode
logger.datanode.level = warn
logger.dataset.name = org.apache.hadoop.hdfs.server.datanode.fsdataset.impl
logger.dataset.level = warn
logger.audit.name = org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit
logger.audit.level = warn
logger.requests.name = http.requests
logger.requests.level = warn
"""


def files(shape: Shape, daemon: str, ports: Mapping[str, Ports], place: Path, *, user: str) -> dict[str, str]:
    """A daemon's configuration, file name → content. `place` is its own directory, `user` who runs it."""
    own = ports[daemon]
    settings = _namenode(own, place) if daemon == NAMENODE else _datanode(shape, daemon, own, place, user)
    rpc = f"{_HOST}:{ports[NAMENODE].rpc}"
    return {
        "core-site.xml": configuration_xml(
            {
                "fs.defaultFS": f"hdfs://{rpc}",
                "hadoop.tmp.dir": str(place / TEMPORARY),
                # Ten times, as ever; what does not listen on this machine is not there, or is there in a moment.
                "ipc.client.connect.retry.interval": "200",
            }
        ),
        "hdfs-site.xml": configuration_xml(
            {
                "dfs.namenode.rpc-address": rpc,
                "dfs.replication": str(shape.replication),
                "dfs.heartbeat.interval": "1",
                # What a page in a browser of this machine could be made to ask for is refused.
                "dfs.webhdfs.rest-csrf.enabled": "true",
                **settings,
            }
        ),
        "log4j2.properties": _LOG4J,
    }


def _namenode(ports: Ports, place: Path) -> dict[str, str]:
    return {
        "dfs.namenode.name.dir": _data(place),
        "dfs.namenode.rpc-bind-host": _HOST,
        "dfs.namenode.http-address": f"{_HOST}:{ports.http}",
        # No half minute of waiting for DataNodes that are all of this machine.
        "dfs.namenode.safemode.extension": "0",
        # A DataNode that was killed is passed over after five seconds and given up after some twenty: not after half a
        # minute and ten.
        "dfs.namenode.stale.datanode.interval": "5000",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        # Those of remote ones are in no name service.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    }


def _datanode(shape: Shape, daemon: str, ports: Ports, place: Path, user: str) -> dict[str, str]:
    near = {
        "dfs.datanode.hostname": _HOST,
        # Whom a DataNode tells where the file of a block is.
        "dfs.block.local-path-access.user": user,
        "dfs.client.read.shortcircuit": "true",
        "dfs.client.use.legacy.blockreader.local": "true",
    }
    # A name that no host can have: what is called so is near to nobody.
    far = {"dfs.datanode.hostname": f"{daemon.replace('.', '-')}.invalid"}
    return {
        "dfs.datanode.data.dir": _data(place),
        "dfs.datanode.address": f"{_HOST}:{ports.data}",
        "dfs.datanode.ipc.address": f"{_HOST}:{ports.rpc}",
        "dfs.datanode.http.address": f"{_HOST}:{ports.http}",
        **(far if shape.remote else near),
    }


def _data(place: Path) -> str:
    """From the daemon's own directory or one beside it: Hadoop splits a whole path at its commas, and takes what is
    escaped in it for what it is called."""
    return f"../{place.name}/{DATA}"


def command(java: Path, daemon: str, place: Path, jars: Sequence[Path], *arguments: str) -> list[str]:
    """To be run in `place`. `arguments` are the daemon's own (`-format`)."""
    kind = daemon.partition(".")[0]
    return [
        str(java),
        f"-Xmx{_HEAP_MIB[kind]}m",
        # Small heaps that hold little for long; the other collectors bring threads and memory of their own.
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        f"-Djava.io.tmpdir={place / TEMPORARY}",
        f"-Dlog4j2.configurationFile={place / CONFIGURATION / 'log4j2.properties'}",
        f"-Dpenstock.log={place / 'daemon.log'}",
        "-cp",
        os.pathsep.join(map(str, (place / CONFIGURATION, *jars))),
        _MAIN[kind],
        *arguments,
    ]


def environment(place: Path) -> dict[str, str]:
    """Bare: HADOOP_… of the user's are about another Hadoop."""
    return {"PATH": os.defpath, "HOME": str(place), "LC_ALL": "C.UTF-8"}


FILE = "cluster.json"

_NAMENODE_PORTS = ("rpc", "http")
_DATANODE_PORTS = ("rpc", "http", "data")


class State:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / FILE

    def shape(self) -> Shape | None:
        """None where nothing was ever kept."""
        kept = self._kept().get("shape")
        return Shape(**kept) if kept else None

    def ports(self) -> dict[str, Ports]:
        return {name: Ports.of(numbers) for name, numbers in self._kept().get("ports", {}).items()}

    def keep(self, shape: Shape, running: Collection[str]) -> dict[str, Ports]:
        """Write down the shape and every daemon's ports, which it keeps while it runs or where they are still free."""
        known = self.ports()
        ports = {}
        for daemon in shape.daemons():
            before = known.get(daemon)
            if before and (daemon in running or are_free_again(before.all())):
                ports[daemon] = before
            else:
                names = _NAMENODE_PORTS if daemon == NAMENODE else _DATANODE_PORTS
                ports[daemon] = Ports(**dict(zip(names, free_ports(len(names)), strict=True)))
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        numbers = {daemon: vars(chosen) for daemon, chosen in ports.items()}
        write_json(self._file, {"shape": shape.as_json(), "ports": numbers})
        return ports

    def _kept(self) -> dict[str, Any]:
        return dict(read_json(self._file) or {})
