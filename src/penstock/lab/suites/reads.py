"""Reads: what reading costs a process, in time, processor time and requests, from the lake or from local files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock import units
from penstock.errors import InvalidInput, NotFound
from penstock.lab import program
from penstock.lab.launcher import PlainLauncher
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.units import MIB

_MAIN = "io.penstock.workloads.reads"
_MEMORY = Path("/dev/shm")  # noqa: S108 - the file system in memory that every Linux has; the directory made is private

LAKE, LOCAL, RAW = "lake", "local", "raw"
SOURCES = (LAKE, LOCAL, RAW)
"""`local` is Hadoop's local file system, which verifies checksums, as Spark's users have it; `raw` is it without."""

WARM, COLD, NONE = "warm", "cold", "none"
CACHES = (WARM, COLD, NONE)

MEMORY, DISK = "memory", "disk"
MEDIA = (MEMORY, DISK)


@dataclass(frozen=True)
class Reads(Suite):
    """A repetition is one process that reads everything in every pattern, with every number of threads."""

    workload: ClassVar[str] = "reads"
    title: ClassVar[str] = "Reads"
    profile: ClassVar[str] = "default"

    size_bytes: int = 256 * MIB
    """Of the large object."""
    small_objects: int = 256
    small_size_bytes: int = 256 << 10
    threads: tuple[int, ...] = (1, 2)
    passes: int = 3
    """Of each pattern with each number of threads, in one process; the one before them is not counted."""
    source: str = LAKE
    cache: str = WARM
    """What a pass finds in Penstock's page cache; with `none` no tier takes anything."""
    medium: str = MEMORY
    """Of the page cache."""

    def check_options(self) -> None:
        for name, value, known in (
            ("source", self.source, SOURCES),
            ("cache", self.cache, CACHES),
            ("medium", self.medium, MEDIA),
        ):
            if value not in known:
                raise InvalidInput(f"--{name} cannot be {value}", fix=f"choose one of {', '.join(known)}")
        if self.size_bytes < 16 * MIB or self.size_bytes % MIB or self.small_size_bytes < 1:
            raise InvalidInput(
                "The large object is too small to be read in patterns",
                why="a row group has 16 column chunks, and blocks are of 64 KiB",
                fix="--size 256m, at least 16m",
            )
        if not self.threads or min(self.threads) < 1 or len(set(self.threads)) < len(self.threads):
            raise InvalidInput("The numbers of threads are each 1 or more, and there once", fix="--threads 1,2")

    @property
    def data_bytes(self) -> int:
        return self.size_bytes + self.small_objects * self.small_size_bytes

    def needs_bytes(self) -> int:
        """The data in the lake and a copy of it, as local files or in the page cache's disk tier."""
        return 2 * self.data_bytes

    @property
    def _name(self) -> str:
        return f"{self.size_bytes // MIB}m-{self.small_objects}x{self.small_size_bytes >> 10}k"

    def prepare(self, session: Session) -> None:
        session.listener.step(f"{units.size(self.data_bytes)} to read")
        found = self._manifest(session)
        if found is None:
            program.run(
                session,
                f"{_MAIN}.Generate",
                (
                    *("--location", self._location(session)),
                    *("--size", f"{self.size_bytes}b"),
                    *("--small-objects", str(self.small_objects)),
                    *("--small-size", f"{self.small_size_bytes}b"),
                ),
            )
            found = self._manifest(session)
        if found is None:
            raise NotFound(f"The data was written but {self._location(session)} has no manifest")
        session.record("dataset", manifest=found)

    def repetition(self, session: Session) -> None:
        if isinstance(session.launcher, PlainLauncher):
            raise InvalidInput(
                "Plain Spark cannot measure reads",
                why="no Spark is part of it; what differs is the client of the store",
                fix="profile: default+s3a-default is S3A as Spark ships it",
            )
        session.listener.now(f"reading, {units.plural(self.passes, 'pass', 'passes')} of each pattern")
        with self._tier(session) as tier, tempfile.TemporaryDirectory(dir=session.bench.home.root) as name:
            report = Path(name) / "report.jsonl"
            program.run(
                session,
                f"{_MAIN}.Reads",
                (
                    *("--location", self._location(session)),
                    # As Hadoop's paths are written: unlike in a URI, nothing in them is escaped.
                    *("--report", f"file:{report}"),
                    *("--tier", str(tier)),
                    *("--cache", self.cache),
                    *("--medium", self.medium),
                    *("--threads", ",".join(map(str, self.threads))),
                    *("--passes", str(self.passes)),
                    *("--raw", str(self.source == RAW).lower()),
                ),
            )
            for line in report.read_text(encoding="utf-8").splitlines():
                session.record(**json.loads(line), cores=session.size.executor.cores)

    def _location(self, session: Session) -> str:
        if self.source == LAKE:
            return session.uri(f"reads/{self._name}")
        return f"file:{self._directory(session)}"

    def _directory(self, session: Session) -> Path:
        return session.bench.home.cache / "reads" / self._name

    def _manifest(self, session: Session) -> dict[str, Any] | None:
        """None where there is no data, or not all of it."""
        try:
            if self.source == LAKE:
                text = session.store.get(f"reads/{self._name}/_manifest.json").decode()
            else:
                text = (self._directory(session) / "_manifest.json").read_text(encoding="utf-8")
        except (NotFound, FileNotFoundError):
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    @contextmanager
    def _tier(self, session: Session) -> Iterator[Path]:
        """A directory for the page cache of this repetition, gone afterwards."""
        in_memory = self.medium == MEMORY and _MEMORY.is_dir()
        with tempfile.TemporaryDirectory(
            prefix="penstock-reads-", dir=_MEMORY if in_memory else session.bench.home.root
        ) as name:
            yield Path(name)
