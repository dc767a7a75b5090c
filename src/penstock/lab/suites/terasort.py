"""TeraSort: generate records, sort them on a cluster of its own, and validate every byte of what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab import crowd
from penstock.lab.launcher import Ran
from penstock.lab.session import Session
from penstock.lab.suites import localsort
from penstock.lab.suites.base import Suite
from penstock.lab.suites.generated import Generated
from penstock.model import Capacity, ClusterSize
from penstock.units import MIB

_MAIN = "io.penstock.workloads.terasort"
RECORD_BYTES = 100


@dataclass(frozen=True)
class DataSet:
    """Records of the sort benchmark in objects of one size; another size or distribution is another data set."""

    records: int
    object_size_bytes: int
    skewed: bool

    @property
    def bytes(self) -> int:
        return self.records * RECORD_BYTES

    @property
    def prefix(self) -> str:
        skewed = "-skewed" if self.skewed else ""
        return f"terasort/{self.records}-{self.object_size_bytes // MIB}m{skewed}"

    def generated(self) -> Generated:
        return Generated(
            title=f"TeraGen of {units.size(self.bytes)}",
            prefix=self.prefix,
            main_class=f"{_MAIN}.Generate",
            arguments=(
                *("--records", str(self.records)),
                *("--object-size", f"{self.object_size_bytes}b"),
                *("--skewed", str(self.skewed).lower()),
            ),
            identity={"records": self.records, "object_size": self.object_size_bytes, "skewed": self.skewed},
        )


@dataclass(frozen=True)
class TeraSort(Suite):
    """A repetition sorts and validates; with `concurrent`, so many applications sort the same data at once."""

    workload: ClassVar[str] = "terasort"
    title: ClassVar[str] = "TeraSort"
    profile: ClassVar[str] = "terasort"

    size_bytes: int = 1024 * MIB
    object_size_bytes: int = 128 * MIB
    """Of the generated objects, and of the sorted ones where `partitions` does not say otherwise."""
    partitions: int = 0
    """How many objects the sorted data has; 0 for as many as `object_size_bytes` makes it."""
    skewed: bool = False
    concurrent: int = 1
    limit: bool = False
    """Sort the same records in one local process too."""
    reload: bool = False

    @property
    def data(self) -> DataSet:
        return DataSet(self.size_bytes // RECORD_BYTES, self.object_size_bytes, self.skewed)

    def check_options(self) -> None:
        if self.size_bytes < RECORD_BYTES:
            raise InvalidInput(f"{self.size_bytes} bytes are less than one record", fix="--size 1g")
        if self.object_size_bytes < MIB or self.object_size_bytes % MIB:
            raise InvalidInput(
                f"Objects cannot be of {self.object_size_bytes} bytes",
                why="the size is whole MiB",
                fix="--object-size 128m",
            )
        if self.limit:
            localsort.require_memory(self.data.bytes)

    def default_size(self, capacity: Capacity) -> ClusterSize:
        return crowd.share(capacity, self.concurrent) if self.concurrent > 1 else super().default_size(capacity)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:
        if self.concurrent > 1:
            crowd.require_room(size, self.concurrent, capacity, option="--concurrent")

    def needs_bytes(self) -> int:
        """The records, what each sort shuffles (uncompressed) and writes, and what the local sort reads and writes."""
        copies = 1 + 2 * self.concurrent + (2 if self.limit else 0)
        return copies * self.data.bytes

    def prepare(self, session: Session) -> None:
        self.data.generated().ensure(session, reload=self.reload)

    def repetition(self, session: Session) -> None:
        outputs = [session.key(f"sorted-{user}") for user in range(1, self.concurrent + 1)]
        try:
            self._sort_all(session, outputs)
            for user, output in enumerate(outputs, start=1):
                self._validate(session, user, output)
        finally:
            for output in outputs:
                session.remove(output)
        if self.limit:
            session.listener.now("sorting in one local process")
            localsort.measure(session, self.data.prefix)

    def _sort_all(self, session: Session, outputs: list[str]) -> None:
        started = time.monotonic()
        ran: dict[int, Ran] = {}

        def sort(user: int, output: str, within: Session) -> None:
            ran[user] = self._sort(within, user, output)

        crowd.at_once(
            crowd.crowded(session, self.concurrent),
            [partial(sort, user, output) for user, output in enumerate(outputs, start=1)],
        )
        elapsed_ms = (time.monotonic() - started) * 1000
        if self.concurrent > 1:
            core_seconds = [one.sample["core_seconds"] for one in ran.values()]
            session.measure(
                f"{self.concurrent} sorts at once, start to end",
                elapsed_ms=elapsed_ms,
                bytes=self.concurrent * self.data.bytes,
                rows=self.concurrent * self.data.records,
                core_seconds=sum(core_seconds) if all(core_seconds) else None,
                cores=self.concurrent * session.size.executor_cores,
            )

    def _sort(self, session: Session, user: int, output: str) -> Ran:
        report = f"{output}.jsonl"
        size = (
            ("--partitions", str(self.partitions))
            if self.partitions
            else ("--object-size", f"{self.object_size_bytes}b")
        )
        ran = session.application(
            "sort",
            f"{_MAIN}.Sort",
            (
                *("--input", session.uri(self.data.prefix)),
                *("--output", session.uri(output)),
                *("--report", session.uri(report)),
                *size,
            ),
            name=f"TeraSort of {units.size(self.data.bytes)}{self._of(user)}",
            **self._user(user),
        )
        for sample in session.json_lines(report):
            session.record(**sample, **self._user(user))
        return ran

    def _validate(self, session: Session, user: int, output: str) -> None:
        report = f"{output}-validated.jsonl"
        ran = session.application(
            "validate",
            f"{_MAIN}.Validate",
            (
                *("--input", session.uri(self.data.prefix)),
                *("--output", session.uri(output)),
                *("--report", session.uri(report)),
            ),
            name=f"TeraValidate of {units.size(self.data.bytes)}{self._of(user)}",
            must_succeed=False,
            **self._user(user),
        )
        session.judged(ran, report, **self._user(user))

    def _of(self, user: int) -> str:
        return f", {user} of {self.concurrent}" if self.concurrent > 1 else ""

    def _user(self, user: int) -> dict[str, Any]:
        return {"user": user} if self.concurrent > 1 else {}
