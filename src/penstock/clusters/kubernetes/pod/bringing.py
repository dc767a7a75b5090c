"""Brings a cluster's artefacts to the lake: whole at its end, and before that as often as growth makes it worth it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.clusters.kubernetes import places
from penstock.home import sizes_below
from penstock.lake.base import Lake, ObjectStore, artifact_key
from penstock.lake.credentials import from_ini
from penstock.lake.hdfs.store import HdfsObjectStore
from penstock.lake.settings import CREDENTIALS_FILE
from penstock.recovery import SIDECAR, Failures, as_problem

_EVERY_SECONDS = 15.0
_GROWTH = 1.5
_POLICY = SIDECAR
_BRING = "bring"


class Bringer:
    """`open_store` is None where the launch named no lake: then nothing is brought anywhere."""

    def __init__(
        self, application_id: str, open_store: Callable[[], ObjectStore] | None, artefacts: Path = places.ARTEFACTS
    ) -> None:
        self._id = application_id
        self._open_store = open_store
        self._root = artefacts
        self._brought: dict[str, int] = {}
        self._next = time.monotonic() + _EVERY_SECONDS

    @staticmethod
    def of(plan: Mapping[str, Any]) -> Bringer:
        lake = Lake.from_json(plan["lake"]) if plan["lake"] else None
        return Bringer(plan["application_id"], None if lake is None else lambda: _store(lake))

    def whole(self, sizes: Mapping[str, int]) -> set[str]:
        """Those that are in the lake as they are here."""
        return {name for name, size in sizes.items() if self._brought.get(name) == size}

    def now_and_then(self) -> None:
        """Bring what grew much since it was last brought; a lake out of reach is for later."""
        if self._open_store is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_SECONDS
        worth = {name: size for name, size in self.sizes().items() if is_worth_it(size, self._brought.get(name, 0))}
        try:
            self._bring(worth)
        except Exception as error:
            _tell("not in the lake yet", error)

    def all_of_it(self) -> bool:
        """Bring everything; False where there is no lake, or it stays out of reach."""
        if self._open_store is None:
            return False
        failures = Failures({_BRING: _POLICY})
        while True:
            try:
                sizes = self.sizes()
                self._bring({name: size for name, size in sizes.items() if self._brought.get(name) != size})
                self._take_back(set(self._brought) - set(sizes))
            except Exception as error:  # noqa: PERF203  followed by a pause
                _tell("not in the lake", error)
                if (pause := failures.failed(_BRING, error)) is None:
                    return False
                time.sleep(pause)
            else:
                return True

    def _bring(self, wanted: Mapping[str, int]) -> None:
        if not wanted or self._open_store is None:
            return
        # Opened each time: the credentials are replaced while the cluster lives.
        store = self._open_store()
        failure: Exception | None = None
        for name, size in wanted.items():
            try:
                store.put(artifact_key(self._id, name), self._root / name)
            except OSError as error:  # noqa: PERF203  an upload takes milliseconds
                failure = error  # of this file: the others go on
            else:
                self._brought[name] = size
        if failure is not None:
            raise failure

    def _take_back(self, gone: set[str]) -> None:
        """What has another name now: Spark renames an event log at its end."""
        if gone and self._open_store is not None:
            self._open_store().delete(*(artifact_key(self._id, name) for name in gone))
            for name in gone:
                del self._brought[name]

    def sizes(self) -> dict[str, int]:
        """The artefacts as they are here."""
        return {name: size for name, size in sizes_below(self._root).items() if not name.endswith(".crc")}


def _tell(what: str, error: Exception) -> None:
    problem = as_problem(error, "bring the logs to the lake")
    print(f"{what}: {problem.problem}: {problem.why}", file=sys.stderr, flush=True)


def is_worth_it(size: int, brought: int) -> bool:
    """Objects cannot be added to, only replaced: at half as much again, all that is ever sent of a growing file stays
    within three times its size."""
    return size > brought * _GROWTH


def _store(lake: Lake) -> ObjectStore:
    if not lake.is_s3:
        return HdfsObjectStore(lake)
    from penstock.lake.objects import S3ObjectStore  # noqa: PLC0415  half a second, and not for every lake

    content = (places.PRIVATE / CREDENTIALS_FILE).read_text(encoding="utf-8")
    credentials, _ = next(iter(from_ini(content).values()))
    return S3ObjectStore(lake, credentials)
