"""Scripts in Trino's SQL are cut where Trino would, and its results have Spark's types and values."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.engine.engines.results import rows, type_name
from penstock.engine.engines.trino.statements import arrow_type, reads, split, value
from penstock.errors import InvalidInput


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        (
            "SELECT ';', \"a;b\" -- ; no\n; SELECT 'it''s;' /* ; */",
            ["SELECT ';', \"a;b\" -- ; no", "SELECT 'it''s;' /* ; */"],
        ),
        # A backslash is a letter, and comments do not nest.
        (r"SELECT '\'; SELECT 2", [r"SELECT '\'", "SELECT 2"]),
        ("/* a /* b */ SELECT 1; */ 2", ["/* a /* b */ SELECT 1", "*/ 2"]),
        (" ;; -- nothing\n ; /* at all */", []),
        ("SELECT 'open; ", ["SELECT 'open;"]),
    ],
)
def test_a_script_is_cut_at_semicolons_in_its_code(script: str, statements: list[str]) -> None:
    assert split(script) == statements


@pytest.mark.parametrize(
    ("statement", "is_reading"),
    [
        ("-- why\n/* what */ (SELECT 1)", True),
        ("with a as (select 1) table a", True),
        ("EXECUTE made USING 1", True),
        ("INSERT INTO t VALUES (1)", False),
        ("/* SELECT */ DROP TABLE t", False),
        ("CALL system.rollback_to_snapshot('a', 't', 1)", False),
        ("ALTER TABLE t EXECUTE optimize", False),
        ("selected", False),
    ],
)
def test_what_a_statement_does_is_known_by_its_first_word(statement: str, is_reading: bool) -> None:
    assert reads(statement) is is_reading


@pytest.mark.parametrize(
    ("trino", "spark"),
    [
        ("boolean", "boolean"),
        ("integer", "int"),
        ("real", "float"),
        ("decimal(38,3)", "decimal(38,3)"),
        ("varchar(10)", "string"),
        ("varchar", "string"),
        ("varbinary", "binary"),
        ("timestamp(6)", "timestamp_ntz"),
        ("timestamp(6) with time zone", "timestamp"),
        ("time(3) with time zone", "string"),
        ("unknown", "void"),
        ("array(decimal(7,2))", "array<decimal(7,2)>"),
        ("map(varchar, array(bigint))", "map<string,array<bigint>>"),
        (
            'row(a bigint, "b, (c" row(d map(integer, varchar)), at timestamp(6) with time zone)',
            "struct<a:bigint,b, (c:struct<d:map<int,string>>,at:timestamp>",
        ),
        ("row(integer, varchar(3))", "struct<col1:int,col2:string>"),
    ],
)
def test_a_type_has_spark_s_name(trino: str, spark: str) -> None:
    assert type_name(arrow_type(trino, "UTC")) == spark


@pytest.mark.parametrize("trino", ["interval day to second", "array(interval year to month)"])
def test_an_interval_is_refused(trino: str) -> None:
    with pytest.raises(InvalidInput, match="The result has an interval"):
        type_name(arrow_type(trino, "UTC"))


NOON = datetime(2026, 7, 1, 12, 0, 0, 500_000, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("trino", "found", "shown"),
    [
        ("decimal(9,4)", Decimal("0.3333"), "0.3333"),
        ("real", 0.33333334, 0.33333334),
        ("double", float("nan"), "NaN"),
        ("varbinary", b"ab", "YWI="),
        ("date", date(2026, 1, 31), "2026-01-31"),
        ("timestamp(6)", NOON.replace(tzinfo=None), "2026-07-01T12:00:00.500"),
        ("timestamp(6) with time zone", NOON.astimezone(ZoneInfo("Asia/Tokyo")), "2026-07-01 14:00:00.5"),
        ("uuid", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("array(integer)", [1, None], [1, None]),
        ("map(integer, row(a varchar))", {1: ("x",), 2: None}, {"1": {"a": "x"}, "2": None}),
        ("bigint", None, None),
    ],
)
def test_a_value_is_shown_as_spark_shows_it(trino: str, found: Any, shown: Any) -> None:
    kind = arrow_type(trino, "Europe/Berlin")
    column = pa.array([value(found, kind)], kind)
    assert rows([pa.RecordBatch.from_arrays([column], names=["a"])], None) == ([[shown]], False)
