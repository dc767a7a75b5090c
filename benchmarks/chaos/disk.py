"""A small disk that can be filled: a tmpfs at the home's directory of applications (needs root)."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_FILLER = "filler"


class SmallDisk:
    def __init__(self, directory: Path, *, megabytes: int) -> None:
        self.directory = directory
        self._megabytes = megabytes

    def __enter__(self) -> SmallDisk:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        options = f"size={self._megabytes}m,mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "penstock-chaos", self.directory], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self.directory], check=True)

    @contextlib.contextmanager
    def filled(self, *, but: int) -> Iterator[None]:
        """Fill the disk for the duration of the block, but for `but` bytes."""
        filler = self.directory / _FILLER
        try:
            with filler.open("wb") as file:
                while (room := self._free() - but) > 0:
                    # Applications write meanwhile: where they took the space first, retry with the remaining space.
                    with contextlib.suppress(OSError):
                        os.posix_fallocate(file.fileno(), 0, room)
                        break
            yield
        finally:
            filler.unlink()

    def _free(self) -> int:
        found = os.statvfs(self.directory)
        return found.f_bavail * found.f_frsize
