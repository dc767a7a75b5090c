"""The state file of an HDFS: its shape, and ports that stay the same if they can."""

from __future__ import annotations

import socket
from pathlib import Path

from penstock.lake.hdfs.layout import NAMENODE, HdfsState, Shape


def test_ports_stay_over_a_restart_and_no_two_are_the_same(tmp_path: Path) -> None:
    first = HdfsState(tmp_path).record(Shape(2, 1), running=())
    numbers = [port for ports in first.values() for port in ports.all()]
    assert len(numbers) == len(set(numbers)) == 8
    assert HdfsState(tmp_path).record(Shape(3, 1), running=()).items() > first.items()
    assert HdfsState(tmp_path).shape() == Shape(3, 1)


def test_a_port_that_another_program_took_is_given_up_unless_the_daemon_runs(tmp_path: Path) -> None:
    first = HdfsState(tmp_path).record(Shape(1, 1), running=())
    with socket.create_server(("127.0.0.1", first[NAMENODE].rpc)):
        assert HdfsState(tmp_path).record(Shape(1, 1), running=(NAMENODE,)) == first
        moved = HdfsState(tmp_path).record(Shape(1, 1), running=())
    assert moved[NAMENODE] != first[NAMENODE]
    assert moved["datanode.1"] == first["datanode.1"]


def test_nothing_is_remembered_of_what_never_was(tmp_path: Path) -> None:
    assert HdfsState(tmp_path).shape() is None
    assert HdfsState(tmp_path).ports() == {}
