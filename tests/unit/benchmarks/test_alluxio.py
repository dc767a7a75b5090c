"""Alluxio beside Penstock: its servers listen on the loopback, and the store's keys are in one private file."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.filesystem import alluxio
from penstock.processes import start_daemon
from penstock.units import MIB


@pytest.fixture
def servers(tmp_path: Path) -> alluxio.Alluxio:
    settings = {"alluxio.master.mount.table.root.option.s3a.secretKey": "hidden"}
    return alluxio.Alluxio(tmp_path / "jars", tmp_path, settings, tmp_path / "cache", 64 * MIB)


def test_the_keys_are_in_a_file_of_the_owner_and_in_no_argument(servers: alluxio.Alluxio, tmp_path: Path) -> None:
    file = tmp_path / "alluxio-site.properties"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "secretKey=hidden" in file.read_text()
    assert not any("hidden" in argument for argument in servers.command("alluxio.master.AlluxioMaster"))


def test_every_server_is_bound_to_the_loopback_at_a_port_of_its_own(servers: alluxio.Alluxio, tmp_path: Path) -> None:
    lines = (tmp_path / "alluxio-site.properties").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    assert {value for key, value in given.items() if key.endswith((".hostname", ".host"))} == {"127.0.0.1"}
    ports = [value for key, value in given.items() if key.endswith(".port")]
    assert len(ports) == len(set(ports)) == 4
    assert servers.root.endswith(given["alluxio.master.rpc.port"])


def test_what_the_servers_spend_is_the_processor_time_of_all_of_them(servers: alluxio.Alluxio, tmp_path: Path) -> None:
    busy = ["python3", "-c", "while True: pass"]
    servers.processes = [start_daemon(busy, log=tmp_path / "log") for _ in range(2)]
    try:
        before = servers.core_seconds()
        while servers.core_seconds() < before + 0.1:
            assert all(process.alive() for process in servers.processes)
    finally:
        servers.stop()
    assert servers.core_seconds() == 0
