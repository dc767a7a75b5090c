"""TPC-DS: its queries and published sets of them, its data in the lake, the power run, and its progress.

Data is generated if the lake lacks it, and indexed for skipping on request; every answer is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from penstock import units
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.registry import SPARK, engine_named
from penstock.errors import InvalidInput, MissingRequirement, NotFound
from penstock.lab import progress, validation
from penstock.lab.analysis.samples import natural_key
from penstock.lab.environment import Environment, last_samples, workloads_jar
from penstock.lab.launchers import JobResult
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import Computed, ObjectSize, Option, Reload
from penstock.lab.workloads.statements import QueryScript, run_script
from penstock.lake.model import Lake
from penstock.lake.registry import EMBEDDED
from penstock.units import KIB, MIB

MAIN = "io.penstock.workloads.tpcds"
PROFILE = "tpcds"
DEFAULT_OBJECT = 32 * MIB

LAKE, LOCAL = "lake", "local"
LOCATIONS = (LAKE, LOCAL)

BY_SIZE, BY_DAY, BY_RANGE, ADVISED = "by-size", "by-day", "by-range", "advised"
LAYOUTS = (BY_SIZE, BY_DAY, BY_RANGE, ADVISED)
"""Layouts of the fact tables, which the loader defines.

`by-size` has Hive partitions by date, as fine as fills their objects; `by-day` partitions by the date key itself;
`by-range` has no partitions but ranges of dates and items; `advised` follows the advice from queries on `by-size`.
"""

_INDEX = "_skipindex/_manifest.json"
"""The key of a table's index below its directory."""


@dataclass(frozen=True)
class TpcdsData:
    """TPC-DS data of one scale, object size and layout, each combination a separate data set.

    A `local` one is a copy of the lake's files on this machine's disk, with tables in a separate database.
    """

    scale: float
    object_size_bytes: int = DEFAULT_OBJECT
    local: bool = False
    layout: str = BY_SIZE

    @property
    def name(self) -> str:
        size = "" if self.object_size_bytes == DEFAULT_OBJECT else f"_{_short(self.object_size_bytes)}"
        layout = "" if self.layout == BY_SIZE else f"_{self.layout.replace('-', '_')}"
        return f"sf{self.scale:g}".replace(".", "p") + size + layout

    @property
    def prefix(self) -> str:
        return f"tpcds/{self.name}"

    def database(self, lake: Lake) -> str:
        """Return the name. Lakes of a home share a catalog, so each but the embedded one has its own databases."""
        own = "" if lake.name == EMBEDDED else f"_{_identifier(lake.name)}"
        return f"tpcds_{self.name}{own}{'_local' if self.local else ''}"

    def location(self, session: Session) -> str:
        """Return the address of the data for Spark."""
        return f"file:{self._directory(session.bench)}" if self.local else session.uri(self.prefix)

    def manifest(self, bench: Environment) -> bytes | None:
        """Return the manifest; None unless a load of this scale, object size and layout was completed."""
        content = self._read(bench, "_manifest.json")
        if content is None:
            return None
        found = json.loads(content)
        described = (found["scale"], found["object_size"], found.get("layout", BY_SIZE))
        return content if described == (self.scale, self.object_size_bytes, self.layout) else None

    def ensure(self, session: Session, *, reload: bool = False, index: bool = False) -> bytes:
        """Return the manifest, after generating the data if the lake or catalog lacks it, and copying it if `local`.

        With `index`, it builds a skipping index for every table.
        """
        source = self._source
        if source is not None:
            source.ensure(session, reload=reload and self.local)
        session.listener.step(f"{'Local copy of ' if self.local else ''}TPC-DS data of scale {self.scale:g}")
        found = None if reload else self.manifest(session.bench)
        made = found is None or not session.bench.has_tables(self.database(session.bench.lake))
        if found is None or made:
            found = self._load(session, source)
        else:
            session.listener.note("It exists already.")
        session.record("dataset", manifest=json.loads(found))
        if index:
            self._ensure_index(session, [str(table["table"]) for table in json.loads(found)["tables"]], anew=made)
        return found

    @property
    def _source(self) -> TpcdsData | None:
        """The data set that this one is made from; None if it is generated."""
        if self.local:
            return replace(self, local=False)
        return replace(self, layout=BY_SIZE) if self.layout == ADVISED else None

    def _load(self, session: Session, source: TpcdsData | None) -> bytes:
        origin = () if source is None else ("--from", source.location(session))
        if source is not None and source.layout != self.layout:
            origin = (*origin, "--from-database", source.database(session.bench.lake))
        session.application(
            "load",
            f"{MAIN}.LoadTables",
            (
                *("--scale", f"{self.scale:g}"),
                *("--location", self.location(session)),
                *("--database", self.database(session.bench.lake)),
                *("--object-size", f"{self.object_size_bytes}b"),
                *("--layout", self.layout),
                *origin,
            ),
            name=f"TPC-DS load, scale {self.scale:g}",
            profile=PROFILE,
        )
        made = self.manifest(session.bench)
        if made is None:
            raise NotFound(
                f"The data was written, but {self.location(session)} has no manifest",
                fix="generate it again: penstock lab tpcds --reload",
            )
        _note_tables(session, json.loads(made)["tables"])
        return made

    def _ensure_index(self, session: Session, tables: Sequence[str], *, anew: bool) -> None:
        """Build the index of every table if any lacks it, so that all have the same age; record a sample of each."""
        session.listener.step("Skipping index")
        if not anew and all(self._read(session.bench, f"{table}/{_INDEX}") for table in tables):
            session.listener.note("It exists already.")
            return
        output = session.key("index.jsonl")
        ran = session.application(
            "index",
            f"{MAIN}.Index",
            (
                *("--database", self.database(session.bench.lake)),
                *("--output", session.uri(output)),
                *("--tables", ",".join(tables)),
            ),
            name=f"TPC-DS index, scale {self.scale:g}",
            profile=PROFILE,
        )
        for sample in session.report_of(ran, output):
            session.record("index", **sample)

    def _read(self, bench: Environment, name: str) -> bytes | None:
        try:
            return (
                (self._directory(bench) / name).read_bytes() if self.local else bench.store.get(f"{self.prefix}/{name}")
            )
        except (NotFound, FileNotFoundError):
            return None

    def _directory(self, bench: Environment) -> Path:
        return bench.home.cache / self.prefix


def _identifier(name: str) -> str:
    """Map a lake's name into a database's, which has no dashes or capitals. Different names stay different."""
    plain = name.replace("-", "_")
    if re.fullmatch(r"[a-z0-9-]+", name):
        return plain
    return f"{re.sub(r'[^a-z0-9]', '_', plain.lower())}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _short(size: int) -> str:
    # Never in GiB: data sets that exist are named like this.
    for unit, letter in ((MIB, "m"), (KIB, "k")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size}b"


def _note_tables(session: Session, tables: Sequence[Mapping[str, Any]]) -> None:
    rows, size = sum(table["rows"] for table in tables), sum(table["bytes"] for table in tables)
    session.listener.note(f"{units.count(rows)} rows, {units.size(size)}, in {units.plural(len(tables), 'table')}.")
    layouts: dict[str, list[str]] = {}
    for table in tables:
        layouts.setdefault(table["layout"], []).append(table["table"])
    for layout, names in layouts.items():
        if not layout.startswith("plain"):
            session.listener.note(f"{', '.join(names)}: {layout}.")


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
    engine: Annotated[str, Option("Engine of the queries: spark or duckdb.")] = SPARK.name
    iterations: Annotated[int, Option("Executions of each query in one repetition.", least=1)] = 1
    warm_iterations: Annotated[int, Option("Uncounted rounds before those, in the same cluster.", least=0)] = 0
    validate: Annotated[bool, Option("Verify every answer against DuckDB.")] = True
    object_size_bytes: ObjectSize = DEFAULT_OBJECT
    location: Annotated[str, Option("Location of the tables: lake, or local (a copy on this machine's disk).")] = LAKE
    layout: Annotated[
        str,
        Option(
            "Layout of the fact tables: by-size (Hive partitions by date that fill their objects), by-day (by date "
            "key), by-range (ranges of dates and items only), or advised (from the queries recorded on by-size)."
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
        if self.layout == ADVISED and self.location == LOCAL:
            raise InvalidInput(
                "A local copy cannot have the layout “advised”", fix="choose another layout, or location lake"
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
            # For a copy, too: the checker reads the lake's files, which are the same.
            record_verdicts(session, replace(self.data, local=False), self.queries, power.answers())


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

    Raises `ClusterError` where the application left no samples.
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
        script = QueryScript(database, query_texts(workloads_jar(), names), iterations, warm_iterations)
        ran, results = run_script(session, engine, script, key=key, role=role, name=title, doing=doing)
        samples, answered = script.samples(results), partial(script.answers, results)
    for sample in samples:
        session.record("query", **sample)

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
