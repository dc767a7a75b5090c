"""What a lake is, and what the rest of Penstock may ask of its object store."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Credentials:
    """S3 credentials in memory. `repr` never shows them."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


@dataclass(frozen=True)
class Lake:
    """A bucket behind one or more S3 gateways.

    `credentials` says where the secret is, never the secret itself: `file:<profile>` in this home's own credentials
    file, `aws:<profile>` in the user's AWS files, or `environment`.
    """

    name: str
    endpoints: tuple[str, ...]
    bucket: str
    credentials: str
    kind: str = "external"
    region: str = "us-east-1"
    path_style: bool = True

    @property
    def root(self) -> str:
        return f"s3a://{self.bucket}"

    def key(self, text: str) -> str:
        """The key in `text`, which may be a whole URI of this lake. `InvalidInput` where it is one of another."""
        for scheme in ("s3a://", "s3://"):
            if text.startswith(scheme):
                bucket, _, key = text.removeprefix(scheme).partition("/")
                if bucket != self.bucket:
                    raise InvalidInput(
                        f"{text} is not in the lake “{self.name}”",
                        why=f"its bucket is “{self.bucket}”",
                        fix="name the lake: --lake NAME; penstock lake list shows them",
                    )
                return key
        return text.lstrip("/")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Lake:
        return Lake(**{**value, "endpoints": tuple(value["endpoints"])})


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
