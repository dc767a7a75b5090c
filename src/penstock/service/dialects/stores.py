"""What a body says of object stores, taken out of its settings: no key of a store stays among them. Pure.

Bodies name a store `<service>` in `cos://bucket.<service>/…` and configure it by `fs.cos.<service>.endpoint`,
`.access.key` and `.secret.key`; others use S3A's own settings, for all buckets or for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import InvalidInput
from penstock.lake.credentials import checked
from penstock.lake.model import Credentials

ANY = ""
"""Names the store of S3A's settings that name no bucket."""

_HADOOP = "spark.hadoop."
_PARTS = ("endpoint", "access.key", "secret.key", "session.token")
# How to sign in where the keys are: the lake knows it better.
_ACCESS = ("aws.credentials.provider", "path.style.access", "connection.ssl.enabled", "endpoint.region")
_LAKE_FIX = (
    "penstock lake add NAME --endpoint URL --bucket BUCKET keeps a store's keys in a private file; "
    "then leave them out of the body"
)


@dataclass(frozen=True)
class Store:
    endpoint: str | None = None
    keys: Credentials | None = None


def parted(settings: Mapping[str, str]) -> tuple[dict[str, Store], dict[str, str]]:
    """The stores by their names, and the settings that are left, which configure none.

    Raises `InvalidInput` where a key has no other half, or is of a kind that opens no S3 store.
    """
    said: dict[str, dict[str, str]] = {}
    left: dict[str, str] = {}
    for key, value in settings.items():
        name, part = _about(key)
        if part in _PARTS:
            said.setdefault(name, {})[part] = value
        elif part is None:
            left[key] = value
    stores = {name: _store(name, parts) for name, parts in said.items()}
    if any(store.keys for store in stores.values()):
        left = {key: value for key, value in left.items() if not key.endswith(_ACCESS) or ".fs.s3a." not in key}
    return stores, left


def _about(key: str) -> tuple[str, str | None]:
    """The store's name and what of it is said; None where it is no store's setting."""
    bare = key.removeprefix(_HADOOP)
    if bare.startswith("fs.stocator."):
        return ANY, ""
    for prefix in ("fs.cos.", "fs.s3a.bucket."):
        if bare.startswith(prefix):
            return _named(key, bare.removeprefix(prefix), keep_others=prefix != "fs.cos.")
    if bare.startswith("fs.s3a.") and bare.removeprefix("fs.s3a.") in _PARTS:
        return ANY, bare.removeprefix("fs.s3a.")
    return ANY, None


def _named(key: str, rest: str, *, keep_others: bool) -> tuple[str, str | None]:
    for part in _PARTS:
        if rest.endswith(f".{part}"):
            return rest.removesuffix(f".{part}"), part
    if rest.endswith(("iam.api.key", "api.key", "iam.token", "iam.service.id")):
        raise InvalidInput(
            f"{key} opens no store here", why="stores are opened by an access key and a secret key", fix=_LAKE_FIX
        )
    return ANY, None if keep_others else ""


def _store(name: str, parts: Mapping[str, str]) -> Store:
    access, secret = parts.get("access.key"), parts.get("secret.key")
    if not access and not secret:
        return Store(parts.get("endpoint"))
    if not access or not secret:
        missing = "secret.key" if access else "access.key"
        raise InvalidInput(
            f"The store “{name or 's3a'}” has only half of its keys", why=f"its {missing} is missing", fix=_LAKE_FIX
        )
    return Store(parts.get("endpoint"), checked(Credentials(access, secret, parts.get("session.token") or None)))
