"""Hadoop's servers: their jars, fetched by Maven on first use, and the health that NameNode and kernel report.

pyspark contains only Hadoop's client. The servers that match its relocated packages are in one artifact, which is three
times as large as everything that Penstock ships, and so is not part of the wheel.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock import processes
from penstock.codec import JsonRecord
from penstock.errors import MissingRequirement
from penstock.home import Home
from penstock.lake.hdfs.layout import Ports, Shape
from penstock.processes import ProcessId
from penstock.runtime.jvm import find_java, spark_jars

HADOOP = "3.4.2"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_FETCH_SECONDS = 600


@dataclass(frozen=True)
class Artifact:
    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


_ARTIFACTS = (
    Artifact(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        HADOOP,
        "ae2406c544825b7734b8aad4f87eff60d9ec422284f0b16c2856032083b63c77",
    ),
    # WebHDFS names one of its classes in a place that relocation does not reach, and Java lacks it since Java 11.
    Artifact(
        "javax.xml.bind",
        "jaxb-api",
        "2.2.11",
        "273d82f8653b53ad9d00ce2b2febaef357e79a273560e796ff3fcfec765f8910",
    ),
)

# The servers need these of Spark's jars: Hadoop's client, logging, and compression.
_SPARK_JARS = (
    "hadoop-client-api-",
    "hadoop-client-runtime-",
    "slf4j-api-",
    "log4j-",
    "jcl-over-slf4j-",
    "jul-to-slf4j-",
    "snappy-java-",
)


def class_path(home: Home, progress: Callable[[str], None]) -> tuple[Path, ...]:
    """The servers' jars, fetched first if they are not cached. Raises `MissingRequirement`."""
    client = spark_jars() / f"hadoop-client-api-{HADOOP}.jar"
    if not client.is_file():
        raise MissingRequirement(
            f"HDFS does not support this pyspark: its Hadoop is not {HADOOP}",
            why=f"there is no {client}, and the servers must be of their clients' release",
            fix="pip install pyspark==4.1.2",
        )
    shared = [jar for jar in spark_jars().glob("*.jar") if jar.name.startswith(_SPARK_JARS)]
    return (*(_cached(home, artifact, progress) for artifact in _ARTIFACTS), *sorted(shared))


def _cached(home: Home, artifact: Artifact, progress: Callable[[str], None]) -> Path:
    place = home.cache / artifact.file
    if not place.is_file():
        progress(f"fetching {artifact.name}")
        home.create()
        with tempfile.TemporaryDirectory(prefix="fetched-", dir=home.cache) as name:
            fetched = _fetch(artifact, Path(name))
            verify_checksum(artifact, fetched.read_bytes())
            fetched.replace(place)
    return place


def verify_checksum(artifact: Artifact, content: bytes) -> None:
    """Raise `MissingRequirement` if the content is not the artifact that was released."""
    found = hashlib.sha256(content).hexdigest()
    if found != artifact.sha256:
        raise MissingRequirement(
            f"Maven fetched a file that is not the released {artifact.name}",
            why=f"the SHA-256 of {artifact.file} is {found}, and should be {artifact.sha256}",
            fix=f"check the mirror in Maven's settings, and its copy of {artifact.coordinates}",
        )


def _fetch(artifact: Artifact, directory: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingRequirement(
            "HDFS needs jars that Maven fetches, and Maven is not installed",
            why="mvn is not on the PATH; pyspark and Penstock contain Hadoop's client, not its servers",
            fix="sudo apt-get install --yes maven",
        )
    try:
        result = subprocess.run(
            [
                *(maven, "-B", "-q", "-ntp", _COPY),
                *(f"-Dartifact={artifact.coordinates}", f"-DoutputDirectory={directory}"),
            ],
            cwd=directory,
            env={**os.environ, "JAVA_HOME": str(find_java().home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unfetched(artifact, f"it took longer than {_FETCH_SECONDS} s") from None
    if result.returncode or not (directory / artifact.file).is_file():
        raise _unfetched(artifact, "\n".join((result.stdout + result.stderr).strip().splitlines()[:5]))
    return directory / artifact.file


def _unfetched(artifact: Artifact, why: str) -> MissingRequirement:
    return MissingRequirement(
        f"Maven could not fetch {artifact.name}",
        why=why,
        fix=f"check the network and Maven's settings; mvn {_COPY} -Dartifact={artifact.coordinates}",
    )


_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Health:
    """The NameNode's view of the HDFS.

    Bytes are raw, so that each copy of a block counts. `capacity_bytes` adds up the file systems of all DataNodes, even
    where several DataNodes share one.
    """

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
class DaemonUsage:
    """A daemon's resource use; `core_seconds` counts from its start."""

    name: str
    process_id: int | None
    memory_bytes: int | None = None
    core_seconds: float | None = None


@dataclass(frozen=True)
class HdfsStatus(JsonRecord):
    """The status of an HDFS; `health` is None if the NameNode does not answer."""

    name: str
    root: str
    shape: Shape
    ready: bool
    web: str
    health: Health | None
    daemons: tuple[DaemonUsage, ...]
    directory: str


def health(namenode: Ports) -> Health | None:
    """The NameNode's health; None if it does not answer (yet)."""
    system = _bean(namenode.http, "Hadoop:service=NameNode,name=FSNamesystemState")
    blocks = _bean(namenode.http, "Hadoop:service=NameNode,name=FSNamesystem")
    return None if system is None or blocks is None else parse_health(system, blocks)


def parse_health(system: Mapping[str, Any], blocks: Mapping[str, Any]) -> Health:
    """Parse two of the NameNode's beans, `FSNamesystemState` and `FSNamesystem`. Pure."""
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
    """A DataNode's two counters since its start, which prove short-circuit reads; None if it does not answer.

    They are the number of times it gave out the path of a block's file, and the bytes of blocks that it sent itself.
    """
    activity = _bean(datanode.http, "Hadoop:service=DataNode,name=DataNodeActivity-*")
    return None if activity is None else (int(activity["BlocksGetLocalPathInfo"]), int(activity["BytesRead"]))


def daemon_usage(names: Iterable[str], running: Mapping[str, ProcessId]) -> tuple[DaemonUsage, ...]:
    """The named daemons with their resource use."""
    counters = {process.pid: process for process in processes.processes()}

    def usage(name: str) -> DaemonUsage:
        process = running.get(name)
        known = counters.get(process.pid) if process else None
        if known is None:
            return DaemonUsage(name, None)
        return DaemonUsage(name, known.pid, processes.memory_bytes([known]), round(processes.core_seconds([known]), 2))

    return tuple(map(usage, names))


def _bean(port: int, query: str) -> Mapping[str, Any] | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"/jmx?qry={quote(query, safe='')}")
        answer = connection.getresponse()
        beans = json.loads(answer.read())["beans"] if answer.status == http.HTTPStatus.OK else []
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()
    return beans[0] if beans else None
