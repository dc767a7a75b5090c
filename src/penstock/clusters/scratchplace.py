"""A cluster's scratch directory outside of the home: in memory, or on a device that users chose for it.

It is below a directory that only its user can look into, and known to the cluster by a link in the application's
directory: whoever has that finds it, whatever the environment or the settings say by then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from penstock.home import Home, require_private

_ATTEMPTS = 3


def make(home: Home, application_id: str, root: Path, link_name: str) -> Path:
    """Make the directory below `root`, and the link to it. Raises `OSError` where that cannot be.

    What applications that are no more have left there, with all who would have removed it killed, goes first.
    """
    for _ in range(_ATTEMPTS - 1):
        # Another application, the last one there, may be tidying up.
        with contextlib.suppress(FileNotFoundError):
            return _make(home, application_id, root, link_name)
    return _make(home, application_id, root, link_name)


def _make(home: Home, application_id: str, root: Path, link_name: str) -> Path:
    ours = _ours(home, root)
    link = home.application(application_id) / link_name
    place = ours / application_id
    for directory in (ours.parent, ours):
        directory.mkdir(mode=0o700, exist_ok=True)
        require_private(directory)
    _sweep(home, ours)
    if not link.is_symlink():
        link.symlink_to(place)
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def remove(directory: Path, link_name: str) -> None:
    """Give back what the application in `directory` had there. Nothing happens where it has none."""
    link = directory / link_name
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


def _sweep(home: Home, ours: Path) -> None:
    for place in ours.iterdir():
        if not home.application(place.name).exists():
            shutil.rmtree(place, ignore_errors=True)
