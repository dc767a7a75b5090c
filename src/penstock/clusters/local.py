"""Dedicated clusters on this machine: a driver and executors as processes under a supervisor of their own.

The files of an application are in `applications/<id>` of the home: `private/` (secrets and the launch plan),
`cluster/` (files that the processes exchange), `scratch/` and `artefacts/`. The process supervisor (`shim.py`) starts
and watches the processes; this module writes its plan and reads its status, so any engine that has the directory can
take over where another one stopped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.clusters import driver_reports, machine, shim, spark_settings
from penstock.clusters.backend import MAX_READ_BYTES, ClusterBackend, Handle, Launch, Observation, Phase, WebInterface
from penstock.errors import ClusterError, MissingRequirement
from penstock.formats import as_properties
from penstock.home import Home, open_below, read_json, sizes_below, write_atomically, write_json
from penstock.model import Capacity
from penstock.processes import ProcessId, listening_ports, start_daemon, tail, wait_until
from penstock.profiles.base import SCRATCH_DISK

_SCRATCH = "scratch"
_PAUSE_SECONDS = 0.01
_PARTS = ("private", "cluster", "artefacts")
_SHIM_START_SECONDS = 10.0
_LEAST_FREE_BYTES = 256 << 20


class LocalBackend(ClusterBackend):
    name = "local"

    def __init__(self, home: Home) -> None:
        self._home = home

    def capacity(self) -> Capacity:
        return machine.capacity(self._home)

    def handle(self, application_id: str) -> Handle:
        return {"backend": self.name, "application_id": application_id}

    def launch(self, launch: Launch) -> None:
        directory = self._home.application(launch.application_id)
        if not (directory / "cluster" / "status.json").exists():
            try:
                self._prepare(directory, launch)
                self._start_shim(directory)
            except OSError as error:
                raise _unusable(directory, error) from error

    def observe(self, handle: Handle) -> Observation:
        cluster = self._directory(handle) / "cluster"
        status = read_json(cluster / "status.json")
        if status is None:
            return Observation(Phase.LOST, detail="its process supervisor never started")
        endpoint = spark_settings.endpoint(cluster)
        seen: dict[str, Any] = {
            "spark_application_id": endpoint.spark_application_id if endpoint else None,
            "ui_url": endpoint.pages_url or None if endpoint else None,
            "progress": driver_reports.progress(driver_reports.read(cluster, "progress.json")),
            "lost_executors": status["lost_executors"],
            "executors_failed": status["executors_failed"],
        }
        if status["ended"]:
            return Observation(Phase.ENDED, exit_code=status["driver"]["exit_code"], **seen)
        if not ProcessId.from_json(status["keeper"]).alive():
            # It may have ended in order between the two reads.
            if read_json(cluster / "status.json")["ended"]:
                return self.observe(handle)
            return Observation(Phase.LOST, detail="the process supervisor of its driver was killed", **seen)
        running = endpoint is not None or seen["progress"] is not None
        return Observation(Phase.RUNNING if running else Phase.STARTING, **seen)

    def read(self, handle: Handle, name: str, start: int, *, at_most: int = MAX_READ_BYTES) -> bytes:
        try:
            with open_below(self._directory(handle) / "artefacts", name) as file:
                file.seek(start)
                return file.read(at_most)
        except FileNotFoundError:
            return b""

    def sizes(self, handle: Handle) -> Mapping[str, int]:
        return sizes_below(self._directory(handle) / "artefacts")

    def web_interface(self, handle: Handle) -> WebInterface | None:
        cluster = self._directory(handle) / "cluster"
        endpoint, status = spark_settings.endpoint(cluster), read_json(cluster / "status.json")
        if endpoint is None or not (status and status.get("driver")):
            return None
        pages = spark_settings.web_interface(cluster, endpoint)
        driver = ProcessId.from_json(status["driver"])
        return pages if pages is not None and pages.port in listening_ports(driver) else None

    def private_file(self, handle: Handle, name: str) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            return (self._directory(handle) / "private" / name).read_text(encoding="utf-8")
        return None

    def replace_private_file(self, handle: Handle, name: str, content: str) -> None:
        directory = self._directory(handle)
        try:
            write_atomically(directory / "private" / name, content)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unusable(directory, error) from error

    def stop(self, handle: Handle, *, grace_seconds: float) -> None:
        cluster = self._directory(handle) / "cluster"
        application_id = str(handle["application_id"])
        status = read_json(cluster / "status.json")
        if status is not None and not status["ended"]:
            supervisor = ProcessId.from_json(status["keeper"])
            _signal(supervisor, signal.SIGTERM)
            wait_until(lambda: not supervisor.alive(), grace_seconds, pause_seconds=_PAUSE_SECONDS)
            if supervisor.alive() and (driver := (read_json(cluster / "status.json") or {}).get("driver")):
                # With only the driver killed, the supervisor still records its exit code.
                _signal(ProcessId.from_json(driver), signal.SIGKILL)
                wait_until(lambda: not supervisor.alive(), 5.0, pause_seconds=_PAUSE_SECONDS)
        # Any process left has lost its supervisor, which was killed, or is a supervisor that hangs.
        deadline = time.monotonic() + 10
        group = _group(application_id, status)
        while (
            left := {*shim.application_processes(application_id), *shim.control_group_processes(group)}
        ) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        if group is not None:
            shim.remove_control_group(group)
        machine.remove_scratch_memory(self._directory(handle))

    def collect(self, handle: Handle, *, incomplete: bool = False) -> Path:  # noqa: ARG002  all files are here
        directory = self._directory(handle)
        artifacts = directory / "artefacts"
        cluster = directory / "cluster"
        summary = driver_reports.summary(driver_reports.read(cluster, "summary.json"))
        status = read_json(cluster / "status.json") or {}
        scratch = driver_reports.summary(driver_reports.read(cluster, "scratch.json"))
        summary.update({f"scratch_{name}": value for name, value in scratch.items()})
        try:
            artifacts.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(artifacts / "summary.json", {**summary, **_processes(status)})
        except OSError as error:
            raise _unusable(directory, error) from error
        return artifacts

    def release(self, handle: Handle) -> None:
        self.stop(handle, grace_seconds=0)
        machine.remove_scratch(self._directory(handle), _SCRATCH)
        shutil.rmtree(self._directory(handle), ignore_errors=True)

    def _directory(self, handle: Handle) -> Path:
        return self._home.application(str(handle["application_id"]))

    def _prepare(self, directory: Path, launch: Launch) -> None:
        self._home.create()
        free = shutil.disk_usage(self._home.root).free
        if free < _LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for part in _PARTS:
            (directory / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
        self._scratch(directory, launch)
        (directory / "artefacts" / "events").mkdir(exist_ok=True)
        private = directory / "private"
        for name, content in launch.private_files.items():
            write_atomically(private / name, content)
        if launch.program:
            write_json(private / "plan.json", spark_settings.program_plan(directory, launch))
            return
        place = self._memory(directory, launch)
        tiers = machine.prepare_tiers(self._home, machine.page_cache(self._home))
        settings = {
            **machine.tier_settings(tiers),
            **spark_settings.settings(directory, launch, memory=place),
        }
        write_atomically(private / "python", spark_settings.python_wrapper(directory, launch.settings), mode=0o700)
        write_atomically(private / "spark.conf", as_properties(settings))
        processes = spark_settings.shim_plan(directory, launch, settings, archives=self._home.cache, memory=place)
        write_json(private / "plan.json", processes)

    def _scratch(self, directory: Path, launch: Launch) -> None:
        """Create the directory of shuffle and spill on disk: in the home, or where the settings place it."""
        chosen = launch.settings.get(SCRATCH_DISK)
        if not chosen:
            (directory / _SCRATCH).mkdir(exist_ok=True, mode=0o700)
            return
        try:
            if not Path(chosen).is_absolute():
                raise NotADirectoryError(errno.ENOTDIR, "not an absolute path")
            machine.make_scratch(self._home, launch.application_id, Path(chosen), _SCRATCH)
        except OSError as error:
            raise MissingRequirement(
                f"Scratch cannot be in {chosen}",
                why=f"{error.strerror or error}: {SCRATCH_DISK}",
                fix="name an existing directory that you can write to, or omit the setting",
            ) from error

    def _memory(self, directory: Path, launch: Launch) -> Path | None:
        """Create the cluster's directory in memory; None where it requests none, or this machine has none."""
        budget = launch.spec.size.scratch_memory_bytes
        if not budget:
            return None
        place = machine.prepare_scratch_memory(self._home, launch.application_id)
        if place is None:
            why = "this machine has no memory file system that can be used"
            report = {"budget_bytes": budget, "memory_bytes": 0, "disk_bytes": None, "fell_over": why}
            write_json(directory / "cluster" / "scratch.json", report)
        return place

    def _start_shim(self, directory: Path) -> None:
        log = directory / "cluster" / "shim.log"
        environment = {shim.APPLICATION_VARIABLE: directory.name, "LC_ALL": "C.UTF-8", "PATH": os.defpath}
        process = start_daemon(
            [sys.executable, "-I", shim.__file__, str(directory)],
            log=log,
            environment=environment,
            directory=directory,
        )
        status = directory / "cluster" / "status.json"
        wait_until(lambda: status.exists() or not process.alive(), _SHIM_START_SECONDS, pause_seconds=_PAUSE_SECONDS)
        if not status.exists():
            raise ClusterError(
                "The cluster did not start",
                why=" / ".join(tail(log, 3).splitlines()) or "its process supervisor ended at once",
                fix="run the command again; penstock status shows what is running",
            )


def _processes(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return each process as the shim recorded it, the CPU time of all, and the upper bound of their memory together.

    The CPU time includes that of processes that outlived their parents, such as an executor's Python workers. A sum is
    None unless the figure of every process is known: without its largest part it would look like a small one.
    """
    fields = ("started_ms", "ended_ms", "exit_code", "peak_rss_bytes", "cpu_seconds")
    named = {"driver": status.get("driver") or {}}
    named.update({f"executor-{number}": value for number, value in status.get("executors", {}).items()})

    def total(key: str) -> float | None:
        known = [value[key] for value in named.values() if value.get(key) is not None]
        return sum(known) if len(known) == len(named) else None

    cpu_seconds = total("cpu_seconds")
    return {
        "processes": {name: {key: value.get(key) for key in fields} for name, value in named.items()},
        "cpu_seconds": None if cpu_seconds is None else round(cpu_seconds + status.get("strays_cpu_seconds", 0), 3),
        "peak_rss_bytes": total("peak_rss_bytes"),
    }


def _group(application_id: str, status: Mapping[str, Any] | None) -> Path | None:
    """Return the control group that the shim created, as its status records it.

    The application can write to that record, so only a group with this application's name is accepted.
    """
    recorded, root = (status or {}).get("group"), shim.control_group_root()
    if not recorded or root is None:
        return None
    group = Path(recorded)
    named = group.name == shim.control_group_name(application_id) and ".." not in group.parts
    return group if named and group.is_relative_to(root) else None


def _signal(process: ProcessId, sign: signal.Signals) -> None:
    if process.alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, sign)


def _unusable(directory: Path, error: OSError) -> MissingRequirement:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return MissingRequirement(
        "The disk is full" if full else f"{directory} cannot be used",
        why=f"{error.strerror}: {directory}",
        fix=f"free some space, or choose another state directory with PENSTOCK_HOME=/path (df -h '{directory.parent}')",
    )
