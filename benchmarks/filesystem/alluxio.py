"""Penstock beside Alluxio, S3A and local files, on TPC-DS: `python -m benchmarks.filesystem.alluxio HOME --rounds 5`.

Each arm opens eleven tables by path, which infers their schemas, and runs five queries and two scans: once with an
empty cache, and once more as another application. The arms alternate. Local files are the limit: what an application
spends without any store. The home has the data (`penstock lab tpcds --scale 1 --location local`). Alluxio's master and
worker come from Maven; they run during its arm alone, on the loopback, and what they spend is counted with its
applications. Equal answers are required of all arms.

HOME/alluxio.jsonl has a line for each application: seconds from its first statement to its last row, the core-seconds
of driver and executor, those of Alluxio's daemons, and the requests that the store answered.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.filesystem.applications import raw_samples, run_application
from benchmarks.service.reporting import progress, report_result, spread
from penstock.clusters import machine
from penstock.engine.installation import Installation
from penstock.errors import ClusterError, NotFound
from penstock.formats import as_properties
from penstock.home import Home, write_atomically
from penstock.lab.environment import Environment, workloads_jar
from penstock.lab.workloads.tpcds import query_texts
from penstock.lab.workloads.tpcds_data import TpcdsData
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.processes import (
    ProcessId,
    core_seconds_of,
    end_process,
    free_ports,
    listening_ports,
    start_daemon,
    tail,
    wait_until,
)
from penstock.runtime.jvm import find_java
from penstock.units import MIB

VERSION = "2.9.3"
TABLES = [
    "store_sales",
    "store_returns",
    "catalog_sales",
    "web_sales",
    "date_dim",
    "item",
    "store",
    "customer",
    "customer_address",
    "customer_demographics",
    "promotion",
]
QUERIES = ("q3", "q7", "q19", "q43", "q55")
SCANS = {
    "scan of store_sales": "SELECT count(*), sum(ss_quantity), sum(ss_net_paid) FROM store_sales",
    "scan of catalog_sales": "SELECT count(*), sum(cs_quantity), sum(cs_net_paid) FROM catalog_sales",
}
PENSTOCK, S3A, ALLUXIO, LOCAL = "Penstock", "S3A tuned", "Alluxio", "local files"
ARMS = (PENSTOCK, S3A, ALLUXIO, LOCAL)
COLD, WARM = "cold", "warm"

APPLICATION = """
import json, sys, time
from pyspark.sql import SparkSession

root, output, work = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
spark = SparkSession.builder.getOrCreate()
began = time.monotonic()
for table in work["tables"]:
    spark.read.parquet(f"{root}/{table}").createOrReplaceTempView(table)
opened = time.monotonic()
answers = {name: [list(map(str, row)) for row in spark.sql(text).collect()] for name, text in work["texts"].items()}
ended = time.monotonic()
with open(output, "w") as file:
    json.dump({"opening_seconds": opened - began, "seconds": ended - began, "answers": answers}, file)
"""

_SIZE = ClusterSize(ProcessSize(1, 1024 * MIB), ProcessSize(2, 3072 * MIB), 1)
_OPENS = ("java.base/java.lang", "java.base/java.nio", "java.base/java.util", "java.base/sun.nio.ch")
_START_SECONDS = 90.0


class Alluxio:
    """A master and a worker with an empty cache, before the objects below an address of a lake."""

    def __init__(self, jars: Path, directory: Path, settings: Mapping[str, str], cache: Path, bytes_: int) -> None:
        """`settings` are those of the store that is mounted; they hold its credentials."""
        self._jars, self._directory = jars, directory
        self._rpc, self._web, self._worker, self._worker_web = free_ports(4)
        site = {
            **settings,
            "alluxio.master.hostname": "127.0.0.1",
            "alluxio.master.rpc.port": str(self._rpc),
            "alluxio.master.web.port": str(self._web),
            "alluxio.master.bind.host": "127.0.0.1",
            "alluxio.master.web.bind.host": "127.0.0.1",
            "alluxio.master.journal.type": "UFS",
            "alluxio.master.journal.folder": str(directory / "journal"),
            "alluxio.master.metastore.dir": str(directory / "metastore"),
            "alluxio.worker.hostname": "127.0.0.1",
            "alluxio.worker.rpc.port": str(self._worker),
            "alluxio.worker.web.port": str(self._worker_web),
            "alluxio.worker.bind.host": "127.0.0.1",
            "alluxio.worker.web.bind.host": "127.0.0.1",
            "alluxio.worker.ramdisk.size": str(bytes_),
            "alluxio.worker.tieredstore.levels": "1",
            "alluxio.worker.tieredstore.level0.alias": "MEM",
            "alluxio.worker.tieredstore.level0.dirs.path": str(cache),
            "alluxio.security.authorization.permission.enabled": "false",
        }
        # The file has credentials; its directory is private.
        write_atomically(directory / "alluxio-site.properties", as_properties(site), mode=0o600)
        self.processes: list[ProcessId] = []

    @property
    def root(self) -> str:
        return f"alluxio://127.0.0.1:{self._rpc}"

    def start(self) -> None:
        self._run("alluxio.cli.Format", "master")
        self._run("alluxio.cli.Format", "worker")
        for name, port in (("AlluxioMaster", self._rpc), ("AlluxioWorker", self._worker)):
            log = self._directory / f"{name}.log"
            role = name.removeprefix("Alluxio").lower()
            self.processes.append(start_daemon(self.command(f"alluxio.{role}.{name}"), log=log))
            if not self._listens(port):
                raise ClusterError(f"Alluxio's {role} does not answer", why=tail(log, 20))

    def _listens(self, port: int) -> bool:
        """Wait until the process that was started last listens there; False where it ends before, or takes too long."""
        process = self.processes[-1]
        wait_until(lambda: port in listening_ports(process) or not process.alive(), _START_SECONDS, pause_seconds=0.2)
        return port in listening_ports(process)

    def stop(self) -> None:
        for process in reversed(self.processes):
            end_process(process, grace_seconds=10)
        self.processes = []

    def core_seconds(self) -> float:
        return sum(core_seconds_of(process.pid) for process in self.processes)

    def _run(self, main_class: str, *arguments: str) -> None:
        ran = subprocess.run([*self.command(main_class), *arguments], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ClusterError(f"{main_class} failed", why=(ran.stdout + ran.stderr)[-2000:])

    def command(self, main_class: str) -> list[str]:
        opens = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
        home = [f"-Dalluxio.home={self._directory}", f"-Dalluxio.conf.dir={self._directory}"]
        # The directory comes first: it has the settings.
        classes = f"{self._directory}:{self._jars}/*"
        return [str(find_java().executable), "-Xmx2g", *opens, *home, "-cp", classes, main_class]


def jars_of_alluxio(place: Path) -> tuple[Path, Path]:
    """The directory of the servers' jars and the client's jar, fetched from Maven where they are missing."""
    servers, client = place / "servers", place / "client" / f"alluxio-shaded-client-{VERSION}.jar"
    if not client.is_file():
        shutil.rmtree(place, ignore_errors=True)
        for directory, artefacts in (
            (
                servers,
                (
                    "alluxio-core-server-master",
                    "alluxio-core-server-worker",
                    "alluxio-underfs-local",
                    "alluxio-underfs-s3a",
                ),
            ),
            (client.parent, ("alluxio-shaded-client",)),
        ):
            directory.mkdir(parents=True)
            _fetch(directory, artefacts, transitive=directory == servers)
    return servers, client


def _fetch(directory: Path, artefacts: tuple[str, ...], *, transitive: bool) -> None:
    depends = "".join(
        f"<dependency><groupId>org.alluxio</groupId><artifactId>{name}</artifactId><version>{VERSION}</version>"
        f"</dependency>"
        for name in artefacts
    )
    with tempfile.TemporaryDirectory() as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>benchmark</groupId><artifactId>alluxio</artifactId><version>1</version>"
            f"<dependencies>{depends}</dependencies></project>",
            encoding="utf-8",
        )
        copying = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        only = [] if transitive else [f"-DincludeArtifactIds={','.join(artefacts)}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copying, *only], check=True)


@dataclass
class Comparison:
    bench: Environment
    data: TpcdsData
    directory: Path
    """Private, for this run."""

    def __post_init__(self) -> None:
        self._local = replace(self.data, local=True)
        if self.data.manifest(self.bench) is None or self._local.manifest(self.bench) is None:
            raise NotFound(
                "The lake lacks the data, or its local copy",
                fix=f"penstock lab tpcds --scale {self.data.scale:g} --location local",
            )
        texts = {**query_texts(workloads_jar(), QUERIES), **SCANS}
        (self.directory / "work.json").write_text(json.dumps({"tables": TABLES, "texts": texts}), encoding="utf-8")
        (self.directory / "application.py").write_text(APPLICATION, encoding="utf-8")
        self._servers, self._client = jars_of_alluxio(self.bench.home.cache / f"alluxio-{VERSION}")
        self.answers: dict[str, Any] = {}

    def round(self, arm: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Run the arm with an empty cache, and again."""
        machine.drop_pages(machine.page_cache(self.bench.home))
        if arm != ALLUXIO:
            profile = "default+s3a-tuned" if arm == S3A else "default"
            root = (self._local if arm == LOCAL else self.data).location(self.bench)
            for state in (COLD, WARM):
                yield state, self._application(arm, ApplicationSpec(**self._spec(root), profile=profile))
            return
        with self._alluxio() as alluxio:
            spec = self._spec(alluxio.root)
            spec["settings"] = {"spark.hadoop.fs.alluxio.impl": "alluxio.hadoop.FileSystem"}
            spec["jars"] = (str(self._client),)
            for state in (COLD, WARM):
                before = alluxio.core_seconds()
                ran = self._application(arm, ApplicationSpec(**spec, profile="default+s3a-tuned"))
                yield state, {**ran, "daemons_core_seconds": round(alluxio.core_seconds() - before, 2)}

    @contextlib.contextmanager
    def _alluxio(self) -> Iterator[Alluxio]:
        lake, credentials = self.bench.lake, Lakes(self.bench.home).credentials_of(self.bench.lake)
        option = "alluxio.master.mount.table.root.option"
        settings = {
            "alluxio.master.mount.table.root.ufs": f"s3://{lake.bucket}/{self.data.prefix}",
            f"{option}.alluxio.underfs.s3.endpoint": lake.endpoints[0],
            f"{option}.alluxio.underfs.s3.disable.dns.buckets": "true",
            f"{option}.alluxio.underfs.s3.inherit.acl": "false",
            f"{option}.s3a.accessKeyId": credentials.access_key,
            f"{option}.s3a.secretKey": credentials.secret_key,
        }
        with (
            tempfile.TemporaryDirectory(dir=self.directory) as name,
            tempfile.TemporaryDirectory(prefix="alluxio-", dir="/dev/shm") as memory,
        ):
            alluxio = Alluxio(self._servers, Path(name), settings, Path(memory), 2048 * MIB)
            try:
                alluxio.start()
                yield alluxio
            finally:
                alluxio.stop()

    def _spec(self, root: str) -> dict[str, Any]:
        output = self.directory / "output.json"
        output.unlink(missing_ok=True)
        return {
            "application": str(self.directory / "application.py"),
            "size": _SIZE,
            "name": "alluxio",
            "arguments": (root, str(output), str(self.directory / "work.json")),
            "lake": self.bench.lake.name,
        }

    def _application(self, arm: str, spec: ApplicationSpec) -> dict[str, Any]:
        found = run_application(self.bench, arm, spec, self.directory / "output.json")
        answers = found.pop("answers")
        if answers != (self.answers or answers):
            raise ClusterError(f"{arm} answered otherwise than the arms before it")
        self.answers = answers
        return found


def run(home: Home, scale: float, rounds: int) -> dict[str, Any]:
    Installation(home).lake_up()
    bench = Environment.open(home)
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="alluxio-", dir=home.root) as directory,
        raw_samples(home.root / "alluxio.jsonl") as keep,
    ):
        comparison = Comparison(bench, TpcdsData(scale), Path(directory))
        for turn in range(rounds):
            for arm in ARMS[turn % len(ARMS) :] + ARMS[: turn % len(ARMS)]:
                for state, ran in comparison.round(arm):
                    keep(arm=arm, cache=state, turn=turn, **ran)
                    spent = ran["core_seconds"] + ran.get("daemons_core_seconds", 0)
                    progress(
                        f"{turn + 1} of {rounds}, {arm}, {state}: {ran['seconds']:.1f} s, {spent:.1f} core-seconds"
                    )
                    found[arm, state].append({**ran, "all_core_seconds": spent})
    result: dict[str, Any] = {}
    for (arm, state), runs in sorted(found.items()):
        figures = {key: spread([one[key] for one in runs]) for key in ("seconds", "all_core_seconds")}
        result[f"{arm}, {state}"] = {**figures, "requests": runs[-1]["requests"]}
    for state in (COLD, WARM):
        for key in ("seconds", "all_core_seconds"):
            ours, theirs = ([one[key] for one in found[arm, state]] for arm in (PENSTOCK, ALLUXIO))
            result[f"{state} {key}, of Alluxio's"] = round(statistics.median(ours) / statistics.median(theirs), 3)
    return result


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--scale", type=float, default=1)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    place = Home(given.home.absolute())
    raise SystemExit(report_result(place, "alluxio", run(place, given.scale, given.rounds)))
