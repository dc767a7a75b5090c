"""Execution of a schedule: find the victim of each fault, inject it, and restart victims outside applications."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.chaos import schedule
from benchmarks.chaos.disk import SmallDisk
from benchmarks.chaos.gateways import Gateway
from benchmarks.chaos.schedule import ProcessFault
from penstock.catalog.database import Database
from penstock.errors import PenstockError
from penstock.home import Home, read_json
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.embedded import EmbeddedLake
from penstock.processes import ProcessId

# The schedule's names and those of `Ceph.daemons`.
_CEPH_KINDS = {schedule.OSD: "osd", schedule.MONITOR: "monitor", schedule.RADOS_GATEWAY: "gateway"}
_LEAST_FREE = 64 << 10
_LOOK_SECONDS = 0.2


class FaultInjector:
    """A thread that injects the planned faults at their times, counted from the moment the work has `begun`.

    At the end of the `with` block no further fault comes, and stopped victims continue.
    """

    def __init__(
        self,
        home: Home,
        planned: Sequence[ProcessFault],
        *,
        gateways: Sequence[Gateway],
        supervisors: Callable[[], Sequence[tuple[str, ProcessId]]],
        begun: Callable[[], bool],
        record: Path,
        disk: SmallDisk | None = None,
    ) -> None:
        self._home = home
        self._planned = planned
        self._gateways = gateways
        self._supervisors = supervisors
        self._begun = begun
        self._record = record
        self._disk = disk
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault-injector")
        self.failure: BaseException | None = None

    def __enter__(self) -> FaultInjector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._begun():
                if self._over.wait(_LOOK_SECONDS):
                    return
            begun = time.monotonic()
            for fault in self._planned:
                if self._over.wait(max(0.0, begun + fault.at - time.monotonic())):
                    return
                self._carry_out(fault)
        except BaseException as error:  # a failed thread must not pass for a round without faults
            self.failure = error

    def _carry_out(self, fault: ProcessFault) -> None:
        if fault.victim == schedule.GATEWAY:
            self._gateway(fault, _one_of(self._gateways, fault))
        elif fault.victim == schedule.DISK:
            self._fill(fault)
        else:
            self._process(fault)

    def _gateway(self, fault: ProcessFault, gateway: Gateway) -> None:
        self._write_down(fault, gateway=gateway.name, pid=gateway.pid)
        if fault.action == schedule.KILL:
            gateway.kill()
            thaw(self._home)
            self._over.wait(fault.seconds)
            gateway.start_again()
        else:
            gateway.stop()
            self._over.wait(fault.seconds)
            gateway.go_on()

    def _fill(self, fault: ProcessFault) -> None:
        assert self._disk is not None
        self._write_down(fault, directory=str(self._disk.directory))
        with self._disk.filled(but=_LEAST_FREE):
            self._over.wait(fault.seconds)

    def _process(self, fault: ProcessFault) -> None:
        found = self._victims(fault.victim)
        if not found:
            return
        name, process = _one_of(found, fault)
        victim = {"application": name, "pid": process.pid, "role": fault.victim}
        self._write_down(fault, victim=victim)
        with contextlib.suppress(ProcessLookupError):
            if fault.action == schedule.KILL:
                os.kill(process.pid, signal.SIGKILL)
            else:
                os.kill(process.pid, signal.SIGSTOP)
        self._over.wait(fault.seconds)
        if fault.action == schedule.STOP and process.alive():
            os.kill(process.pid, signal.SIGCONT)
        elif fault.victim == schedule.STORE:
            # The next command that needs the store would start it, too.
            EmbeddedLake(self._home).up()
        elif fault.victim in _CEPH_KINDS:
            Ceph(self._home).start(name)

    def _victims(self, victim: str) -> Sequence[tuple[str, ProcessId]]:
        return self._supervisors() if victim == schedule.SUPERVISOR else victims(self._home, victim)

    def _write_down(self, fault: ProcessFault, **more: Any) -> None:
        line = {"at": datetime.now(timezone.utc).isoformat(), "kind": fault.kind, "seconds": fault.seconds, **more}
        with self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def victims(home: Home, victim: str) -> list[tuple[str, ProcessId]]:
    """The running processes of this kind: of clusters with their application's name, of Ceph with their own."""
    if victim == schedule.DATABASE:
        return _known("", Database(home).process())
    if victim == schedule.STORE:
        pid = EmbeddedLake(home).status().process_id
        return _known("", ProcessId.of(pid) if pid else None)
    if victim in _CEPH_KINDS:
        daemons = Ceph(home).daemons()
        return [(one.name, one.process) for one in daemons if one.kind == _CEPH_KINDS[victim] and one.process]
    return [(name, process) for name, role, process in cluster_processes(home) if role == victim]


def cluster_processes(home: Home) -> list[tuple[str, str, ProcessId]]:
    """Application, role and process of all processes that are running in clusters."""
    found = []
    for directory in home.applications.iterdir() if home.applications.exists() else ():
        with contextlib.suppress(OSError, PenstockError):
            status = read_json(directory / "cluster" / "status.json") or {}
            roles = [("shim", status.get("keeper")), ("driver", status.get("driver"))]
            roles += [("executor", executor) for executor in status.get("executors", {}).values()]
            processes = [(role, ProcessId.from_json(known)) for role, known in roles if known]
            found += [(directory.name, role, process) for role, process in processes if process.alive()]
    return found


def thaw(home: Home) -> None:
    """Continue all stopped processes: a killed gateway cannot continue those that it had stopped."""
    for _, _, process in cluster_processes(home):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _known(name: str, process: ProcessId | None) -> list[tuple[str, ProcessId]]:
    return [] if process is None else [(name, process)]


def _one_of(found: Sequence[Any], fault: ProcessFault) -> Any:
    return found[int(fault.chance * len(found))]
