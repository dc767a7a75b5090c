"""Sail's environment has the lake, the catalog and the size of its process, and no secret of the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.engines.sail.driver import settings
from penstock.engine.engines.statement_driver import local_zone
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


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_the_session_s_zone_is_the_process_s(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    assert local_zone() == zone


def test_without_a_variable_the_zone_is_the_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(Path, "resolve", lambda _: Path("/usr/share/zoneinfo/America/Argentina/Ushuaia"))
    assert local_zone() == "America/Argentina/Ushuaia"
    monkeypatch.setattr(Path, "resolve", lambda self: self)
    assert local_zone() == "UTC"
