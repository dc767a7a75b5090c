"""Artifacts that outlive a cluster (logs, event log, summary) and uploaded files, in the lake and on the way to it.

Each engine has its own prefix for uploads, so that no engine removes another's. Small uploads are also copied to files
of this machine, named by the hash of their content, which is compared at each use.

Artifacts that could not reach their lake yet wait in the database: the state directory of a pod may end with the pod, a
volume would have to be writable by pods of several nodes, and the database exists anyway and is backed up. It is no
place for gigabytes, so the pending bytes are bounded, for one application and in all; the rest waits in the state
directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from penstock.engine.repository import schema
from penstock.errors import LakeError, NotFound, PenstockError
from penstock.home import Home, is_relative_name, open_below, sizes_below, write_atomically
from penstock.lake.model import (
    Lake,
    ObjectInfo,
    ObjectStore,
    _event_logs,
    artifact_key,
    artifact_name,
    artifact_prefix,
    is_of_attempt,
)
from penstock.model import ApplicationSpec

UPLOADS = "penstock/uploads/"
_SUBMISSION_WINDOW = timedelta(days=1)
"""The time that a client may take between learning a file's address and naming it in a submission."""


def uploads_of(owner: str) -> str:
    """The prefix of that engine's uploads, in every lake."""
    return f"{UPLOADS}{hashlib.sha256(owner.encode()).hexdigest()[:12]}/"


def upload_key(place: str, digest: str, name: str) -> str:
    return f"{place}{digest}/{name}"


def upload_pattern(place: str) -> str:
    """A regular expression that finds the keys of uploads in a text."""
    return place + r"[0-9a-f]{64}/[A-Za-z0-9._-]+"


def outlives_submission(found: ObjectInfo, *, at: datetime, kept: timedelta) -> bool:
    """Return whether the upload will outlive a submission that is about to name it; otherwise upload it again."""
    return at - found.modified < kept - _SUBMISSION_WINDOW


def unused(found: Iterable[ObjectInfo], named: Collection[str], *, at: datetime, kept: timedelta) -> list[str]:
    """Return the keys of the uploads that no application names and that were last uploaded at least `kept` ago."""
    return [one.key for one in found if one.key not in named and at - one.modified >= kept]


MOST_BYTES = 1 << 20
"""The size limit of a copy: enough for a program. Larger files are read from the lake, through the page cache."""


class UploadCopies:
    """Local copies of one engine's uploads. Several processes may call every method at once."""

    def __init__(self, home: Home, place: str) -> None:
        self._place = place
        self._directory = home.cache / "uploads"

    def keep(self, key: str, size: int, content: Callable[[], bytes]) -> None:
        """Copy the upload `key`, of `size` bytes, if it is small and not copied yet; a full disk is ignored."""
        target = self._file(key)
        if size > MOST_BYTES or target.exists():
            return
        # The copy is optional, since the lake has the file.
        with contextlib.suppress(OSError, PenstockError):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(target, content())

    def instead_of_addresses(self, spec: ApplicationSpec, lake: Lake) -> ApplicationSpec:
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


PENDING_PLACE = "the engine's database"
"""The place of pending artifacts in a summary, instead of an address in the lake."""

MOST_OF_APPLICATION = 64 << 20
MOST_IN_ALL = 1 << 30

_PART_BYTES = 1 << 20
_ORDER_LOCK = 7031_0002

_table, _applications = schema.pending_artefacts, schema.applications
_length = sa.func.octet_length(_table.c.content)


class PendingArtifacts:
    """The pending artifacts of one engine (see `Records` for `owner`). Any number of processes may use them at once."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    def put(self, application_id: str, files: Mapping[str, Path]) -> set[str]:
        """Store the files under their artifact names in one transaction, replacing earlier contents of these names.

        Returns the names of the files that were stored: the smallest ones, as many as fit within the bounds.
        """
        with self._engine.begin() as connection:
            # Without the lock, two writers that see the same free room would both take it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ORDER_LOCK)))
            connection.execute(
                sa.delete(_table).where(_table.c.application_id == application_id, _table.c.name.in_(files))
            )
            total = sa.select(sa.func.coalesce(sa.func.sum(_length), 0))
            own = connection.execute(total.where(_table.c.application_id == application_id)).scalar_one()
            in_all = connection.execute(total).scalar_one()
            room = min(MOST_OF_APPLICATION - own, MOST_IN_ALL - in_all)
            taken = set()
            for name, path in sorted(files.items(), key=lambda item: item[1].stat().st_size):
                size = path.stat().st_size
                if size > room:
                    break
                room -= size
                taken.add(name)
                self._put(connection, application_id, name, path)
            return taken

    def _put(self, connection: sa.Connection, application_id: str, name: str, path: Path) -> None:
        with path.open("rb") as file:
            part, content = 0, file.read(_PART_BYTES)
            while content or part == 0:  # an empty file has one empty part
                row = {"application_id": application_id, "name": name, "part": part, "engine": self._owner}
                connection.execute(_table.insert().values(**row, content=content))
                part, content = part + 1, file.read(_PART_BYTES)

    def load(self, application_id: str, name: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """The bytes [start, start + length), fewer at the artifact's end; None where it is not stored here."""
        first, skipped = divmod(start, _PART_BYTES)
        its = sa.and_(_table.c.application_id == application_id, _table.c.name == name)
        wanted = sa.select(_table.c.content).where(its, _table.c.part >= first).order_by(_table.c.part)
        if length is not None:
            wanted = wanted.where(_table.c.part <= (start + max(length, 1) - 1) // _PART_BYTES)
        with self._engine.connect() as connection:
            parts = connection.execute(wanted).scalars().all()
            if not parts and not connection.execute(sa.select(sa.exists().where(its))).scalar_one():
                return None
        found = b"".join(parts)[skipped:]
        return found if length is None else found[:length]

    def sizes(self, application_id: str) -> dict[str, int]:
        """Sizes in bytes of the application's pending artifacts, by name."""
        query = sa.select(_table.c.name, sa.func.sum(_length)).where(_table.c.application_id == application_id)
        with self._engine.connect() as connection:
            return {name: int(size) for name, size in connection.execute(query.group_by(_table.c.name))}

    def over(self) -> list[str]:
        """The released applications with pending artifacts: no supervisor is about to add to them."""
        ended = sa.and_(_applications.c.summary.is_not(None), _applications.c.cluster.is_(None))
        query = (
            sa.select(_table.c.application_id)
            .join(_applications, _applications.c.id == _table.c.application_id)
            .where(_table.c.engine == self._owner, _applications.c.ended_at.is_not(None), ended)
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query.distinct().order_by(_table.c.application_id)).scalars())

    def brought(self, application_id: str, place: str) -> None:
        """Forget the application's pending artifacts and record in its summary that they are at `place` now."""
        known = sa.cast({"artefacts": place}, JSONB)
        summary = _applications.c.summary.op("-")("artefacts_problem").op("||")(known)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_table).where(_table.c.application_id == application_id))
            connection.execute(
                sa.update(_applications)
                .where(
                    _applications.c.id == application_id, _applications.c.summary["artefacts"].astext == PENDING_PLACE
                )
                .values(summary=summary)
            )


PLACE = "artefacts"
"""The key in a summary for the place of the artifacts, `s3a://…` or `file://…`."""


PIECE_BYTES = 8 << 20
_TRIES = 3
_PAUSE_SECONDS = 1.0
_PARALLEL_UPLOADS = 4


def checked_name(name: str) -> str:
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

    `within` is the prefix below the application's own (`of_attempt`).

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
        checked_name(name)
        try:
            with open_below(self._directory, name) as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except OSError as error:
            missing = NotFound(f"{self.application_id} has no {name}", why=str(error.strerror))
        # Artifacts in the lake are read often, so they skip the look-up in the database.
        if self.pending is not None and (self._left_behind or is_of_attempt(name)):
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
        file = Path(directory) / "artefact"
        for name, size in pending.sizes(application_id).items():
            with file.open("wb") as copy:
                for start in range(0, size, PIECE_BYTES):
                    copy.write(pending.load(application_id, name, start=start, length=PIECE_BYTES) or b"")
                brought = copy.tell()
            if brought != size:
                return  # another process moved them at the same time
            store.put(artifact_key(application_id, name), file)
    pending.brought(application_id, f"{lake.root}/{artifact_prefix(application_id)}")


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
        file = Path(directory) / "artefact"
        for root in (artifact_prefix(application_id), _event_logs(application_id)):
            for kept in list(store.list(root)):
                name = artifact_name(application_id, kept.key)
                if not is_of_attempt(name):
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
