"""`penstock lake ceph` on a machine without Ceph: refusals and their messages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.lake.lakes import app
from penstock.errors import Conflict, InvalidInput, MissingRequirement, NotFound, PenstockError
from penstock.home import Home
from penstock.lake.ceph import daemons
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "program_path", lambda _: None)


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "program_path", lambda name: f"/usr/bin/{name}")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the commands instead of running them."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(app, ["ceph", *arguments], input=given)


def refused(result: Result, kind: type[PenstockError]) -> PenstockError:
    assert isinstance(result.exception, kind), result.output
    return result.exception


@pytest.mark.usefixtures("nothing_installed")
def test_without_the_packages_it_says_which_and_how_to_have_them(home: Home) -> None:
    error = refused(run("up"), MissingRequirement)
    assert "ceph-mon" in error.why
    assert "radosgw" in error.why
    assert "penstock lake ceph install" in error.fix
    assert not home.root.exists()


@pytest.mark.usefixtures("nothing_installed")
def test_installing_without_root_says_what_root_would_type(
    monkeypatch: pytest.MonkeyPatch, ran: list[list[str]]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/apt-get")
    error = refused(run("install", "--yes"), MissingRequirement)
    assert error.fix.startswith("sudo apt-get install")
    assert not ran


@pytest.mark.usefixtures("nothing_installed")
def test_installing_where_there_is_no_apt_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert "ceph-osd" in refused(run("install", "--yes"), MissingRequirement).fix


@pytest.mark.usefixtures("nothing_installed")
def test_installing_asks_first(monkeypatch: pytest.MonkeyPatch, ran: list[list[str]]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/apt-get")
    assert run("install", given="n\n").exit_code != 0
    assert not ran


def test_installing_installs_the_packages_by_name(monkeypatch: pytest.MonkeyPatch, ran: list[list[str]]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/apt-get")
    monkeypatch.setattr(daemons, "program_path", lambda name: "/usr/bin/x" if ran else None)
    assert run("install", "--yes").exit_code == 0
    [install] = [command for command in ran if "install" in command]
    assert set(daemons.PACKAGES) <= set(install)
    assert "--no-install-recommends" in install


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--osds", "2"], "three replicas"),
        (["--erasure", "4:2"], "chunks"),
        (["--size", "much"], "a size"),
        (["--replicated", "--erasure", "4+2"], "the other kind"),
    ],
)
@pytest.mark.usefixtures("all_installed")
def test_what_cannot_be_made_is_refused_before_anything_is(arguments: list[str], reason: str, home: Home) -> None:
    assert reason in refused(run("up", *arguments), InvalidInput).why
    assert not (home.lake / "ceph").exists()


@pytest.mark.usefixtures("all_installed")
def test_a_disk_without_room_is_reported_before_anything_is_written_to_it(
    monkeypatch: pytest.MonkeyPatch, ran: list[list[str]]
) -> None:
    class Little:
        free = 1 << 30

    monkeypatch.setattr("shutil.disk_usage", lambda _: Little)
    error = refused(run("up"), MissingRequirement)
    assert "1024 MiB are free" in error.why
    assert "--data-dir" in error.fix
    assert not ran


@pytest.mark.usefixtures("all_installed")
def test_an_external_lake_of_the_same_name_is_not_replaced(home: Home) -> None:
    home.create()
    lake = Lakes(home).add(Lake("ceph", ("http://rgw.example:8080",), "data", "environment"))
    error = refused(run("up"), Conflict)
    assert "http://rgw.example:8080" in error.why
    assert Lakes(home).all() == [lake]


def test_where_there_is_none_status_says_so_and_fails() -> None:
    result = run("status")
    assert (result.exit_code, "penstock lake ceph up" in result.output) == (1, True)
    assert json.loads(run("status", "--json").output) == {"state": "none"}


@pytest.mark.parametrize("arguments", [["start", "osd.0"], ["stop", "osd.0"]])
def test_where_there_is_none_no_daemon_can_be_named(arguments: list[str]) -> None:
    assert "penstock lake ceph up" in refused(run(*arguments), NotFound).fix


def test_ending_what_never_ran_is_no_error() -> None:
    assert run("down").output.strip() == "Ceph was not running"
    assert run("wipe", "--yes").exit_code == 0


def test_removing_data_asks_first() -> None:
    assert run("wipe", given="n\n").exit_code != 0
