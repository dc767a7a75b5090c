"""TPC-DS data in the lake: made where it is missing, and indexed for skipping where that is asked for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock import units
from penstock.errors import NotFound
from penstock.lab.bench import Bench
from penstock.lab.session import Session
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
