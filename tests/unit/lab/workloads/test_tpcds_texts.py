"""The independent engine runs the same texts as Spark, adapted only where a pattern occurs."""

from __future__ import annotations

import json
import re

import duckdb
import pytest

from penstock.errors import MissingRequirement
from penstock.lab import answers
from penstock.lab.environment import workloads_jar
from penstock.lab.workloads import tpcds


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    try:
        return tpcds.query_texts(workloads_jar(), tpcds.ALL)
    except MissingRequirement as missing:
        pytest.skip(str(missing))


def test_every_query_has_a_text_the_independent_engine_can_parse(texts: dict[str, str]) -> None:
    connection = duckdb.connect()
    for name, text in texts.items():
        adapted = answers.to_duckdb(name, text).strip().rstrip(";")
        row = connection.execute("SELECT json_serialize_sql(?)", [adapted]).fetchone()
        assert row is not None
        assert json.loads(row[0]).get("error") is False, f"{name}: {row[0]}"


def test_no_adaptation_is_out_of_date(texts: dict[str, str]) -> None:
    for adaptation in answers.ADAPTATIONS:
        named = texts if adaptation.queries == (answers.EVERY_QUERY,) else adaptation.queries
        found = [name for name in named if re.search(adaptation.pattern, texts[name], flags=re.IGNORECASE)]
        assert found, f"{adaptation.pattern} occurs nowhere"
        assert adaptation.why
