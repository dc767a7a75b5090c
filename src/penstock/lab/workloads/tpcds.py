"""TPC-DS: its queries and the sets of them the field uses, its data in the lake, the power run, and its progress.

Data is generated where the lake lacks it, and indexed for skipping on request; every answer is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from penstock import units
from penstock.errors import InvalidInput, MissingRequirement, NotFound
from penstock.lab import progress, validation
from penstock.lab.analysis.samples import natural
from penstock.lab.environment import Bench, last_samples, workloads_jar
from penstock.lab.launchers import Ran
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
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
"""Of the fact tables: in Hive partitions by date as fine as fills their objects, in those by the date key itself, in
none but in ranges of dates and items, or as is advised by what was asked of the first of these. The loader knows what
each means."""

_INDEX = "_skipindex/manifest.json"
"""Of a table, below its directory."""


@dataclass(frozen=True)
class DataSet:
    """TPC-DS data of one scale, object size and layout; what differs in one of them is another data set, beside it.

    A `local` one is a copy of the lake's files on this machine's disk, as tables of a database of their own.
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
        """Every lake of a home has the same catalog, so each but the embedded one has databases of its own."""
        own = "" if lake.name == EMBEDDED else f"_{_identifier(lake.name)}"
        return f"tpcds_{self.name}{own}{'_local' if self.local else ''}"

    def location(self, session: Session) -> str:
        """Its address for Spark."""
        return f"file:{self._directory(session.bench)}" if self.local else session.uri(self.prefix)

    def manifest(self, bench: Bench) -> bytes | None:
        """The manifest, where it is of this scale, object size and layout and its load was completed."""
        content = self._read(bench, "_manifest.json")
        if content is None:
            return None
        found = json.loads(content)
        described = (found["scale"], found["object_size"], found.get("layout", BY_SIZE))
        return content if described == (self.scale, self.object_size_bytes, self.layout) else None

    def ensure(self, session: Session, *, reload: bool = False, index: bool = False) -> bytes:
        """The manifest, after generating the data where the lake or the catalog lacks it, and copying it if `local`.

        With `index`, every table has a skipping index afterwards.
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
            session.listener.note("It is there already.")
        session.record("dataset", manifest=json.loads(found))
        if index:
            self._ensure_index(session, [str(table["table"]) for table in json.loads(found)["tables"]], anew=made)
        return found

    @property
    def _source(self) -> DataSet | None:
        """What it is made from; None where it is generated."""
        if self.local:
            return replace(self, local=False)
        return replace(self, layout=BY_SIZE) if self.layout == ADVISED else None

    def _load(self, session: Session, source: DataSet | None) -> bytes:
        origin = () if source is None else ("--from", source.location(session))
        if source is not None and source.layout != self.layout:
            origin = (*origin, "--from-database", source.database(session.bench.lake))
        session.application(
            "load",
            f"{MAIN}.Load",
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
                f"The data was made but {self.location(session)} has no manifest",
                fix="generate it again: penstock lab tpcds --reload",
            )
        _tell(session, json.loads(made)["tables"])
        return made

    def _ensure_index(self, session: Session, tables: Sequence[str], *, anew: bool) -> None:
        """Recorded as `index` samples, a table each, where any was built: all are, so that they are of one age."""
        session.listener.step("Skipping index")
        if not anew and all(self._read(session.bench, f"{table}/{_INDEX}") for table in tables):
            session.listener.note("It is there already.")
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

    def _read(self, bench: Bench, name: str) -> bytes | None:
        try:
            return (
                (self._directory(bench) / name).read_bytes() if self.local else bench.store.get(f"{self.prefix}/{name}")
            )
        except (NotFound, FileNotFoundError):
            return None

    def _directory(self, bench: Bench) -> Path:
        return bench.home.cache / self.prefix


def _identifier(name: str) -> str:
    """A lake's name within a database's, which knows neither dashes nor capitals. Different names stay different."""
    plain = name.replace("-", "_")
    if re.fullmatch(r"[a-z0-9-]+", name):
        return plain
    return f"{re.sub(r'[^a-z0-9]', '_', plain.lower())}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _short(size: int) -> str:
    for unit, letter in ((MIB, "m"), (KIB, "k")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size}b"


def _tell(session: Session, tables: Sequence[Mapping[str, Any]]) -> None:
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
        key=natural,
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
"""`io54` names 54 of the documents' queries; those of two parts (q24, q39) run as both."""


def select(names: str | None, chosen_set: str) -> tuple[str, ...]:
    """The queries of `--queries q3,q7` or of a set; `InvalidInput` names what is unknown."""
    if names is None:
        if chosen_set not in SETS:
            raise InvalidInput(f"There is no query set {chosen_set}", fix=f"choose one of {', '.join(SETS)}")
        return SETS[chosen_set]
    wanted = tuple(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    unknown = [name for name in wanted if name not in ALL]
    if unknown or not wanted:
        near = [name for name in ALL if any(name.rstrip("ab") == other.rstrip("ab") for other in unknown)]
        raise InvalidInput(
            f"TPC-DS has no query {', '.join(unknown) or '(none given)'}",
            why="the queries are q1 to q99, with 14, 23, 24 and 39 in two parts a and b, and ss_max",
            fix=f"--queries {','.join(near)}" if near else "--queries q3,q7, or --set all",
        )
    return wanted


def query_texts(jar: Path, names: Sequence[str]) -> dict[str, str]:
    """The text of each query, the very one Spark runs."""
    with zipfile.ZipFile(jar) as archive:
        entries = {
            Path(entry).stem: entry for entry in archive.namelist() if entry.endswith(".sql") and "tpcds/" in entry
        }
        missing = [name for name in names if name not in entries]
        if missing:
            raise MissingRequirement(f"{jar.name} lacks the queries {', '.join(missing)}", fix="make setup")
        return {name: archive.read(entries[name]).decode() for name in names}


def query_progress(session: Session, order: Sequence[str]) -> Callable[[str], None]:
    """What to do with the application's job descriptions (`q3 (5 of 104)`); estimates by the newest run before."""
    described = session.recorder.description
    past = {
        sample["query"]: sample["elapsed_ms"] / 1000
        for sample in last_samples(session.bench.home, described.workload, described.scale, "query")
        if sample["status"] == "ok"
    }

    def doing(description: str) -> None:
        at = progress.position(description)
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
    """The queries one after the other, in one application. Every answer of a repetition is checked with `validate`."""

    workload: ClassVar[str] = "tpcds"
    title: ClassVar[str] = "TPC-DS"
    profile: ClassVar[str] = PROFILE
    # q90 divides by zero at small scales, which the benchmark wants as null.
    meaning: ClassVar[Mapping[str, str]] = {"spark.sql.ansi.enabled": "false"}

    scale: float = 1
    object_size_bytes: int = DEFAULT_OBJECT
    queries: tuple[str, ...] = ALL
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
    key = validation.AnswerKey(session.bench.home, session.store, f"{data.prefix}/", manifest)
    texts = query_texts(workloads_jar(), names)
    try:
        for sample in validation.check_all(key, answers, texts, session.listener.now):
            session.record("answer", **sample)
    finally:
        key.close()
