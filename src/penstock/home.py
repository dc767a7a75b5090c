"""The state directory: where Penstock keeps what must survive between commands on this machine.

Everything else (data, tables, logs, history) lives in the lake and the catalog. Files are replaced atomically, so a
process killed at any moment leaves the old content or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from penstock.errors import StateError

_LONGEST_NAME, _LONGEST_PART = 1024, 255
"""As object stores and file systems have it; in letters and in bytes."""


@dataclass(frozen=True)
class Home:
    """One state directory. Private to its owner (mode 0700), since it holds credential files."""

    root: Path

    @staticmethod
    def default() -> Home:
        """`$PENSTOCK_HOME`, else `$XDG_STATE_HOME/penstock`, else `~/.local/state/penstock`."""
        if chosen := os.environ.get("PENSTOCK_HOME"):
            return Home(Path(chosen).expanduser().absolute())
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Home(Path(base).expanduser().absolute() / "penstock")

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def database(self) -> Path:
        return self.root / "database"

    @property
    def applications(self) -> Path:
        return self.root / "applications"

    @property
    def cache(self) -> Path:
        """What can be made again: class-data archives, the list of known settings."""
        return self.root / "cache"

    def application(self, application_id: str) -> Path:
        return self.applications / application_id

    def create(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for part in (self.lake, self.applications, self.cache):
                part.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StateError(
                f"The state directory {self.root} cannot be used",
                why=str(error.strerror or error),
                fix="make it writable, or choose another with PENSTOCK_HOME=/path",
            ) from error

    @contextlib.contextmanager
    def lock(
        self,
        name: str,
        *,
        busy: str,
        wait_seconds: float = 0.0,
        fix: str = "wait for it to end, or choose another state directory with PENSTOCK_HOME=/path",
    ) -> Iterator[None]:
        """Hold the named lock of this home; raises `StateError(busy)` if another process keeps it `wait_seconds`.

        The lock ends with the process, however it ends.
        """
        deadline = time.monotonic() + wait_seconds
        path = self.root / f"{name}.lock"
        while True:
            self.create()
            with path.open("a+", encoding="utf-8") as file:
                try:
                    while True:
                        try:
                            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                            break
                        except BlockingIOError:
                            if time.monotonic() >= deadline:
                                raise
                        time.sleep(0.05)
                except BlockingIOError as error:
                    file.seek(0)
                    holder = file.read().strip() or "unknown"
                    raise StateError(
                        busy,
                        why=f"process {holder} holds {file.name}",
                        fix=fix,
                    ) from error
                if not _is_at(path, file.fileno()):
                    continue  # the home was wiped meanwhile: others lock the file that is there now
                file.seek(0)
                file.truncate()
                file.write(str(os.getpid()))
                file.flush()
                yield
                return

    def locked(self, name: str) -> bool:
        """Whether a process holds that lock now. Whoever asks may delay one who takes it, for a moment."""
        try:
            with (self.root / f"{name}.lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def require_private(directory: Path) -> None:
    """Raise `PermissionError` unless this is a directory of this account that nobody else can look into.

    For what has a name that everybody may make, as in `/dev/shm`: a link there, too, may be a stranger's. Where the
    directory above is sticky, nobody can put another in its place afterwards.
    """
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} is somebody else's")


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Replace `path` whole or not at all, also across a power cut.

    A write that fails leaves nothing: half of a secret under another name is a secret, too.
    """
    data = content.encode() if isinstance(content, str) else content
    # A thread's id is no other's on this machine, whichever process it belongs to.
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def stays_below(name: str) -> bool:
    """Whether a name that somebody else gave (`events/log`) is that of a file below whatever it is joined to. Pure."""
    parts = name.split("/")
    return (
        len(name) <= _LONGEST_NAME
        and not any(part in ("", ".", "..") or len(os.fsencode(part)) > _LONGEST_PART for part in parts)
        and not any(letter == "\\" or ord(letter) < ord(" ") for letter in name)
    )


def open_below(root: Path, name: str, *, write: bool = False) -> BinaryIO:
    """Open the file of that name below `root`, for reading, or for writing anew with the directories it needs.

    Neither the name nor a link, of the file or of a directory on the way, leads anywhere else, also where somebody
    changes them meanwhile. Raises `FileNotFoundError` where there is no such file, or only a link, and other `OSError`
    where it cannot be written.
    """
    if not stays_below(name):
        raise FileNotFoundError(errno.ENOENT, "it is not the name of a file below it", str(root))
    *directories, last = name.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in directories:
            if write:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=here)
            below = _opened(part, os.O_RDONLY | os.O_DIRECTORY, here)
            os.close(here)
            here = below
        # Not blocking: a pipe there has no other end.
        how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if write else os.O_RDONLY
        file = _opened(last, how | os.O_NONBLOCK, here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(errno.ENOENT, "it is not a file", name)
    return os.fdopen(file, "wb" if write else "rb")


def _opened(name: str, how: int, directory: int) -> int:
    try:
        return os.open(name, how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    except OSError as error:
        # What a link is answered with, and a file where a directory should be.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
            raise FileNotFoundError(errno.ENOENT, os.strerror(error.errno), name) from error
        raise


def sizes_below(root: Path) -> dict[str, int]:
    """The files in and below `root`, by their names from there, in order, with their bytes. Links are left out: whoever
    made one chose the file that would be read by it."""
    found = {}
    for path in sorted(root.rglob("*")):
        # What is being removed or renamed just now is there no more.
        with contextlib.suppress(FileNotFoundError):
            there = path.lstat()
            if stat.S_ISREG(there.st_mode):
                found[path.relative_to(root).as_posix()] = there.st_size
    return found


def write_once(path: Path, content: str) -> None:
    """Make `path`, whole, unless it is there: of several writers at once one wins, and all read the same afterwards."""
    fresh = path.with_name(f".{path.name}.{threading.get_native_id()}.once")
    try:
        write_atomically(fresh, content)
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, mode: int = 0o600) -> None:
    write_atomically(path, json.dumps(value, indent=2, sort_keys=True) + "\n", mode=mode)


def read_json(path: Path) -> Any:
    """The parsed content, or None where there is no file; `StateError` where it is not JSON."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise StateError(
            f"{path} is damaged",
            why=f"it is not JSON: {error}",
            fix=f"move it away (mv '{path}' '{path}.damaged') and run the command again; it will be made anew",
        ) from error
