"""TPC-DS: its queries and published sets of them, the power run on an engine, its progress, and its answers' check."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from penstock import units
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.registry import ENGINES, SPARK, engine_named
from penstock.errors import InvalidInput, MissingRequirement, NotFound
from penstock.lab import progress, validation
from penstock.lab.analysis.samples import natural_key
from penstock.lab.environment import last_samples, workloads_jar
from penstock.lab.launchers import JobResult
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import Computed, ObjectSize, Option, Reload
from penstock.lab.workloads.statements import DIALECTS, QueryScript, run_script
from penstock.lab.workloads.tpcds_data import (
    BY_SIZE,
    DEFAULT_OBJECT,
    DERIVED,
    ICEBERG,
    LAKE,
    LAYOUTS,
    LOCAL,
    LOCATIONS,
    MAIN,
    PROFILE,
    TpcdsData,
)

_TWO_PARTS = (14, 23, 24, 39)

ALL = tuple(
    sorted(
        [f"q{n}" for n in range(1, 100) if n not in _TWO_PARTS]
        + [f"q{n}{part}" for n in _TWO_PARTS for part in "ab"]
        + ["ss_max"],
        key=natural_key,
    )
)

_IO_INTENSIVE = (
    "3 7 12 13 15 17 19 20 21 24 25 26 27 28 29 31 32 34 39 40 42 43 45 46 48 49 51 52 55 56 60 63 64 65 66 68 71 73 "
    "75 76 79 82 83 84 85 87 88 89 90 91 92 93 96 97"
)

SETS = {
    "all": ALL,
    "io54": tuple(
        name for n in _IO_INTENSIVE.split() for name in ALL if name == f"q{n}" or name in (f"q{n}a", f"q{n}b")
    ),
    "nine": tuple(f"q{n}" for n in (19, 42, 43, 52, 55, 63, 68, 72, 98)),
}
"""`io54` names the 54 I/O-intensive queries of the published Ceph tests; q24 and q39 run with both parts."""


def select_queries(names: str | None, chosen_set: str) -> tuple[str, ...]:
    """Return the queries of `--queries q3,q7` or of a set. Raises `InvalidInput` with the unknown names."""
    if names is None:
        if chosen_set not in SETS:
            raise InvalidInput(f"There is no query set {chosen_set}", fix=f"choose one of {', '.join(SETS)}")
        return SETS[chosen_set]
    selected = tuple(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    unknown = [name for name in selected if name not in ALL]
    if unknown or not selected:
        near = [name for name in ALL if any(name.rstrip("ab") == other.rstrip("ab") for other in unknown)]
        raise InvalidInput(
            f"TPC-DS has no query {', '.join(unknown) or '(none given)'}",
            why="the queries are q1 to q99, with 14, 23, 24 and 39 in two parts a and b, and ss_max",
            fix=f"--queries {','.join(near)}" if near else "--queries q3,q7, or --set all",
        )
    return selected


def _set_of(queries: tuple[str, ...]) -> str:
    return next(name for name, names in SETS.items() if names == queries)


QUERIES = Option("Queries to run, e.g. q3,q7.")
QUERY_SET = Option("all (104), io54 (the I/O-intensive ones), or nine.", name="set", show=_set_of)


def selected(queries: str, chosen_set: str) -> Computed:
    """Queries by the keys of two options: one lists them, the other names a set."""

    def show(names: tuple[str, ...]) -> dict[str, Any]:
        return {chosen_set: _set_of(names)} if names in SETS.values() else {queries: list(names)}

    return Computed(select_queries, (queries, chosen_set), show)


Scale = Annotated[float, Option("TPC-DS scale factor: about this many GB of raw data.", least=0.001)]
Queries = Annotated[tuple[str, ...], QUERIES, QUERY_SET, selected("queries", "set")]


def query_texts(jar: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the text of each query, exactly as Spark runs it."""
    with zipfile.ZipFile(jar) as archive:
        entries = {
            Path(entry).stem: entry for entry in archive.namelist() if entry.endswith(".sql") and "tpcds/" in entry
        }
        missing = [name for name in names if name not in entries]
        if missing:
            raise MissingRequirement(f"{jar.name} lacks the queries {', '.join(missing)}", fix="make setup")
        return {name: archive.read(entries[name]).decode() for name in names}


def query_progress(session: Session, order: Sequence[str]) -> Callable[[str], None]:
    """Return a callback for job descriptions (`q3 (5 of 104)`); the newest earlier run is the basis of estimates."""
    described = session.recorder.description
    past = {
        sample["query"]: sample["elapsed_ms"] / 1000
        for sample in last_samples(session.bench.home, described.workload, described.scale, "query")
        if sample["status"] == "ok"
    }

    def doing(description: str) -> None:
        at = progress.parse_position(description)
        if at is None:
            return
        name, index, total = at
        rounds = tuple(order) * max(1, total // len(order))
        left = progress.seconds_left(rounds, index - 1, session.listener.elapsed(), past)
        estimate = f", about {units.seconds(left)} left" if left is not None else ""
        session.listener.now(f"{name}, {index} of {total}{estimate}")

    return doing


@dataclass(frozen=True)
class Tpcds(Suite):
    """Runs the queries one after another, in one application; with `validate`, checks every answer of a repetition."""

    workload: ClassVar[str] = "tpcds"
    title: ClassVar[str] = "TPC-DS"
    profile: ClassVar[str] = PROFILE
    # q90 divides by zero at small scales; the benchmark expects null.
    meaning: ClassVar[Mapping[str, str]] = {"spark.sql.ansi.enabled": "false"}

    scale: Scale = 1
    queries: Queries = ALL
    engine: Annotated[str, Option(f"Engine of the queries: {', '.join(ENGINES)}.")] = SPARK.name
    iterations: Annotated[int, Option("Executions of each query in one repetition.", least=1)] = 1
    warm_iterations: Annotated[int, Option("Uncounted rounds before those, in the same cluster.", least=0)] = 0
    validate: Annotated[bool, Option("Verify every answer against DuckDB.")] = True
    object_size_bytes: ObjectSize = DEFAULT_OBJECT
    location: Annotated[str, Option("Location of the tables: lake, or local (a copy on this machine's disk).")] = LAKE
    layout: Annotated[
        str,
        Option(
            "Layout of the fact tables: by-size (Hive partitions by date that fill their objects), by-day (by date "
            "key), by-range (ranges of dates and items only), advised (from the queries recorded on by-size), or "
            "iceberg (Iceberg tables of by-size's files)."
        ),
    ] = BY_SIZE
    """One of `LAYOUTS`."""
    index: Annotated[bool, Option("Build the skipping index of every table.")] = False
    """Whether it is used is up to the profile and the settings."""
    reload: Reload = False

    @property
    def data(self) -> TpcdsData:
        return TpcdsData(self.scale, self.object_size_bytes, local=self.location == LOCAL, layout=self.layout)

    @property
    def needs_iceberg(self) -> bool:
        return self.layout == ICEBERG

    @property
    def query_engine(self) -> QueryEngine:
        return engine_named(self.engine)

    def check_options(self) -> None:
        if self.location == LOCAL and self.query_engine is not SPARK:
            raise InvalidInput(
                f"{self.engine} cannot read tables from {LOCAL}",
                why="it reaches the lake alone",
                fix="--location lake, or --engine spark",
            )
        if self.location not in LOCATIONS:
            raise InvalidInput(
                f"Tables cannot be read from {self.location}", fix=f"choose one of {', '.join(LOCATIONS)}"
            )
        if self.layout not in LAYOUTS:
            raise InvalidInput(f"There is no layout {self.layout}", fix=f"choose one of {', '.join(LAYOUTS)}")
        if self.layout in DERIVED and self.location == LOCAL:
            raise InvalidInput(
                f"A local copy cannot have the layout “{self.layout}”", fix="choose another layout, or location lake"
            )
        if self.layout == ICEBERG and self.index:
            raise InvalidInput(
                "Iceberg tables have no skipping index",
                why="their manifests have the bounds of each file",
                fix="omit --index",
            )

    @property
    def description_scale(self) -> float:
        return self.scale

    def needs_bytes(self) -> int:
        # 252 MB as Parquet and about as much for the checker's copy, plus shuffle files.
        return int(self.scale * (1.1e9 if self.location == LOCAL else 0.8e9))

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload, index=self.index)

    def repetition(self, session: Session) -> None:
        power = power_run(
            session,
            self.data,
            self.queries,
            engine=self.query_engine,
            iterations=self.iterations,
            warm_iterations=self.warm_iterations,
            doing=query_progress(session, self.queries),
        )
        if self.validate and not session.warmup:
            session.listener.now("checking the answers")
            record_verdicts(session, self.data.files, self.queries, power.answers())


@dataclass(frozen=True)
class PowerRunResult:
    """The result of a power run: its application, its `query` samples, and a function that reads its answers.

    A query that succeeded but left no answer has one without `rows`.
    """

    ran: JobResult
    samples: Sequence[Mapping[str, Any]]
    answers: Callable[[], list[dict[str, Any]]]


def power_run(
    session: Session,
    data: TpcdsData,
    names: Sequence[str],
    *,
    engine: QueryEngine = SPARK,
    iterations: int = 1,
    warm_iterations: int = 0,
    key: str = "power",
    role: str = "power",
    name: str = "TPC-DS queries",
    doing: Callable[[str], None],
) -> PowerRunResult:
    """Run the queries in this order in one application, and record a sample of each, failed ones included.

    Raises `ClusterError` where the application ended before it had run every query.
    """
    title, database = f"{name}, scale {data.scale:g}", data.database(session.bench.lake)
    answered: Callable[[], list[dict[str, Any]]]
    if engine is SPARK:
        output = session.key(key)
        ran = session.application(
            role,
            f"{MAIN}.PowerRun",
            (
                *("--database", database),
                *("--queries", ",".join(names)),
                *("--iterations", str(iterations)),
                *("--warmup", str(warm_iterations)),
                *("--output", session.uri(output)),
            ),
            name=title,
            doing=doing,
            must_succeed=False,
        )
        samples = session.report_of(ran, f"{output}/samples.jsonl")
        answered = partial(session.json_lines, f"{output}/answers.jsonl")
    else:
        texts = query_texts(workloads_jar(), names)
        script = QueryScript(DIALECTS[engine.name], database, texts, iterations, warm_iterations)
        ran, results = run_script(session, engine, script, key=key, role=role, name=title, doing=doing)
        samples, answered = script.samples(results), partial(script.answers, results)
    for sample in samples:
        session.record("query", **sample)
    if len(samples) < len(names) * iterations:
        ran.explain()

    def answers() -> list[dict[str, Any]]:
        found = answered()
        lost = {sample["query"] for sample in samples if sample["status"] == "ok"} - {line["query"] for line in found}
        return found + [{"query": query} for query in names if query in lost]

    return PowerRunResult(ran, samples, answers)


def record_verdicts(
    session: Session, data: TpcdsData, names: Sequence[str], answers: Sequence[Mapping[str, Any]]
) -> None:
    """Compare each answer with the independent engine's, and record the verdicts, with `whose` answers they are."""
    manifest = data.manifest(session.bench)
    if manifest is None:
        raise NotFound(f"{data.prefix}/_manifest.json is gone from the lake", fix="penstock lab tpcds --reload")
    key = validation.AnswerKey(session.bench.home, session.store, f"{data.prefix}/", manifest)
    texts = query_texts(workloads_jar(), names)
    try:
        for sample in validation.check_answers(key, answers, texts, session.listener.now):
            session.record("answer", **sample)
    finally:
        key.close()
