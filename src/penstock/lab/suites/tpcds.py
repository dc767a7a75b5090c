"""TPC-DS: generate the data where the lake lacks it, run the queries on a dedicated cluster, check the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.errors import InvalidInput, NotFound
from penstock.lab import checking
from penstock.lab.bench import workloads_jar
from penstock.lab.launcher import Ran
from penstock.lab.session import Session
from penstock.lab.suites import queries
from penstock.lab.suites.base import Suite
from penstock.lab.suites.queryprogress import query_progress
from penstock.lab.suites.tpcdsdata import (
    ADVISED,
    BY_SIZE,
    DEFAULT_OBJECT,
    LAKE,
    LAYOUTS,
    LOCAL,
    LOCATIONS,
    MAIN,
    PROFILE,
    DataSet,
)


@dataclass(frozen=True)
class Tpcds(Suite):
    """The queries one after the other, in one application. Every answer of a repetition is checked with `validate`."""

    workload: ClassVar[str] = "tpcds"
    title: ClassVar[str] = "TPC-DS"
    profile: ClassVar[str] = PROFILE
    # q90 divides by zero at small scales, which the benchmark wants as null.
    meaning: ClassVar[Mapping[str, str]] = {"spark.sql.ansi.enabled": "false"}

    scale: float = 1
    object_size_bytes: int = DEFAULT_OBJECT
    queries: tuple[str, ...] = queries.ALL
    iterations: int = 1
    warm_iterations: int = 0
    validate: bool = True
    location: str = LAKE
    """Of the tables that are read: in the lake, or in a copy of its files on this machine's disk."""
    layout: str = BY_SIZE
    """Of the fact tables, one of `LAYOUTS`."""
    index: bool = False
    """Whether every table gets a skipping index; whether it is used is up to the profile and the settings."""
    reload: bool = False

    @property
    def data(self) -> DataSet:
        return DataSet(self.scale, self.object_size_bytes, local=self.location == LOCAL, layout=self.layout)

    def check_options(self) -> None:
        if self.location not in LOCATIONS:
            raise InvalidInput(
                f"Tables cannot be read from {self.location}", fix=f"choose one of {', '.join(LOCATIONS)}"
            )
        if self.layout not in LAYOUTS:
            raise InvalidInput(f"There is no layout {self.layout}", fix=f"choose one of {', '.join(LAYOUTS)}")
        if self.layout == ADVISED and self.location == LOCAL:
            raise InvalidInput(
                "A local copy cannot have the layout advised", fix="choose another layout, or location lake"
            )

    @property
    def description_scale(self) -> float:
        return self.scale

    def needs_bytes(self) -> int:
        # 252 MB as Parquet and about as much again in the checker's copy; shuffle files come on top.
        return int(self.scale * (1.1e9 if self.location == LOCAL else 0.8e9))

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload, index=self.index)

    def repetition(self, session: Session) -> None:
        power = power_run(
            session,
            self.data,
            self.queries,
            iterations=self.iterations,
            warm_iterations=self.warm_iterations,
            doing=query_progress(session, self.queries),
        )
        if self.validate and not session.warmup:
            session.listener.now("checking the answers")
            # Also of a copy: the checker reads the lake's files, which are the same.
            check_answers(session, replace(self.data, local=False), self.queries, power.answers())


@dataclass(frozen=True)
class Power:
    """One application that ran queries: what it cost, its `query` samples, and where its answers are."""

    ran: Ran
    samples: Sequence[Mapping[str, Any]]
    answers: Callable[[], list[dict[str, Any]]]


def power_run(
    session: Session,
    data: DataSet,
    names: Sequence[str],
    *,
    iterations: int = 1,
    warm_iterations: int = 0,
    key: str = "power",
    role: str = "power",
    name: str = "TPC-DS queries",
    doing: Callable[[str], None],
) -> Power:
    """Run the queries in this order in one application, and record them. A query that fails is a sample like any.

    Raises `ClusterError` where the application left no samples.
    """
    output = session.key(key)
    ran = session.application(
        role,
        f"{MAIN}.PowerRun",
        (
            *("--database", data.database(session.bench.lake)),
            *("--queries", ",".join(names)),
            *("--iterations", str(iterations)),
            *("--warmup", str(warm_iterations)),
            *("--output", session.uri(output)),
        ),
        name=f"{name}, scale {data.scale:g}",
        doing=doing,
        must_succeed=False,
    )
    samples = session.report_of(ran, f"{output}/samples.jsonl")
    for sample in samples:
        session.record("query", **sample)
    return Power(ran, samples, lambda: session.json_lines(f"{output}/answers.jsonl"))


def check_answers(session: Session, data: DataSet, names: Sequence[str], answers: Sequence[Mapping[str, Any]]) -> None:
    """Compare each answer with the independent engine's, and record the verdicts, with `whose` it was if it says."""
    manifest = data.manifest(session.bench)
    if manifest is None:
        raise NotFound(f"{data.prefix}/_manifest.json is gone from the lake", fix="penstock lab tpcds --reload")
    key = checking.AnswerKey(session.bench.home, session.store, f"{data.prefix}/", manifest)
    texts = queries.texts(workloads_jar(), names)
    try:
        for sample in checking.check_all(key, answers, texts, session.listener.now):
            session.record("answer", **sample)
    finally:
        key.close()
