"""Trino's server stays within its application's size and on the loopback, and its settings have no secret."""

from __future__ import annotations

from pathlib import Path

from penstock.engine.engines.access import LakeAccess
from penstock.engine.engines.trino.server import catalog_settings, command, heap_bytes, settings
from penstock.model import ProcessSize

SIZE = ProcessSize(3, 4 << 30)


def test_the_server_keeps_to_its_size(tmp_path: Path) -> None:
    line = command(tmp_path / "trino", tmp_path, SIZE)
    assert f"-Xmx{heap_bytes(SIZE) >> 20}m" in line
    assert "-XX:ActiveProcessorCount=3" in line
    found = settings(SIZE, tmp_path / "trino", tmp_path, 8080, "mine")
    per_query, headroom = (
        int(found[name].removesuffix("MB")) for name in ("query.max-memory-per-node", "memory.heap-headroom-per-node")
    )
    assert per_query + headroom < heap_bytes(SIZE) >> 20
    assert found["task.concurrency"] == "2"
    assert heap_bytes(ProcessSize(1, 1 << 30)) < 1 << 30


def test_the_server_listens_on_the_loopback_and_asks_for_a_token(tmp_path: Path) -> None:
    found = settings(SIZE, tmp_path, tmp_path, 8080, "mine")
    assert (found["node.bind-ip"], found["node.internal-address"]) == ("127.0.0.1", "127.0.0.1")
    assert found["http-server.authentication.type"] == "JWT"
    assert found["web-ui.enabled"] == "false"


def test_the_catalog_is_read_only_and_names_no_secret(lake: LakeAccess) -> None:
    found = catalog_settings(lake, "http://127.0.0.1:9").splitlines()
    assert "iceberg.security=READ_ONLY" in found
    assert "s3.endpoint=https\\://a.example\\:8443" in found
    assert "s3.path-style-access=false" in found
    assert any(line.startswith("iceberg.rest-catalog.oauth2.token=${ENV") for line in found)
    assert "hidden" not in str(found)
