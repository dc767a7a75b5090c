"""A cluster's directory in memory, for the shuffle and spill files that it has been promised room for."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.clusters import scratchplace
from penstock.home import Home

_ROOT = "/dev/shm"  # noqa: S108  where Linux has memory; what is made below it is private
_LINK = "scratch-memory"


def prepare(home: Home, application_id: str) -> Path | None:
    """Make the directory; None where this machine has no memory file system that can be used: disk is used then."""
    root = Path(os.environ.get("PENSTOCK_MEMORY_DIRECTORY") or _ROOT)
    try:
        return scratchplace.make(home, application_id, root, _LINK)
    except OSError:
        return None


def remove(directory: Path) -> None:
    """Give the memory of the application in `directory` back. Nothing happens where it has none."""
    scratchplace.remove(directory, _LINK)
