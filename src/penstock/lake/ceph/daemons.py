"""Control of one Ceph cluster's daemons: packages, start, end, administrative sockets and Ceph's own programs.

A daemon is recognized as a Ceph program that runs in this directory under its name, and not by a recorded process id.
So a command that is killed at any moment leaves no process that the next command cannot find.
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
from penstock.processes import ProcessId, end_process, last_lines, process_in, responds, start_daemon, tail, wait_until


def ask(directory: Path, entity: str, command: str, *, timeout_seconds: float = 2.0) -> Any:
    """Send a command to the administrative socket of the daemon that Ceph names `entity`; return the parsed answer.

    The result is None if the daemon does not answer in time or its answer cannot be read.
    """
    try:
        # The descriptor shortens the socket's path, because the directory's own may exceed the limit of an address.
        descriptor = os.open(directory / SOCKETS, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(f"/proc/self/fd/{descriptor}/{entity}.asok")
            connection.sendall(json.dumps({"prefix": command}).encode() + b"\0")
            length = struct.unpack(">I", _read(connection, 4))[0]
            return json.loads(_read(connection, length))
    except (OSError, ValueError, EOFError):
        return None
    finally:
        os.close(descriptor)


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
_RUN_SECONDS = 60.0
# A user's PATH often lacks the administrator's directories.
_PATH = f"{os.defpath}:/usr/sbin:/sbin"


def program_path(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def environment(directory: Path) -> dict[str, str]:
    """A minimal environment, because the user's CEPH_CONF and CEPH_ARGS would lead to another Ceph cluster."""
    return {
        "PATH": _PATH,
        "HOME": str(directory),
        "LC_ALL": "C.UTF-8",
        # The distribution's own units set it: without it, threads contend for memory allocation.
        "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": "134217728",
    }


def run(directory: Path, *arguments: str, activity: str) -> str:
    """Run one of Ceph's programs and return its standard output; raise `LakeError`, which names the failed `activity`.

    The arguments must not contain secrets.
    """
    try:
        result = subprocess.run(
            arguments,
            cwd=directory,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(directory, activity, f"{arguments[0]} did not end within {_RUN_SECONDS:.0f} s") from error
    if result.returncode:
        output = last_lines(result.stderr or result.stdout, 5)
        raise _failed(directory, activity, output or f"{arguments[0]} ended with exit code {result.returncode}")
    return result.stdout


def administer(directory: Path, *arguments: str, activity: str) -> str:
    """Run `radosgw-admin` and return its output, which is JSON for most subcommands."""
    return run(
        directory, "radosgw-admin", "--conf", CONFIGURATION, "--name", ADMINISTRATOR, *arguments, activity=activity
    )


class Monitor:
    """A connection to the monitor, for one thread at a time."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self._process = process
        self._directory = directory

    def ask(self, prefix: str, **arguments: Any) -> Any:
        """Send one command and return its parsed answer; raise `LakeError` if the monitor refuses or is silent."""
        return self.ask_all([{"prefix": prefix, **arguments}])[0]

    def ask_all(self, commands: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send independent commands and return their answers; decided together, they take the time of one."""
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
                raise _failed(self._directory, f"sending “{command['prefix']}” to the monitor", why)
        return [json.loads(output) if output.strip() else None for _, output, _ in found]


@contextlib.contextmanager
def monitor(directory: Path, *, timeout_seconds: int) -> Iterator[Monitor]:
    """Connect to the monitor of the Ceph cluster in `directory`; raise `LakeError` if it does not answer in time."""
    process = subprocess.Popen(
        [_SYSTEM_PYTHON, "-I", str(_CLIENT), CONFIGURATION, str(timeout_seconds)],
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
    output = cast(IO[str], process.stderr).read().strip().splitlines()
    return _failed(directory, "querying its monitor", output[-1] if output else "the connection was lost")


def _failed(directory: Path, doing: str, why: str) -> LakeError:
    return LakeError(
        f"Ceph failed while {doing}",
        why=why,
        fix=f"penstock lake ceph status; the daemons' logs are in {directory / 'log'}",
    )


_START_SECONDS = 90.0
# Each query of a daemon that is not ready yet writes an error to its log.
_POLL_SECONDS = 0.2
_END_SECONDS = 10.0
_SERVING_STATES = {configuration.MONITOR: ("leader", "peon"), configuration.OSD: ("active",)}
_STATE_COMMANDS = {configuration.MONITOR: "mon_status", configuration.OSD: "status"}


class Control:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def running(self) -> dict[str, ProcessId]:
        """The running daemons of this directory, by name."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # the process ended, or belongs to another user
                    arguments = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                    name = configuration.daemon_of_command(arguments)
                    if name and (process := process_in(self._directory, int(entry.name))):
                        found[name] = process
        return found

    def start(self, names: Collection[str], ports: Ports) -> None:
        """Start daemons that do not run, all at once, and return when they serve; raise `LakeError` if one fails."""
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

        wait_until(settled, _START_SECONDS, pause_seconds=_POLL_SECONDS)
        if waiting:
            ended = [name for name, process in waiting.items() if not process.alive()]
            name = (ended or list(waiting))[0]
            raise LakeError(
                f"Ceph's {name} does not {'start' if ended else 'serve'}",
                why=f"it {'ended' if ended else f'did not answer for {_START_SECONDS:.0f} s'}; its last output:\n"
                + self.last_output(name),
                fix=f"read {self.log(name)}"
                + ("" if ended else f"; penstock lake ceph stop {name} --kill ends it")
                + "; penstock lake ceph up starts it again",
            )

    def serves(self, name: str, ports: Ports) -> bool:
        """Report whether the daemon itself says that it serves; a daemon that is stopped or hangs does not."""
        kind = configuration.kind_of(name)
        if kind == configuration.GATEWAY:
            return responds(ports.gateways[int(name.partition(".")[2])], "/")
        if kind == configuration.MANAGER:
            return ask(self._directory, name, "version") is not None
        answer = ask(self._directory, name, _STATE_COMMANDS[kind])
        return answer is not None and answer.get("state") in _SERVING_STATES[kind]

    def end(self, processes: Iterable[ProcessId], *, kill: bool = False) -> None:
        """End the processes at the same time; they are gone when this returns."""
        ask = signal.SIGKILL if kill else signal.SIGTERM
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda process: end_process(process, grace_seconds=_END_SECONDS, ask=ask), processes))

    def log(self, name: str) -> Path:
        return self._directory / LOGS / f"{configuration.entity(name)}.log"

    def last_output(self, name: str) -> str:
        """The last lines of the daemon's output, or else of its log."""
        return tail(self._output(name), 6) or tail(self.log(name), 6) or "(no output)"

    def _output(self, name: str) -> Path:
        return self._directory / LOGS / f"{name}.out"

    def _launch(self, name: str) -> ProcessId:
        program, *arguments = configuration.command(name)
        path = program_path(program)
        if path is None:
            raise MissingRequirement(f"{program} is not installed", fix="penstock lake ceph install")
        for old in (self._output(name), self.log(name)):
            if old.exists():  # files of the previous start would grow for ever, and be mistaken for this one's output
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


def missing_packages() -> list[str]:
    """The packages that are not installed."""
    return [package for package, program in _PROGRAMS.items() if program_path(program) is None]


def require_packages() -> None:
    """Raise `MissingRequirement`, with a remedy, if a package is missing."""
    if packages := missing_packages():
        raise MissingRequirement(
            "Ceph is not installed on this machine",
            why=f"there is no {', '.join(packages)}",
            fix="penstock lake ceph install (as root; Debian and Ubuntu have the packages), "
            "or use the embedded lake: penstock lake up",
        )


def version() -> str:
    """The gateways' version, such as `16.2.15`; empty if they are not installed."""
    path = program_path("radosgw")
    if path is None:
        return ""
    words = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return words[2].partition("+")[0] if len(words) > 2 else ""


def require_installable() -> None:
    """Raise `MissingRequirement` if `install` cannot work here."""
    names = " ".join(PACKAGES)
    if shutil.which("apt-get") is None:
        raise MissingRequirement(
            "Ceph cannot be installed here",
            why="this system has no apt-get; Penstock knows the packages of Debian and Ubuntu",
            fix=f"install your distribution's packages for {names}",
        )
    if os.geteuid() != 0:
        raise MissingRequirement(
            "Ceph cannot be installed by this account",
            why="installing packages needs root",
            fix=f"sudo apt-get install --no-install-recommends {names}",
        )


def install() -> None:
    """Install Ceph's packages with apt, whose output goes to the terminal; raise `MissingRequirement` on failure."""
    require_installable()
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        if code := subprocess.run(command, env=quiet, stdin=subprocess.DEVNULL, check=False).returncode:
            raise MissingRequirement(
                "Ceph's packages could not be installed",
                why=f"{' '.join(command)} ended with exit code {code}; its output is above",
                fix="correct the errors it reports, then run penstock lake ceph install again",
            )
    require_packages()
