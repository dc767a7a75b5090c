"""The layout of an HDFS on this machine: shape, ports, configuration files, the next step of a start, state file."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.codec import JsonRecord
from penstock.errors import Conflict, InvalidInput
from penstock.formats import configuration_xml
from penstock.home import read_json, write_json
from penstock.processes import await_free_ports, free_ports

NAMENODE = "namenode"
_USUAL_DATANODES = 3
"""HDFS's own default replication puts each block on three DataNodes."""
_MOST_DATANODES = 16

_NAME = re.compile(r"[a-z][a-z0-9-]{1,30}[a-z0-9]")
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}")


def validate_name(name: str) -> str:
    """Return the name; raise `InvalidInput` if it cannot be that of a name service."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"“{name[:80]}” cannot be the name of an HDFS",
            why="the name is part of its addresses: 3 to 32 lower-case letters, digits and '-', a letter first",
            fix="choose another name, such as hdfs",
        )
    return name


def validate_namenode(address: str) -> str:
    """Return the address; raise `InvalidInput` if it is not a host and a port."""
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(
            f"“{address[:80]}” is not a NameNode's address",
            why="the address is a host and a port",
            fix="--namenode nn.example:8020",
        )
    return address


@dataclass(frozen=True)
class Shape(JsonRecord):
    """The number of DataNodes and copies of a block.

    With `remote`, DataNodes pass for other hosts, so that blocks are read over TCP and no task is local to them.
    """

    datanodes: int
    replication: int
    remote: bool = False

    def daemons(self) -> tuple[str, ...]:
        return (NAMENODE, *(f"datanode.{number}" for number in range(1, self.datanodes + 1)))


@dataclass(frozen=True)
class ShapeRequest:
    """The shape that a user requests; None keeps the present or default value."""

    datanodes: int | None = None
    replication: int | None = None
    remote: bool | None = None


def resolve_shape(before: Shape | None, request: ShapeRequest, *, running: bool) -> Shape:
    """Apply a request to the shape `before`, which is that of the formatted or last changed HDFS.

    DataNodes can be added, and a new replication applies to later writes. Raises `InvalidInput` for an impossible
    shape, and `Conflict` for a change that is impossible while the HDFS runs.
    """
    if before is None:
        datanodes = _USUAL_DATANODES if request.datanodes is None else request.datanodes
        wanted = Shape(datanodes, min(_USUAL_DATANODES, datanodes))
    else:
        wanted = replace(before, datanodes=before.datanodes if request.datanodes is None else request.datanodes)
    if request.replication is not None:
        wanted = replace(wanted, replication=request.replication)
    if request.remote is not None:
        wanted = replace(wanted, remote=request.remote)
    if not 1 <= wanted.datanodes <= _MOST_DATANODES:
        raise InvalidInput(
            f"An HDFS cannot have {wanted.datanodes} DataNodes here",
            why=f"each is a process of this machine; their number is 1 to {_MOST_DATANODES}",
            fix=f"--datanodes {_USUAL_DATANODES}",
        )
    if before is not None and wanted.datanodes < before.datanodes:
        raise InvalidInput(
            f"This HDFS has {before.datanodes} DataNodes and cannot shrink to {wanted.datanodes}",
            why="the blocks on the removed DataNodes would be lost",
            fix="penstock lake hdfs wipe, which deletes its data; then up with fewer",
        )
    if not 1 <= wanted.replication <= wanted.datanodes:
        raise InvalidInput(
            f"A block cannot be on {wanted.replication} of {wanted.datanodes} DataNodes",
            why="each copy of a block is on another DataNode",
            fix=f"--replication {wanted.datanodes}, or more DataNodes",
        )
    if before is not None and running and wanted.remote != before.remote:
        raise Conflict(
            "A running HDFS cannot switch between local and remote DataNodes",
            why="the DataNodes have registered their host names with the NameNode",
            fix="penstock lake hdfs down, then up again; the data is kept",
        )
    return wanted


def is_serving(shape: Shape, running: Collection[str]) -> bool:
    """Report whether the NameNode runs and, at the present replication, a DataNode with each block does.

    The latter holds while fewer DataNodes are missing than a block has copies.
    """
    return NAMENODE in running and shape.datanodes - (len(running) - 1) < shape.replication


@dataclass(frozen=True)
class Ports:
    """The ports of one daemon on 127.0.0.1. Only a DataNode has `data`, the port for reading and writing blocks."""

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
class StartupStep:
    """The next step of a start.

    `daemons` are those to start or those that failed; `reason` says why the command waits.
    """

    action: Action
    daemons: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class StartupState:
    """The observed state of an HDFS while a command starts it."""

    formatted: bool
    running: frozenset[str]
    started: frozenset[str] = frozenset()
    """The daemons that this command has started already."""
    listening: frozenset[str] = frozenset()
    """The running daemons that accept connections."""
    live: int | None = None
    """The NameNode's count of DataNodes, which includes a killed one for a while; None while it does not answer."""
    safe_mode: bool = True
    missing: int = 0
    """The number of blocks that no DataNode has reported and that may still be reported."""


def next_step(shape: Shape, seen: StartupState) -> StartupStep:
    """Return the next step towards a running HDFS. A daemon that ended after its start is not started again."""
    if not seen.formatted:
        return StartupStep(Action.FORMAT)
    missing = [name for name in shape.daemons() if name not in seen.running]
    if gone := tuple(name for name in missing if name in seen.started):
        return StartupStep(Action.FAILED, gone)
    if missing:
        return StartupStep(Action.START, tuple(missing))
    if reason := _unready(shape, seen):
        return StartupStep(Action.WAIT, reason=reason)
    return StartupStep(Action.READY)


def _unready(shape: Shape, seen: StartupState) -> str:
    """The reason why the HDFS is not ready; empty if it is."""
    if seen.live is None:
        return "the NameNode does not answer yet"
    if silent := sorted(seen.running - seen.listening):
        return f"not listening yet: {', '.join(silent)}"
    if seen.live < shape.datanodes:
        return f"{seen.live} of {shape.datanodes} DataNodes have registered with the NameNode"
    # The NameNode leaves safe mode at 999 of 1000 blocks, so with few blocks some may still be unreported.
    return "the NameNode is still learning which blocks exist" if seen.safe_mode or seen.missing else ""


CONFIGURATION = "conf"
DATA = "data"
TEMPORARY = "tmp"

_HOST = "127.0.0.1"
_MAIN = {
    NAMENODE: "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
# Enough for a lab's data, not a company's: a NameNode needs some 150 bytes for each file and each block.
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
# Logging each block and each request would be most of the work for a small file.
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
    """A daemon's configuration, file name → content. `place` is its directory, `user` the account that runs it."""
    own = ports[daemon]
    settings = _namenode(own, place) if daemon == NAMENODE else _datanode(shape, daemon, own, place, user)
    rpc = f"{_HOST}:{ports[NAMENODE].rpc}"
    return {
        "core-site.xml": configuration_xml(
            {
                "fs.defaultFS": f"hdfs://{rpc}",
                "hadoop.tmp.dir": str(place / TEMPORARY),
                # Ten retries, as by default, but faster: a local port that does not listen yet will soon, or never.
                "ipc.client.connect.retry.interval": "200",
            }
        ),
        "hdfs-site.xml": configuration_xml(
            {
                "dfs.namenode.rpc-address": rpc,
                "dfs.replication": str(shape.replication),
                "dfs.heartbeat.interval": "1",
                # Refuse requests that a web page could make a local browser send.
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
        # All DataNodes are on this machine, so the default wait of half a minute is pointless.
        "dfs.namenode.safemode.extension": "0",
        # A killed DataNode is avoided after five seconds and declared dead after some twenty; Hadoop's defaults are
        # half a minute and ten minutes.
        "dfs.namenode.stale.datanode.interval": "5000",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        # The host names of remote DataNodes cannot be resolved.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    }


def _datanode(shape: Shape, daemon: str, ports: Ports, place: Path, user: str) -> dict[str, str]:
    near = {
        "dfs.datanode.hostname": _HOST,
        # The account to which a DataNode gives the path of a block's file.
        "dfs.block.local-path-access.user": user,
        "dfs.client.read.shortcircuit": "true",
        "dfs.client.use.legacy.blockreader.local": "true",
    }
    # No host can have such a name, so the DataNode is local to no client.
    far = {"dfs.datanode.hostname": f"{daemon.replace('.', '-')}.invalid"}
    return {
        "dfs.datanode.data.dir": _data(place),
        "dfs.datanode.address": f"{_HOST}:{ports.data}",
        "dfs.datanode.ipc.address": f"{_HOST}:{ports.rpc}",
        "dfs.datanode.http.address": f"{_HOST}:{ports.http}",
        **(far if shape.remote else near),
    }


def _data(place: Path) -> str:
    """The data directory relative to the daemon's, or to one beside it.

    Hadoop would split an absolute path at its commas, and does not decode escaped characters in it.
    """
    return f"../{place.name}/{DATA}"


def command(java: Path, daemon: str, place: Path, jars: Sequence[Path], *arguments: str) -> list[str]:
    """The command that runs the daemon in `place`. `arguments` are the daemon's own, such as `-format`."""
    kind = daemon.partition(".")[0]
    return [
        str(java),
        f"-Xmx{_HEAP_MIB[kind]}m",
        # The heaps are small with little live data; other collectors would add threads and memory.
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
    """A minimal environment, because the user's HADOOP_* variables concern another Hadoop."""
    return {"PATH": os.defpath, "HOME": str(place), "LC_ALL": "C.UTF-8"}


FILE = "cluster.json"

_NAMENODE_PORTS = ("rpc", "http")
_DATANODE_PORTS = ("rpc", "http", "data")


class HdfsState:
    """The state file of an HDFS: its shape and its daemons' ports."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / FILE

    def shape(self) -> Shape | None:
        """The recorded shape; None before the first start."""
        fields = self._read().get("shape")
        return Shape(**fields) if fields else None

    def ports(self) -> dict[str, Ports]:
        return {name: Ports.of(numbers) for name, numbers in self._read().get("ports", {}).items()}

    def record(self, shape: Shape, running: Collection[str]) -> dict[str, Ports]:
        """Record the shape and every daemon's ports; a daemon keeps its ports while it runs or they are still free."""
        known = self.ports()
        ports = {}
        for daemon in shape.daemons():
            before = known.get(daemon)
            if before and (daemon in running or await_free_ports(before.all())):
                ports[daemon] = before
            else:
                names = _NAMENODE_PORTS if daemon == NAMENODE else _DATANODE_PORTS
                ports[daemon] = Ports(**dict(zip(names, free_ports(len(names)), strict=True)))
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        numbers = {daemon: vars(chosen) for daemon, chosen in ports.items()}
        write_json(self._file, {"shape": shape.to_json(), "ports": numbers})
        return ports

    def _read(self) -> dict[str, Any]:
        return dict(read_json(self._file) or {})
