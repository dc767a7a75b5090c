"""One home's Ceph cluster with its two lakes: creation, start, resumption, stop and removal."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import Conflict, NotFound, PenstockError
from penstock.home import Home, write_atomically
from penstock.lake.ceph import bootstrap, configuration, daemons
from penstock.lake.ceph.configuration import CONFIGURATION, Daemon
from penstock.lake.ceph.daemons import Control, Monitor
from penstock.lake.ceph.layout import LAKE, CephState, Layout, Placement
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Lake, Sts
from penstock.lake.registry import Lakes
from penstock.processes import await_free_ports, free_ports

KIND = "ceph"
_CHANGING_SECONDS = 180.0
_MONITOR_SECONDS = 30

StepContext = Callable[[str], contextlib.AbstractContextManager[list[str]]]
"""Opens a context around each step of a long operation, by its title; results go into the yielded list."""


@contextlib.contextmanager
def no_steps(_: str) -> Iterator[list[str]]:
    yield []


class Ceph:
    """The Ceph cluster of one home.

    Several processes of a home may call any method at once, and again after a kill at any moment.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self.directory = home.lake / "ceph"
        """The daemons' working directory; the paths in `ceph.conf` are relative to it."""
        self._control = Control(self.directory)

    def up(
        self,
        requested: Mapping[str, Any] | None = None,
        *,
        quota_bytes: int | None = None,
        step: StepContext = no_steps,
    ) -> list[Lake]:
        """Create the cluster, or resume an existing one, and register its lakes; return when they accept writes.

        `asked` holds the user's arguments for `Layout.checked`. The first `up` may set all of them, later ones only the
        number of gateways; any other change raises `Conflict`. Running daemons are left alone. Raises
        `MissingRequirement` (no packages) or `LakeError` (a daemon does not start; with the end of its log).
        """
        daemons.require_packages()
        with self._changing():
            self._require_names()
            state = CephState.load(self.directory)
            if state is not None and not state.made:
                self._remove(state)  # a command was killed during the creation: nothing has been stored yet
                state = None
            if state is None:
                state = CephState.new(Layout.validated(**(requested or {})), quota_bytes)
                try:
                    self._make(state, step)
                except PenstockError:
                    self._control.end(self._control.running().values())  # the logs stay; the next `up` starts afresh
                    raise
            else:
                state = self._with_free_ports(state.resumed(requested or {}))
                self._resume(state, step)
            return self._register(state)

    def ensure(self, name: str) -> Lake:
        """The lake of that name; the cluster is resumed if no gateway runs.

        Other daemons that do not run stay stopped, because the user may have stopped them on purpose.
        """
        state = self._existing()
        if any(configuration.kind_of(running) == configuration.GATEWAY for running in self._control.running()):
            return self._lake(state, name)
        return next(lake for lake in self.up() if lake.name == name)

    def ready(self) -> bool:
        if self.state() is None:
            return False
        gateways = [daemon for daemon in self.daemons() if daemon.kind == configuration.GATEWAY and daemon.process]
        return any(self.serves(daemon.name) for daemon in gateways)

    def summary(self) -> str | None:
        if self.state() is None:
            return None
        found = self.daemons()
        running = sum(daemon.process is not None for daemon in found)
        return f"{running} of {len(found)} daemons run at {' '.join(self.gateways())}" if running else "down"

    def down(self, *, step: StepContext = no_steps) -> bool:
        """End every daemon; the data stay. Return False if none was running."""
        with self._changing():
            running = self._control.running()
            for names in configuration.stop_stages(running):
                with step(configuration.describe(names)) as notes:
                    self._control.end(running[name] for name in names)
                    notes.append("ended")
            return bool(running)

    def wipe(self) -> None:
        """End every daemon and remove all data, including directories outside the home, and the lakes' names."""
        with self._changing():
            state = CephState.load(self.directory)
            if state is not None:
                self._remove(state)
                lakes = Lakes(self._home)
                for lake in lakes.all():
                    if lake.kind == KIND:
                        lakes.remove(lake.name)
                CredentialsFile(self._home).remove(LAKE)

    def state(self) -> CephState | None:
        """The recorded state, without querying daemons; None if no cluster exists or its creation never completed."""
        state = CephState.load(self.directory)
        return state if state is not None and state.made else None

    def placement(self, lake: str) -> Placement:
        """The placement of that lake's bucket."""
        state = self._existing()
        return state.layout.placements()[self._kind(state, lake)]

    def gateways(self) -> tuple[str, ...]:
        """The gateways' endpoints, in the order rgw.0, rgw.1 and so on."""
        return self._existing().ports.endpoints()

    def daemons(self) -> list[Daemon]:
        """Every daemon of the layout, running or not."""
        running = self._control.running()
        return [Daemon(name, running.get(name)) for name in self._existing().daemons()]

    def requests(self) -> dict[str, int] | None:
        """S3 requests since the gateways' start; None while any does not answer.

        Ceph counts HEAD as GET, and neither a failed GET nor any other kind by itself: these are `other`.
        """
        gateways = [name for name in self._existing().daemons() if configuration.kind_of(name) == configuration.GATEWAY]
        answers = [daemons.ask(self.directory, configuration.entity(name), "perf dump") for name in gateways]
        counters = [(answer or {}).get("rgw") for answer in answers]
        if not all(counters):
            return None
        every, gets, puts = (sum(int(found[key]) for found in counters if found) for key in ("req", "get", "put"))
        return {"GET": gets, "PUT": puts, "other": every - gets - puts}

    def serves(self, name: str) -> bool:
        """Report whether that daemon serves now; a daemon stopped by a signal does not."""
        return self._control.serves(name, self._existing().ports)

    def start(self, name: str) -> None:
        """Start one daemon and return when it serves; do nothing if it runs."""
        with self._changing():
            state = self._existing()
            if configuration.require_daemon(name, state.daemons()) not in self._control.running():
                self._control.start([name], state.ports)

    def stop(self, name: str) -> bool:
        """End one daemon with SIGTERM and wait for its exit; return False if it was not running."""
        return self._end(name, kill=False)

    def kill(self, name: str) -> bool:
        """End one daemon with SIGKILL."""
        return self._end(name, kill=True)

    def monitor(self, *, timeout_seconds: int = 5) -> contextlib.AbstractContextManager[Monitor]:
        """Connect to the monitor; raises `LakeError` if it does not answer in time."""
        return daemons.monitor(self.directory, timeout_seconds=timeout_seconds)

    def _end(self, name: str, *, kill: bool) -> bool:
        configuration.require_daemon(name, self._existing().daemons())
        process = self._control.running().get(name)
        if process is not None:
            self._control.end([process], kill=kill)
        return process is not None

    def _make(self, state: CephState, step: StepContext) -> None:
        layout = state.layout
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        state.store(self.directory)
        with step("files") as notes:
            ids = bootstrap.make_files(self.directory, state)
            notes.append(f"{layout.osds} OSDs of {layout.osd_bytes >> 30} GiB, sparse")
        first, working, gateways = configuration.start_stages(state.daemons())
        with step(configuration.describe(first)):
            self._control.start(first, state.ports)
        with contextlib.ExitStack() as connection:
            with step(configuration.describe(working)):
                monitor = connection.enter_context(self.monitor(timeout_seconds=_MONITOR_SECONDS))
                bootstrap.add_osds(monitor, ids)
                self._control.start(working, state.ports)
            with step("pools") as notes:
                bootstrap.make_pools(monitor, layout)
                notes.append(", ".join(placement.protection for placement in layout.placements().values()))
        with step("user, placements, role"):
            credentials = bootstrap.make_user(self.directory, layout)
            bootstrap.make_role(self.directory, state)
        with step(configuration.describe(gateways)) as notes:
            self._control.start(gateways, state.ports)
            notes.append(" ".join(state.ports.endpoints()))
        with step("buckets and quotas") as notes:
            CredentialsFile(self._home).put(LAKE, credentials)
            for name, kind in state.lakes().items():
                placement, lake = layout.placements()[kind], self._lake(state, name)
                bootstrap.make_bucket(self.directory, lake, credentials, placement.name, state.quotas[kind])
                notes.append(lake.root)
        replace(state, made=True).store(self.directory)

    def _resume(self, state: CephState, step: StepContext) -> None:
        running = self._control.running()
        surplus = [process for name, process in running.items() if name not in state.daemons()]
        self._control.end(surplus)
        for names in configuration.start_stages([name for name in state.daemons() if name not in running]):
            with step(configuration.describe(names)):
                self._control.start(names, state.ports)
        # A running daemon may have been started by a command that was killed before the daemon served.
        self._control.await_serving(self._control.running(), state.ports)

    def _with_free_ports(self, state: CephState) -> CephState:
        """The state with new ports in place of those that another program has taken meanwhile."""
        running = self._control.running()
        other, *others = free_ports(1 + len(state.ports.gateways))
        keeps = "mon.a" in running or await_free_ports([state.ports.monitor])
        gateways = tuple(
            have if f"rgw.{number}" in running or await_free_ports([have]) else others[number]
            for number, have in enumerate(state.ports.gateways)
        )
        ports = replace(state.ports, monitor=state.ports.monitor if keeps else other, gateways=gateways)
        state = replace(state, ports=ports)
        write_atomically(self.directory / CONFIGURATION, state.configuration())
        if not keeps:
            # Daemons that know the old address cannot find the monitor at the new one.
            self._control.end(running.values())
            bootstrap.move_monitor(self.directory, state)
        state.store(self.directory)
        return state

    def _remove(self, state: CephState) -> None:
        self._control.end(self._control.running().values())
        for directory in state.device_directories(self.directory).values():
            shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _register(self, state: CephState) -> list[Lake]:
        stored = CredentialsFile(self._home)
        if stored.get(LAKE) is None:
            stored.put(LAKE, bootstrap.user_credentials(self.directory))
        lakes = Lakes(self._home)
        known, found = lakes.all(), [self._lake(state, name) for name in state.lakes()]
        for lake in found:
            if lake not in known:
                lakes.add(lake)
        return found

    def _lake(self, state: CephState, name: str) -> Lake:
        self._kind(state, name)
        endpoints = state.ports.endpoints()
        # No application sees the user's own credentials: each assumes the role, limited to its lake's bucket.
        return Lake(name, endpoints, name, f"file:{LAKE}", kind=KIND, sts=Sts(endpoints[0], bootstrap.ROLE_ARN))

    def _kind(self, state: CephState, lake: str) -> str:
        kinds = state.lakes()
        if lake not in kinds:
            raise NotFound(
                f"There is no lake “{lake}” on this Ceph cluster",
                why=f"its lakes are {', '.join(kinds)}",
                fix="penstock lake list shows all lakes",
            )
        return kinds[lake]

    def _existing(self) -> CephState:
        state = self.state()
        if state is None:
            raise NotFound(
                "There is no Ceph cluster in this home",
                why=f"none was created in {self.directory}",
                fix="penstock lake ceph up creates one",
            )
        return state

    def _require_names(self) -> None:
        for lake in Lakes(self._home).all():
            if lake.name in (LAKE, *(f"{LAKE}-{kind}" for kind in ("replicated", "erasure"))) and lake.kind != KIND:
                raise Conflict(
                    f"Another lake is named “{lake.name}”",
                    why=f"it was added with the endpoint {lake.endpoints[0]}",
                    fix=f"penstock lake remove {lake.name}, then add it again under another name",
                )

    def _changing(self) -> contextlib.AbstractContextManager[None]:
        return self._home.lock(
            "ceph", busy="Another command is starting or stopping Ceph", wait_seconds=_CHANGING_SECONDS
        )
