"""The model of a lake: its address and stores, the contract of an object store, and the layout of keys in it."""

from __future__ import annotations

import abc
import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

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
    """How applications use a lake that is an HDFS: `namenode` is host and port of the NameNode's RPC.

    `short_circuit`: they are on the DataNodes' machine and read blocks as files, past the DataNode.
    """

    namenode: str
    replication: int
    short_circuit: bool


@dataclass(frozen=True)
class Sts:
    """Where a lake's store hands out temporary credentials, and for what.

    With a `role_arn` it is asked for that role (AssumeRole), limited to the lake's bucket; without, for a session of
    the lake's own user (GetSessionToken), which may do what the user may.
    """

    endpoint: str
    role_arn: str | None = None
    seconds: int = 3600
    """How long credentials are valid; those of a running application are renewed."""
    deletes_many: bool = False
    """Whether the store takes a DeleteObjects with them. Ceph's gateways (16.2) refuse it to every session that has a
    policy of its own, and take DeleteObject."""


@dataclass(frozen=True)
class CredentialScope:
    """Marks a lake that was made from keys in a request body: the place of the lake `original`, opened by these keys.

    Only `queue`, whose submission brought the keys, may use it. None is no queue: nobody may name it any more.
    """

    original: str
    queue: str | None


NO_CREDENTIALS = "none"
"""The reference of a lake that asks for none."""


@dataclass(frozen=True)
class Lake:
    """A bucket behind one or more S3 gateways; or, for comparison, an HDFS.

    `credentials` says where the secret is, never the secret itself: `file:<profile>` in this home's own credentials
    file, `aws:<profile>` in the user's AWS files, or `environment`.

    Of an HDFS (`hdfs` is set) `endpoints` are its WebHDFS, and `bucket` is the name service its addresses begin with: a
    logical name, so that tables are found also where the NameNode has moved to another port.
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
    """None: applications are given the lake's own credentials."""
    ca_file: str | None = None
    """Certificates in PEM of the authorities that vouch for the endpoints, beside the public ones."""
    directories_linger: bool = False
    """Whether its store goes on listing a directory for a while after the last object in it was deleted (SeaweedFS)."""
    scope: CredentialScope | None = None
    """None: an administrator registered it, and everybody may use it."""

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
        """The key in `text`, which may be a whole URI of this lake. `InvalidInput` where it is one of another."""
        for scheme in ("s3a://", "s3://", "hdfs://"):
            if text.startswith(scheme):
                bucket, _, key = text.removeprefix(scheme).partition("/")
                if bucket != self.bucket or (scheme == "hdfs://") == self.is_s3:
                    raise InvalidInput(
                        f"{text} is not in the lake “{self.name}”",
                        why=f"what is in it begins with {self.root}/",
                        fix="name the lake: --lake NAME; penstock lake list shows them",
                    )
                return key
        return text.lstrip("/")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Lake:
        """What `as_json` made, of this release or a later one: what that one says besides is left out."""
        known = {field.name: value[field.name] for field in fields(Lake) if field.name in value}
        hdfs, sts, scope = value.get("hdfs"), value.get("sts"), value.get("scope")
        made = {
            "endpoints": tuple(value["endpoints"]),
            "hdfs": HdfsClient(**hdfs) if hdfs else None,
            "sts": Sts(**sts) if sts else None,
            "scope": CredentialScope(scope["original"], scope["queue"]) if scope else None,
        }
        return Lake(**{**known, **made})


def require_s3(lake: Lake, what: str) -> None:
    """Raise `InvalidInput` where the lake has no S3; `what` is what needs it, as the beginning of a sentence."""
    if not lake.is_s3:
        raise InvalidInput(
            f"{what} is for lakes on S3, and “{lake.name}” is an HDFS",
            why="an HDFS has no requests, uploads or gateways of that kind: it is here to be compared with",
            fix="name another lake: --lake NAME; penstock lake list shows them",
        )


@dataclass(frozen=True)
class ObjectInfo:
    key: str
    size: int
    modified: datetime
    etag: str


class ObjectStore(abc.ABC):
    """A client of one lake's bucket for small jobs: artefacts, checks, listing by hand. Keys have no leading slash.

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
"""The event logs of all applications side by side: what Spark's history server reads is one directory."""


_ATTEMPTS_PLACE = "attempts/"


_EVENT_LOG = re.compile(r"(?:attempts/(\d+)/)?events/([^/]+)")


_KEPT_EVENT_LOG = re.compile(r"(?:(\d+)~)?([^/~]+)")


def artifact_prefix(application_id: str) -> str:
    return f"penstock/applications/{application_id}/"


def _event_logs(application_id: str) -> str:
    return f"{EVENT_LOGS}{application_id}~"


def artifact_key(application_id: str, name: str) -> str:
    """Where the artefact of that name is in the lake."""
    if log := _EVENT_LOG.fullmatch(name):
        attempt, own = log.groups()
        return _event_logs(application_id) + (f"{attempt}~{own}" if attempt else own)
    return artifact_prefix(application_id) + name


def artifact_name(application_id: str, kept: str) -> str:
    """The artefact's name: the inverse of `artifact_key`."""
    root = _event_logs(application_id)
    if kept.startswith(root) and (log := _KEPT_EVENT_LOG.fullmatch(kept.removeprefix(root))):
        attempt, own = log.groups()
        return f"{of_attempt(int(attempt)) if attempt else ''}events/{own}"
    return kept.removeprefix(artifact_prefix(application_id))


def of_attempt(number: int) -> str:
    """Where the artefacts of an attempt are that another one followed, below those of the application."""
    return f"{_ATTEMPTS_PLACE}{number}/"


def is_of_attempt(name: str) -> bool:
    return name.startswith(_ATTEMPTS_PLACE)


@contextlib.contextmanager
def atomic_download(target: Path) -> Iterator[Path]:
    """A place beside `target` to write to, which replaces it in the end; where anything fails, it is as it was.

    `MissingRequirement` where this machine cannot write there.
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
