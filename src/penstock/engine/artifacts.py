"""Artifacts of applications (logs, event log, summary): in live clusters, in the lake, and on the way there."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.secrets import secret_store
from penstock.clusters.backend import ClusterBackend
from penstock.engine.preparation import lake_of
from penstock.engine.repository.pending_artifacts import PENDING_PLACE, PendingArtifacts
from penstock.engine.repository.repositories import Repositories
from penstock.errors import LakeError, NotFound, PenstockError
from penstock.home import Home, is_relative_name, open_below, sizes_below
from penstock.lake.model import (
    Lake,
    ObjectStore,
    _event_logs,
    artifact_key,
    artifact_name,
    artifact_prefix,
    attempt_prefix,
    belongs_to_attempt,
)
from penstock.lake.registry import Lakes
from penstock.model import Application

PLACE = "artefacts"
"""The key in a summary for the place of the artifacts, `s3a://…` or `file://…`."""


WATCH_SECONDS = 0.2
"""The interval between two looks at a running application."""

PIECE_BYTES = 8 << 20
_TRIES = 3
_PAUSE_SECONDS = 1.0
_PARALLEL_UPLOADS = 4

_log = logging.getLogger(__name__)


def validate_name(name: str) -> str:
    """Return the name; raise `NotFound` where it would lead out of an application's artifacts."""
    if not is_relative_name(name):
        raise NotFound("There is no artifact of that name", why="artifacts have relative paths below the application")
    return name


def store_artifacts(
    open_lake: Callable[[], tuple[Lake, ObjectStore]],
    home: Home,
    application_id: str,
    directory: Path,
    *,
    within: str = "",
    pending: PendingArtifacts | None = None,
) -> dict[str, Any]:
    """Store all files in `directory` in the lake; return the application's summary with the place of its artifacts.

    `within` is the prefix below the application's own (`attempt_prefix`).

    An unreachable lake fails nothing: the artifacts then go to `pending`, if given, from where they are moved to the
    lake later; files that do not fit there go to the state directory. The summary gives the place and the reason.
    """
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    try:
        return {**summary, PLACE: _retried(lambda: _upload(open_lake, application_id, directory, within))}
    except PenstockError as error:
        files = {within + path.relative_to(directory).as_posix(): path for path in _files(directory)}
        taken = pending.put(application_id, files) if pending else set()
        place = _place(home, application_id)
        for name in files.keys() - taken:
            copy = place / name
            copy.parent.mkdir(mode=0o700, exist_ok=True, parents=True)
            shutil.copyfile(files[name], copy, follow_symlinks=False)
        kept_in = PENDING_PLACE if taken == files.keys() else (place / within).as_uri()
        return {**summary, PLACE: kept_in, "artefacts_problem": str(error)}


@dataclass(frozen=True)
class Archive:
    """The artifacts of one application that has ended, or of its earlier attempts.

    Most are in the lake; those of an attempt that could not reach it are in the state directory, or in `pending`.
    """

    home: Home
    application_id: str
    summary: Mapping[str, Any]
    open_store: Callable[[], ObjectStore]
    pending: PendingArtifacts | None = None
    """None where only the state directory holds artifacts that could not reach a lake."""

    def load(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes [start, start + length), fewer at the artifact's end. Raises `NotFound`."""
        validate_name(name)
        try:
            with open_below(self._directory, name) as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except OSError as error:
            missing = NotFound(f"{self.application_id} has no {name}", why=str(error.strerror))
        # Artifacts in the lake are read often, so they skip the look-up in the database.
        if self.pending is not None and (self._left_behind or belongs_to_attempt(name)):
            waiting = self.pending.load(self.application_id, name, start=start, length=length)
            if waiting is not None:
                return waiting
        if not self._left_behind:
            return self._load_from_lake(name, start=start, length=length)
        if self.pending is None:
            raise missing
        # The artifacts may have reached the lake meanwhile.
        try:
            return self._load_from_lake(name, start=start, length=length)
        except LakeError as error:
            raise missing from error

    def pieces(self, name: str, *, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes from `start`, some MiB at a time, since event logs may be gigabytes. Raises `NotFound`."""
        while piece := self.load(name, start=start, length=PIECE_BYTES):
            yield piece
            start += len(piece)
            if len(piece) < PIECE_BYTES:
                return

    def sizes(self) -> dict[str, int]:
        """Sizes in bytes, by name."""
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
            # Older releases kept event logs beside the application's other artifacts.
            if place == (older := artifact_prefix(self.application_id) + name):
                raise
            return store.get(older, start=start, length=length)

    @property
    def _left_behind(self) -> bool:
        """Return whether the last attempt's artifacts could not reach the lake."""
        return str(self.summary.get(PLACE, "")).startswith(("file:", PENDING_PLACE))

    @property
    def _directory(self) -> Path:
        return _place(self.home, self.application_id)


def _place(home: Home, application_id: str) -> Path:
    """The directory of artifacts that could not be stored in the lake."""
    return home.root / "artefacts" / application_id


def upload_pending(pending: PendingArtifacts, application_id: str, lake: Lake, store: ObjectStore) -> None:
    """Move the application's pending artifacts to its lake. Raises the lake's errors."""
    with tempfile.TemporaryDirectory(prefix="penstock-pending-") as directory:
        file = Path(directory) / "artifact"
        for name, size in pending.sizes(application_id).items():
            with file.open("wb") as copy:
                for start in range(0, size, PIECE_BYTES):
                    copy.write(pending.load(application_id, name, start=start, length=PIECE_BYTES) or b"")
                brought = copy.tell()
            if brought != size:
                return  # another process moved them at the same time
            store.put(artifact_key(application_id, name), file)
    pending.mark_uploaded(application_id, f"{lake.root}/{artifact_prefix(application_id)}")


def _upload(
    open_lake: Callable[[], tuple[Lake, ObjectStore]], application_id: str, directory: Path, within: str
) -> str:
    lake, store = open_lake()
    if within:
        _move_to_attempt(store, application_id, within)

    def bring(path: Path) -> None:
        store.put(artifact_key(application_id, within + path.relative_to(directory).as_posix()), path)

    with ThreadPoolExecutor(_PARALLEL_UPLOADS) as pool:
        list(pool.map(bring, _files(directory)))  # iterating raises the first failure
    return f"{lake.root}/{artifact_prefix(application_id)}{within}"


def _move_to_attempt(store: ObjectStore, application_id: str, within: str) -> None:
    """Move files that a cluster stored in the lake by itself, before another attempt was known to follow."""
    with tempfile.TemporaryDirectory(prefix="penstock-attempt-") as directory:
        file = Path(directory) / "artifact"
        for root in (artifact_prefix(application_id), _event_logs(application_id)):
            for kept in list(store.list(root)):
                name = artifact_name(application_id, kept.key)
                if not belongs_to_attempt(name):
                    # Through a file, since event logs may be larger than memory.
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


class Artifacts:
    """The artifacts of one engine's applications, whether their clusters live or not. Thread-safe.

    They are read from a live cluster or, after its end, from the lake or a pending place. `driver.log`, `driver.out`,
    `driver.err`, `executor-<n>.log`, `summary.json` and `events/…` are their names, with `attempts/<number>/` before
    those of earlier attempts.
    """

    def __init__(
        self,
        home: Home,
        backend: ClusterBackend,
        repositories: Callable[[], Repositories],
        open_store: Callable[[str | None], ObjectStore],
    ) -> None:
        self._home = home
        self._backend = backend
        self._repositories = repositories
        self._open_store = open_store

    def store(self, application: Application, directory: Path, *, within: str = "") -> Mapping[str, Any]:
        """See `store_artifacts`."""

        def open_lake() -> tuple[Lake, ObjectStore]:
            return lake_of(self._home, application.spec.lake), self._open_store(application.spec.lake)

        return store_artifacts(open_lake, self._home, application.id, directory, within=within, pending=self._pending)

    def upload_pending(self) -> Iterator[str]:
        """Move pending artifacts to their lakes; yield the ids of their applications.

        Artifacts whose lake still fails stay pending until the next call.
        """
        pending = self._pending
        if pending is None:
            return
        for application_id in pending.released_applications():
            name = Lakes(self._home).artifact_lake(self._recorded(application_id).spec.lake)
            try:
                upload_pending(pending, application_id, lake_of(self._home, name), self._open_store(name))
            except PenstockError as error:
                _log.info("the logs of %s stay pending until the next try: %s", application_id, error)
            else:
                yield application_id

    def load(self, application_id: str, name: str) -> bytes:
        """The artifact as it is now. Raises `NotFound`."""
        return b"".join(self.follow(application_id, name, until=lambda: True))

    def sizes(self, application_id: str) -> Mapping[str, int]:
        """Sizes in bytes, by name, of the application's artifacts as they are now, earlier attempts included."""
        application = self._repositories().applications.get(application_id)
        if application.summary is not None:
            return self._archive(application).sizes()
        # No artifact is stored before the first attempt has ended.
        before = self._archive(application).sizes() if application.attempts else {}
        kept = {name: size for name, size in before.items() if belongs_to_attempt(name)}
        if application.state.final:
            return kept  # it ended before it, or its next attempt, had a cluster
        return {**kept, **self._backend.sizes(application.cluster or self._backend.handle(application.id))}

    def follow(
        self, application_id: str, name: str, *, start: int = 0, until: Callable[[], bool] = lambda: False
    ) -> Iterator[bytes]:
        """Yield the artifact from byte `start`, piece by piece, until the application ends.

        Once `until` returns true, the stream ends at the artifact's present end. After an attempt that is retried, the
        stream continues with the next attempt's artifact, from its first byte. Raises `NotFound`.
        """
        application = self._repositories().applications.get(application_id)
        validate_name(name)
        while not application.state.final and not belongs_to_attempt(name):
            if piece := self.read(application, name, start):
                start += len(piece)
                yield piece
            elif until():
                return
            else:
                time.sleep(WATCH_SECONDS)
                attempt = application.attempt
                application = self._recorded(application.id)
                while attempt < application.attempt:
                    yield from self._pieces_of_attempt(application, attempt, name, start=start)
                    attempt, start = attempt + 1, 0
        if application.summary is None and application.attempts and not belongs_to_attempt(name):
            return  # it ended before the next attempt had a cluster
        self._require_kept(application, name)
        yield from self._archive(application).pieces(name, start=start)

    def read(self, application: Application, name: str, start: int) -> bytes:
        """The artifact from byte `start`, only while the cluster lives. See `ClusterBackend.read`."""
        return self._backend.read(application.cluster or self._backend.handle(application.id), name, start)

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None = None) -> bytes:
        """At most `at_most` bytes of the artifact from byte `start`; empty at its present end.

        The bytes come from the live cluster or, after its end, from the stored copy, for `attempt` or the last attempt.
        Raises `NotFound`.
        """
        live = not belongs_to_attempt(validate_name(name))
        piece = self._backend.read(self._backend.handle(application_id), name, start, at_most=at_most) if live else b""
        if piece and attempt is None:
            return piece
        # The state is read after the bytes: an application that runs now was running then.
        application = self._recorded(application_id)
        if live and attempt is not None and attempt < application.attempt:
            return self._of_attempt(application, attempt, name, start=start, length=at_most)
        if piece or (live and not application.state.final):
            return piece
        return self._kept(application, name, start=start, length=at_most)

    def _kept(self, application: Application, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        self._require_kept(application, name)
        return self._archive(application).load(name, start=start, length=length)

    def _require_kept(self, application: Application, name: str) -> None:
        if application.summary is None and not belongs_to_attempt(name):
            raise NotFound(f"{application.id} has no {name}", why="it ended before its cluster was started")

    def _pieces_of_attempt(self, application: Application, attempt: int, name: str, *, start: int) -> Iterator[bytes]:
        """Yield the artifact of an attempt that has ended; nothing where it left none."""
        with contextlib.suppress(NotFound):
            yield from self._archive(application).pieces(attempt_prefix(attempt) + name, start=start)

    def _of_attempt(
        self, application: Application, attempt: int, name: str, *, start: int, length: int | None = None
    ) -> bytes:
        """The artifact of an attempt that has ended; empty where it left none."""
        try:
            return self._archive(application).load(attempt_prefix(attempt) + name, start=start, length=length)
        except NotFound:
            return b""

    def _recorded(self, application_id: str) -> Application:
        return self._repositories().transitions.get(application_id)

    @property
    def _pending(self) -> PendingArtifacts | None:
        """None where the state directory lasts and belongs to this process's home alone."""
        return self._repositories().pending if secret_store(self._home) is not None else None

    def _archive(self, application: Application) -> Archive:
        def open_store() -> ObjectStore:
            return self._open_store(Lakes(self._home).artifact_lake(application.spec.lake))

        return Archive(self._home, application.id, application.summary or {}, open_store, self._pending)
