"""`penstock lake ceph status`: what it tells of a Ceph that is described here, not started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.lake.lakes import app
from penstock.lake.ceph import status
from penstock.lake.ceph.status import CephStatus


def told(monkeypatch: pytest.MonkeyPatch, devices: dict[str, Path], *arguments: str) -> str:
    seen = CephStatus(
        state="down",
        endpoints=("http://127.0.0.1:1",),
        directory=Path("/home/you/ceph"),
        devices=devices,
        free_bytes=1 << 30,
        daemons=(),
        cluster=None,
        silence="it does not run",
    )
    monkeypatch.setattr(status, "read_status", lambda ceph: seen)
    return CliRunner().invoke(app, ["ceph", "status", *arguments]).output


def test_disks_and_metadata_elsewhere_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, large = Path("/fast/penstock-ceph-1"), Path("/large/penstock-ceph-1")
    devices = {"block": large, "block.db": fast, "block.wal": fast}
    output = told(monkeypatch, devices)
    assert f"  disks     {large}\n  metadata  {fast}\n" in output
    assert json.loads(told(monkeypatch, devices, "--json"))["devices"] == {
        "block": str(large),
        "block.db": str(fast),
        "block.wal": str(fast),
    }


def test_disks_beside_everything_else_are_not_shown_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    output = told(monkeypatch, {"block": Path("/home/you/ceph/devices")})
    assert "disks" not in output
    assert "metadata" not in output
