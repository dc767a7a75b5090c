"""Starting and ending the daemons of one Ceph, and telling whether they serve.

A daemon is recognised by what it is, a program of Ceph's that runs in this directory under its name, and not by a
recorded process id. So a command killed at any moment leaves nothing that the next one cannot find.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.errors import LakeError, MissingRequirement
from penstock.lake.ceph import adminsocket, daemons
from penstock.lake.ceph.commands import environment, program_path
from penstock.lake.ceph.configuration import LOGS, Ports
from penstock.lake.loopback import answers
from penstock.processes import ProcessId, end_process, process_in, start_daemon, until

_START_SECONDS = 90.0
# Each look at a daemon that is not that far yet is an error in its log.
_LOOK_SECONDS = 0.2
_END_SECONDS = 10.0
_SERVING_STATES = {daemons.MONITOR: ("leader", "peon"), daemons.OSD: ("active",)}
_STATE_COMMANDS = {daemons.MONITOR: "mon_status", daemons.OSD: "status"}


class Control:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def running(self) -> dict[str, ProcessId]:
        """Every daemon of this directory, by name."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # ended, or another user's
                    arguments = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                    name = daemons.name_in(arguments)
                    if name and (process := process_in(self._directory, int(entry.name))):
                        found[name] = process
        return found

    def start(self, names: Collection[str], ports: Ports) -> None:
        """Start daemons that do not run, all at once, and return when they serve. `LakeError` where one does not."""
        processes = {name: self._launch(name) for name in names}
        self.await_serving(processes, ports)

    def await_serving(self, processes: dict[str, ProcessId], ports: Ports) -> None:
        waiting = dict(processes)

        def settled() -> bool:
            for name, process in list(waiting.items()):
                if not process.alive():
                    return True
                if self.serves(name, ports):
                    del waiting[name]
            return not waiting

        until(settled, _START_SECONDS, pause_seconds=_LOOK_SECONDS)
        if waiting:
            ended = [name for name, process in waiting.items() if not process.alive()]
            name = (ended or list(waiting))[0]
            raise LakeError(
                f"Ceph's {name} does not {'start' if ended else 'serve'}",
                why=f"it {'ended' if ended else f'did not answer for {_START_SECONDS:.0f} s'}; its last words:\n"
                + self.last_words(name),
                fix=f"read {self.log(name)}"
                + ("" if ended else f"; penstock lake ceph stop {name} --kill ends it")
                + "; penstock lake ceph up starts it again",
            )

    def serves(self, name: str, ports: Ports) -> bool:
        """Whether the daemon does its work now, by its own account; one that is stopped or hangs does not."""
        kind = daemons.kind_of(name)
        if kind == daemons.GATEWAY:
            return answers(ports.gateways[int(name.partition(".")[2])], "/")
        if kind == daemons.MANAGER:
            return adminsocket.ask(self._directory, name, "version") is not None
        told = adminsocket.ask(self._directory, name, _STATE_COMMANDS[kind])
        return told is not None and told.get("state") in _SERVING_STATES[kind]

    def end(self, processes: Iterable[ProcessId], *, kill: bool = False) -> None:
        """End them at the same time; they are gone when this returns."""
        ask = signal.SIGKILL if kill else signal.SIGTERM
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda process: end_process(process, grace_seconds=_END_SECONDS, ask=ask), processes))

    def log(self, name: str) -> Path:
        return self._directory / LOGS / f"{daemons.entity(name)}.log"

    def last_words(self, name: str, lines: int = 6) -> str:
        """What it printed, or else the end of its log."""
        for path in (self._output(name), self.log(name)):
            with contextlib.suppress(OSError):
                told = [
                    line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
                ]
                if told:
                    return "\n".join(told[-lines:])
        return "(it said nothing)"

    def _output(self, name: str) -> Path:
        return self._directory / LOGS / f"{name}.out"

    def _launch(self, name: str) -> ProcessId:
        program, *arguments = daemons.command(name)
        path = program_path(program)
        if path is None:
            raise MissingRequirement(f"{program} is not installed", fix="penstock lake ceph install")
        for old in (self._output(name), self.log(name)):
            if old.exists():  # of the last start: else they would grow for ever, and be taken for this one's words
                old.replace(old.with_suffix(f".previous{old.suffix}"))
        return start_daemon(
            [path, *arguments],
            log=self._output(name),
            environment=environment(self._directory),
            directory=self._directory,
        )
