"""A real HDFS on this machine: one NameNode and some DataNodes, each a process, started and ended together.

A daemon is recognized as a process whose working directory is the daemon's directory in this home, and not by a
recorded process id. So if a command is killed between two steps, the next one finds every daemon that runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from penstock.errors import InvalidInput, LakeError, NotFound
from penstock.home import Home, write_atomically
from penstock.lake.hdfs import layout, servers
from penstock.lake.hdfs.layout import (
    FILE,
    NAMENODE,
    Action,
    HdfsState,
    Ports,
    Shape,
    ShapeRequest,
    StartupState,
    StartupStep,
    is_serving,
    next_step,
    resolve_shape,
    validate_name,
)
from penstock.lake.hdfs.webhdfs import user_name
from penstock.lake.model import NO_CREDENTIALS, HdfsClient, Lake
from penstock.lake.registry import Lakes
from penstock.processes import ProcessId, end_process, last_lines, listening_ports, processes_in, start_daemon, tail
from penstock.runtime.jvm import find_java

KIND = "hdfs"
USUAL_NAME = "hdfs"

_READY_SECONDS = 120.0
_REPORT_SECONDS = 30.0
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 10.0
_LOG_LINES = 6

ProgressCallback = Callable[[str], None]


def _ignore(_: str) -> None: ...


class HdfsCluster:
    """The HDFS of that name in a home. Several processes may call any method at once."""

    def __init__(self, home: Home, name: str = USUAL_NAME) -> None:
        """Raises `InvalidInput` if the name cannot be that of a name service."""
        self._home = home
        self.name = validate_name(name)
        self.directory = home.lake / KIND / name
        self._state = HdfsState(self.directory)
        self._formatted = self.directory / "formatted"

    def ensure(self) -> Lake:
        """The lake; the HDFS is started if its running daemons could not serve every block.

        A DataNode that is not needed for that stays down until the next `up`.
        """
        shape, lake = self.shape(), self._registered()
        if shape and lake and is_serving(shape, self.daemons()):
            return lake
        return self.up()

    def up(self, request: ShapeRequest | None = None, progress: ProgressCallback = _ignore) -> Lake:
        """Start all daemons that do not run, formatting on the first call, and register the lake.

        Returns when the lake accepts writes. Safe to call again after a kill at any moment: existing data stays. Raises
        `InvalidInput` and `Conflict` for an impossible shape, `MissingRequirement`, and `LakeError` with the end of a
        log if a daemon ends.
        """
        with self._changing():
            self._check_name()
            shape = resolve_shape(self.shape(), request or ShapeRequest(), running=bool(self.daemons()))
            jars = servers.class_path(self._home, progress)
            ports = self._state.record(shape, self.daemons())
            self._start_all(shape, ports, jars, progress)
            return self._register(shape, ports)

    def down(self) -> bool:
        """Stop every daemon; the data stays. Return False if none was running."""
        with self._changing():
            return self._end()

    def wipe(self) -> None:
        """Stop every daemon, remove all data and unregister the lake; the catalog keeps the names of its tables."""
        with self._changing():
            if not self.directory.exists():
                raise _no_such(self.name)
            self._end()
            shutil.rmtree(self.directory)
            with contextlib.suppress(NotFound):
                Lakes(self._home).remove(self.name)

    def daemons(self) -> dict[str, ProcessId]:
        """The running daemons by name: `namenode`, `datanode.1` and so on."""
        shape = self.shape()
        found = {name: processes_in(self.directory / name) for name in shape.daemons()} if shape else {}
        return {name: running[0] for name, running in found.items() if running}

    def status(self) -> servers.HdfsStatus:
        """The status, without starting a daemon; raises `NotFound` if there is no such HDFS."""
        shape, ports = self.shape(), self.ports()
        if shape is None:
            raise _no_such(self.name)
        running = self.daemons()
        health = servers.health(ports[NAMENODE]) if NAMENODE in running else None
        return servers.HdfsStatus(
            name=self.name,
            root=self._lake(shape, ports).root,
            shape=shape,
            ready=health is not None and health.live > 0 and not health.safe_mode,
            web=f"http://127.0.0.1:{ports[NAMENODE].http}",
            health=health,
            daemons=servers.daemon_usage(shape.daemons(), running),
            directory=str(self.directory),
        )

    def shape(self) -> Shape | None:
        """The shape at the last start; None if there is no such HDFS."""
        return self._state.shape()

    def ports(self) -> dict[str, Ports]:
        """The ports of each daemon, now or when it last ran."""
        return self._state.ports()

    def _start_all(
        self, shape: Shape, ports: Mapping[str, Ports], jars: tuple[Path, ...], progress: ProgressCallback
    ) -> None:
        started: set[str] = set()
        deadline = time.monotonic() + _READY_SECONDS
        # Blocks that are lost for good must not delay the start for ever; the status reports them.
        reports_due = 0.0
        while True:
            seen = self._observe(ports, started)
            seen = seen if time.monotonic() < reports_due else replace(seen, missing=0)
            step = next_step(shape, seen)
            if step.action is Action.READY:
                return
            if step.action is Action.FORMAT:
                progress("formatting")
                self._format(shape, ports, jars)
            elif step.action is Action.START:
                progress("starting " + ", ".join(step.daemons))
                for daemon in step.daemons:
                    self._start(shape, daemon, ports, jars)
                    started.add(daemon)
                reports_due = time.monotonic() + _REPORT_SECONDS
            elif step.action is Action.FAILED or time.monotonic() >= deadline:
                raise self._stuck(step)
            else:
                progress(step.reason)
                time.sleep(_POLL_SECONDS)

    def _observe(self, ports: Mapping[str, Ports], started: set[str]) -> StartupState:
        running = self.daemons()
        health = servers.health(ports[NAMENODE]) if NAMENODE in running else None
        return StartupState(
            formatted=self._formatted.exists(),
            running=frozenset(running),
            started=frozenset(started),
            listening=frozenset(
                name for name, process in running.items() if listening_ports(process) >= set(ports[name].all())
            ),
            live=health.live if health else None,
            safe_mode=health.safe_mode if health else True,
            missing=health.missing if health else 0,
        )

    def _format(self, shape: Shape, ports: Mapping[str, Ports], jars: tuple[Path, ...]) -> None:
        """Format the NameNode; a format that was killed starts afresh, because no data exists before the mark does."""
        place = self._configure(shape, NAMENODE, ports)
        # Run outside the NameNode's own directory, where the process would pass for a running NameNode.
        elsewhere = self.directory / "format"
        for left in processes_in(elsewhere):
            end_process(left, grace_seconds=0)
        shutil.rmtree(place / layout.DATA, ignore_errors=True)
        elsewhere.mkdir(exist_ok=True, mode=0o700)
        command = layout.command(find_java().executable, NAMENODE, place, jars, "-format", "-nonInteractive")
        result = subprocess.run(
            command,
            cwd=elsewhere,
            env=layout.environment(elsewhere),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode:
            raise LakeError(
                f"The HDFS “{self.name}” cannot be formatted",
                why=last_lines(result.stderr, 5) or f"exit code {result.returncode}",
                fix=f"read {place / 'daemon.log'}",
            )
        shutil.rmtree(elsewhere, ignore_errors=True)
        write_atomically(self._formatted, "")

    def _start(self, shape: Shape, daemon: str, ports: Mapping[str, Ports], jars: tuple[Path, ...]) -> None:
        place = self._configure(shape, daemon, ports)
        output = place / "daemon.out"
        output.unlink(missing_ok=True)
        command = layout.command(find_java().executable, daemon, place, jars)
        start_daemon(command, log=output, environment=layout.environment(place), directory=place)

    def _configure(self, shape: Shape, daemon: str, ports: Mapping[str, Ports]) -> Path:
        place = self.directory / daemon
        for part in (layout.CONFIGURATION, layout.TEMPORARY):
            (place / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in layout.files(shape, daemon, ports, place, user=user_name()).items():
            write_atomically(place / layout.CONFIGURATION / name, content)
        return place

    def _end(self) -> bool:
        running = self.daemons()
        # All get the signal first, because a NameNode and DataNodes that do not wait for each other end at once.
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        for process in running.values():
            end_process(process, grace_seconds=_GRACE_SECONDS)
        return bool(running)

    def _lake(self, shape: Shape, ports: Mapping[str, Ports]) -> Lake:
        namenode = ports[NAMENODE]
        client = HdfsClient(f"127.0.0.1:{namenode.rpc}", shape.replication, short_circuit=not shape.remote)
        endpoint = f"http://127.0.0.1:{namenode.http}"
        return Lake(self.name, (endpoint,), self.name, NO_CREDENTIALS, kind=KIND, hdfs=client)

    def _register(self, shape: Shape, ports: Mapping[str, Ports]) -> Lake:
        lake = self._lake(shape, ports)
        return lake if lake == self._registered() else Lakes(self._home).add(lake)

    def _registered(self) -> Lake | None:
        return next((lake for lake in Lakes(self._home).all() if lake.name == self.name), None)

    def _check_name(self) -> None:
        other = self._registered()
        if other is not None and other.kind != KIND:
            raise InvalidInput(
                f"The name “{self.name}” belongs to another lake",
                why=f"it is the name of {other.root}",
                fix="choose another name: --name NAME",
            )

    def _changing(self) -> contextlib.AbstractContextManager[None]:
        return self._home.lock(
            f"{KIND}-{self.name}",
            busy=f"Another command is starting or stopping the HDFS “{self.name}”",
            wait_seconds=2 * _READY_SECONDS,
        )

    def _stuck(self, step: StartupStep) -> LakeError:
        culprit = step.daemons[0] if step.daemons else NAMENODE
        place = self.directory / culprit
        problem = "ended" if step.daemons else f"are not ready after {_READY_SECONDS:.0f} s: {step.reason}"
        output = tail(place / "daemon.out", _LOG_LINES) or tail(place / "daemon.log", _LOG_LINES)
        return LakeError(
            f"The HDFS “{self.name}” does not start",
            why=f"{', '.join(step.daemons) or 'its daemons'} {problem}; the log of {culprit} ends with:\n{output}",
            fix=f"read {place / 'daemon.log'}; to delete all its data and start afresh: "
            f"penstock lake hdfs wipe --name {self.name}",
        )


def _no_such(name: str) -> NotFound:
    return NotFound(
        f"There is no HDFS “{name}” in this home",
        why="none of that name was started",
        fix=f"penstock lake hdfs up --name {name}",
    )


class HdfsClusters:
    """A `LocalStore` of `lake/stores.py`."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def all(self) -> list[HdfsCluster]:
        """Every HDFS of the home, running or not."""
        found = sorted((self._home.lake / KIND).glob(f"*/{FILE}"))
        return [HdfsCluster(self._home, path.parent.name) for path in found]

    def ensure(self, name: str) -> Lake:
        return HdfsCluster(self._home, name).ensure()

    def ready(self) -> bool:
        """Report whether every HDFS is ready."""
        return all(cluster.status().ready for cluster in self.all())

    def summary(self) -> str | None:
        states = [f"{cluster.name} {'up' if cluster.daemons() else 'down'}" for cluster in self.all()]
        return ", ".join(states) or None

    def down(self) -> bool:
        stopped = [cluster.down() for cluster in self.all()]
        return any(stopped)

    def wipe(self) -> None:
        for cluster in self.all():
            cluster.wipe()
