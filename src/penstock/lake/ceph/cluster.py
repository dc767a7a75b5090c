"""One home's Ceph: made, started, resumed, stopped and removed, with the two lakes on it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import Conflict, NotFound, PenstockError
from penstock.home import Home, write_atomically
from penstock.lake.ceph import bootstrap, configuration, control
from penstock.lake.ceph.configuration import CONFIGURATION, Daemon
from penstock.lake.ceph.control import Control
from penstock.lake.ceph.layout import LAKE, Layout, Placement, State
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Lake, Sts
from penstock.lake.registry import Lakes
from penstock.processes import are_free_again, free_ports

KIND = "ceph"
_CHANGING_SECONDS = 180.0
_MONITOR_SECONDS = 30

Step = Callable[[str], contextlib.AbstractContextManager[list[str]]]
"""Told around each step of something long: its title; what is appended to the list is how it came out."""


@contextlib.contextmanager
def silent(_: str) -> Iterator[list[str]]:
    yield []


class Ceph:
    """Every method may be called by several processes of one home at once, and again after a kill at any moment."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.directory = home.lake / "ceph"
        """Where its daemons run; the paths in its `ceph.conf` are relative to it."""
        self._control = Control(self.directory)

    def up(
        self, asked: Mapping[str, Any] | None = None, *, quota_bytes: int | None = None, step: Step = silent
    ) -> list[Lake]:
        """Make a Ceph, or resume the one that is there, and register its lakes; returns when they take writes.

        `asked` has arguments of `Layout.checked`, those the user gave. Only a first `up` may choose among all of them,
        later ones the number of gateways; others raise `Conflict`. Daemons that run are left as they are. Raises
        `MissingRequirement` (no packages) or `LakeError` (a daemon does not start, with its last words).
        """
        control.require()
        with self._changing():
            self._require_names()
            state = State.load(self.directory)
            if state is not None and not state.made:
                self._remove(state)  # a command was killed while it made it: nobody has stored anything
                state = None
            if state is None:
                state = State.new(Layout.checked(**(asked or {})), quota_bytes)
                try:
                    self._make(state, step)
                except PenstockError:
                    self._control.end(self._control.running().values())  # the logs stay, the next `up` begins anew
                    raise
            else:
                state = self._with_free_ports(state.resumed(asked or {}))
                self._resume(state, step)
            return self._register(state)

    def ensure(self, name: str) -> Lake:
        """The lake of that name, its Ceph resumed where no gateway runs. What else was ended stays so: on purpose,
        perhaps."""
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

    def down(self, *, step: Step = silent) -> bool:
        """End every daemon; the data stay. False where none ran."""
        with self._changing():
            running = self._control.running()
            for names in configuration.stopping(running):
                with step(configuration.in_words(names)) as told:
                    self._control.end(running[name] for name in names)
                    told.append("ended")
            return bool(running)

    def wipe(self) -> None:
        """End every daemon and remove all data, in directories outside of the home, too, and the lakes' names."""
        with self._changing():
            state = State.load(self.directory)
            if state is not None:
                self._remove(state)
                lakes = Lakes(self._home)
                for lake in lakes.all():
                    if lake.kind == KIND:
                        lakes.remove(lake.name)
                CredentialsFile(self._home).remove(LAKE)

    def state(self) -> State | None:
        """What it is made of; None where there is none, or none that was ever complete. Nothing is asked of daemons."""
        state = State.load(self.directory)
        return state if state is not None and state.made else None

    def placement(self, lake: str) -> Placement:
        """How the data of that lake are kept."""
        state = self._existing()
        return state.layout.placements()[self._kind(state, lake)]

    def gateways(self) -> tuple[str, ...]:
        """Their endpoints, in the order rgw.0, rgw.1, …"""
        return self._existing().ports.endpoints()

    def daemons(self) -> list[Daemon]:
        """Every daemon it should have, running or not."""
        running = self._control.running()
        return [Daemon(name, running.get(name)) for name in self._existing().daemons()]

    def serves(self, name: str) -> bool:
        """Whether that daemon does its work now; one that is stopped by a signal does not."""
        return self._control.serves(name, self._existing().ports)

    def start(self, name: str) -> None:
        """Start one daemon and return when it serves; nothing happens where it runs."""
        with self._changing():
            state = self._existing()
            if configuration.known(name, state.daemons()) not in self._control.running():
                self._control.start([name], state.ports)

    def stop(self, name: str) -> bool:
        """Ask one daemon to end (SIGTERM) and wait for it; False where it did not run."""
        return self._end(name, kill=False)

    def kill(self, name: str) -> bool:
        """End one daemon without asking (SIGKILL)."""
        return self._end(name, kill=True)

    def monitor(self, *, patience_seconds: int = 5) -> contextlib.AbstractContextManager[control.Monitor]:
        """A connection to ask by; `LakeError` where the monitor does not answer in that time."""
        return control.monitor(self.directory, patience_seconds=patience_seconds)

    def _end(self, name: str, *, kill: bool) -> bool:
        configuration.known(name, self._existing().daemons())
        process = self._control.running().get(name)
        if process is not None:
            self._control.end([process], kill=kill)
        return process is not None

    def _make(self, state: State, step: Step) -> None:
        layout = state.layout
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        state.store(self.directory)
        with step("files") as told:
            ids = bootstrap.make_files(self.directory, state)
            told.append(f"{layout.osds} OSDs of {layout.osd_bytes >> 30} GiB, sparse")
        first, working, gateways = configuration.stages(state.daemons())
        with step(configuration.in_words(first)):
            self._control.start(first, state.ports)
        with contextlib.ExitStack() as connection:
            with step(configuration.in_words(working)):
                monitor = connection.enter_context(self.monitor(patience_seconds=_MONITOR_SECONDS))
                bootstrap.add_osds(monitor, ids)
                self._control.start(working, state.ports)
            with step("pools") as told:
                bootstrap.make_pools(monitor, layout)
                told.append(", ".join(placement.protection for placement in layout.placements().values()))
        with step("user, placements, role"):
            credentials = bootstrap.make_user(self.directory, layout)
            bootstrap.make_role(self.directory, state)
        with step(configuration.in_words(gateways)) as told:
            self._control.start(gateways, state.ports)
            told.append(" ".join(state.ports.endpoints()))
        with step("buckets and quotas") as told:
            CredentialsFile(self._home).put(LAKE, credentials)
            for name, kind in state.lakes().items():
                place, lake = layout.placements()[kind], self._lake(state, name)
                bootstrap.make_bucket(self.directory, lake, credentials, place.name, state.quotas[kind])
                told.append(lake.root)
        replace(state, made=True).store(self.directory)

    def _resume(self, state: State, step: Step) -> None:
        running = self._control.running()
        surplus = [process for name, process in running.items() if name not in state.daemons()]
        self._control.end(surplus)
        for names in configuration.stages([name for name in state.daemons() if name not in running]):
            with step(configuration.in_words(names)):
                self._control.start(names, state.ports)
        # One that ran already may have been started by a command that was killed before it served.
        self._control.await_serving(self._control.running(), state.ports)

    def _with_free_ports(self, state: State) -> State:
        """The same ports where they are ours still; others where a stranger has taken them meanwhile."""
        running = self._control.running()
        other, *others = free_ports(1 + len(state.ports.gateways))
        keeps = "mon.a" in running or are_free_again([state.ports.monitor])
        gateways = tuple(
            have if f"rgw.{number}" in running or are_free_again([have]) else others[number]
            for number, have in enumerate(state.ports.gateways)
        )
        ports = replace(state.ports, monitor=state.ports.monitor if keeps else other, gateways=gateways)
        state = replace(state, ports=ports)
        write_atomically(self.directory / CONFIGURATION, state.configuration())
        if not keeps:
            # Those that know the old address cannot find the new one.
            self._control.end(running.values())
            bootstrap.move_monitor(self.directory, state)
        state.store(self.directory)
        return state

    def _remove(self, state: State) -> None:
        self._control.end(self._control.running().values())
        for place in state.device_directories(self.directory).values():
            shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _register(self, state: State) -> list[Lake]:
        stored = CredentialsFile(self._home)
        if stored.get(LAKE) is None:
            stored.put(LAKE, bootstrap.credentials_of_user(self.directory))
        lakes = Lakes(self._home)
        known, found = lakes.all(), [self._lake(state, name) for name in state.lakes()]
        for lake in found:
            if lake not in known:
                lakes.add(lake)
        return found

    def _lake(self, state: State, name: str) -> Lake:
        self._kind(state, name)
        endpoints = state.ports.endpoints()
        # No application sees the user's own credentials: each is given the role, for its lake's bucket.
        return Lake(name, endpoints, name, f"file:{LAKE}", kind=KIND, sts=Sts(endpoints[0], bootstrap.ROLE_ARN))

    def _kind(self, state: State, lake: str) -> str:
        kinds = state.lakes()
        if lake not in kinds:
            raise NotFound(
                f"There is no lake “{lake}” on this Ceph",
                why=f"its lakes are {', '.join(kinds)}",
                fix="penstock lake list shows all there are",
            )
        return kinds[lake]

    def _existing(self) -> State:
        state = self.state()
        if state is None:
            raise NotFound(
                "There is no Ceph in this home",
                why=f"none was made in {self.directory}",
                fix="penstock lake ceph up makes one",
            )
        return state

    def _require_names(self) -> None:
        for lake in Lakes(self._home).all():
            if lake.name in (LAKE, *(f"{LAKE}-{kind}" for kind in ("replicated", "erasure"))) and lake.kind != KIND:
                raise Conflict(
                    f"There is another lake of the name “{lake.name}”",
                    why=f"it was added with the endpoint {lake.endpoints[0]}",
                    fix=f"penstock lake remove {lake.name}, and add it again under another name",
                )

    def _changing(self) -> contextlib.AbstractContextManager[None]:
        return self._home.lock(
            "ceph", busy="Another command is starting or stopping Ceph", wait_seconds=_CHANGING_SECONDS
        )
