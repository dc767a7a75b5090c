"""The catalog of one application gives each Iceberg table as it is, or refuses what its engine could not read."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.catalog.tables import Column, Table
from penstock.engine.engines.iceberg.catalog import Tables
from penstock.engine.engines.iceberg.tables import Reader
from penstock.errors import InvalidInput, NotFound

ICE = Table("sales", "ice", "external", "iceberg", "s3a://lake/ice", None, None, None, (Column("id", "int"),))


class Catalog:
    """A metastore and a lake with one Iceberg table, in a version of the format."""

    def __init__(self, place: Path, version: int) -> None:
        self.file = place / "1.metadata.json"
        self.file.write_text(json.dumps({"format-version": version}), "utf-8")
        self.loads = 0

    def names(self) -> dict[str, set[str]]:
        return {"sales": {"ice"}}

    def table(self, database: str, name: str) -> Table:
        self.loads += 1
        return ICE

    def metadata_location(self, table: Table) -> str:
        return str(self.file)

    def tables(self, reader: Reader) -> Tables:
        lake: Any = SimpleNamespace(
            require_here=lambda *_, **__: None, read_text=lambda place: Path(place).read_text("utf-8")
        )
        return Tables(self, lake, "s3a://lake/described", reader)  # type: ignore[arg-type]


def test_a_table_of_a_version_that_the_engine_does_not_read_is_refused_by_its_name(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, version=3)
    assert catalog.tables(Reader("Sail", 3)).load("sales", "ice")["metadata"] == {"format-version": 3}
    tables = catalog.tables(Reader("Trino", 2))
    with pytest.raises(InvalidInput, match=r"sales\.ice cannot be read by Trino") as refused:
        tables.load("sales", "ice")
    assert refused.value.why == "it has version 3 of Iceberg's format, and Trino reads 2"
    assert tables.problems == [refused.value]


def test_a_statement_sees_one_state_of_a_table_and_the_next_statement_a_new_one(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, version=2)
    tables = catalog.tables(Reader("Trino", 2))
    first = tables.load("sales", "ice")
    catalog.file = tmp_path / "2.metadata.json"
    catalog.file.write_text(json.dumps({"format-version": 2, "new": True}), "utf-8")
    assert tables.load("SALES", "Ice") is first
    assert catalog.loads == 1
    tables.begin()
    assert tables.load("sales", "ice")["metadata"]["new"] is True


def test_a_table_that_there_is_not_is_a_problem_of_the_statement(tmp_path: Path) -> None:
    tables = Catalog(tmp_path, version=2).tables(Reader("Trino", 2))
    with pytest.raises(NotFound, match=r"There is no table sales\.nosuch"):
        tables.load("sales", "nosuch")
    assert len(tables.problems) == 1
    tables.begin()
    assert tables.problems == []
