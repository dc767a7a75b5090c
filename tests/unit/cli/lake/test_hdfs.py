"""`penstock lake hdfs`, and what of `penstock lake` refuses such a lake: all that is known without starting one."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.lake.lakes import app
from penstock.errors import InvalidInput, LakeError, NotFound, PenstockError
from penstock.home import Home
from penstock.lake.model import NO_CREDENTIALS, HdfsClient, Lake
from penstock.lake.registry import Lakes
from penstock.processes import free_ports


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    home = Home(tmp_path)
    client = HdfsClient("127.0.0.1:1", 2, short_circuit=True)
    Lakes(home).add(Lake("hdfs", ("http://127.0.0.1:1",), "hdfs", NO_CREDENTIALS, "hdfs", hdfs=client))
    return home


def refused(*arguments: str) -> PenstockError:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, PenstockError), result.output
    return result.exception


@pytest.mark.parametrize("command", [["check"], ["sweep"]])
def test_what_is_about_s3_says_that_this_is_none(home: Home, command: list[str]) -> None:
    error = refused(*command, "--lake", "hdfs")
    assert isinstance(error, InvalidInput)
    assert "is for lakes on S3, and “hdfs” is an HDFS" in error.problem


@pytest.mark.parametrize("command", ["status", "wipe"])
def test_a_missing_hdfs_is_reported_with_the_command_that_creates_it(home: Home, command: str) -> None:
    error = refused("hdfs", command, "--name", "other", *(["--yes"] if command == "wipe" else []))
    assert isinstance(error, NotFound)
    assert error.fix == "penstock lake hdfs up --name other"


def test_stopping_what_does_not_run_is_no_error(home: Home) -> None:
    result = CliRunner().invoke(app, ["hdfs", "down"])
    assert (result.exit_code, result.output) == (0, "The HDFS “hdfs” was not running\n")


def test_one_of_this_machine_is_not_removed_or_replaced_like_somebody_elses(home: Home) -> None:
    web = f"http://127.0.0.1:{free_ports(1)[0]}"
    for command in (["remove", "hdfs"], ["hdfs", "add", "hdfs", "--namenode", "nn:8020", "--web", web]):
        assert "belongs to a store of this machine" in refused(*command).problem


def test_one_that_cannot_be_reached_is_not_added(home: Home) -> None:
    web = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert isinstance(refused("hdfs", "add", "far", "--namenode", "nn:8020", "--web", web), LakeError)
    assert [lake.name for lake in Lakes(home).all()] == ["hdfs"]
