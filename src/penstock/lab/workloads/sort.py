"""TeraSort: generates, sorts and validates records to the byte; its limit is one thread that sorts local files."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from penstock import units
from penstock.errors import ClusterError, InvalidInput
from penstock.lab import conditions
from penstock.lab.environment import application_jar, machine, workloads_jar
from penstock.lab.launchers import JobResult, elapsed_ms
from penstock.lab.session import Session
from penstock.lab.workloads.base import GeneratedData, Suite
from penstock.lab.workloads.options import ObjectSize, Option, Reload, size
from penstock.model import Capacity, ClusterSize
from penstock.runtime.jvm import find_java, spark_jars
from penstock.units import MIB

_LOCAL_MAIN = "io.penstock.workloads.terasort.LocalSort"


def require_memory(size_bytes: int) -> None:
    """Raise `InvalidInput` where this machine lacks the memory to sort so many bytes of records."""
    have = int(machine()["memory_bytes"])
    if _heap(size_bytes) > have:
        raise InvalidInput(
            f"The local sort of {units.size(size_bytes)} needs {units.size(_heap(size_bytes))} of memory",
            why=f"this machine has {units.size(have)}",
            fix="choose a smaller --size, or leave out --limit",
        )


def measure_local_sort(session: Session, prefix: str) -> None:
    """Copy the data set at `prefix` to the local disk, sort and check it there, and record its samples.

    The samples are marked as `reference`, which excludes them from the run's own totals.
    """
    with tempfile.TemporaryDirectory(prefix="sort-", dir=session.bench.home.root) as name:
        scratch = Path(name)
        (scratch / "input").mkdir()
        size = 0
        for found in session.store.list(f"{prefix}/"):
            session.store.download(found.key, scratch / "input" / Path(found.key).name)
            size += found.size
        _run(_command(scratch, size))
        for line in (scratch / "report.jsonl").read_text(encoding="utf-8").splitlines():
            session.record(**json.loads(line), reference=True, cores=1)


def _command(scratch: Path, size_bytes: int) -> list[str]:
    jars = (workloads_jar(), application_jar())
    return [
        str(find_java().executable),
        f"-Xms{_heap(size_bytes)}",
        f"-Xmx{_heap(size_bytes)}",
        # Records are read once and retained, so there is no garbage, least of all for parallel collectors.
        "-XX:+UseSerialGC",
        *("-cp", os.pathsep.join(map(str, (*jars, spark_jars() / "*"))), _LOCAL_MAIN),
        *("--input", str(scratch / "input")),
        *("--output", str(scratch / "sorted")),
        *("--report", str(scratch / "report.jsonl")),
    ]


def _run(command: list[str]) -> None:
    """Run the local sort. Exit code 9 is a wrong result, which the report contains."""
    # Without a UTF-8 locale Java misreads file names outside ASCII.
    environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment, check=False
    )
    if done.returncode not in (0, 9):
        raise ClusterError("The local sort failed", why="\n".join(done.stderr.splitlines()[-10:]))


def _heap(size_bytes: int) -> int:
    """Return the heap for the records, the sort's 24 bytes for each, and the JVM's own needs."""
    return size_bytes + size_bytes // 4 + (256 << 20)


_TERASORT_MAIN = "io.penstock.workloads.terasort"
RECORD_BYTES = 100


@dataclass(frozen=True)
class SortData:
    """Records of the sort benchmark in objects of one size; another object size or distribution is another data set."""

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

    def generated(self) -> GeneratedData:
        return GeneratedData(
            title=f"TeraGen of {units.size(self.bytes)}",
            prefix=self.prefix,
            main_class=f"{_TERASORT_MAIN}.TeraGen",
            arguments=(
                *("--records", str(self.records)),
                *("--object-size", f"{self.object_size_bytes}b"),
                *("--skewed", str(self.skewed).lower()),
            ),
            identity={"records": self.records, "object_size": self.object_size_bytes, "skewed": self.skewed},
        )


@dataclass(frozen=True)
class TeraSort(Suite):
    """A repetition sorts and validates the data, in `concurrent` applications at once."""

    workload: ClassVar[str] = "terasort"
    title: ClassVar[str] = "TeraSort"
    profile: ClassVar[str] = "terasort"

    size_bytes: Annotated[int, size("Total size of the records, e.g. 10g.")] = 1024 * MIB
    object_size_bytes: ObjectSize = 128 * MIB
    """The size of the generated objects, and of the sorted ones unless `partitions` is set."""
    partitions: Annotated[
        int, Option("Objects of the sorted data; 0 derives the number from --object-size.", least=0)
    ] = 0
    skewed: Annotated[bool, Option("Skewed keys, as gensort -s makes them.", name="skew")] = False
    concurrent: Annotated[int, Option("Concurrent sorts, each on a dedicated cluster.", least=1)] = 1
    limit: Annotated[bool, Option("Also sort the records in one local process, as a lower bound of the cost.")] = False
    reload: Reload = False

    @property
    def data(self) -> SortData:
        return SortData(self.size_bytes // RECORD_BYTES, self.object_size_bytes, self.skewed)

    def check_options(self) -> None:
        if self.size_bytes < RECORD_BYTES:
            raise InvalidInput(f"{self.size_bytes} bytes are less than one record", fix="--size 1g")
        if self.object_size_bytes < MIB or self.object_size_bytes % MIB:
            raise InvalidInput(
                f"The object size cannot be {self.object_size_bytes} bytes",
                why="it must be whole MiB",
                fix="--object-size 128m",
            )
        if self.limit:
            require_memory(self.data.bytes)

    def default_size(self, capacity: Capacity) -> ClusterSize:
        return (
            conditions.equal_share(capacity, self.concurrent) if self.concurrent > 1 else super().default_size(capacity)
        )

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:
        if self.concurrent > 1:
            conditions.require_clusters_fit(size, self.concurrent, capacity, option="--concurrent")

    def needs_bytes(self) -> int:
        """Return the size of the records, each sort's uncompressed shuffle and output, and the local sort's files."""
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
            measure_local_sort(session, self.data.prefix)

    def _sort_all(self, session: Session, outputs: list[str]) -> None:
        ran: dict[int, JobResult] = {}

        def sort(user: int, output: str, within: Session) -> None:
            ran[user] = self._sort(within, user, output)

        conditions.run_concurrently(
            conditions.oversubscribed(session, self.concurrent),
            [partial(sort, user, output) for user, output in enumerate(outputs, start=1)],
        )
        if self.concurrent > 1:
            core_seconds = [one.sample["core_seconds"] for one in ran.values()]
            session.measure(
                f"{self.concurrent} sorts at once, start to end",
                elapsed_ms=elapsed_ms(ran.values()),
                bytes=self.concurrent * self.data.bytes,
                rows=self.concurrent * self.data.records,
                core_seconds=sum(core_seconds) if all(core_seconds) else None,
                cores=self.concurrent * session.size.executor_cores,
            )

    def _sort(self, session: Session, user: int, output: str) -> JobResult:
        report = f"{output}.jsonl"
        size = (
            ("--partitions", str(self.partitions))
            if self.partitions
            else ("--object-size", f"{self.object_size_bytes}b")
        )
        ran = session.application(
            "sort",
            f"{_TERASORT_MAIN}.Sort",
            (
                *("--input", session.uri(self.data.prefix)),
                *("--output", session.uri(output)),
                *("--report", session.uri(report)),
                *size,
            ),
            name=f"TeraSort of {units.size(self.data.bytes)}{self._suffix(user)}",
            **self._user(user),
        )
        for sample in session.json_lines(report):
            session.record(**sample, **self._user(user))
        return ran

    def _validate(self, session: Session, user: int, output: str) -> None:
        report = f"{output}-validated.jsonl"
        ran = session.application(
            "validate",
            f"{_TERASORT_MAIN}.Validate",
            (
                *("--input", session.uri(self.data.prefix)),
                *("--output", session.uri(output)),
                *("--report", session.uri(report)),
            ),
            name=f"TeraValidate of {units.size(self.data.bytes)}{self._suffix(user)}",
            must_succeed=False,
            **self._user(user),
        )
        session.judged(ran, report, **self._user(user))

    def _suffix(self, user: int) -> str:
        return f", {user} of {self.concurrent}" if self.concurrent > 1 else ""

    def _user(self, user: int) -> dict[str, Any]:
        return {"user": user} if self.concurrent > 1 else {}
