"""Artifacts that outlive a cluster (logs, event log, summary) and uploaded files, in the lake and on the way to it.

Each engine has a prefix of its own for uploads, so that none removes another's. Small uploads are kept as files of this
machine too, found by the hash of their content, which is compared each time.

Artifacts that their lake did not take yet wait in the database: the state directory of a pod may end with it, a volume
would have to be writable by pods of several nodes, and the database is there anyway and backed up. It is no place for
gigabytes, so what waits in it is bounded, for an application and in all; the rest waits in the state directory.
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
from penstock.home import Home, open_below, sizes_below, stays_below, write_atomically
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
_TO_SUBMIT = timedelta(days=1)
"""Between learning a file's address and naming it in a submission."""


def uploads_of(owner: str) -> str:
    """Of that engine, in every lake."""
    return f"{UPLOADS}{hashlib.sha256(owner.encode()).hexdigest()[:12]}/"


def upload_key(place: str, digest: str, name: str) -> str:
    return f"{place}{digest}/{name}"


def upload_pattern(place: str) -> str:
    """A regular expression for the keys in a text."""
    return place + r"[0-9a-f]{64}/[A-Za-z0-9._-]+"


def is_there(found: ObjectInfo, *, at: datetime, kept: timedelta) -> bool:
    """Whether it will stay until somebody who is told of it now has submitted; else it is better brought again."""
    return at - found.modified < kept - _TO_SUBMIT


def unused(found: Iterable[ObjectInfo], named: Collection[str], *, at: datetime, kept: timedelta) -> list[str]:
    """The keys of those no application names, and nobody has brought for so long."""
    return [one.key for one in found if one.key not in named and at - one.modified >= kept]


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
        ours = re.compile(f"{re.escape(lake.root)}/({upload_pattern(self._place)})")

        def here(address: str) -> str:
            found = ours.fullmatch(address)
            file = self._file(found[1]) if found else None
            return str(file) if file is not None and _is_whole(file) else address

        return spec.with_paths(here)

    def sweep(self, named: Collection[str], *, at: datetime, kept: timedelta) -> None:
        """Remove those that `uploads.unused` would of the lake."""
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


def _is_whole(file: Path) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == file.parent.name
    except OSError:
        return False


PENDING_PLACE = "the engine's database"
"""In a summary, as the place of the artefacts, where an address of the lake is otherwise."""

MOST_OF_APPLICATION = 64 << 20
MOST_IN_ALL = 1 << 30

_PART_BYTES = 1 << 20
_ORDER_LOCK = 7031_0002

_table, _applications = schema.pending_artefacts, schema.applications
_length = sa.func.octet_length(_table.c.content)


class PendingArtefacts:
    """Of one engine; see `Records` for `owner`. Any number of processes may be at it at once."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    def put(self, application_id: str, files: Mapping[str, Path]) -> set[str]:
        """Keep the files by their artefacts' names, all at once, in place of what was kept by these names.

        Returns the names of those that there is room for: the smallest, as many as keep to the bounds.
        """
        with self._engine.begin() as connection:
            # Two that look at the same free room would both take it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ORDER_LOCK)))
            connection.execute(
                sa.delete(_table).where(_table.c.application_id == application_id, _table.c.name.in_(files))
            )
            total = sa.select(sa.func.coalesce(sa.func.sum(_length), 0))
            own = connection.execute(total.where(_table.c.application_id == application_id)).scalar_one()
            everybody = connection.execute(total).scalar_one()
            room = min(MOST_OF_APPLICATION - own, MOST_IN_ALL - everybody)
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
        """The bytes [start, start + length), fewer where it ends before; None where it is not kept here."""
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
        """How many bytes each of them has, by name."""
        query = sa.select(_table.c.name, sa.func.sum(_length)).where(_table.c.application_id == application_id)
        with self._engine.connect() as connection:
            return {name: int(size) for name, size in connection.execute(query.group_by(_table.c.name))}

    def over(self) -> list[str]:
        """The applications that are over and whose artefacts are kept here: nobody else is about to add to them."""
        ended = sa.and_(_applications.c.summary.is_not(None), _applications.c.cluster.is_(None))
        query = (
            sa.select(_table.c.application_id)
            .join(_applications, _applications.c.id == _table.c.application_id)
            .where(_table.c.engine == self._owner, _applications.c.ended_at.is_not(None), ended)
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query.distinct().order_by(_table.c.application_id)).scalars())

    def brought(self, application_id: str, place: str) -> None:
        """Forget what was kept of the application, whose artefacts are at `place` now, as its summary says from here
        on."""
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
        kept_in = PENDING_PLACE if taken == files.keys() else (place / within).as_uri()
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
        return str(self.summary.get(PLACE, "")).startswith(("file:", PENDING_PLACE))

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
