"""The work of a round's applications: seeded jobs over shared tables, their own tables, and known data. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

APPEND, OVERWRITE, DYNAMIC, QUERY, LOOK = "append", "overwrite", "dynamic overwrite", "query", "read back"
WRITES = (APPEND, OVERWRITE, DYNAMIC)

SEED_JOB = "seed"
"""The id of the job that stands for the rows in a table before any application runs."""

PARTITIONS = (0, 1, 2)
BASE_ROWS = 20_000
BASE = "base"
SHARED = ("appended", "mixed")

# SQL that both Spark and DuckDB understand. {base} is the table of known rows.
QUERIES: Mapping[str, str] = {
    "count": "SELECT count(*), sum(row), min(row), max(row) FROM {base}",
    "by part": "SELECT part, count(*), sum(row), max(digest) FROM {base} GROUP BY part ORDER BY part",
    "narrow": "SELECT row, digest FROM {base} WHERE row BETWEEN {low} AND {low} + 20 ORDER BY row",
    "join": "SELECT count(*), sum(a.row) FROM {base} a JOIN {base} b ON a.digest = b.digest WHERE b.part = {part}",
    "top": "SELECT digest FROM {base} WHERE row % 7 = {part} ORDER BY digest DESC LIMIT 5",
}


@dataclass(frozen=True)
class Job:
    """One write, or one read. `partitions` are those that it writes to; empty for the whole table.

    A write has rows 0 … `rows`-1; row n is in partition `partitions[n % len(partitions)]`. A row's contents follow from
    the id of its job and its number, so every reader can verify them.
    """

    id: str
    kind: str
    table: str
    rows: int = 0
    files: int = 1
    partitions: tuple[int, ...] = ()
    query: str = ""
    starves: bool = False
    """True where its tasks need more memory than an executor has."""

    @property
    def replaces(self) -> bool:
        return self.kind in (OVERWRITE, DYNAMIC)

    def rows_in(self, partition: int) -> int:
        count = len(self.partitions)
        at = self.partitions.index(partition)
        return len(range(at, self.rows, count))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Work:
    """The jobs of one application: each lane is a thread of its driver, with jobs in sequence."""

    name: str
    lanes: Sequence[Sequence[Job]]
    executors: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)

    def jobs(self) -> list[Job]:
        return [job for lane in self.lanes for job in lane]


SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "400ms",
    # A speculative copy runs on a host without another attempt of its task; here every executor is a host.
    "spark.locality.wait": "0s",
}

WRITE_BEHIND = {"spark.hadoop.fs.s3a.penstock.write.behind.size": "64m"}


def works(seed: str, *, jobs: int) -> list[Work]:
    """Two applications that write, one of them behind its tasks, and one that reads; about `jobs` jobs in total."""
    chance = random.Random(seed)
    each = max(2, jobs // 8)
    writers = [_writer(chance, "w1", each, {}), _writer(chance, "w2", each, WRITE_BEHIND)]
    return [*writers, _reader(chance, "r1", max(1, (jobs - 4 * each) // 4))]


def _writer(chance: random.Random, name: str, each: int, settings: Mapping[str, str]) -> Work:
    shared = [_shared(chance, f"{name}-s{number}") for number in range(each)]
    own: list[Job] = []
    while len(own) < each:
        identity, table = f"{name}-o{len(own)}", f"own-{name}"
        own.append(_write(chance, identity, chance.choice(WRITES), table))
        if len(own) < each and chance.random() < 0.6:
            own.append(Job(f"{name}-o{len(own)}", LOOK, table))
    return Work(name, (tuple(shared), tuple(own)), executors=2, settings=SPECULATIVE | settings)


def _shared(chance: random.Random, identity: str) -> Job:
    if chance.random() < 0.4:
        return _write(chance, identity, APPEND, "appended")
    return _write(chance, identity, chance.choices(WRITES, (4, 2, 3))[0], "mixed")


def _write(chance: random.Random, identity: str, kind: str, table: str) -> Job:
    count = len(PARTITIONS) if kind == OVERWRITE else chance.randint(1, len(PARTITIONS))
    partitions = tuple(sorted(chance.sample(PARTITIONS, count)))
    # Occasionally a write whose files are multipart uploads.
    rows = 240_000 if chance.random() < 0.06 else chance.choice((30, 300, 3_000))
    starves = chance.random() < 0.03
    return Job(identity, kind, table, rows, chance.choice((1, 2, 4)), partitions, starves=starves)


def _reader(chance: random.Random, name: str, each: int) -> Work:
    lanes = [
        tuple(
            _question(chance, f"{name}-q{stream}-{number}", QUERIES[chance.choice(sorted(QUERIES))])
            for number in range(each)
        )
        for stream in range(4)
    ]
    return Work(name, lanes, executors=1)


def _question(chance: random.Random, identity: str, text: str) -> Job:
    low, part = chance.randrange(BASE_ROWS), chance.randrange(len(PARTITIONS))
    return Job(identity, QUERY, BASE, query=text.replace("{low}", str(low)).replace("{part}", str(part)))


def base_work() -> Work:
    """The application that writes the table of known rows."""
    return Work("base", ((Job(SEED_JOB, OVERWRITE, BASE, BASE_ROWS, 3, PARTITIONS),),))


def asking(seed: str) -> Work:
    """An application that runs each query once, in sequence."""
    chance = random.Random(seed)
    questions = [_question(chance, f"peace-{number}", text) for number, text in enumerate(QUERIES.values())]
    return Work("peace", (questions,))


def tables(all_works: Sequence[Work]) -> list[str]:
    """Names of the tables that these applications write to, sorted."""
    return sorted({job.table for work in all_works for job in work.jobs() if job.kind in WRITES})
