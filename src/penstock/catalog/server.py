"""The embedded PostgreSQL server: the binaries of the `pgserver` wheel, run on one directory, over loopback TCP only.

`database.py` decides when to call this module, and holds the lock that serializes the calls of one home. The wheel's
own Python control is not used: it makes parent directories readable and communicates through sockets in shared places.
PostgreSQL refuses to run as root, so for root it runs under another account, with its programs where that account can
read them.

    <directory>/data      the cluster (PGDATA); created under another name and renamed when complete
    <directory>/password  the superuser's password, readable by its owner only
    <directory>/port      the server's port; kept across restarts while it is free
    <directory>/postgres.log
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import Connection

from penstock.catalog.connection import LIVENESS, connect
from penstock.errors import CatalogError, MissingRequirement, PenstockError
from penstock.home import write_atomically
from penstock.processes import (
    ProcessId,
    await_free_ports,
    end_process,
    free_ports,
    process_in,
    processes_in,
    start_daemon,
    tail,
)

# An account of its own, not `nobody`, whose files are open to every other service that runs as `nobody`.
ACCOUNT = "penstock"

_SHARED = Path("/var/lib/penstock")


@dataclass(frozen=True)
class ServerAccount:
    """The account of the server and the directory of `postgres` and `initdb`. Both ids are None for the caller's."""

    programs: Path
    uid: int | None = None
    gid: int | None = None

    @staticmethod
    def caller() -> ServerAccount:
        """Return the caller's account, which suffices to query and to stop a server."""
        return ServerAccount(_site_packages() / _PROGRAMS)

    @staticmethod
    def choose() -> ServerAccount:
        """Return the caller's account; for root the system account `penstock`, created if missing.

        Raises `MissingRequirement`.
        """
        site = _site_packages()
        if os.geteuid() != 0:
            return ServerAccount(site / _PROGRAMS)
        account = _system_account()
        if not is_executable_by_all(site / _PROGRAMS / "postgres"):
            site = _shared_copy(site)
        return ServerAccount(site / _PROGRAMS, account.pw_uid, account.pw_gid)

    def own(self, path: Path | int) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def is_executable_by_all(path: Path) -> bool:
    """Return whether any account may execute `path` and traverse every directory above it."""
    path = path.resolve()
    return all(step.stat().st_mode & 0o001 for step in (path, *path.parents))


_PROGRAMS = Path("pgserver/pginstall/bin")


def _site_packages() -> Path:
    # The package is located, not imported: its import creates directories and takes file locks.
    spec = find_spec("pgserver")
    if spec is None or spec.origin is None:
        raise MissingRequirement(
            "The embedded PostgreSQL is not installed",
            why="the Python package pgserver is missing",
            fix="pip install penstock again, or name a server of your own with PENSTOCK_DATABASE_URL",
        )
    return Path(spec.origin).parent.parent


def _system_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        pass
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    try:
        made = subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", ACCOUNT], capture_output=True, text=True, check=False
        )
        detail = made.stderr.strip()
    except OSError as error:
        detail = str(error)
    try:  # whatever the result of useradd: another process may have been faster
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise MissingRequirement(
            "The embedded PostgreSQL cannot run as root",
            why=f"it needs the account '{ACCOUNT}', which cannot be created: {detail}",
            fix=f"create it (useradd --system {ACCOUNT}), or run penstock as an ordinary user",
        ) from None


def _shared_copy(site: Path) -> Path:
    """Copy the programs of an installation below a private directory such as /root to a place that all can read.

    The copy belongs to root, and the account that runs it cannot write to it.
    """
    target = _SHARED / f"postgresql-{version('pgserver')}"
    if target.exists():
        return target
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.parent.chmod(0o755)
        for part in (_PROGRAMS, Path("pgserver/pginstall/lib/postgresql"), Path("pgserver/pginstall/share")):
            shutil.copytree(site / part, fresh / part)
        shutil.copytree(site / "pgserver.libs", fresh / "pgserver.libs")
        for made in (fresh, *(path for path in fresh.rglob("*") if not path.is_symlink())):
            made.chmod(made.stat().st_mode & 0o755 | (0o055 if made.is_dir() else 0o044))
        fresh.rename(target)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if target.exists():  # another process created it meanwhile
            return target
        raise MissingRequirement(
            f"PostgreSQL's programs cannot be copied to {target}",
            why=f"the account '{ACCOUNT}' cannot reach them where they are ({site}), and copying failed: {error}",
            fix=f"free space below {_SHARED.parent}, or install penstock outside private directories",
        ) from error
    return target


HOST = "127.0.0.1"
SUPERUSER = "penstock"

# The programs reach the directory through their inherited working directory, so the server's account needs no rights on
# its ancestors: a home under /root stays private.
_HERE = "/proc/self/cwd"

_UNFINISHED = "data.new-"
"""The prefix of a directory in which a cluster is being created."""

_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "cluster_name": "penstock",
    # Each Spark driver holds one or two connections while it runs, an engine process up to five.
    "max_connections": "300",
    # Far more than the metastore of a thousand tables with ten thousand partitions each needs.
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    # The server has no replicas: this saves writes and processes.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    # Queries are short look-ups by key: the start of a parallel worker or a compiler costs more than the query.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    # Also for clients that do not set it: applications, and engines of earlier releases.
    **LIVENESS.server(),
    # A failed statement may contain a password.
    "log_min_error_statement": "panic",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class PostgresServer:
    """The server on one directory. The caller serializes calls across processes (`Home.lock`)."""

    def __init__(self, directory: Path, account: ServerAccount) -> None:
        self._directory = directory
        self._account = account
        self._data = directory / "data"
        self._password_file = directory / "password"
        self._port_file = directory / "port"
        self.log = directory / "postgres.log"

    @property
    def port(self) -> int | None:
        """The recorded port; None where the record is missing or unreadable: another port can be chosen."""
        try:
            return int(self._port_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @property
    def password(self) -> str | None:
        try:
            return self._password_file.read_text(encoding="ascii").strip() or None
        except (OSError, ValueError):
            return None

    def connect(self, dbname: str = "postgres") -> Connection:
        """Open a connection in autocommit mode.

        Raises `psycopg.OperationalError` where the server does not answer or is another one: with SCRAM, both sides
        prove that they know the password.
        """
        return connect(
            host=HOST,
            port=self.port or 1,
            user=SUPERUSER,
            password=self.password or "",
            dbname=dbname,
            connect_timeout=5,
        )

    def running(self) -> ProcessId | None:
        """Return the process of this directory's server, whatever its port and whichever process started it."""
        try:
            pid = int((self._data / "postmaster.pid").read_text(encoding="ascii", errors="replace").split("\n")[0])
        except (OSError, ValueError):
            return None
        return process_in(self._data, pid)

    def died(self) -> bool:
        """Return whether the server crashed or was killed: a regular shutdown removes its pid file."""
        return (self._data / "postmaster.pid").exists() and self.running() is None

    def start(self) -> None:
        """Create the cluster if there is none, and start the server; do nothing where it already answers.

        Raises `MissingRequirement` (disk full, no account, no port) or `CatalogError` with the log's last lines.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._data.exists():
            self._initialize()
        if server := self.running():
            # After an interrupted start, the server may still be recovering; otherwise its records are lost or wrong.
            if self._record_actual_port() and self.password and self._answers(server, seconds=30):
                return
            self.stop()
        if not self.password:
            self._renew_password()
        for _ in range(3):
            self._clear_foreign_pid_file()
            port = self.port
            if port is None or not await_free_ports([port]):
                port = free_ports(1)[0]
                write_atomically(self._port_file, str(port))
            # Crash recovery may replay up to max_wal_size, which takes time on a slow disk.
            server = self._spawn(port)
            if self._answers(server, seconds=120):
                return
            if server.alive():  # it runs, but rejects the recorded password
                self.stop()
                self._renew_password()
        raise self.failure("The catalog's database does not start")

    def stop(self) -> bool:
        """Shut the server down and disconnect its clients; return False where none ran."""
        server = self.running()
        if server is None:
            return False
        # INT is PostgreSQL's fast shutdown; TERM would wait for every client to disconnect.
        end_process(server, grace_seconds=60, ask=signal.SIGINT)
        return True

    def _initialize(self) -> None:
        self._sweep_unfinished()
        fresh = self._directory / f"{_UNFINISHED}{secrets.token_hex(4)}"
        password = secrets.token_urlsafe(24)
        write_atomically(self._password_file, password)
        fresh.mkdir(mode=0o700)
        self._account.own(fresh)
        result = self._run(
            "initdb",
            f"--pgdata={_HERE}",
            f"--username={SUPERUSER}",
            "--auth=scram-sha-256",
            "--pwfile=/dev/stdin",
            "--encoding=UTF8",
            "--locale=C",  # the same order of names on every machine
            "--data-checksums",
            "--no-instructions",
            directory=fresh,
            given=password.encode(),
        )
        if result.returncode != 0:
            self.log.write_bytes(result.stdout)
            shutil.rmtree(fresh, ignore_errors=True)
            raise self.failure("The catalog's database cannot be created")
        # A kill before this line leaves an incomplete directory, which the next start removes.
        fresh.rename(self._data)

    def _sweep_unfinished(self) -> None:
        """Remove the leftovers of killed starts, and end an initdb that may still be writing to them.

        initdb outlives its killed parent. The caller holds the lock, so no other process is at work here. The next
        attempt uses another name, so that an orphan that was missed can do no harm.
        """
        for left in self._directory.glob(f"{_UNFINISHED}*"):
            while orphans := processes_in(left):
                for orphan in orphans:
                    end_process(orphan, grace_seconds=0)
            shutil.rmtree(left, ignore_errors=True)

    def _spawn(self, port: int) -> ProcessId:
        with contextlib.suppress(FileNotFoundError):
            self.log.replace(self.log.with_suffix(".log.1"))
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        return start_daemon(
            [str(self._account.programs / "postgres"), "-D", _HERE, "-p", str(port), *options],
            log=self.log,
            environment=_ENVIRONMENT,
            directory=self._data,
            user=self._account.uid,
        )

    def _answers(self, server: ProcessId, *, seconds: float) -> bool:
        """Wait until the server accepts connections.

        Returns False where it has ended, rejects the password, or does not answer in time.
        """
        deadline = time.monotonic() + seconds
        while (refusal := self._refusal()) is not None:
            if not server.alive() or "authentication failed" in refusal or time.monotonic() > deadline:
                return False
            time.sleep(0.03)
        return True

    def _refusal(self) -> str | None:
        try:
            self.connect().close()
        except psycopg.OperationalError as error:
            return str(error)
        return None

    def _record_actual_port(self) -> bool:
        lines = (self._data / "postmaster.pid").read_text(encoding="ascii", errors="replace").split("\n")
        if len(lines) < 4 or not lines[3].isdigit():
            return False
        write_atomically(self._port_file, lines[3])
        return True

    def _clear_foreign_pid_file(self) -> None:
        """Remove the pid file of a dead server, which stops PostgreSQL only where another process has its id now.

        The file is removed only while no process uses the directory: it also guards against children of a killed
        server that have not ended yet.
        """
        if not processes_in(self._data):
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _renew_password(self) -> None:
        """Replace a lost password, in single-user mode, which does not need one."""
        password = secrets.token_urlsafe(24)
        statement = f"ALTER ROLE {SUPERUSER} PASSWORD '{password}'\n".encode()
        result = self._run("postgres", "--single", "-D", _HERE, "postgres", directory=self._data, given=statement)
        if result.returncode != 0 or b"ERROR" in result.stdout:
            self.log.write_bytes(result.stdout)
            raise self.failure("The lost password of the catalog's database cannot be replaced")
        write_atomically(self._password_file, password)

    def _run(self, program: str, *arguments: str, directory: Path, given: bytes) -> subprocess.CompletedProcess[bytes]:
        # Secrets are passed in memory, not in argv or on disk; as a file, since the other account may not open a pipe.
        with os.fdopen(os.memfd_create("given"), "w+b") as standard_input:
            standard_input.write(given)
            standard_input.seek(0)
            self._account.own(standard_input.fileno())
            return subprocess.run(
                [str(self._account.programs / program), *arguments],
                stdin=standard_input,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=_ENVIRONMENT,
                user=self._account.uid,
                group=self._account.gid,
                extra_groups=None if self._account.uid is None else [],
                check=False,
            )

    def failure(self, problem: str) -> PenstockError:
        """Return an error whose reason comes from the server's log, or from a full disk."""
        output = tail(self.log, _LOG_LINES)
        # On a full disk the log itself may have stayed empty.
        if "No space left on device" in output or shutil.disk_usage(self._directory).free < _SMALLEST_DISK:
            return disk_full_error(problem, self._directory)
        if "could not bind" in output:
            return MissingRequirement(
                problem, why=f"every port tried was taken:\n{output}", fix="run the command again"
            )
        return CatalogError(
            problem,
            why=f"the last lines of {self.log}:\n{output}",
            fix=f"if the data is damaged, restore {self._data} from a backup, or move it away to start with an empty "
            f"catalog: mv '{self._data}' '{self._data}.damaged'; tables in the lake can be registered again",
        )


# A new cluster takes 55 MB, and the server always needs room for a WAL segment of 16 MB.
_SMALLEST_DISK = 16 * 1024 * 1024
_LOG_LINES = 8

# Nothing of the caller's environment (PGDATA, PGOPTIONS, LD_PRELOAD, a foreign locale) may change the server.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


def disk_full_error(problem: str, directory: Path) -> MissingRequirement:
    return MissingRequirement(
        problem,
        why=f"the disk of {directory} is full",
        fix="free 200 MB there, or choose another state directory with PENSTOCK_HOME=/path",
    )
