"""Spark's own history server over the event logs in a lake: started on the first request, ended when idle.

Each lake of a home has at most one. The server is a separate JVM beside the clusters, outside the promises of
admission; its parsed event logs stay in the home, so that the next start reads only newer ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from penstock.engine.interactive.history_watchdog import PLAN, STATE, USED, idle_ends_at
from penstock.errors import ClusterError, StateError
from penstock.formats import as_properties
from penstock.home import Home, read_json, write_atomically, write_json
from penstock.lake import settings as lake_settings
from penstock.lake.model import EVENT_LOGS, Lake, ObjectStore
from penstock.lake.registry import Lakes
from penstock.model import ProcessSize
from penstock.processes import ProcessId, end_process, start_daemon, tail
from penstock.runtime import jvm

IDLE_SECONDS = 900.0
SIZE = ProcessSize(cores=2, memory_bytes=768 << 20)

_MAIN = "org.apache.spark.deploy.history.HistoryServer"
_READY_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_LOCK_SECONDS = 20.0
_PRIVATE = ["spark.conf", lake_settings.CREDENTIALS_FILE, PLAN]


@dataclass(frozen=True)
class HistoryStatus:
    """The status of one history server.

    `address` is None until its pages are ready. Times are UTC, those of the last run if it does not run now.
    """

    lake: str
    running: bool
    address: tuple[str, int] | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    idle_ends_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        def iso(at: datetime | None) -> str | None:
            return at.isoformat() if at else None

        return {
            "lake": self.lake,
            "running": self.running,
            "ready": self.address is not None,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "idle_ends_at": iso(self.idle_ends_at),
            "size": {"cores": SIZE.cores, "memory_bytes": SIZE.memory_bytes},
        }


class Engine(Protocol):
    """The part of the engine that history servers use."""

    home: Home

    def lake(self, name: str | None = None) -> Lake: ...
    def store(self, lake: str | None) -> ObjectStore: ...


class HistoryServers:
    """The history servers of a home. Several threads and processes may use them at once."""

    def __init__(self, engine: Engine, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._engine = engine
        self._idle_seconds = idle_seconds

    def start(self, lake: str | None = None) -> HistoryStatus:
        """Start the server unless it runs, and return at once; the call counts as use.

        Raises `NotFound` (no such lake), `LakeError`, `MissingRequirement`, `ClusterError`.
        """
        found = self._engine.lake(lake)
        directory = self._directory(found.name)
        with self._engine.home.lock("history", busy="A history server is just starting", wait_seconds=_LOCK_SECONDS):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            (directory / USED).touch(mode=0o600)
            settings = as_properties(_settings(found, directory))
            if self._status(found.name).running:
                if (directory / "spark.conf").read_text(encoding="ascii") == settings:
                    return self._status(found.name)
                self._end(directory)  # the restarted embedded lake has another address
            self._prepare(directory, found, settings)
            self._start_watchdog(directory)
        return self._status(found.name)

    def status(self, lake: str | None = None) -> HistoryStatus:
        """The server's status, without starting anything, even the embedded lake. Raises `NotFound` (no such lake)."""
        return self._status(Lakes(self._engine.home).get(lake).name)

    def address(self, lake: str, *, timeout_seconds: float = _READY_SECONDS) -> tuple[str, int]:
        """The address of the ready server, which is started if necessary; the call restarts its idle time."""
        deadline = time.monotonic() + timeout_seconds
        used = self._directory(lake) / USED
        status = self._status(lake)
        if not status.running:
            status = self.start(lake)
        used.touch()
        while status.address is None:
            if not status.running:
                raise ClusterError(
                    "The history server did not start",
                    why=tail(self._directory(lake) / "server.log", 1),
                    fix=f"read {self._directory(lake) / 'server.log'}",
                )
            if time.monotonic() >= deadline:
                raise StateError("The history server does not listen yet", fix="try again in a moment")
            time.sleep(_LOOK_SECONDS)
            used.touch()  # waiting counts as use
            status = self._status(lake)
        return status.address

    def stop(self, lake: str | None = None) -> HistoryStatus:
        """End the server if it runs."""
        name = Lakes(self._engine.home).get(lake).name
        self._end(self._directory(name))
        return self._status(name)

    def stop_all(self) -> Iterator[str]:
        """End all history servers of the home; yield the names of their lakes."""
        for lake in self.running():
            self._end(self._directory(lake))
            yield lake

    def running(self) -> list[str]:
        """The names of the lakes whose server runs."""
        places = sorted((self._engine.home.root / "history").glob("*"))
        return [place.name for place in places if self._status(place.name).running]

    def _directory(self, lake: str) -> Path:
        return self._engine.home.root / "history" / lake

    def _status(self, lake: str) -> HistoryStatus:
        directory = self._directory(lake)
        state = read_json(directory / STATE)
        if state is None:
            return HistoryStatus(lake, running=False)
        server = ProcessId.from_json(state["server"])
        running = state["ended_at"] is None and server.alive()
        if not running:
            return HistoryStatus(lake, False, None, _moment(state["started_at"]), _moment(state["ended_at"]))
        port = state.get("port")
        return HistoryStatus(
            lake,
            running=True,
            address=None if port is None else ("127.0.0.1", port),
            started_at=_moment(state["started_at"]),
            idle_ends_at=_moment(idle_ends_at((directory / USED).stat().st_mtime, self._idle_seconds)),
        )

    def _prepare(self, directory: Path, lake: Lake, settings: str) -> None:
        _ensure_directory(self._engine.store(lake.name))
        credentials = Lakes(self._engine.home).client_credentials(lake)
        (directory / "store").mkdir(exist_ok=True, mode=0o700)
        scratch = directory / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        write_atomically(directory / "spark.conf", settings)
        for name, content in lake_settings.private_files(lake, credentials).items():
            write_atomically(directory / name, content)
        java = jvm.find_java()
        machine = jvm.Jvm(
            java=java,
            jars=jvm.class_path(),
            private=directory,
            scratch=scratch,
            archives=self._engine.home.cache,
            options=tuple(jvm.trust_options(java, lake.authorities, cache=self._engine.home.cache)),
        )
        command = jvm.program_command(
            machine,
            size=SIZE,
            main_class=_MAIN,
            arguments=["--properties-file", str(directory / "spark.conf")],
        )
        variables = {
            name: value.replace("{private}", str(directory)) for name, value in lake_settings.environment(lake).items()
        }
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(directory),
            "LC_ALL": "C.UTF-8",
            "JAVA_HOME": str(java.home),
            # Spark's web servers bind to this address, and to all addresses without it.
            "SPARK_LOCAL_IP": "127.0.0.1",
            **variables,
        }
        write_json(
            directory / PLAN,
            {
                "command": command,
                "environment": environment,
                "idle_seconds": self._idle_seconds,
                "private": _PRIVATE,
            },
        )

    def _start_watchdog(self, directory: Path) -> None:
        (directory / STATE).unlink(missing_ok=True)
        watchdog = start_daemon(
            [sys.executable, "-m", "penstock.engine.interactive.history_watchdog", str(directory)],
            log=directory / "server.log",
            directory=directory,
        )
        deadline = time.monotonic() + _LOCK_SECONDS
        while not (directory / STATE).exists():
            if not watchdog.alive() or time.monotonic() >= deadline:
                raise ClusterError("The history server did not start", why=tail(directory / "server.log", 1))
            time.sleep(_LOOK_SECONDS)

    def _end(self, directory: Path) -> None:
        state = read_json(directory / STATE)
        if state is not None:
            end_process(ProcessId.from_json(state["keeper"]), grace_seconds=10.0)
        for name in _PRIVATE:  # a killed watchdog has left them
            (directory / name).unlink(missing_ok=True)


def _settings(lake: Lake, directory: Path) -> dict[str, str]:
    return {
        **lake_settings.spark_settings(lake),
        "spark.history.fs.logDirectory": f"{lake.root}/{EVENT_LOGS}",
        "spark.history.fs.update.interval": "5s",
        # On a request for an unlisted application, Spark 4.1 looks for its rolling event log and, without one, removes
        # the application from its list: for good, if it was listed in that moment. No log here is a rolling one.
        "spark.history.fs.eventLog.rolling.onDemandLoadEnabled": "false",
        "spark.history.fs.cleaner.enabled": "false",
        # Replay threads wait for the store most of the time.
        "spark.history.fs.numReplayThreads": "4",
        "spark.history.store.path": str(directory / "store"),
        "spark.history.store.maxDiskUsage": "2g",
        "spark.history.ui.port": "0",
        "spark.history.retainedApplications": "8",
    }


def _ensure_directory(store: ObjectStore) -> None:
    """Make the event-log directory exist: the server requires it, and object stores have no empty directories."""
    if next(iter(store.list(EVENT_LOGS)), None) is None:
        store.put(f"{EVENT_LOGS}.directory", b"")


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
