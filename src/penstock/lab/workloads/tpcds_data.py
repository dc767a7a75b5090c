"""The data of TPC-DS in the lake: its layouts, and what generates, copies or indexes it where it is missing."""

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
from penstock.lab.environment import Environment
from penstock.lab.session import Session
from penstock.lake.model import Lake
from penstock.lake.registry import EMBEDDED
from penstock.units import KIB, MIB

MAIN = "io.penstock.workloads.tpcds"
PROFILE = "tpcds"
DEFAULT_OBJECT = 32 * MIB

LAKE, LOCAL = "lake", "local"
LOCATIONS = (LAKE, LOCAL)

BY_SIZE, BY_DAY, BY_RANGE, ADVISED, ICEBERG = "by-size", "by-day", "by-range", "advised", "iceberg"
LAYOUTS = (BY_SIZE, BY_DAY, BY_RANGE, ADVISED, ICEBERG)
DERIVED = (ADVISED, ICEBERG)
"""Layouts of the fact tables, which the loader defines.

`by-size` has Hive partitions by date, as fine as fills their objects; `by-day` partitions by the date key itself;
`by-range` has no partitions but ranges of dates and items; `advised` follows the advice from queries on `by-size`;
`iceberg` is the files of `by-size` as Iceberg tables.
"""

_SOURCE = "_source"
"""The key of the moment at which Iceberg's files were complete, below the data set's prefix."""
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

    def location(self, bench: Environment) -> str:
        """Return the address of the data for Spark."""
        return f"file:{self._directory(bench)}" if self.local else bench.uri(self.prefix)

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
        made_of = "Local copy of " if self.local else "Iceberg tables of " if self.layout == ICEBERG else ""
        session.listener.step(f"{made_of}TPC-DS data of scale {self.scale:g}")
        found = None if reload or self._outdated(session.bench) else self.manifest(session.bench)
        made = found is None or not session.bench.has_tables(self.database(session.bench.lake))
        if found is None or made:
            found = self._load(session, source)
        else:
            session.listener.note("It exists already.")
        session.record("dataset", manifest=json.loads(found))
        if index:
            self._ensure_index(session, [str(table["table"]) for table in json.loads(found)["tables"]], anew=made)
        return found

    def _outdated(self, bench: Environment) -> bool:
        """Return whether the files of Iceberg's metadata have been generated again since it was made."""
        return self.layout == ICEBERG and self._read(bench, _SOURCE) != self.files.loaded_at(bench)

    def loaded_at(self, bench: Environment) -> bytes:
        """The moment at which the lake's files were complete; empty where they are not."""
        found = list(bench.store.list(f"{self.prefix}/_manifest.json"))
        return found[0].modified.isoformat().encode() if found else b""

    @property
    def _source(self) -> TpcdsData | None:
        """The data set that this one is made from; None if it is generated."""
        if self.local:
            return replace(self, local=False)
        return replace(self, layout=BY_SIZE) if self.layout in DERIVED else None

    @property
    def files(self) -> TpcdsData:
        """The data set in the lake with the files of this one, which a local copy or Iceberg's metadata repeat."""
        found = replace(self, local=False)
        return replace(found, layout=BY_SIZE) if self.layout == ICEBERG else found

    def _load(self, session: Session, source: TpcdsData | None) -> bytes:
        origin = () if source is None else ("--from", source.location(session.bench))
        if source is not None and source.layout != self.layout:
            origin = (*origin, "--from-database", source.database(session.bench.lake))
        target = ("--location", self.location(session.bench), "--database", self.database(session.bench.lake))
        described = (
            *("--scale", f"{self.scale:g}"),
            *("--object-size", f"{self.object_size_bytes}b"),
            *("--layout", self.layout),
        )
        iceberg = self.layout == ICEBERG
        session.application(
            "load",
            f"{MAIN}.{'IcebergTables' if iceberg else 'LoadTables'}",
            (*target, *origin, *(() if iceberg else described)),
            name=f"TPC-DS load, scale {self.scale:g}",
            profile=PROFILE,
        )
        made = self.manifest(session.bench)
        if made is None:
            raise NotFound(
                f"The data was written, but {self.location(session.bench)} has no manifest",
                fix="generate it again: penstock lab tpcds --reload",
            )
        if iceberg:
            session.store.put(f"{self.prefix}/{_SOURCE}", self.files.loaded_at(session.bench))
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
