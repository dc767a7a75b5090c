"""The daemons' configuration and commands. Pure: texts and arguments from the shape, the ports and the places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.hadoopconf import configuration_xml
from penstock.lake.hdfs.plan import NAMENODE, Ports, Shape

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
