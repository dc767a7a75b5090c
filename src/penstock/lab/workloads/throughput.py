"""Throughput of a store: DFSIO by the number of clients, sustained ingest, and several gateways of which one fails.

Every object is read back.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.conditions import ThrottledGateways, require_http, throttled_gateways
from penstock.lab.launchers import JobResult
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite, run_clients
from penstock.lab.workloads.options import Keep, ObjectSize, Option, numbers, parse_whole_seconds, short_seconds, size
from penstock.lake.model import Lake
from penstock.profiles.s3a import S3A
from penstock.units import MIB

_DFSIO_MAIN = "io.penstock.workloads.dfsio.Dfsio"


def _short_rate(rate: int) -> str | None:
    return units.short_size(rate) if rate else None


FileSize = Annotated[int, size("Size of each file.")]


@dataclass(frozen=True)
class Dfsio(Suite):
    """For each number of clients, writes the same amount of data and reads it from other clients than wrote it."""

    workload: ClassVar[str] = "dfsio"
    title: ClassVar[str] = "DFSIO"
    profile: ClassVar[str] = "default"

    clients: Annotated[
        tuple[int, ...], numbers("Numbers of clients, one for each point of the curve.", "of clients")
    ] = (1, 2, 4, 8)
    file_size_bytes: FileSize = 64 * MIB
    files: Annotated[
        int,
        Option("Total files, divided among the clients; 0: as many as the largest number of clients.", least=0),
    ] = 0
    write: Annotated[bool, Option("Measure writing.")] = True
    read: Annotated[bool, Option("Measure reading. All data is read and verified in any case.")] = True
    shuffle: Annotated[bool, Option("Measure the numbers of clients in random order.")] = False
    """Each repetition has an order of its own, drawn from the seed."""
    seed: Annotated[int, Option("Seed of the contents and of the order.", least=0)] = 0

    @property
    def file_count(self) -> int:
        return self.files or max(self.clients)

    def check_options(self) -> None:
        if not self.clients or min(self.clients) < 1 or len(set(self.clients)) < len(self.clients):
            raise InvalidInput("The numbers of clients must be 1 or more, each given once", fix="--clients 1,2,4,8")
        if max(self.clients) > self.file_count:
            raise InvalidInput(
                f"{max(self.clients)} clients need more than {self.files} files",
                why="each client needs at least one file of its own",
                fix=f"--files {max(self.clients)}",
            )
        if self.file_size_bytes < 1 or self.seed < 0:
            raise InvalidInput("Neither a file's size nor the seed can be negative", fix="--file-size 64m --seed 0")
        if not (self.write or self.read):
            raise InvalidInput("Nothing is left to measure", fix="leave out --no-write or --no-read")

    def needs_bytes(self) -> int:
        """Return the size of all written files: many stores free deleted space only later, so each round counts."""
        return self.file_count * self.file_size_bytes * (len(self.clients) if self.write else 1)

    def order(self, repetition: int) -> tuple[int, ...]:
        if not self.shuffle:
            return self.clients
        # Seeded by a string: the hash of a tuple may differ between processes.
        return tuple(random.Random(f"{self.seed}/{repetition}").sample(self.clients, len(self.clients)))  # noqa: S311

    def repetition(self, session: Session) -> None:
        self.run(session)

    def run(self, session: Session) -> JobResult:
        """Run one repetition; return the result of its application."""
        order = self.order(session.repetition or 0)
        return run_clients(
            session,
            "dfsio",
            _DFSIO_MAIN,
            (
                *("--clients", ",".join(str(count) for count in order)),
                *("--files", str(self.file_count)),
                *("--file-size", f"{self.file_size_bytes}b"),
                *("--measure", ",".join(self._measured())),
                *("--seed", str(self.seed)),
            ),
            name=f"DFSIO, at most {max(self.clients)} clients",
            most=max(self.clients),
            order=list(order),
        )

    def _measured(self) -> list[str]:
        selected: Mapping[str, bool] = {"write": self.write, "read": self.read}
        return [name for name, included in selected.items() if included]


_INGEST_MAIN = "io.penstock.workloads.ingest.Ingest"
_FASTEST_BYTES_PER_SECOND = 400 * MIB
"""About the fastest rate observed of embedded stores; it bounds the space of an ingest without a rate."""


@dataclass(frozen=True)
class Ingest(Suite):
    workload: ClassVar[str] = "ingest"
    title: ClassVar[str] = "Sustained ingest"
    profile: ClassVar[str] = "default"

    seconds: Annotated[
        int,
        Option(
            "Time of writing, e.g. 60s, 30m or 24h.",
            name="duration",
            parse=parse_whole_seconds,
            show=short_seconds,
        ),
    ] = 60
    writers: Annotated[int, Option("Concurrent writers.", least=1)] = 8
    object_size_bytes: ObjectSize = 16 * MIB
    bytes_per_second: Annotated[
        int,
        Option(
            "Total bytes per second of all writers, e.g. 100m.", name="rate", parse=units.require_size, show=_short_rate
        ),
    ] = 0
    """0: as fast as it goes."""
    keep: Keep = False
    seed: Annotated[int, Option("Seed of the contents.", least=0)] = 0

    def check_options(self) -> None:
        if self.seconds < 1 or self.writers < 1 or self.object_size_bytes < 1:
            raise InvalidInput(
                "An ingest needs time, writers and objects", fix="--duration 60s --writers 8 --object-size 16m"
            )
        if self.bytes_per_second < 0 or self.seed < 0:
            raise InvalidInput("Neither the rate nor the seed can be negative", fix="--rate 100m --seed 0")
        if 0 < self.bytes_per_second * self.seconds < self.object_size_bytes * self.writers:
            raise InvalidInput(
                f"At {units.rate(self.bytes_per_second)} some writers write no object in {units.seconds(self.seconds)}",
                fix="choose a higher --rate, a longer --duration, fewer --writers or a smaller --object-size",
            )

    def needs_bytes(self) -> int:
        return self.seconds * (self.bytes_per_second or _FASTEST_BYTES_PER_SECOND)

    def repetition(self, session: Session) -> None:
        run_clients(
            session,
            "ingest",
            _INGEST_MAIN,
            (
                *("--seconds", str(self.seconds)),
                *("--writers", str(self.writers)),
                *("--object-size", f"{self.object_size_bytes}b"),
                *(("--rate", f"{self.bytes_per_second}b") if self.bytes_per_second else ()),
                *("--seed", str(self.seed)),
                *("--keep", str(self.keep).lower()),
            ),
            name=f"Ingest by {units.plural(self.writers, 'writer')}",
            most=self.writers,
            keep=self.keep,
            doing=self.progress(session.listener.now),
        )
        if self.keep:
            session.listener.note(f"The objects remain at {session.uri(session.key('ingest'))}")

    def progress(
        self, now: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> Callable[[str], None]:
        """Replace the ingest's description by its progress, since Spark's description of a job never changes."""
        began: float | None = None

        def doing(description: str) -> None:
            nonlocal began
            if not description.startswith("ingest for "):
                now(description)
                return
            began = clock() if began is None else began
            passed = min(clock() - began, self.seconds)
            now(f"ingest ({units.seconds(passed)} of {units.seconds(self.seconds)})")

        return doing


@dataclass(frozen=True)
class Gateways(Suite):
    """Runs DFSIO with one number of clients, through the lab's own gateways in front of the lake."""

    workload: ClassVar[str] = "gateways"
    title: ClassVar[str] = "Gateways"
    profile: ClassVar[str] = "default"

    gateways: Annotated[int, Option("Number of gateways.", least=1, file_only=True)] = 2
    rate: Annotated[int, size("Bandwidth limit of each gateway, in bytes per second.")] = 16 * MIB
    """The rate of both directions together."""
    clients: Annotated[int, Option("Concurrent streams.", least=1)] = 4
    file_size_bytes: FileSize = 32 * MIB
    files: Annotated[int, Option("Total files; 0: two per client.", least=0)] = 0
    kill: Annotated[bool, Option("Kill one gateway under load.", file_only=True)] = False
    """Halfway through the writing; it stays dead."""
    seed: Annotated[int, Option("Seed of the contents.", least=0, file_only=True)] = 0

    @property
    def load(self) -> Dfsio:
        files = self.files or 2 * self.clients
        return Dfsio((self.clients,), self.file_size_bytes, files, seed=self.seed)

    def check_options(self) -> None:
        if self.gateways < 1 or self.rate < MIB:
            raise InvalidInput(
                "There must be at least one gateway, with a limit of at least 1 MiB per second",
                fix="--gateways 2 --rate 16m",
            )
        if self.kill and self.gateways < 2:
            raise InvalidInput("A single gateway cannot be killed", fix="--gateways 2 --kill")
        self.load.check_options()

    def needs_bytes(self) -> int:
        return self.load.needs_bytes()

    def check_lake(self, lake: Lake) -> None:
        require_http(lake)

    def repetition(self, session: Session) -> None:
        with (
            throttled_gateways(session.bench.lake, self.gateways, self.rate) as gateways,
            self._killing_gateway(gateways, session),
        ):
            # The page cache would serve the reads, and none of them would reach a gateway.
            settings = {
                f"{S3A}endpoint": gateways.endpoints[0],
                f"{S3A}penstock.endpoints": ",".join(gateways.endpoints),
                f"{S3A}penstock.cache.enabled": "false",
            }
            ran = self.load.run(replace(session, settings={**session.settings, **settings}))
        failed = ran.sample.get("summary", {}).get("tasks_failed", 0)
        session.check("no task failed", failed == 0, f"{failed} failed")

    @contextlib.contextmanager
    def _killing_gateway(self, gateways: ThrottledGateways, session: Session) -> Iterator[None]:
        if not self.kill:
            yield
            return
        # The gateway forwards its share of the writes; half of that is the middle of the writes.
        middle = self.load.file_count * self.file_size_bytes // self.gateways // 2
        with gateways.killing_one(middle) as killed:
            yield
        session.check("one gateway was killed", killed.is_set(), f"after {middle} bytes")
