"""A cluster's directory in memory, for the shuffle and spill files that it has been promised room for.

It is on the system's own memory file system, in a directory that only its user can look into, and known to the cluster
by a link in the application's directory: whoever has that finds it, whatever the environment says by then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from pathlib import Path

from penstock.home import Home

_ROOT = "/dev/shm"  # noqa: S108  where Linux has memory; what is made below it is private
_LINK = "scratch-memory"
_ATTEMPTS = 3


def prepare(home: Home, application_id: str) -> Path | None:
    """Make the directory; None where this machine has no memory file system that can be used: disk is used then.

    What applications that are no more have left behind, with all who would have removed it killed, goes first.
    """
    ours = _ours(home, Path(os.environ.get("PENSTOCK_MEMORY_DIRECTORY") or _ROOT))
    link = home.application(application_id) / _LINK
    place = ours / application_id
    for _ in range(_ATTEMPTS):
        try:
            for directory in (ours.parent, ours):
                directory.mkdir(mode=0o700, exist_ok=True)
                _require_private(directory)
            _sweep(home, ours)
            if not link.is_symlink():
                link.symlink_to(place)
            place.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:  # the last other application has just tidied up
            continue
        except OSError:
            return None
        return place
    return None


def remove(directory: Path) -> None:
    """Give the memory of the application in `directory` back. Nothing happens where it has none."""
    link = directory / _LINK
    if link.is_symlink():
        place = link.readlink()
        shutil.rmtree(place, ignore_errors=True)
        # Not empty while others use it.
        for emptied in (place.parent, place.parent.parent):
            with contextlib.suppress(OSError):
                emptied.rmdir()


def _ours(home: Home, root: Path) -> Path:
    """Of one user and one home: the ids of applications are unique there."""
    name = hashlib.sha256(os.fsencode(home.root.absolute())).hexdigest()[:16]
    return root / f"penstock-{os.getuid()}-scratch" / name


def _require_private(directory: Path) -> None:
    """Everybody may make names in the root: ours may be a stranger's."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} is somebody else's")


def _sweep(home: Home, ours: Path) -> None:
    for place in ours.iterdir():
        if not home.application(place.name).exists():
            shutil.rmtree(place, ignore_errors=True)
