"""The model of a lake: its endpoints and credentials, the contract of an object store, and the layout of its keys."""

from __future__ import annotations

import abc
import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from penstock.codec import JsonRecord
from penstock.errors import InvalidInput, MissingRequirement


@dataclass(frozen=True)
class Credentials:
    """S3 credentials in memory. `repr` never shows them."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


@dataclass(frozen=True)
class HdfsClient:
    """The applications' settings for an HDFS lake. `namenode` is the host and port of the NameNode's RPC.

    With `short_circuit`, applications run on the DataNodes' machine and read blocks as files, without the DataNode.
    """

    namenode: str
    replication: int
    short_circuit: bool


@dataclass(frozen=True)
class Sts:
    """The configuration of a lake's temporary credentials.

    With a `role_arn`, Penstock assumes that role (AssumeRole), limited to the lake's bucket; without one, it requests a
    session of the lake's own user (GetSessionToken), which has all rights of the user.
    """

    endpoint: str
    role_arn: str | None = None
    seconds: int = 3600
    """The credentials' validity; those of a running application are renewed."""
    deletes_many: bool = False
    """True if the store accepts DeleteObjects with them. Ceph's gateways (16.2) refuse it to every session with a
    policy of its own, and accept DeleteObject."""


@dataclass(frozen=True)
class CredentialScope:
    """Marks a lake that was made from keys in a request body: the bucket of the lake `original` with these keys.

    Only `queue`, whose submission brought the keys, may use it. With None, no queue may name it any more.
    """

    original: str
    queue: str | None


NO_CREDENTIALS = "none"
"""The credentials reference of a lake that needs none."""


@dataclass(frozen=True)
class Lake(JsonRecord):
    """A bucket behind one or more S3 gateways or, for comparison, an HDFS.

    `credentials` is a reference, never the secret itself: `file:<profile>` in this home's own credentials file,
    `aws:<profile>` in the user's AWS files, or `environment`.

    For an HDFS, `hdfs` is set, `endpoints` are those of WebHDFS, and `bucket` is the name service in its addresses: a
    logical name, so that tables are still found when the NameNode moves to another port.
    """

    name: str
    endpoints: tuple[str, ...]
    bucket: str
    credentials: str
    kind: str = "external"
    region: str = "us-east-1"
    path_style: bool = True
    hdfs: HdfsClient | None = None
    sts: Sts | None = None
    """Temporary credentials; None gives applications the lake's own."""
    ca_file: str | None = None
    """A PEM file with the endpoints' certificate authorities, in addition to the public ones."""
    directories_linger: bool = False
    """True if the store still lists a directory for a while after its last object was deleted (SeaweedFS)."""
    scope: CredentialScope | None = None
    """The scope of keys from a request body; None for a lake that an administrator registered for everybody."""

    @property
    def is_s3(self) -> bool:
        return self.hdfs is None

    @property
    def authorities(self) -> Path | None:
        return None if self.ca_file is None else Path(self.ca_file)

    @property
    def root(self) -> str:
        return f"{'s3a' if self.is_s3 else 'hdfs'}://{self.bucket}"

    def key(self, text: str) -> str:
        """The key in `text`, which may be a URI of this lake. Raises `InvalidInput` for a URI of another lake."""
        for scheme in ("s3a://", "s3://", "hdfs://"):
            if text.startswith(scheme):
                bucket, _, key = text.removeprefix(scheme).partition("/")
                if bucket != self.bucket or (scheme == "hdfs://") == self.is_s3:
                    raise InvalidInput(
                        f"{text} is not in the lake “{self.name}”",
                        why=f"its addresses begin with {self.root}/",
                        fix="name the lake: --lake NAME; penstock lake list shows them",
                    )
                return key
        return text.lstrip("/")


def require_s3(lake: Lake, feature: str) -> None:
    """Raise `InvalidInput` if the lake is not on S3; the message begins with `feature`, which needs it."""
    if not lake.is_s3:
        raise InvalidInput(
            f"{feature} is for lakes on S3, and “{lake.name}” is an HDFS",
            why="an HDFS has no S3 requests, uploads or gateways; Penstock supports it for comparison",
            fix="name another lake: --lake NAME; penstock lake list shows them",
        )


@dataclass(frozen=True)
class ObjectInfo:
    key: str
    size: int
    modified: datetime
    etag: str


class ObjectStore(abc.ABC):
    """A client of one lake's bucket for small jobs: artifacts, checks, listing by hand. Keys have no leading slash.

    Every method raises `LakeError` (unreachable, refused, missing bucket) or `NotFound` (missing key).
    """

    @abc.abstractmethod
    def put(self, key: str, content: bytes | Path) -> None: ...

    @abc.abstractmethod
    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes: ...

    @abc.abstractmethod
    def download(self, key: str, target: Path) -> None: ...

    @abc.abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]: ...

    @abc.abstractmethod
    def delete(self, *keys: str) -> None: ...


EVENT_LOGS = "penstock/events/"
"""The event logs of all applications side by side, because Spark's history server reads a single directory."""


_ATTEMPTS = "attempts/"


_EVENT_LOG = re.compile(r"(?:attempts/(\d+)/)?events/([^/]+)")


_STORED_EVENT_LOG = re.compile(r"(?:(\d+)~)?([^/~]+)")


def artifact_prefix(application_id: str) -> str:
    return f"penstock/applications/{application_id}/"


def _event_logs(application_id: str) -> str:
    return f"{EVENT_LOGS}{application_id}~"


def artifact_key(application_id: str, name: str) -> str:
    """The key of an application's artifact in the lake."""
    if log := _EVENT_LOG.fullmatch(name):
        attempt, own = log.groups()
        return _event_logs(application_id) + (f"{attempt}~{own}" if attempt else own)
    return artifact_prefix(application_id) + name


def artifact_name(application_id: str, key: str) -> str:
    """The artifact's name: the inverse of `artifact_key`."""
    root = _event_logs(application_id)
    if key.startswith(root) and (log := _STORED_EVENT_LOG.fullmatch(key.removeprefix(root))):
        attempt, own = log.groups()
        return f"{attempt_prefix(int(attempt)) if attempt else ''}events/{own}"
    return key.removeprefix(artifact_prefix(application_id))


def attempt_prefix(number: int) -> str:
    """The prefix for the artifacts of an attempt that was retried, below the application's artifacts."""
    return f"{_ATTEMPTS}{number}/"


def belongs_to_attempt(name: str) -> bool:
    return name.startswith(_ATTEMPTS)


@contextlib.contextmanager
def atomic_download(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`, which replaces it at the end; on an error `target` stays unchanged.

    Raises `MissingRequirement` if this machine cannot write there.
    """
    partial = target.with_name(f".{target.name}.{threading.get_native_id()}.part")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise MissingRequirement(
            f"{target} cannot be written",
            why=error.strerror or str(error),
            fix="choose another place, or free space",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
