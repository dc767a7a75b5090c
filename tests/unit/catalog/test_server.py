"""Which account runs the embedded database, from which programs, and what a start that failed says."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest

from penstock.catalog import server
from penstock.catalog.server import PostgresServer, ServerAccount, is_executable_by_all
from penstock.errors import MissingRequirement


def test_a_program_below_a_private_directory_is_out_of_reach_for_others(tmp_path: Path) -> None:
    program = tmp_path / "site" / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (tmp_path / "site").chmod(0o700)
    assert not is_executable_by_all(program)


def test_a_program_of_the_system_is_in_reach_for_all() -> None:
    assert is_executable_by_all(Path("/bin/sh"))


def test_an_ordinary_user_s_server_runs_under_their_own_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    account = ServerAccount.choose()
    assert account == ServerAccount.caller()
    made = tmp_path / "data"
    made.mkdir()
    before = made.stat()
    account.own(made)
    assert (made.stat().st_uid, made.stat().st_gid) == (before.st_uid, before.st_gid)


def test_an_installation_without_the_programs_names_two_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _name: None)
    with pytest.raises(MissingRequirement, match="not installed") as missing:
        ServerAccount.caller()
    assert "pgserver" in str(missing.value.why)
    assert "PENSTOCK_DATABASE_URL" in str(missing.value.fix)


def test_an_account_that_cannot_be_created_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(server, "ACCOUNT", "penstock-without-useradd")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement, match="cannot run as root") as refused:
        ServerAccount.choose()
    assert "penstock-without-useradd" in str(refused.value.why)
    assert "useradd" in str(refused.value.fix)


class TestCopyOfTheProgramsForAll:
    """Root's installation below a private directory is copied once to where the account can read it."""

    @pytest.fixture
    def site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        site = tmp_path / "site"
        for part in ("pgserver/pginstall/bin", "pgserver/pginstall/lib/postgresql", "pgserver/pginstall/share"):
            (site / part).mkdir(parents=True)
        (site / "pgserver.libs").mkdir()
        (site / "pgserver/pginstall/bin/postgres").touch(mode=0o711)
        monkeypatch.setattr(server, "_SHARED", tmp_path / "shared")
        return site

    def target(self, tmp_path: Path) -> Path:
        return tmp_path / "shared" / f"postgresql-{version('pgserver')}"

    def test_all_can_execute_the_copy_and_none_but_its_owner_can_write_it(self, site: Path, tmp_path: Path) -> None:
        copy = server._shared_copy(site)
        assert copy == self.target(tmp_path)
        assert (copy / "pgserver/pginstall/bin/postgres").stat().st_mode & 0o777 == 0o755
        assert (copy / "pgserver/pginstall/bin").stat().st_mode & 0o777 == 0o755

    def test_a_copy_that_is_there_is_used_as_it_is(self, site: Path, tmp_path: Path) -> None:
        self.target(tmp_path).mkdir(parents=True)
        assert list(server._shared_copy(site).iterdir()) == []

    def test_a_copy_that_another_process_finished_meanwhile_is_used(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def overtaken(*_arguments: Any) -> NoReturn:
            self.target(tmp_path).mkdir()
            raise FileExistsError("another process was faster")

        monkeypatch.setattr(shutil, "copytree", overtaken)
        assert server._shared_copy(site) == self.target(tmp_path)

    def test_a_copy_that_fails_is_removed_and_says_why(self, site: Path, tmp_path: Path) -> None:
        shutil.rmtree(site / "pgserver.libs")
        with pytest.raises(MissingRequirement, match="cannot be copied") as refused:
            server._shared_copy(site)
        assert "pgserver.libs" in str(refused.value.why)
        assert list((tmp_path / "shared").iterdir()) == []


class TestRecords:
    def test_a_port_or_password_that_is_missing_or_unreadable_is_none(self, tmp_path: Path) -> None:
        postgres = PostgresServer(tmp_path, ServerAccount.caller())
        assert (postgres.port, postgres.password) == (None, None)
        (tmp_path / "port").write_text("not a port")
        (tmp_path / "password").write_bytes(b"\xff\xfe")
        assert (postgres.port, postgres.password) == (None, None)

    def test_a_directory_without_a_server_has_nothing_to_stop(self, tmp_path: Path) -> None:
        postgres = PostgresServer(tmp_path, ServerAccount.caller())
        assert not postgres.stop()
        assert not postgres.died()


class TestWordsOfAStartThatFailed:
    def test_ports_that_were_all_taken_are_not_called_damage(self, tmp_path: Path) -> None:
        postgres = PostgresServer(tmp_path, ServerAccount.caller())
        postgres.log.write_text('LOG:  could not bind IPv4 address "127.0.0.1": Address already in use\n')
        failure = postgres.failure("It does not start")
        assert isinstance(failure, MissingRequirement)
        assert failure.fix == "run the command again"

    def test_a_full_disk_is_named_by_its_directory(self, tmp_path: Path) -> None:
        postgres = PostgresServer(tmp_path, ServerAccount.caller())
        postgres.log.write_text("FATAL:  could not write: No space left on device\n")
        assert str(tmp_path) in str(postgres.failure("It does not start").why)
