"""`penstock index`: which statements it runs, and how it tells what they answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli import sql
from penstock.cli.catalog import index
from penstock.errors import InvalidInput
from penstock.model import ClusterSize, ProcessSize

CHANGE = {"files": 144, "read": 12, "obsolete": 3, "unreadable": 0, "unsettled": 0}
COLUMNS = [
    {"column": "day", "type": "DATE", "kinds": "minmax", "files": 144, "files_per_key": 0.0219, "why": "sorted by it"},
    {"column": "price", "type": "DOUBLE", "kinds": "", "files": None, "files_per_key": None, "why": "no sound bounds"},
]
QUOTED = st.text(min_size=1).map(lambda name: f"`{name.replace('`', '``')}`")


def result(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """As the driver writes it."""
    names = list(rows[0]) if rows else ["column"]
    return {"columns": [{"name": name} for name in names], "rows": [list(row.values()) for row in rows]}


def some_target() -> SimpleNamespace:
    """A target of which only the size and the lake are asked."""
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 1 << 30), 1)
    return SimpleNamespace(lake=lambda name: SimpleNamespace(name=name), usual_size=lambda: size)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were run; they answer as those of an indexed table do."""
    texts: list[str] = []

    def answers(_engine: object, _spec: object, text: str, **_: str) -> list[dict[str, Any]]:
        texts.append(text)
        found = {"BUILD": [CHANGE], "REFRESH": [CHANGE], "SHOW": COLUMNS, "DROP": [{"dropped": True}]}
        return [result(found[statement.split()[0]]) for statement in text.split(";\n")]

    monkeypatch.setattr(sql, "answers", answers)
    monkeypatch.setattr(index, "target", some_target)
    return texts


def penstock_index(*arguments: str) -> str:
    return CliRunner().invoke(index.app, arguments, catch_exceptions=False).stdout


def test_columns_and_kinds_reach_the_statement_as_names_whatever_is_in_them(ran: list[str]) -> None:
    penstock_index("build", "db.t", "--columns", "a, b`c", "--columns", "d) DROP", "--kinds", "minmax,bloom")
    assert ran == [
        "BUILD SKIPPING INDEX ON `db`.`t` COLUMNS (`a`, `b``c`, `d) DROP`) KINDS (`minmax`, `bloom`);\n"
        "SHOW SKIPPING INDEX ON `db`.`t`"
    ]


def test_each_command_is_its_statement(ran: list[str]) -> None:
    for command in ("refresh", "show", "drop"):
        penstock_index(command, "s3a://lake/facts/`odd`")
    words = [text.removesuffix(" SKIPPING INDEX ON parquet.`s3a://lake/facts/``odd```") for text in ran]
    assert words == ["REFRESH", "SHOW", "DROP"]


def test_people_read_the_change_and_the_covered_columns(ran: list[str]) -> None:
    lines = penstock_index("build", "db.t").splitlines()
    assert lines[0] == "db.t: 144 files, 12 read now, 3 gone or replaced"
    day, price = lines[2:]
    assert day.split() == ["day", "DATE", "minmax", "144", "2", "%", "sorted", "by", "it"]
    assert price.split() == ["price", "DOUBLE", "no", "sound", "bounds"]
    assert penstock_index("drop", "db.t") == "Dropped the index of db.t\n"


def test_programs_get_the_same_as_json(ran: list[str]) -> None:
    assert json.loads(penstock_index("build", "t", "--json")) == {"table": "t", "change": CHANGE, "columns": COLUMNS}
    assert json.loads(penstock_index("refresh", "t", "--json")) == {"table": "t", "change": CHANGE}
    assert json.loads(penstock_index("show", "t", "--json")) == {"table": "t", "columns": COLUMNS}
    assert json.loads(penstock_index("drop", "t", "--json")) == {"table": "t", "dropped": True}


def test_a_table_without_an_index_is_shown_with_the_command_that_builds_one(
    monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    monkeypatch.setattr(sql, "answers", lambda *_, **__: [result([])])
    assert penstock_index("show", "db.t") == "db.t has no index: penstock index build db.t\n"
    assert json.loads(penstock_index("show", "db.t", "--json")) == {"table": "db.t", "columns": []}


def test_files_without_entries_are_counted() -> None:
    told = index.in_words({"files": 1, "read": 0, "obsolete": 0, "unreadable": 2, "unsettled": 1000})
    assert told == (
        "1 file, 0 read now, 1 000 too recent, left to the next refresh, "
        "2 unreadable, never skipped (the driver's log names them)"
    )


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("t", "`t`"),
        ("db.t", "`db`.`t`"),
        ("spark_catalog.db.t", "`spark_catalog`.`db`.`t`"),
        ("tpcds_sf1.`my-table`", "`tpcds_sf1`.`my-table`"),
        ("größe", "`größe`"),
        ("/data/a.b", "parquet.`/data/a.b`"),
        ("s3a://lake/a b/c.d", "parquet.`s3a://lake/a b/c.d`"),
    ],
)
def test_tables_and_addresses_are_distinguished(given: str, written: str) -> None:
    assert index.table_in_sql(given) == written


@given(st.lists(QUOTED, min_size=1, max_size=3).map(".".join).filter(lambda text: "://" not in text))
def test_quoted_names_stay_as_they_are(text: str) -> None:
    assert index.table_in_sql(text) == text


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a b", "my-table", "t; DROP TABLE t", "`a", "a`", "`a`b"]
)
def test_what_is_no_table_is_refused_before_a_cluster_starts(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        index.table_in_sql(text)
    assert "backquotes" in refused.value.fix
