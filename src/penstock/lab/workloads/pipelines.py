"""Pipelines: ETL (delimited text to Parquet and ORC), enrichment (sales joined with clicks), k-means, and MERGE.

Bad lines are counted and stored separately; the centres that k-means finds are compared with the generated ones, and so
is each row of a table into which changes are merged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.launchers import JobResult
from penstock.lab.session import Session
from penstock.lab.workloads.base import GeneratedData, Suite
from penstock.lab.workloads.options import (
    Computed,
    ObjectSize,
    Option,
    Reload,
    parse_count,
    parse_names,
    short_count,
)
from penstock.lab.workloads.tpcds import Tpcds
from penstock.lab.workloads.tpcds_data import TpcdsData
from penstock.lake.model import Lake
from penstock.units import MIB

_ETL_MAIN = "io.penstock.workloads.etl"
FORMATS = ("parquet", "orc")
LINE_BYTES = 69
"""The average length of a line (io.penstock.workloads.etl.Sales)."""


DEFAULT_ROWS = 1_000_000


def _rows(rows: int | None, size_bytes: int | None) -> int:
    if rows is not None and size_bytes is not None:
        raise InvalidInput("--rows and --size exclude each other", fix="use one of them")
    return size_bytes // LINE_BYTES if size_bytes is not None else rows or DEFAULT_ROWS


def _shown_rows(rows: int) -> dict[str, str]:
    return {"rows": short_count(rows)}


@dataclass(frozen=True)
class Etl(Suite):
    """A repetition converts all lines to each of the formats and validates the tables."""

    workload: ClassVar[str] = "etl"
    title: ClassVar[str] = "ETL"
    profile: ClassVar[str] = "etl"

    rows: Annotated[
        int,
        Option("Lines of text, e.g. 1m (the default).", parse=parse_count),
        Option("Approximate size of the text instead, e.g. 1g.", name="size", parse=units.require_size),
        Computed(_rows, ("rows", "size"), _shown_rows),
    ] = DEFAULT_ROWS
    bad_share: Annotated[float, Option("Share of malformed lines, from 0 to 1.")] = 0.001
    """Each millionth counts."""
    formats: Annotated[
        tuple[str, ...], Option("Formats to convert to, in this order.", parse=parse_names, show=",".join)
    ] = FORMATS
    object_size_bytes: ObjectSize = 128 * MIB
    seed: Annotated[int, Option("Seed of the generated lines.", least=0)] = 1
    reload: Reload = False

    def check_options(self) -> None:
        if self.rows < 1:
            raise InvalidInput(f"The number of rows cannot be {self.rows}", fix="--rows 1m")
        if not 0 <= self.bad_share <= 1:
            raise InvalidInput(
                f"{self.bad_share:g} is not a share", why="a share is from 0 (none) to 1 (all)", fix="--bad-share 0.001"
            )
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise InvalidInput(
                f"There is no format {', '.join(unknown)}" if unknown else "There is no format to convert to",
                fix=f"--formats {','.join(FORMATS)}",
            )

    def needs_bytes(self) -> int:
        # The text, each table at less than the text's size, and the bad lines, which are stored with their reasons.
        text = self.rows * LINE_BYTES
        return int(text * (1 + len(self.formats) + 4 * self.bad_share))

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload)

    @property
    def data(self) -> GeneratedData:
        bad_per_million = round(self.bad_share * 1e6)
        return GeneratedData(
            title=f"Lines of text, {units.count(self.rows)}",
            prefix=f"etl/{self.rows}-bad{bad_per_million}-{self.object_size_bytes // MIB}m-seed{self.seed}",
            main_class=f"{_ETL_MAIN}.GenerateSales",
            arguments=(
                *("--rows", str(self.rows)),
                *("--bad-share", f"{bad_per_million / 1e6:f}"),
                *("--seed", str(self.seed)),
                *("--object-size", f"{self.object_size_bytes}b"),
            ),
            identity={
                "rows": self.rows,
                "bad_per_million": bad_per_million,
                "seed": self.seed,
                "object_size": self.object_size_bytes,
            },
        )

    def repetition(self, session: Session) -> None:
        output, report = session.key("tables"), session.key("convert") + ".jsonl"
        try:
            session.application(
                "convert",
                f"{_ETL_MAIN}.Convert",
                (
                    *("--input", session.uri(self.data.prefix)),
                    *("--output", session.uri(output)),
                    *("--formats", ",".join(self.formats)),
                    *("--report", session.uri(report)),
                ),
                name=f"ETL of {units.count(self.rows)} rows",
            )
        finally:
            session.remove(output)
        session.replay(report)


_ENRICHMENT_MAIN = "io.penstock.workloads.enrichment"
_ORDER_LINES = 720_000
"""The order lines of web sales at scale 1; they are proportional to the scale."""
_CLICK_BYTES = 235


@dataclass(frozen=True)
class Enrichment(Suite):
    """A repetition reads sales and clicks, joins them, writes the result and validates it."""

    workload: ClassVar[str] = "enrichment"
    title: ClassVar[str] = "Enrichment"
    profile: ClassVar[str] = "etl"

    scale: Annotated[float, Option("TPC-DS scale factor of the sales.", least=0.001)] = 1
    clicks_per_line: Annotated[
        int, Option("Mean number of clicks before the purchase of each order line.", least=1)
    ] = 3
    """Half as many again belong to no order line."""
    object_size_bytes: ObjectSize = 128 * MIB
    seed: Annotated[int, Option("Seed of the generated clicks.", least=0)] = 1
    reload: Reload = False

    @property
    def description_scale(self) -> float:
        return self.scale

    def check_options(self) -> None:
        if self.scale <= 0:
            raise InvalidInput(f"The scale cannot be {self.scale:g}", fix="--scale 0.1")
        if self.clicks_per_line < 1:
            raise InvalidInput("Without clicks there is nothing to join", fix="--clicks-per-line 3")

    def needs_bytes(self) -> int:
        # TPC-DS, the log, its clicks again in the shuffle, and the enriched sales.
        log = self.scale * _ORDER_LINES * (1.5 * self.clicks_per_line + 1) * _CLICK_BYTES
        return Tpcds(scale=self.scale).needs_bytes() + int(2 * log + self.scale * 0.1e9)

    def prepare(self, session: Session) -> None:
        manifest = json.loads(self.sales.ensure(session))
        rows = next(table["rows"] for table in manifest["tables"] if table["table"] == "web_sales")
        self.clicks(session.bench.lake, order_lines=rows).ensure(session, reload=self.reload)

    @property
    def sales(self) -> TpcdsData:
        return TpcdsData(self.scale)

    @property
    def clicks_prefix(self) -> str:
        log = f"clicks{self.clicks_per_line}-{self.object_size_bytes // MIB}m-seed{self.seed}"
        return f"enrichment/{self.sales.name}-{log}"

    def clicks(self, lake: Lake, *, order_lines: int) -> GeneratedData:
        """Return the clicks for exactly these sales, since the matching clicks depend on them."""
        identity: dict[str, Any] = {
            "order_lines": order_lines,
            "clicks_per_line": self.clicks_per_line,
            "seed": self.seed,
            "object_size": self.object_size_bytes,
        }
        return GeneratedData(
            title=f"Clicks around the web sales of scale {self.scale:g}",
            prefix=self.clicks_prefix,
            main_class=f"{_ENRICHMENT_MAIN}.GenerateClicks",
            arguments=(
                *("--database", self.sales.database(lake)),
                *("--clicks-per-line", str(self.clicks_per_line)),
                *("--seed", str(self.seed)),
                *("--object-size", f"{self.object_size_bytes}b"),
            ),
            identity=identity,
        )

    def repetition(self, session: Session) -> None:
        self.enrich(session)

    def enrich(self, session: Session) -> JobResult:
        output, report = session.key("sales"), session.key("enrich") + ".jsonl"
        try:
            ran = session.application(
                "enrich",
                f"{_ENRICHMENT_MAIN}.Enrich",
                (
                    *("--database", self.sales.database(session.bench.lake)),
                    *("--clicks", session.uri(self.clicks_prefix)),
                    *("--output", session.uri(output)),
                    *("--report", session.uri(report)),
                ),
                name=f"Enrichment, scale {self.scale:g}",
            )
        finally:
            session.remove(output)
        session.replay(report)
        return ran


_KMEANS_MAIN = "io.penstock.workloads.kmeans"
_NUMBER_BYTES = 4


@dataclass(frozen=True)
class KMeans(Suite):
    """A repetition caches the points in the executors' memory, trains on them, and checks the centres found."""

    workload: ClassVar[str] = "kmeans"
    title: ClassVar[str] = "K-means"
    profile: ClassVar[str] = "ml"

    points: Annotated[int, Option("Number of points, e.g. 1m.", parse=parse_count, show=short_count)] = 1_000_000
    dimensions: Annotated[int, Option("Dimensions of a point, four bytes each.", least=2)] = 20
    clusters: Annotated[int, Option("Number of clusters to generate and to find.", least=1)] = 10
    iterations: Annotated[int, Option("Iterations of the training, a fixed number.", least=1)] = 20
    passes: Annotated[int, Option("Passes over the points to choose the initial centres (k-means||).", least=1)] = 5
    object_size_bytes: ObjectSize = 64 * MIB
    seed: Annotated[int, Option("Seed of the generated points.", least=0)] = 1
    reload: Reload = False

    @property
    def bytes(self) -> int:
        return self.points * self.dimensions * _NUMBER_BYTES

    def check_options(self) -> None:
        if self.clusters < 1 or self.points < 2 * self.clusters:
            raise InvalidInput(
                f"{self.points} points are too few for {self.clusters} clusters",
                why="each cluster needs at least two points",
                fix=f"--points {2 * max(self.clusters, 1)} or more",
            )
        if self.dimensions < 2:
            raise InvalidInput(
                f"{self.dimensions} dimensions are too few",
                why="in one dimension, well-separated clusters need too wide a range",
                fix="--dimensions 2 or more",
            )
        if self.iterations < 1 or self.passes < 1:
            raise InvalidInput("Training needs at least one pass and one iteration", fix="--iterations 20 --passes 5")

    def needs_bytes(self) -> int:
        # The points, and again where they do not fit into the executors' memory, with the state of k-means|| for each.
        return 2 * self.bytes + 12 * self.points

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload)

    @property
    def data(self) -> GeneratedData:
        return GeneratedData(
            title=f"Points, {units.size(self.bytes)}",
            prefix=f"kmeans/{self.points}x{self.dimensions}-k{self.clusters}-{self.object_size_bytes // MIB}m-"
            f"seed{self.seed}",
            main_class=f"{_KMEANS_MAIN}.GeneratePoints",
            arguments=(
                *("--points", str(self.points)),
                *("--dimensions", str(self.dimensions)),
                *("--clusters", str(self.clusters)),
                *("--seed", str(self.seed)),
                *("--object-size", f"{self.object_size_bytes}b"),
            ),
            identity={
                "points": self.points,
                "dimensions": self.dimensions,
                "clusters": self.clusters,
                "seed": self.seed,
                "object_size": self.object_size_bytes,
            },
        )

    def repetition(self, session: Session) -> None:
        report = session.key("train") + ".jsonl"
        session.application(
            "train",
            f"{_KMEANS_MAIN}.Train",
            (
                *("--input", session.uri(self.data.prefix)),
                *("--iterations", str(self.iterations)),
                *("--passes", str(self.passes)),
                *("--report", session.uri(report)),
            ),
            name=f"K-means of {units.size(self.bytes)}",
        )
        session.replay(report)


_MERGE_MAIN = "io.penstock.workloads.merge"
MODES = ("copy-on-write", "merge-on-read")
_ORDER_BYTES = 60


@dataclass(frozen=True)
class Merge(Suite):
    """A repetition loads an Iceberg table, merges small, wide and late changes into it, and checks every row."""

    workload: ClassVar[str] = "merge"
    title: ClassVar[str] = "MERGE"
    profile: ClassVar[str] = "etl"

    rows: Annotated[int, Option("Rows to load, e.g. 1m.", parse=parse_count, show=short_count)] = DEFAULT_ROWS
    mode: Annotated[str, Option("Iceberg's mode: copy-on-write, or merge-on-read (delete files).")] = MODES[0]
    seed: Annotated[int, Option("Seed of the generated rows.", least=0)] = 1

    @property
    def needs_iceberg(self) -> bool:
        return True

    def check_options(self) -> None:
        if self.mode not in MODES:
            raise InvalidInput(f"There is no mode {self.mode}", fix=f"--mode {' or '.join(MODES)}")

    def needs_bytes(self) -> int:
        # The table, rewritten as a whole by the wide changes, and the rows once more in the shuffle of the checks.
        return 4 * self.rows * _ORDER_BYTES

    def repetition(self, session: Session) -> None:
        location, report = session.key("orders"), session.key("merge") + ".jsonl"
        # The same for each attempt, whose application drops what a killed one has left.
        database = f"lab_{session.recorder.description.id}_{session.repetition}".replace("-", "_")
        try:
            session.application(
                "merge",
                f"{_MERGE_MAIN}.Merge",
                (
                    *("--rows", str(self.rows)),
                    *("--seed", str(self.seed)),
                    *("--mode", self.mode),
                    *("--database", database),
                    *("--location", session.uri(location)),
                    *("--report", session.uri(report)),
                ),
                name=f"MERGE into {units.count(self.rows)} rows",
            )
        finally:
            session.remove(location)
        session.replay(report)
