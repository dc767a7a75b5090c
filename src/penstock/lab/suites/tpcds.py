"""TPC-DS: generate the data where the lake lacks it, run the queries on a dedicated cluster, check the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from penstock.errors import InvalidInput, NotFound
from penstock.lab import checking
from penstock.lab.bench import Bench, workloads_jar
from penstock.lab.launcher import Ran
from penstock.lab.report import words
from penstock.lab.session import Session
from penstock.lab.suites import queries
from penstock.lab.suites.base import Suite
from penstock.lab.suites.queryprogress import query_progress
from penstock.units import MIB

_MAIN = "io.penstock.workloads.tpcds"
DEFAULT_OBJECT = 32 * MIB


LAKE, LOCAL = "lake", "local"
LOCATIONS = (LAKE, LOCAL)


@dataclass(frozen=True)
class DataSet:
    """TPC-DS data of one scale and object size; another layout is another data set, beside it.

    A `local` one is a copy of the lake's files on this machine's disk, as tables of a database of their own.
    """

    scale: float
    object_size_bytes: int = DEFAULT_OBJECT
    local: bool = False

    @property
    def name(self) -> str:
        size = "" if self.object_size_bytes == DEFAULT_OBJECT else f"_{self.object_size_bytes // MIB}m"
        return f"sf{self.scale:g}".replace(".", "p") + size

    @property
    def prefix(self) -> str:
        return f"tpcds/{self.name}"

    @property
    def database(self) -> str:
        return f"tpcds_{self.name}{'_local' if self.local else ''}"

    def location(self, session: Session) -> str:
        """Its address for Spark."""
        return f"file:{self._directory(session.bench)}" if self.local else session.uri(self.prefix)

    def _directory(self, bench: Bench) -> Path:
        return bench.home.cache / self.prefix

    def manifest(self, bench: Bench) -> bytes | None:
        """The manifest, where it is of this scale and object size and its load was completed."""
        try:
            if self.local:
                content = (self._directory(bench) / "_manifest.json").read_bytes()
            else:
                content = bench.store.get(f"{self.prefix}/_manifest.json")
        except (NotFound, FileNotFoundError):
            return None
        found = json.loads(content)
        same = found["scale"] == self.scale and found["object_size"] == self.object_size_bytes
        return content if same else None

    def ensure(self, session: Session, *, reload: bool = False) -> bytes:
        """The manifest, after generating the data where the lake or the catalog lacks it, and copying it if `local`."""
        in_lake = replace(self, local=False)
        if self.local:
            in_lake.ensure(session, reload=reload)
        session.listener.step(f"{'Local copy of ' if self.local else ''}TPC-DS data of scale {self.scale:g}")
        found = None if reload else self.manifest(session.bench)
        if found is not None and session.bench.has_tables(self.database):
            session.listener.note("It is there already.")
        else:
            found = self._load(session, ("--from", in_lake.location(session)) if self.local else ())
        session.record("dataset", manifest=json.loads(found))
        return found

    def _load(self, session: Session, copied: Sequence[str]) -> bytes:
        session.application(
            "load",
            f"{_MAIN}.Load",
            (
                *("--scale", f"{self.scale:g}"),
                *("--location", self.location(session)),
                *("--database", self.database),
                *("--object-size", f"{self.object_size_bytes}b"),
                *copied,
            ),
            name=f"TPC-DS load, scale {self.scale:g}",
            profile=Tpcds.profile,
        )
        made = self.manifest(session.bench)
        if made is None:
            raise NotFound(
                f"The data was made but {self.location(session)} has no manifest",
                fix="generate it again: penstock lab tpcds --reload",
            )
        _tell(session, json.loads(made)["tables"])
        return made


@dataclass(frozen=True)
class Tpcds(Suite):
    """The queries one after the other, in one application. Every answer of a repetition is checked with `validate`."""

    workload: ClassVar[str] = "tpcds"
    title: ClassVar[str] = "TPC-DS"
    profile: ClassVar[str] = "tpcds"
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
    reload: bool = False

    @property
    def data(self) -> DataSet:
        return DataSet(self.scale, self.object_size_bytes, local=self.location == LOCAL)

    def check_options(self) -> None:
        if self.location not in LOCATIONS:
            raise InvalidInput(
                f"Tables cannot be read from {self.location}", fix=f"choose one of {', '.join(LOCATIONS)}"
            )

    @property
    def description_scale(self) -> float:
        return self.scale

    def needs_bytes(self) -> int:
        # 252 MB as Parquet and about as much again in the checker's copy; shuffle files come on top.
        return int(self.scale * (1.1e9 if self.location == LOCAL else 0.8e9))

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload)

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
        f"{_MAIN}.PowerRun",
        (
            *("--database", data.database),
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


def _tell(session: Session, tables: Sequence[Mapping[str, Any]]) -> None:
    rows, size = sum(table["rows"] for table in tables), sum(table["bytes"] for table in tables)
    session.listener.note(f"{words.count(rows)} rows, {words.size(size)}, in {words.plural(len(tables), 'table')}.")
    layouts: dict[str, list[str]] = {}
    for table in tables:
        layouts.setdefault(table["layout"], []).append(table["table"])
    for layout, names in layouts.items():
        if not layout.startswith("plain"):
            session.listener.note(f"{', '.join(names)}: {layout}.")
