"""`penstock tables` and `penstock index advise`: the statements they run, and how they tell the answers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.catalog.tables import Table
from penstock.cli import main, sql
from penstock.cli.catalog import index, tables
from penstock.cli.options import SERVER_VARIABLE
from penstock.engine.policy.scheduling import Instance
from penstock.errors import InvalidInput, PenstockError
from penstock.model import ClusterSize, ProcessSize

DONE = {
    "table": "db.sales",
    "layout": "PARTITIONED BY (`day`)",
    "files_before": 40,
    "bytes_before": 41943040,
    "files": 10,
    "bytes": 40894464,
    "rows": 1000000,
}
ADVICE = [
    ("layout", "PARTITIONED BY (`day`)"),
    ("scans", "12"),
    ("bytes now", "1000"),
    ("bytes then", "100"),
    ("why", "12 scans are noted"),
    ("why", "day: 12 scans filter by it"),
    ("statement", "REWRITE TABLE `db`.`sales` PARTITIONED BY (`day`)"),
]


def some_target() -> SimpleNamespace:
    """A target of which only the size and the lake are asked."""
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 1 << 30), 1)
    return SimpleNamespace(lake=lambda name: SimpleNamespace(name=name), usual_size=lambda: size)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """The statements that were run, with the settings of their applications."""
    texts: list[tuple[str, dict[str, str]]] = []

    def answers(_engine: object, spec: Any, text: str, **_: str) -> list[dict[str, Any]]:
        texts.append((text, dict(spec.settings)))
        if text.startswith("REWRITE"):
            return [{"columns": [{"name": name} for name in DONE], "rows": [list(DONE.values())]}]
        return [{"columns": [{"name": "item"}, {"name": "value"}], "rows": [list(row) for row in ADVICE]}]

    monkeypatch.setattr(sql, "answers", answers)
    for module in (index, tables):
        monkeypatch.setattr(module, "target", some_target)
    return texts


def penstock(app: Any, *arguments: str) -> str:
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


def test_a_layout_reaches_the_statement_as_names_whatever_is_in_them(ran: list[tuple[str, dict[str, str]]]) -> None:
    layout = ("--partition-by", "day, shop", "--range-by", "item:8,odd`na:me:2,plain")
    penstock(tables.app, "rewrite", "db.sales", *layout, "--into", "db2.sales", "--object-size", "8m")
    (statement, settings) = ran[0]
    assert statement == (
        "REWRITE TABLE `db`.`sales` INTO `db2`.`sales` PARTITIONED BY (`day`, `shop`) "
        "RANGED BY (`item` INTO 8, `odd``na:me` INTO 2, `plain`)"
    )
    assert settings == {"spark.penstock.skipping.layout.object.size": "8388608b"}


def test_as_advised_is_a_statement_of_its_own(ran: list[tuple[str, dict[str, str]]]) -> None:
    printed = penstock(tables.app, "rewrite", "s3a://lake/sales", "--advised")
    assert ran == [("REWRITE TABLE parquet.`s3a://lake/sales` AS ADVISED", {})]
    assert "40 objects of 40.0 MiB are now 10 of 39.0 MiB, 1 000 000 rows" in printed
    assert json.loads(penstock(tables.app, "rewrite", "db.sales", "--advised", "--json")) == DONE


@pytest.mark.parametrize(
    ("advised", "range_by"), [(False, []), (True, ["item"]), (False, ["item:0"]), (False, ["item:x"]), (False, [":3"])]
)
def test_a_layout_is_given_once_and_right(advised: bool, range_by: list[str]) -> None:
    with pytest.raises(InvalidInput):
        tables.in_sql("t", None, advised=advised, partition_by=(), range_by=range_by)


def test_advice_says_what_and_why_and_how_to_apply_it(ran: list[tuple[str, dict[str, str]]]) -> None:
    printed = penstock(index.app, "advise", "db.sales").splitlines()
    assert printed[0] == "db.sales: PARTITIONED BY (`day`)"
    assert printed[-1].endswith("penstock table rewrite db.sales --advised")
    assert [statement for statement, _ in ran] == ["SHOW SKIPPING ADVICE ON `db`.`sales`"]
    as_json = json.loads(penstock(index.app, "advise", "db.sales", "--json"))
    assert as_json["bytes_now"] == 1000 and as_json["bytes_then"] == 100 and len(as_json["why"]) == 2


def test_no_other_layout_is_said_so(monkeypatch: pytest.MonkeyPatch, ran: list[tuple[str, dict[str, str]]]) -> None:
    monkeypatch.setitem(globals(), "ADVICE", [("layout", None), *ADVICE[1:5]])
    printed = penstock(index.app, "advise", "db.sales")
    assert printed.startswith("db.sales: keep the present layout") and "rewrite" not in printed


NOON = datetime(2026, 3, 10, 12, tzinfo=timezone.utc)
ORDERS = Table("db", "orders", "external", "iceberg", "s3a://lake/orders", None, 9, 9, ())
VIEW = Table("db", "seen", "view", "", "", None, None, None, ())
ORPHANS = [f"s3a://lake/orders/data/{number}.parquet" for number in range(12)]


def answer(**columns: object) -> dict[str, Any]:
    return {"columns": [{"name": name} for name in columns], "rows": [list(columns.values())]}


def orphans() -> dict[str, Any]:
    return {"columns": [{"name": "orphan_file_location"}], "rows": [[place] for place in ORPHANS]}


@pytest.fixture
def maintained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were run on a table whose format is the first part of its name."""
    texts: list[str] = []

    def answers(_engine: object, _spec: object, text: str, **_: str) -> list[dict[str, Any]]:
        texts.append(text)
        if "dry_run => True" in text:
            return [answer(joined_files=40, joined_bytes=41943040), answer(snapshots=1), orphans()]
        return [
            answer(rewritten_data_files_count=40, rewritten_bytes_count=41943040, added_data_files_count=2),
            answer(rewritten_manifests_count=3),
            answer(deleted_data_files_count=7, deleted_manifest_files_count=2, deleted_manifest_lists_count=4),
            orphans(),
        ]

    monkeypatch.setattr(sql, "answers", answers)
    monkeypatch.setattr(tables, "target", some_target)
    monkeypatch.setattr(tables, "catalog_table", lambda name: replace(ORDERS, format=name.partition(".")[0]))
    monkeypatch.setattr(
        tables, "catalog_tables", lambda _: [VIEW, ORDERS, replace(ORDERS, name="o", location="s3a://lake/o")]
    )
    return texts


def test_a_dry_run_changes_nothing_and_says_what_would_be_done(maintained: list[str]) -> None:
    printed = penstock(tables.app, "maintain", "iceberg.orders", "--dry-run").splitlines()
    assert printed[:4] == [
        "db.orders: 40 files of 40.0 MiB would be joined",
        "  1 snapshot would expire",
        "  12 orphans would be deleted",
        f"    {ORPHANS[0]}",
    ]
    assert printed[-1] == "    and 2 more: --json lists all"
    (text,) = maintained
    assert "CALL" not in text.replace("CALL system.remove_orphan_files", "")


def test_a_table_is_maintained_and_the_counts_are_told(maintained: list[str]) -> None:
    printed = penstock(tables.app, "maintain", "iceberg.orders").splitlines()
    assert printed[:3] == [
        "db.orders: 40 files of 40.0 MiB are now 2",
        "  4 snapshots expired, with 9 files",
        "  12 orphans deleted",
    ]
    shown = json.loads(penstock(tables.app, "maintain", "iceberg.orders", "--json"))
    assert shown["orphans"] == ORPHANS
    assert (shown["snapshots"], shown["deleted_files"], shown["into_files"]) == (4, 9, 2)


def test_files_join_before_snapshots_expire_and_writers_at_work_keep_their_files() -> None:
    rewrite, manifests, expire, orphans = tables.maintenance(
        replace(ORDERS, name="it's"), timedelta(days=5), dry_run=False, now=NOON
    )
    assert rewrite == "CALL system.rewrite_data_files(table => '`db`.`it\\'s`')"
    assert "rewrite_manifests" in manifests
    assert "older_than => TIMESTAMP '2026-03-05 12:00:00Z', retain_last => 1" in expire
    assert "older_than => TIMESTAMP '2026-03-07 12:00:00Z', dry_run => False" in orphans


@pytest.mark.parametrize("arguments", [("parquet.orders",), ("iceberg.orders", "--keep", "soon")])
def test_only_an_iceberg_table_is_maintained_for_a_time_that_is_one(
    maintained: list[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput):
        penstock(tables.app, "maintain", *arguments)
    assert maintained == []


@pytest.mark.parametrize("location", ["s3a://lake/orders", "s3a://lake/orders/part", "s3a://lake/"])
def test_a_table_among_anothers_files_is_not_maintained(
    maintained: list[str], monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    other = replace(ORDERS, name="other", location=location)
    monkeypatch.setattr(tables, "catalog_tables", lambda _: [ORDERS, other])
    with pytest.raises(InvalidInput, match=r"cannot be distinguished from those of db\.other"):
        penstock(tables.app, "maintain", "iceberg.orders")
    assert maintained == []


def test_a_table_that_shares_its_files_is_not_maintained(
    maintained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "catalog_table", lambda _: replace(ORDERS, keeps_files=True))
    with pytest.raises(InvalidInput, match=r"db\.orders cannot be maintained") as refused:
        penstock(tables.app, "maintain", "db.orders")
    assert "shares files with the table that it was made from" in (refused.value.why or "")
    assert maintained == []


def test_a_service_s_table_that_shares_its_files_has_the_same_refusal(
    maintained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*_: object, problem: str, fix: str) -> list[dict[str, Any]]:
        why = "Cannot expire snapshots: GC is disabled (deleting files may corrupt other tables)"
        raise PenstockError(problem, why=why, fix=fix)

    monkeypatch.setattr(sql, "answers", answers)
    with pytest.raises(InvalidInput, match=r"db\.orders cannot be maintained"):
        penstock(tables.app, "maintain", "iceberg.orders")


SALES = Table("db", "it's", "managed", "parquet", "s3a://lake/sales", 3, None, None, ())


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were run on `SALES`, or on what a test puts in its place."""
    texts: list[str] = []

    def answers(_engine: object, _spec: object, text: str, **_: str) -> list[dict[str, Any]]:
        texts.append(text)
        return [answer(imported_files_count=3)]

    monkeypatch.setattr(sql, "answers", answers)
    monkeypatch.setattr(tables, "target", some_target)
    monkeypatch.setattr(tables, "catalog_table", lambda _: SALES)
    monkeypatch.setattr(tables, "catalog_tables", lambda _: [SALES, ORDERS])
    return texts


def test_a_converted_table_lies_beside_the_first_unless_told_otherwise(converted: list[str]) -> None:
    printed = penstock(tables.app, "convert", "db.it's", "--to", "iceberg", "--into", "db2.sales")
    assert printed == "db2.sales is an Iceberg table with 3 files of db.it's\n"
    penstock(tables.app, "convert", "db.it's")
    source = "CALL system.snapshot('`db`.`it\\'s`'"
    assert converted == [f"{source}, '`db2`.`sales`')", f"{source}, '`db`.`it\\'s_iceberg`')"]


def test_an_external_table_is_converted_in_place(converted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "catalog_table", lambda _: replace(SALES, name="sales", kind="external"))
    shown = json.loads(penstock(tables.app, "convert", "db.sales", "--in-place", "--json"))
    assert shown == {"table": "db.sales", "into": "db.sales", "files": 3}
    assert converted == ["CALL system.migrate(table => '`db`.`sales`', drop_backup => true)"]


@pytest.mark.parametrize(
    ("found", "arguments", "problem"),
    [
        (SALES, ["--in-place"], "in place"),
        (SALES, ["--in-place", "--into", "db.other"], "exclude each other"),
        (SALES, ["--into", "db.orders"], "db.orders exists"),
        (SALES, ["--into", "no such"], "is not a table"),
        (replace(SALES, format="csv"), [], "cannot be converted"),
        (ORDERS, [], "already"),
        (VIEW, [], "cannot be converted"),
    ],
)
def test_what_iceberg_cannot_take_or_would_move_or_replace_is_not_converted(
    converted: list[str], monkeypatch: pytest.MonkeyPatch, found: Table, arguments: list[str], problem: str
) -> None:
    monkeypatch.setattr(tables, "catalog_table", lambda _: found)
    with pytest.raises(InvalidInput, match=problem):
        penstock(tables.app, "convert", found.full_name, *arguments)
    assert converted == []


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (index.app, ("build", "db.t")),
        (index.app, ("refresh", "db.t")),
        (index.app, ("advise", "db.t")),
        (tables.app, ("rewrite", "db.t", "--advised")),
        (tables.app, ("convert", "db.t")),
        (tables.app, ("maintain", "iceberg.orders")),
    ],
)
def test_a_token_of_one_instance_runs_statements_on_tables(
    monkeypatch: pytest.MonkeyPatch, app: Any, arguments: tuple[str, ...]
) -> None:
    through = some_target()
    through.instance = lambda name: Instance(name or "team-a")
    found: list[str] = []

    def answers(_engine: object, spec: Any, _text: str, **_: str) -> None:
        found.append(spec.instance)
        raise typer.Exit

    monkeypatch.setenv(SERVER_VARIABLE, "http://127.0.0.1:1")
    monkeypatch.setattr(sql, "answers", answers)
    for module in (index, tables):
        monkeypatch.setattr(module, "target", lambda: through)
    monkeypatch.setattr(tables, "catalog_table", lambda name: ORDERS if name == "iceberg.orders" else SALES)
    monkeypatch.setattr(tables, "catalog_tables", lambda _: [ORDERS, SALES])
    penstock(app, *arguments)
    assert found == ["team-a"]


def test_table_is_another_word_for_tables_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    listed = capsys.readouterr().out
    assert " tables " in listed and " table " not in listed
    with pytest.raises(SystemExit):
        main.main(["table", "rewrite", "--help"])
    described = " ".join(capsys.readouterr().out.split())
    assert "--advised" in described
    assert "between which the table is missing" in described
