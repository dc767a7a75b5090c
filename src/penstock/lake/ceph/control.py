"""Control of one Ceph's daemons: packages, start, end, administrative sockets and Ceph's own programs.

A daemon is recognised by what it is, a program of Ceph's that runs in this directory under its name, and not by a
recorded process id. So a command killed at any moment leaves nothing that the next one cannot find.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

from penstock.errors import LakeError, MissingRequirement
from penstock.lake.ceph import configuration
from penstock.lake.ceph.configuration import ADMINISTRATOR, CONFIGURATION, LOGS, SOCKETS, Ports
from penstock.processes import ProcessId, answers, end_process, process_in, start_daemon, until


def ask(directory: Path, entity: str, command: str, *, patience_seconds: float = 2.0) -> Any:
    """The parsed answer of the daemon with Ceph's name `entity`; None where it has none to give, or not in time."""
    try:
        # By a descriptor, since the directory's own path may be longer than a socket's address can be.
        held = os.open(directory / SOCKETS, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(patience_seconds)
            connection.connect(f"/proc/self/fd/{held}/{entity}.asok")
            connection.sendall(json.dumps({"prefix": command}).encode() + b"\0")
            length = struct.unpack(">I", _read(connection, 4))[0]
            return json.loads(_read(connection, length))
    except (OSError, ValueError, EOFError):
        return None
    finally:
        os.close(held)


def _read(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content


_SYSTEM_PYTHON = "/usr/bin/python3"
_CLIENT = Path(__file__).with_name("monitor_client.py")
_PATIENCE_SECONDS = 60.0
# A user's PATH often lacks the administrator's directories.
_PATH = f"{os.defpath}:/usr/sbin:/sbin"


def program_path(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def environment(directory: Path) -> dict[str, str]:
    """Bare: CEPH_CONF and CEPH_ARGS of the user's would lead to another Ceph."""
    return {
        "PATH": _PATH,
        "HOME": str(directory),
        "LC_ALL": "C.UTF-8",
        # As the distribution's own units set it: without it, threads wait for each other to allocate.
        "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": "134217728",
    }


def run(directory: Path, *arguments: str, doing: str) -> str:
    """The standard output of one of Ceph's programs; `LakeError` names what was being done. No secrets in arguments."""
    try:
        done = subprocess.run(
            arguments,
            cwd=directory,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(directory, doing, f"{arguments[0]} did not end within {_PATIENCE_SECONDS:.0f} s") from error
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise _failed(directory, doing, last or f"{arguments[0]} ended with exit code {done.returncode}")
    return done.stdout


def administer(directory: Path, *arguments: str, doing: str) -> str:
    """What `radosgw-admin` answers: JSON, for most of what it does."""
    return run(directory, "radosgw-admin", "--conf", CONFIGURATION, "--name", ADMINISTRATOR, *arguments, doing=doing)


class Monitor:
    """A connection to the monitor. Not for several threads at once."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self._process = process
        self._directory = directory

    def ask(self, prefix: str, **arguments: Any) -> Any:
        """What one command answers, parsed. Raises `LakeError` where the monitor refuses or does not answer."""
        return self.ask_all([{"prefix": prefix, **arguments}])[0]

    def ask_all(self, commands: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The answers to commands that do not depend on each other; decided together, they take the time of one."""
        requests, answers = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        with contextlib.suppress(BrokenPipeError):
            requests.write(json.dumps([{"format": "json", **command} for command in commands]) + "\n")
            requests.flush()
        line = answers.readline()
        if not line:
            raise _unanswered(self._directory, self._process)
        found = json.loads(line)
        for command, (code, _, message) in zip(commands, found, strict=True):
            if code:
                why = message or os.strerror(abs(code))
                raise _failed(self._directory, f"asking the monitor for “{command['prefix']}”", why)
        return [json.loads(output) if output.strip() else None for _, output, _ in found]


@contextlib.contextmanager
def monitor(directory: Path, *, patience_seconds: int) -> Iterator[Monitor]:
    """Connect to the monitor of the Ceph in `directory`; `LakeError` where it does not answer in that time."""
    process = subprocess.Popen(
        [_SYSTEM_PYTHON, "-I", str(_CLIENT), CONFIGURATION, str(patience_seconds)],
        cwd=directory,
        env=environment(directory),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if not cast(IO[str], process.stdout).readline():
            raise _unanswered(directory, process)
        yield Monitor(process, directory)
    finally:
        process.kill()
        process.communicate()


def _unanswered(directory: Path, process: subprocess.Popen[str]) -> LakeError:
    said = cast(IO[str], process.stderr).read().strip().splitlines()
    return _failed(directory, "asking its monitor", said[-1] if said else "the connection was lost")


def _failed(directory: Path, doing: str, why: str) -> LakeError:
    return LakeError(
        f"Ceph failed while {doing}",
        why=why,
        fix=f"penstock lake ceph status; the daemons' logs are in {directory / 'log'}",
    )


_START_SECONDS = 90.0
# Each look at a daemon that is not that far yet is an error in its log.
_LOOK_SECONDS = 0.2
_END_SECONDS = 10.0
_SERVING_STATES = {configuration.MONITOR: ("leader", "peon"), configuration.OSD: ("active",)}
_STATE_COMMANDS = {configuration.MONITOR: "mon_status", configuration.OSD: "status"}


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
                    name = configuration.name_in(arguments)
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
        kind = configuration.kind_of(name)
        if kind == configuration.GATEWAY:
            return answers(ports.gateways[int(name.partition(".")[2])], "/")
        if kind == configuration.MANAGER:
            return ask(self._directory, name, "version") is not None
        told = ask(self._directory, name, _STATE_COMMANDS[kind])
        return told is not None and told.get("state") in _SERVING_STATES[kind]

    def end(self, processes: Iterable[ProcessId], *, kill: bool = False) -> None:
        """End them at the same time; they are gone when this returns."""
        ask = signal.SIGKILL if kill else signal.SIGTERM
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda process: end_process(process, grace_seconds=_END_SECONDS, ask=ask), processes))

    def log(self, name: str) -> Path:
        return self._directory / LOGS / f"{configuration.entity(name)}.log"

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
        program, *arguments = configuration.command(name)
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


_PROGRAMS = {
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
    "radosgw": "radosgw",
    "ceph-common": "radosgw-admin",
}
PACKAGES = tuple(_PROGRAMS)


def missing() -> list[str]:
    return [package for package, program in _PROGRAMS.items() if program_path(program) is None]


def require() -> None:
    """Raise `MissingRequirement` with what to do where a package is missing."""
    if lacking := missing():
        raise MissingRequirement(
            "Ceph is not installed on this machine",
            why=f"there is no {', '.join(lacking)}",
            fix="penstock lake ceph install (as root; Debian and Ubuntu have the packages), "
            "or use the embedded lake: penstock lake up",
        )


def version() -> str:
    """`16.2.15`, of the gateways; empty where there are none."""
    path = program_path("radosgw")
    if path is None:
        return ""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return told[2].partition("+")[0] if len(told) > 2 else ""


def require_installable() -> None:
    """Raise `MissingRequirement` where `install` could not work."""
    names = " ".join(PACKAGES)
    if shutil.which("apt-get") is None:
        raise MissingRequirement(
            "Ceph cannot be installed here",
            why="this system has no apt-get; Penstock knows the packages of Debian and Ubuntu",
            fix=f"install what your distribution calls {names}",
        )
    if os.geteuid() != 0:
        raise MissingRequirement(
            "Ceph cannot be installed by this account",
            why="installing packages needs root",
            fix=f"sudo apt-get install --no-install-recommends {names}",
        )


def install() -> None:
    """Install what is missing, by name, with apt; its words go to the terminal. Raises `MissingRequirement`."""
    require_installable()
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        if code := subprocess.run(command, env=quiet, stdin=subprocess.DEVNULL, check=False).returncode:
            raise MissingRequirement(
                "Ceph's packages could not be installed",
                why=f"{' '.join(command)} ended with exit code {code}; its reasons are above",
                fix="correct what it says, then penstock lake ceph install",
            )
    require()
