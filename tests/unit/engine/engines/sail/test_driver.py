"""Sail's environment has the lake, the catalog and the size of its process, and no secret of the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.engine.engines import statement_driver
from penstock.engine.engines.sail.driver import StatementRunner, settings
from penstock.engine.engines.statement_driver import local_zone
from penstock.errors import MissingRequirement
from penstock.lake.model import Credentials, Lake
from penstock.model import ProcessSize


class Access:
    lake = Lake("near", ("https://a.example:8443",), "bucket", "environment", path_style=False)
    endpoint = "https://a.example:8443"
    credentials = Credentials("key", "hidden", "session")


def test_sail_finds_lake_and_catalog_within_its_size(tmp_path: Path) -> None:
    found = settings(Access(), ProcessSize(3, 10 << 20), tmp_path, "http://127.0.0.1:9", 't"oken')  # type: ignore[arg-type]
    assert found["AWS_ENDPOINT"] == "https://a.example:8443"
    assert (found["AWS_ALLOW_HTTP"], found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"]) == ("false", "true")
    assert found["SAIL_CATALOG__LIST"] == (
        '[{type = "iceberg-rest", name = "spark_catalog", uri = "http://127.0.0.1:9", oauth_access_token = "t\\"oken"}]'
    )
    assert found["SAIL_EXECUTION__DEFAULT_PARALLELISM"] == "3"
    assert found["SAIL_RUNTIME__MEMORY_POOL__GREEDY__MAX_SIZE"] == str(8 << 20)
    assert found["SAIL_RUNTIME__TEMPORARY_FILES__PATHS"] == f'["{tmp_path}/spill"]'
    assert (tmp_path / "spill").is_dir()
    assert not {"hidden", "session"} & set(" ".join(found.values()).replace('"', " ").split())


def test_sail_trusts_the_lake_s_own_authority(tmp_path: Path) -> None:
    access = Access()
    assert "SSL_CERT_FILE" not in settings(access, ProcessSize(1, 1 << 20), tmp_path, "http://127.0.0.1:9", "token")  # type: ignore[arg-type]
    access.lake = replace(access.lake, ca_file="/etc/ca.pem")
    found = settings(access, ProcessSize(1, 1 << 20), tmp_path, "http://127.0.0.1:9", "token")  # type: ignore[arg-type]
    assert found["SSL_CERT_FILE"] == "/etc/ca.pem"


class OneRow:
    """A session, its configuration and its answer to everything, which is one row."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.conf = {"spark.sql.session.timeZone": "UTC"}

    def sql(self, _: str) -> OneRow:
        return self

    def limit(self, rows: int) -> OneRow:
        self.asked = rows
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table({"a": [1]})


@pytest.mark.parametrize(
    ("limit", "asked"), [(2, 3), (2**31 - 2, 2**31 - 1), (2**31 - 1, None), (2**40, None), (None, None)]
)
def test_sail_is_asked_for_a_row_more_than_the_limit_where_its_protocol_has_the_number(
    limit: int | None, asked: int | None
) -> None:
    session = OneRow()
    tables = SimpleNamespace(begin=lambda: None)
    found = StatementRunner(session, tables, limit).execute("SELECT 1 AS a")  # type: ignore[arg-type]
    assert session.asked == asked
    assert (found["rows"], found["truncated"]) == ([[1]], False)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_the_session_s_zone_is_the_process_s(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    assert local_zone() == zone


def test_without_a_variable_the_zone_is_the_machine_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TZ", raising=False)
    localtime = tmp_path / "localtime"
    assert local_zone(localtime) == "UTC"
    localtime.symlink_to("/usr/share/zoneinfo/America/Argentina/Ushuaia")
    assert local_zone(localtime) == "America/Argentina/Ushuaia"


def test_a_zone_without_a_link_is_found_by_its_contents_or_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    zones = tmp_path / "zones"
    (zones / "Europe").mkdir(parents=True)
    (zones / "Europe" / "Berlin").write_bytes(b"TZif of Berlin")
    (zones / "Europe" / "London").write_bytes(b"TZif of London")
    monkeypatch.setattr(statement_driver, "TZPATH", (str(zones),))
    monkeypatch.setattr(statement_driver, "available_timezones", lambda: {"Europe/London", "Europe/Berlin", "UTC"})
    localtime = tmp_path / "localtime"
    localtime.write_bytes(b"TZif of Berlin")
    assert local_zone(localtime) == "Europe/Berlin"
    localtime.write_bytes(b"TZif of another")
    with pytest.raises(MissingRequirement, match="time zone has no name"):
        local_zone(localtime)
