"""The state directory: Penstock's persistent state on this machine.

All other state (data, tables, logs, history) is in the lake and the catalog. Files are replaced atomically, so a
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
"""The limits of object stores, in characters, and of file systems, in bytes."""


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
        """Files that can be recreated: class-data archives, the list of known settings."""
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
        """Hold the named lock of this home; it ends with the process, however that ends.

        Raises `StateError(busy)` if another process keeps it for `wait_seconds`.
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
                    continue  # the home was wiped meanwhile, and other processes lock the new file
                file.seek(0)
                file.truncate()
                file.write(str(os.getpid()))
                file.flush()
                yield
                return

    def locked(self, name: str) -> bool:
        """Return whether a process holds that lock now. The check may briefly delay a process that takes it."""
        try:
            with (self.root / f"{name}.lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def require_private(directory: Path) -> None:
    """Raise `PermissionError` unless this is a directory of this account that no other account can read.

    It guards names in directories that every account may write, such as `/dev/shm`, where even a link may be another
    account's. If the parent directory is sticky, no other account can replace the directory afterwards.
    """
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} is not a private directory of this account")


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Replace `path` atomically, also across a power cut.

    A failed write leaves no temporary file, since that may hold a part of a secret.
    """
    data = content.encode() if isinstance(content, str) else content
    # A native thread id is unique on this machine, over all processes.
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


def is_relative_name(name: str) -> bool:
    """Return whether an untrusted name (`events/log`) stays below any directory it is joined to. Pure."""
    parts = name.split("/")
    return (
        len(name) <= _LONGEST_NAME
        and not any(part in ("", ".", "..") or len(os.fsencode(part)) > _LONGEST_PART for part in parts)
        and not any(letter == "\\" or ord(letter) < ord(" ") for letter in name)
    )


def open_below(root: Path, name: str, *, write: bool = False) -> BinaryIO:
    """Open the file of that name below `root` for reading, or for replacement, which creates missing directories.

    Neither the name nor a link, of the file or of a directory on its path, can lead outside, even under concurrent
    changes. Raises `FileNotFoundError` where there is no such file, or only a link, and other `OSError` where it cannot
    be written.
    """
    if not is_relative_name(name):
        raise FileNotFoundError(errno.ENOENT, "the name leads out of the directory", str(root))
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
        # Non-blocking, since the open of a pipe without a peer would block.
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
        # The errors for a link, and for a file in place of a directory or the reverse.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
            raise FileNotFoundError(errno.ENOENT, os.strerror(error.errno), name) from error
        raise


def sizes_below(root: Path) -> dict[str, int]:
    """Sizes in bytes of the files in and below `root`, by their relative names, in order.

    Links are left out, since their creator chose the file that they lead to, and so are files that cannot be read.
    """
    found = {}
    for path in sorted(root.rglob("*")):
        # A file may be removed or renamed during the walk.
        with contextlib.suppress(FileNotFoundError):
            there = path.lstat()
            if stat.S_ISREG(there.st_mode) and os.access(path, os.R_OK):
                found[path.relative_to(root).as_posix()] = there.st_size
    return found


def write_once(path: Path, content: str) -> None:
    """Create `path` atomically unless it exists: one of several concurrent writers wins, and all read its content."""
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
    """The parsed content, or None where there is no file. Raises `StateError` where it is not JSON."""
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
            fix=f"move it away (mv '{path}' '{path}.damaged') and run the command again, which recreates it",
        ) from error
