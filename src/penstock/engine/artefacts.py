"""What outlives a cluster: logs, event log and summary, kept in the lake before the cluster is gone."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine import pendingartefacts
from penstock.engine.pendingartefacts import PendingArtefacts
from penstock.errors import LakeError, NotFound, PenstockError
from penstock.home import Home, open_below, sizes_below, stays_below
from penstock.lake.base import (
    Lake,
    ObjectStore,
    _event_logs,
    artifact_key,
    artifact_name,
    artifact_prefix,
    is_of_attempt,
)

PLACE = "artefacts"
"""In a summary: where they are, `s3a://…` or `file://…`."""


PIECE_BYTES = 8 << 20
_TRIES = 3
_PAUSE_SECONDS = 1.0
_SIDE_BY_SIDE = 4


def checked_name(name: str) -> str:
    """The same; `NotFound` where it would lead out of an application's artefacts."""
    if not stays_below(name):
        raise NotFound("There is no artefact of that name", why="it is not the name of one")
    return name


def keep_artefacts(
    open_lake: Callable[[], tuple[Lake, ObjectStore]],
    home: Home,
    application_id: str,
    directory: Path,
    *,
    within: str = "",
    pending: PendingArtefacts | None = None,
) -> dict[str, Any]:
    """Bring everything in `directory` to the lake; returns the application's summary, with where its artefacts are.

    `within` is where below the application's own they go (`of_attempt`).

    A lake that stays out of reach costs nothing but the place, and the summary says why. They are then kept in
    `pending`, where there is one, for somebody to bring them to the lake later; what it has no room for, in the state
    directory.
    """
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    try:
        return {**summary, PLACE: _retried(lambda: _bring(open_lake, application_id, directory, within))}
    except PenstockError as error:
        files = {within + path.relative_to(directory).as_posix(): path for path in _files(directory)}
        taken = pending.put(application_id, files) if pending else set()
        place = _place(home, application_id)
        for name in files.keys() - taken:
            copy = place / name
            copy.parent.mkdir(mode=0o700, exist_ok=True, parents=True)
            shutil.copyfile(files[name], copy, follow_symlinks=False)
        kept_in = pendingartefacts.PLACE if taken == files.keys() else (place / within).as_uri()
        return {**summary, PLACE: kept_in, "artefacts_problem": str(error)}


@dataclass(frozen=True)
class Archive:
    """Where to find the artefacts of one application that has ended, or of its earlier attempts.

    Most are in the lake; of an attempt that could not reach it they are in the state directory, or in `pending`.
    """

    home: Home
    application_id: str
    summary: Mapping[str, Any]
    open_store: Callable[[], ObjectStore]
    pending: PendingArtefacts | None = None
    """None where only the state directory takes what a lake does not."""

    def load(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes [start, start + length), fewer where it ends before. Raises `NotFound`."""
        checked_name(name)
        try:
            with open_below(self._directory, name) as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except OSError as error:
            missing = NotFound(f"{self.application_id} has no {name}", why=str(error.strerror))
        # What an ended application left in the lake is read often, and need not be looked for in the database first.
        if self.pending is not None and (self._left_behind or is_of_attempt(name)):
            waiting = self.pending.load(self.application_id, name, start=start, length=length)
            if waiting is not None:
                return waiting
        if not self._left_behind:
            return self._load_from_lake(name, start=start, length=length)
        if self.pending is None:
            raise missing
        # They may have come to the lake meanwhile.
        try:
            return self._load_from_lake(name, start=start, length=length)
        except LakeError as error:
            raise missing from error

    def pieces(self, name: str, *, start: int = 0) -> Iterator[bytes]:
        """The bytes from `start`, some MiB at a time: event logs may have gigabytes. Raises `NotFound`."""
        while piece := self.load(name, start=start, length=PIECE_BYTES):
            yield piece
            start += len(piece)
            if len(piece) < PIECE_BYTES:
                return

    def sizes(self) -> dict[str, int]:
        """How many bytes each of them has, by name."""
        found = {path.relative_to(self._directory).as_posix(): path.stat().st_size for path in _files(self._directory)}
        if self.pending is not None:
            found |= self.pending.sizes(self.application_id)
        if not self._left_behind:
            found |= self._sizes_in_lake()
        elif self.pending is not None:
            with contextlib.suppress(LakeError):
                found |= self._sizes_in_lake()
        return dict(sorted(found.items()))

    def _sizes_in_lake(self) -> dict[str, int]:
        store, roots = self.open_store(), (artifact_prefix(self.application_id), _event_logs(self.application_id))
        return {artifact_name(self.application_id, kept.key): kept.size for root in roots for kept in store.list(root)}

    def _load_from_lake(self, name: str, *, start: int, length: int | None) -> bytes:
        store, place = self.open_store(), artifact_key(self.application_id, name)
        try:
            return store.get(place, start=start, length=length)
        except NotFound:
            # Where an older release kept event logs: with everything else of their application.
            if place == (older := artifact_prefix(self.application_id) + name):
                raise
            return store.get(older, start=start, length=length)

    @property
    def _left_behind(self) -> bool:
        """Whether the lake did not take those of the last attempt."""
        return str(self.summary.get(PLACE, "")).startswith(("file:", pendingartefacts.PLACE))

    @property
    def _directory(self) -> Path:
        return _place(self.home, self.application_id)


def _place(home: Home, application_id: str) -> Path:
    """Where artefacts are that could not be brought to the lake."""
    return home.root / "artefacts" / application_id


def bring_pending(pending: PendingArtefacts, application_id: str, lake: Lake, store: ObjectStore) -> None:
    """Bring what is kept of the application to its lake, and forget it. Raises what the lake does."""
    with tempfile.TemporaryDirectory(prefix="penstock-pending-") as directory:
        file = Path(directory) / "artefact"
        for name, size in pending.sizes(application_id).items():
            with file.open("wb") as copy:
                for start in range(0, size, PIECE_BYTES):
                    copy.write(pending.load(application_id, name, start=start, length=PIECE_BYTES) or b"")
                brought = copy.tell()
            if brought != size:
                return  # somebody else brought them at the same time
            store.put(artifact_key(application_id, name), file)
    pending.brought(application_id, f"{lake.root}/{artifact_prefix(application_id)}")


def _bring(open_lake: Callable[[], tuple[Lake, ObjectStore]], application_id: str, directory: Path, within: str) -> str:
    lake, store = open_lake()
    if within:
        _set_aside(store, application_id, within)

    def bring(path: Path) -> None:
        store.put(artifact_key(application_id, within + path.relative_to(directory).as_posix()), path)

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        list(pool.map(bring, _files(directory)))  # the list makes the first failure rise
    return f"{lake.root}/{artifact_prefix(application_id)}{within}"


def _set_aside(store: ObjectStore, application_id: str, within: str) -> None:
    """What a cluster brought to the lake by itself, before anybody knew that another attempt would follow."""
    with tempfile.TemporaryDirectory(prefix="penstock-attempt-") as directory:
        file = Path(directory) / "artefact"
        for root in (artifact_prefix(application_id), _event_logs(application_id)):
            for kept in list(store.list(root)):
                name = artifact_name(application_id, kept.key)
                if not is_of_attempt(name):
                    # By way of a file: event logs may be larger than the memory.
                    store.download(kept.key, file)
                    store.put(artifact_key(application_id, within + name), file)
                    store.delete(kept.key)


def _files(directory: Path) -> Iterator[Path]:
    return (directory / name for name in sizes_below(directory) if not name.endswith(".crc"))


def _retried(work: Callable[[], str]) -> str:
    for pause in range(1, _TRIES):
        with contextlib.suppress(LakeError):
            return work()
        time.sleep(_PAUSE_SECONDS * pause)
    return work()
