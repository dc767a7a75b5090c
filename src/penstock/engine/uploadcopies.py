"""Small uploads as files of this machine too, so that a driver here need not open the lake to read its own program.

Found by the hash of their content, which is compared each time: a copy is what its address says, or it is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection
from datetime import datetime, timedelta, timezone
from pathlib import Path

from penstock.engine import uploads
from penstock.engine.application import ApplicationSpec
from penstock.errors import PenstockError
from penstock.home import Home, write_atomically
from penstock.lake.base import Lake, ObjectInfo

MOST_BYTES = 1 << 20
"""A program. What is larger is read from the lake by those who need it, in pieces and from their page cache."""


class UploadCopies:
    """Of one engine's uploads. Every method may be called by several processes at once."""

    def __init__(self, home: Home, place: str) -> None:
        self._place = place
        self._directory = home.cache / "uploads"

    def keep(self, key: str, size: int, content: Callable[[], bytes]) -> None:
        """A copy of what was uploaded as `key`, of that size, where it is small, not here yet and there is room."""
        target = self._file(key)
        if size > MOST_BYTES or target.exists():
            return
        # Without a copy it is as it was: the lake has the file.
        with contextlib.suppress(OSError, PenstockError):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(target, content())

    def instead_of_addresses(self, spec: ApplicationSpec, lake: Lake) -> ApplicationSpec:
        """The same, naming files of this machine where there are copies of what it names in the lake."""
        ours = re.compile(f"{re.escape(lake.root)}/({uploads.pattern(self._place)})")

        def here(address: str) -> str:
            found = ours.fullmatch(address)
            file = self._file(found[1]) if found else None
            return str(file) if file is not None and _is_whole(file) else address

        return spec.with_paths(here)

    def sweep(self, named: Collection[str], *, at: datetime, kept: timedelta) -> None:
        """Remove those that `uploads.unused` would of the lake."""
        for key in uploads.unused(self._all(), named, at=at, kept=kept):
            file = self._file(key)
            with contextlib.suppress(OSError):
                file.unlink()
                file.parent.rmdir()

    def _all(self) -> list[ObjectInfo]:
        found = []
        for file in self._directory.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                status = file.stat()
                modified = datetime.fromtimestamp(status.st_mtime, timezone.utc)
                key = uploads.key(self._place, file.parent.name, file.name)
                found.append(ObjectInfo(key, status.st_size, modified, ""))
        return found

    def _file(self, key: str) -> Path:
        return self._directory / key.removeprefix(self._place)


def _is_whole(file: Path) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == file.parent.name
    except OSError:
        return False
