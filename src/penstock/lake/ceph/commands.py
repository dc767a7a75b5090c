"""Running Ceph's own programs, and asking its monitor."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from penstock.errors import LakeError
from penstock.lake.ceph.configuration import ADMINISTRATOR, CONFIGURATION

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
