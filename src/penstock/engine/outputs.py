"""What applications wrote: from their clusters while these live, afterwards from where it was kept."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.catalog.secrets import secret_store
from penstock.clusters.backend import ClusterBackend
from penstock.engine.artifacts import Archive, PendingArtefacts, bring_pending, checked_name, keep_artefacts
from penstock.engine.launch import lake_of
from penstock.engine.ledger import Ledger
from penstock.errors import NotFound, PenstockError
from penstock.home import Home
from penstock.lake.model import Credentials, Lake, ObjectStore, is_of_attempt, of_attempt
from penstock.lake.registry import Lakes
from penstock.model import Application

WATCH_SECONDS = 0.2

_log = logging.getLogger(__name__)


class Outputs(Ledger):
    """The artefacts of the applications in the records, whatever became of their clusters."""

    def __init__(self, home: Home, backend: ClusterBackend | None = None) -> None:
        super().__init__(home, backend)
        self._stores: dict[tuple[Lake, Credentials | None], ObjectStore] = {}

    def lake(self, name: str | None = None) -> Lake:
        """The named lake or the default one, started where it is the embedded one."""
        return lake_of(self.home, name)

    def store(self, lake: str | None) -> ObjectStore:
        """A client of the named lake's bucket, or the default one's."""
        # Slow to load, and only needed when an application ends.
        from penstock.lake.s3 import open_store

        found = lake_of(self.home, lake)
        known = (found, Lakes(self.home).client_credentials(found))
        # A client takes a tenth of a second to make; it is made anew only where the lake or its credentials changed.
        if known not in self._stores:
            self._stores[known] = open_store(self.home, found)
        return self._stores[known]

    def keep(self, application: Application, directory: Path, *, within: str = "") -> Mapping[str, Any]:
        """See `artefacts.keep_artefacts`."""

        def open_lake() -> tuple[Lake, ObjectStore]:
            return lake_of(self.home, application.spec.lake), self.store(application.spec.lake)

        return keep_artefacts(
            open_lake, self.home, application.id, directory, within=within, pending=self._pending_artefacts
        )

    def bring_pending(self) -> Iterator[str]:
        """Bring to their lakes what these did not take when applications ended; yields the ids of the applications.

        A lake that still does not take it is left for the next time.
        """
        pending = self._pending_artefacts
        if pending is None:
            return
        for application_id in pending.over():
            name = Lakes(self.home).kept_in(self.get(application_id).spec.lake)
            try:
                bring_pending(pending, application_id, lake_of(self.home, name), self.store(name))
            except PenstockError as error:
                _log.info("the logs of %s, until the next time: %s", application_id, error)
            else:
                yield application_id

    @property
    def _pending_artefacts(self) -> PendingArtefacts | None:
        """None where the state directory lasts, and is nobody else's."""
        return self._opened.pending if secret_store(self.home) is not None else None

    def artefact(self, application_id: str, name: str) -> bytes:
        """`driver.log`, `driver.out`, `driver.err`, `executor-<n>.log`, `summary.json` or `events/…`, as it is now.

        While the cluster lives from there, afterwards from where it was kept; of attempts that another one followed as
        `attempts/<number>/driver.log` and so on. Raises `NotFound`.
        """
        return b"".join(self.follow(application_id, name, until=lambda: True))

    def artefacts(self, application_id: str) -> Mapping[str, int]:
        """The names of what there is of an application, with how many bytes each has now: of its earlier attempts, and
        of the last one on its cluster or, after its end, where it was kept."""
        application = self.get(application_id)
        if application.state.final:
            return self._archive(application).sizes() if application.summary is not None else {}
        # Nothing is kept before the first attempt has ended.
        before = self._archive(application).sizes() if application.attempts else {}
        kept = {name: size for name, size in before.items() if is_of_attempt(name)}
        return {**kept, **self._backend.sizes(application.cluster or self._backend.handle(application.id))}

    def follow(
        self, application_id: str, name: str, *, start: int = 0, until: Callable[[], bool] = lambda: False
    ) -> Iterator[bytes]:
        """The artefact from byte `start`, piece by piece: until the application has ended, or, where `until` says so,
        to the end of what is there. After an attempt that another one follows it goes on with the next one's, from its
        first byte."""
        application = self.get(application_id)
        checked_name(name)
        while not application.state.final and not is_of_attempt(name):
            if piece := self.read(application, name, start):
                start += len(piece)
                yield piece
            elif until():
                return
            else:
                time.sleep(WATCH_SECONDS)
                attempt = application.attempt
                application = self._records.get(application.id)
                while attempt < application.attempt:
                    yield from self._pieces_of_attempt(application, attempt, name, start=start)
                    attempt, start = attempt + 1, 0
        if application.summary is None and application.attempts:
            return  # it ended before the next attempt had a cluster
        self._require_kept(application, name)
        yield from self._archive(application).pieces(name, start=start)

    def read(self, application: Application, name: str, start: int) -> bytes:
        """What the artefact has gained since byte `start`; only while the cluster lives. See `ClusterBackend.read`."""
        return self._backend.read(application.cluster or self._backend.handle(application.id), name, start)

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None = None) -> bytes:
        """Of the artefact the bytes from `start` that are there now, at most so many; empty at its present end.

        While the cluster lives from there, afterwards from where it was kept. Of that attempt where one is named, the
        last one else. Raises `NotFound`.
        """
        live = not is_of_attempt(checked_name(name))
        piece = self._backend.read(self._backend.handle(application_id), name, start, at_most=at_most) if live else b""
        if piece and attempt is None:
            return piece
        # Asked after it was read: what is not over now was not over then.
        application = self._records.get(application_id)
        if live and attempt is not None and attempt < application.attempt:
            return self._of_attempt(application, attempt, name, start=start, length=at_most)
        if piece or (live and not application.state.final):
            return piece
        return self._kept(application, name, start=start, length=at_most)

    def _kept(self, application: Application, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        self._require_kept(application, name)
        return self._archive(application).load(name, start=start, length=length)

    def _require_kept(self, application: Application, name: str) -> None:
        if application.summary is None and not is_of_attempt(name):
            raise NotFound(f"{application.id} has no {name}", why="it ended before its cluster was started")

    def _pieces_of_attempt(self, application: Application, attempt: int, name: str, *, start: int) -> Iterator[bytes]:
        """Yields the artefact of an attempt that is over; nothing where it left none."""
        with contextlib.suppress(NotFound):
            yield from self._archive(application).pieces(of_attempt(attempt) + name, start=start)

    def _of_attempt(
        self, application: Application, attempt: int, name: str, *, start: int, length: int | None = None
    ) -> bytes:
        """Of an attempt that is over; nothing where it left no such artefact."""
        try:
            return self._archive(application).load(of_attempt(attempt) + name, start=start, length=length)
        except NotFound:
            return b""

    def _archive(self, application: Application) -> Archive:
        def open_store() -> ObjectStore:
            return self.store(Lakes(self.home).kept_in(application.spec.lake))

        return Archive(self.home, application.id, application.summary or {}, open_store, self._pending_artefacts)
