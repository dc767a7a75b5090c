"""The daemons' configuration: addresses, locality, and the account that may read block files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.lake.hdfs import layout
from penstock.lake.hdfs.layout import NAMENODE, Ports, Shape

PLACE = Path("/home/Jürgen, “lab”/<hdfs>")
PORTS = {NAMENODE: Ports(8020, 9870), "datanode.1": Ports(9867, 9864, 9866), "datanode.2": Ports(9877, 9874, 9876)}
NEAR, FAR = Shape(2, 2), Shape(2, 1, remote=True)


def read(shape: Shape, daemon: str) -> dict[str, str]:
    files = layout.files(shape, daemon, PORTS, PLACE, user="jürgen")
    properties = [
        one
        for name in ("core-site.xml", "hdfs-site.xml")
        for one in ElementTree.fromstring(files[name])  # noqa: S314
    ]
    return {str(one.findtext("name")): str(one.findtext("value")) for one in properties}


@pytest.mark.parametrize("daemon", PORTS)
@pytest.mark.parametrize("shape", [NEAR, FAR])
def test_every_address_is_of_this_machine_alone(shape: Shape, daemon: str) -> None:
    addresses = {key: value for key, value in read(shape, daemon).items() if key.endswith(("address", "bind-host"))}
    assert len(addresses) >= 3
    assert {value.partition(":")[0] for value in addresses.values()} == {"127.0.0.1"}


def test_each_daemon_listens_on_its_own_ports_and_knows_the_namenodes() -> None:
    first, second = read(NEAR, "datanode.1"), read(NEAR, "datanode.2")
    assert first["dfs.datanode.address"] == "127.0.0.1:9866"
    assert second["dfs.datanode.ipc.address"] == "127.0.0.1:9877"
    assert first["fs.defaultFS"] == second["fs.defaultFS"] == "hdfs://127.0.0.1:8020"


@pytest.mark.parametrize(
    ("daemon", "key"), [(NAMENODE, "dfs.namenode.name.dir"), ("datanode.1", "dfs.datanode.data.dir")]
)
def test_data_is_in_the_daemons_place_by_a_path_that_nothing_in_a_homes_name_can_upset(daemon: str, key: str) -> None:
    files = layout.files(NEAR, daemon, PORTS, PLACE / daemon, user="jürgen")
    assert f"<name>{key}</name><value>../{daemon}/data</value>" in files["hdfs-site.xml"]


def test_near_datanodes_are_called_as_executors_are_and_show_their_files_to_the_user_alone() -> None:
    datanode = read(NEAR, "datanode.1")
    assert datanode["dfs.datanode.hostname"] == "127.0.0.1"
    assert datanode["dfs.block.local-path-access.user"] == "jürgen"


def test_remote_datanodes_are_local_to_no_client_and_give_out_no_files() -> None:
    datanodes = [read(FAR, daemon) for daemon in ("datanode.1", "datanode.2")]
    assert len({one["dfs.datanode.hostname"] for one in datanodes}) == 2
    assert all(one["dfs.datanode.hostname"].endswith(".invalid") for one in datanodes)
    assert all("dfs.block.local-path-access.user" not in one for one in datanodes)


def test_a_daemons_own_configuration_comes_first_on_its_class_path() -> None:
    command = layout.command(Path("/java"), "datanode.2", PLACE, [Path("/a.jar")])
    assert command[command.index("-cp") + 1] == f"{PLACE}/conf:/a.jar"
    assert command[-1] == "org.apache.hadoop.hdfs.server.datanode.DataNode"
