"""The embedded PostgreSQL under faults: kills, lost ports, damage, a full disk, two commands at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from penstock.catalog import server
from penstock.catalog.database import METASTORE, RECORDS, Database
from penstock.catalog.server import PostgresServer, ServerAccount
from penstock.errors import CatalogError, InvalidInput, MissingRequirement
from penstock.home import Home
from penstock.processes import ProcessId, free_ports, processes_in
from tests.support.database_template import DatabaseTemplate
from tests.support.waiting import within

UP = "from penstock.home import Home; from penstock.catalog.database import Database; Database(Home.default()).up()"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(autouse=True)
def no_server_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_DATABASE_URL", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a home, with “quotes” and 'ü'")


@pytest.fixture
def new_database(home: Home) -> Iterator[Database]:
    """A database that was never started."""
    database = Database(home)
    yield database
    database.down()
    assert server_of(home).running() is None


@pytest.fixture
def database(home: Home, new_database: Database, database_template: DatabaseTemplate) -> Database:
    """A database that was made and stopped."""
    database_template.copy_to(home)
    return new_database


def server_of(home: Home) -> PostgresServer:
    return PostgresServer(home.database, ServerAccount.caller())


def running(home: Home) -> ProcessId:
    server = server_of(home).running()
    assert server is not None
    return server


def started_elsewhere(home: Home) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PENSTOCK_HOME": str(home.root), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([sys.executable, "-c", UP], env=environment)


def kill(process: ProcessId) -> None:
    os.kill(process.pid, signal.SIGKILL)
    while process.alive():
        time.sleep(0.01)


def remember(database: Database, word: str) -> None:
    with database.engine().begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS kept (word text)"))
        connection.execute(text("INSERT INTO kept VALUES (:word)"), {"word": word})


def remembered(database: Database) -> list[str]:
    with database.engine().connect() as connection:
        return list(connection.execute(text("SELECT word FROM kept ORDER BY word")).scalars())


def test_data_and_address_survive_a_restart(home: Home, database: Database) -> None:
    before = database.up()
    remember(database, "water")
    assert database.status().state == "up"
    assert database.down()
    assert database.status().state == "down"
    assert not database.down()
    assert Database(home).up() == before
    assert remembered(Database(home)) == ["water"]


def test_a_second_up_starts_no_process_and_takes_no_lock(
    home: Home, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.up()

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with home.lock("database", busy="held by the test"):
        Database(home).up()


def test_it_listens_on_loopback_only_and_on_no_socket_file(database: Database) -> None:
    with database.engine().connect() as connection:
        settings = dict(
            connection.execute(
                text("SELECT name, setting FROM pg_settings WHERE name IN ('listen_addresses', 'fsync')")
            ).all()
        )
        assert connection.execute(text("SHOW unix_socket_directories")).scalar() == ""
    assert settings == {"listen_addresses": "127.0.0.1", "fsync": "on"}


def test_nobody_gets_in_without_the_password(database: Database) -> None:
    url = database.up()
    for wrong in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url.libpq(), password=wrong)


def test_an_application_s_login_does_not_open_the_engine_s_records(database: Database) -> None:
    with database.engine(METASTORE).connect() as connection:
        assert not connection.execute(text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).scalar()
    application = database.url(METASTORE)
    assert application.password not in repr(database.url(RECORDS))
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(application.with_database(RECORDS).libpq(), password=application.password)


def test_the_passwords_are_in_no_argument_list_and_no_log(home: Home, new_database: Database) -> None:
    secrets = {new_database.url(RECORDS).password, new_database.url(METASTORE).password}
    shown = server_of(home).log.read_text()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended meanwhile
            shown += command.read_text(errors="replace")
    assert not [secret for secret in secrets if secret in shown]
    assert (home.database / "password").stat().st_mode & 0o077 == 0


def test_when_the_port_was_taken_meanwhile_another_is_chosen_and_recorded(home: Home, database: Database) -> None:
    port = database.up().port
    remember(database, "water")
    database.down()
    with socket.create_server(("127.0.0.1", port)):
        moved = Database(home)
        assert moved.up().port != port
        assert remembered(moved) == ["water"]


def test_a_wipe_ends_the_server_and_removes_its_data_in_one_turn(
    home: Home, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.up()
    held: list[bool] = []
    remove = shutil.rmtree

    def removed(place: Path, **more: Any) -> None:
        held.append(home.locked("database"))
        assert server_of(home).running() is None
        remove(place, **more)

    monkeypatch.setattr(shutil, "rmtree", removed)
    database.wipe()
    assert held == [True]
    assert not home.database.exists()


def test_a_killed_server_is_started_again_with_all_that_was_committed(home: Home, database: Database) -> None:
    database.up()
    remember(database, "water")
    kill(running(home))
    assert remembered(Database(home)) == ["water"]


def test_a_pid_file_whose_number_now_belongs_to_a_stranger_does_not_stop_the_start(
    home: Home, database: Database
) -> None:
    database.up()
    kill(running(home))
    pid_file = home.database / "data" / "postmaster.pid"
    # The other process has the server's own account: PostgreSQL itself tolerates all others.
    owner = pid_file.stat().st_uid
    stranger = subprocess.Popen(["/bin/sleep", "60"], user=owner if os.geteuid() == 0 else None)
    try:
        within(lambda: not processes_in(pid_file.parent))  # the killed server's children notice
        lines = pid_file.read_text().split("\n")
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]))
        Database(home).up()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def _unfinished(home: Home, name: str) -> bool:
    return any(home.database.glob(f"data.new-*/{name}"))


MOMENTS: dict[str, Callable[[Home], bool]] = {
    "home made": lambda home: home.root.exists(),
    "password kept": lambda home: (home.database / "password").exists(),
    "initdb begins": lambda home: _unfinished(home, ""),
    "initdb writes": lambda home: _unfinished(home, "global/pg_control"),
    "initdb copies": lambda home: _unfinished(home, "base/4"),
    "data there": lambda home: (home.database / "data").exists(),
    "server starts": lambda home: (home.database / "data" / "postmaster.pid").exists(),
    "server answers": lambda home: b"ready to accept" in _content(server_of(home).log),
}


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


@pytest.mark.parametrize("moment", MOMENTS)
def test_up_killed_at_any_moment_is_completed_by_the_next(home: Home, new_database: Database, moment: str) -> None:
    starting = started_elsewhere(home)
    within(lambda: MOMENTS[moment](home), pause_seconds=0.001)
    starting.kill()
    starting.wait()
    new_database.up()
    remember(new_database, "water")
    assert remembered(new_database) == ["water"]


def test_an_initdb_that_outlives_its_killed_parent_does_not_disturb_the_next_start(
    home: Home, new_database: Database
) -> None:
    left = home.database / "data.new-of-a-killed-start"
    left.mkdir(parents=True)
    left.chmod(0o777)
    orphan = subprocess.Popen(
        ["/bin/sh", "-c", "while :; do mkdir -p base/1; date > base/1/$$; done"],
        cwd=left,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        new_database.up()
        assert orphan.poll() is not None
        assert not left.exists()
    finally:
        orphan.kill()
        orphan.wait()


def test_racing_ups_agree_on_one_server(home: Home, new_database: Database) -> None:
    racers = [started_elsewhere(home) for _ in range(4)]
    assert [racer.wait(timeout=120) for racer in racers] == [0, 0, 0, 0]
    server = running(home)
    assert Database(home).up().port == new_database.up().port
    assert running(home) == server


@pytest.mark.parametrize("content", [None, "", "not the password"])
def test_a_lost_or_damaged_password_file_is_made_again_and_nothing_is_lost(
    home: Home, database: Database, content: str | None
) -> None:
    database.up()
    remember(database, "water")
    file = home.database / "password"
    file.unlink() if content is None else file.write_text(content)
    again = Database(home)
    again.up()
    assert remembered(again) == ["water"]
    again.engine(METASTORE).connect().close()


@pytest.mark.parametrize("content", [None, "not a port", "1"])
def test_a_lost_or_damaged_port_file_is_made_again_from_the_running_server(
    home: Home, database: Database, content: str | None
) -> None:
    port = database.up().port
    server = running(home)
    file = home.database / "port"
    file.unlink() if content is None else file.write_text(content)
    assert Database(home).up().port == port
    assert running(home) == server


def test_damaged_data_is_reported_with_the_log_s_words_and_left_as_it_is(home: Home, database: Database) -> None:
    database.up()
    database.down()
    control = home.database / "data" / "global" / "pg_control"
    control.write_bytes(b"\0" * control.stat().st_size)
    with pytest.raises(CatalogError) as raised:
        Database(home).up()
    assert "incompatible with server" in raised.value.why
    assert str(home.database / "data") in raised.value.fix
    assert control.exists()


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("megabytes", [1, 30, 50])
def test_a_full_disk_is_reported_as_such_and_room_mends_it(home: Home, new_database: Database, megabytes: int) -> None:
    home.create()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(home.root)], check=True)
    try:
        with pytest.raises(MissingRequirement, match="is full"):
            Database(home).up()
        subprocess.run(["mount", "-o", "remount,size=200m", str(home.root)], check=True)
        Database(home).up()
    finally:
        Database(home).down()
        subprocess.run(["umount", str(home.root)], check=True)


@pytest.mark.root
@needs_root
def test_root_s_database_starts_from_programs_only_root_can_reach(
    home: Home, new_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    monkeypatch.setattr(server, "_SHARED", shared)
    monkeypatch.setattr(server, "is_executable_by_all", lambda path: False)
    try:
        new_database.up()
        program = Path(f"/proc/{running(home).pid}/exe").resolve()
        assert program.is_relative_to(shared)
        assert program.stat().st_uid == 0
        new_database.down()
    finally:
        shutil.rmtree(shared)


def external(
    database: Database, monkeypatch: pytest.MonkeyPatch, user: str, password: str, up: bool = True
) -> Database:
    port = (database.up() if up else database._url(RECORDS)).port
    url = f"postgresql://{user}:{password}@127.0.0.1:{port}/postgres"
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", url)
    return Database(Home(Path("/nonexistent")))


def test_a_server_of_the_user_s_own_is_used_and_never_stopped(
    home: Home, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.up()
    with server_of(home).connect() as connection:
        connection.execute(f"DROP DATABASE {METASTORE}".encode())
    named = external(database, monkeypatch, url.user, url.password)
    named.up()
    named.engine(METASTORE).connect().close()
    assert not named.down()
    assert named.status().state == "up"


def test_a_login_without_the_right_to_create_databases_gets_the_administrators_commands(
    home: Home, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.up()
    with server_of(home).connect() as connection:
        connection.execute(b"CREATE ROLE plain LOGIN PASSWORD 'plain'")
        connection.execute(f"DROP DATABASE {METASTORE}".encode())
    with pytest.raises(CatalogError) as raised:
        external(database, monkeypatch, "plain", "plain").up()
    assert "CREATE DATABASE metastore OWNER plain" in raised.value.fix


def test_applications_have_a_login_of_their_own_on_such_a_server_that_cannot_read_the_records(
    home: Home, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.up()
    with server_of(home).connect() as connection:
        connection.execute(b"CREATE ROLE \"the lake's\" LOGIN PASSWORD 'their own'")
        for name in (METASTORE, RECORDS):
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    login = f"postgresql://the%20lake%27s:their%20own@127.0.0.1:{url.port}/"
    monkeypatch.setenv("PENSTOCK_CATALOG_DATABASE_URL", login)
    named = external(database, monkeypatch, url.user, url.password, up=False)
    assert named.up().user == url.user
    applications = named.url(METASTORE)
    assert (applications.user, applications.password) == ("the lake's", "their own")
    with psycopg.connect(applications.libpq(), password=applications.password) as connection:
        connection.execute("CREATE TABLE theirs (id int)")
    records = applications.with_database(RECORDS)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(records.libpq(), password=records.password)


@pytest.mark.parametrize("rights", ["SUPERUSER", "IN ROLE records_owner"])
def test_no_service_starts_whose_programs_have_the_engines_rights_by_another_name(
    home: Home, database: Database, monkeypatch: pytest.MonkeyPatch, rights: str
) -> None:
    port = database.up().port
    with server_of(home).connect() as connection:
        connection.execute(b"CREATE ROLE records_owner LOGIN SUPERUSER PASSWORD 'engine'")
        connection.execute(f"CREATE ROLE thief LOGIN {rights} PASSWORD 'thief'".encode())
        connection.execute(b"CREATE ROLE honest LOGIN PASSWORD 'honest'")
    for role, refused in (("thief", True), ("honest", False)):
        monkeypatch.setenv("PENSTOCK_CATALOG_DATABASE_URL", f"postgresql://{role}:{role}@127.0.0.1:{port}/")
        named = external(database, monkeypatch, "records_owner", "engine", up=False)
        with pytest.raises(InvalidInput, match="does not start") if refused else contextlib.nullcontext():
            named.require_own_login()


def test_an_unreachable_server_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", f"postgresql://me:hunter2@127.0.0.1:{free_ports(1)[0]}/x")
    named = Database(Home(Path("/nonexistent")))
    with pytest.raises(CatalogError) as raised:
        named.up()
    assert "hunter2" not in str(raised.value)
    assert named.status().state == "unreachable"


def test_an_engine_kept_across_a_restart_goes_on_working(home: Home, database: Database) -> None:
    engine = database.engine()
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    database.down()
    with pytest.raises(OperationalError), engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    Database(home).up()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
