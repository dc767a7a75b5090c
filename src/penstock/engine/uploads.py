"""Uploaded files, which submissions name: their names and keys, their retention, and local copies of small ones.

Each engine has its own prefix, so that no engine removes another's uploads. Copies are files of this machine, named by
the hash of their content, which is compared at each use.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from penstock.errors import PenstockError
from penstock.home import Home, write_atomically
from penstock.lake.model import Lake, ObjectInfo
from penstock.model import ApplicationSpec

PREFIX = "penstock/uploads/"

DIGEST = r"[0-9a-f]{64}"
"""The SHA-256 of a file's content, in hex, as a regular expression."""

_CHARACTERS = "A-Za-z0-9._-"
_MOST_CHARACTERS = 200

NAME = rf"[A-Za-z0-9_][{_CHARACTERS}]{{0,{_MOST_CHARACTERS - 1}}}"
"""The names that an uploaded file may have, as a regular expression."""

_SUBMISSION_WINDOW = timedelta(days=1)
"""The time that a client may take between learning a file's address and naming it in a submission."""


def prefix_of(owner: str) -> str:
    """The prefix of that engine's uploads, in every lake."""
    return f"{PREFIX}{hashlib.sha256(owner.encode()).hexdigest()[:12]}/"


def clean_name(name: str) -> str:
    """Return `name` as one that `NAME` matches: `_` for every other character, and the last 200 characters at most."""
    cleaned = re.sub(rf"[^{_CHARACTERS}]", "_", name)[-_MOST_CHARACTERS:]
    return cleaned if re.match(NAME, cleaned) else f"_{cleaned[1:]}"


def upload_key(place: str, digest: str, name: str) -> str:
    return f"{place}{digest}/{name}"


def upload_pattern(place: str) -> str:
    """A regular expression that finds the keys of uploads in a text."""
    return rf"{place}{DIGEST}/[{_CHARACTERS}]+"


def outlives_submission(found: ObjectInfo, *, at: datetime, kept: timedelta) -> bool:
    """Return whether the upload will outlive a submission that is about to name it; otherwise upload it again."""
    return at - found.modified < kept - _SUBMISSION_WINDOW


def unused(found: Iterable[ObjectInfo], named: Collection[str], *, at: datetime, kept: timedelta) -> list[str]:
    """Return the keys of the uploads that no application names and that were last uploaded at least `kept` ago."""
    return [one.key for one in found if one.key not in named and at - one.modified >= kept]


MOST_COPIED_BYTES = 1 << 20
"""The size limit of a copy: enough for a program. Larger files are read from the lake, through the page cache."""


class UploadCopies:
    """Local copies of one engine's uploads. Several processes may call every method at once."""

    def __init__(self, home: Home, place: str) -> None:
        self._place = place
        self._directory = home.cache / "uploads"

    def keep(self, key: str, size: int, content: Callable[[], bytes]) -> None:
        """Copy the upload `key`, of `size` bytes, if it is small and not copied yet; a full disk is ignored."""
        target = self._file(key)
        if size > MOST_COPIED_BYTES or target.exists():
            return
        # The copy is optional, since the lake has the file.
        with contextlib.suppress(OSError, PenstockError):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(target, content())

    def with_local_copies(self, spec: ApplicationSpec, lake: Lake) -> ApplicationSpec:
        """Return the specification with lake addresses replaced by the local copies that exist."""
        ours = re.compile(f"{re.escape(lake.root)}/({upload_pattern(self._place)})")

        def here(address: str) -> str:
            found = ours.fullmatch(address)
            file = self._file(found[1]) if found else None
            return str(file) if file is not None and _is_intact(file) else address

        return spec.with_paths(here)

    def sweep(self, named: Collection[str], *, at: datetime, kept: timedelta) -> None:
        """Remove the copies that `unused` names, as it does for the lake."""
        for key in unused(self._all(), named, at=at, kept=kept):
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
                key = upload_key(self._place, file.parent.name, file.name)
                found.append(ObjectInfo(key, status.st_size, modified, ""))
        return found

    def _file(self, key: str) -> Path:
        return self._directory / key.removeprefix(self._place)


def _is_intact(file: Path) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == file.parent.name
    except OSError:
        return False
