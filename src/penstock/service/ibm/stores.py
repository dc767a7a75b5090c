"""The lake and the credentials of a body: store settings, addresses, and keys that came with the request.

Bodies name a store `<service>` in `cos://bucket.<service>/…` and configure it by `fs.cos.<service>.endpoint`,
`.access.key` and `.secret.key`; others use S3A's own settings, for all buckets or for one. A store's keys are removed
from the application's settings. `cos://bucket.service/path` becomes `s3a://bucket/path`, and a path below a volume's
mount becomes one below `volumes/<name>/` of the lake.
"""

from __future__ import annotations

import hmac
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import InvalidInput, LakeError
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.checks.verdicts import require_reachable
from penstock.lake.credentials import validate_credentials
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.ibm.bodies import ParsedRequest, Volume

ANY = ""
"""The name of the store that S3A's settings without a bucket configure."""

_HADOOP = "spark.hadoop."
_PARTS = ("endpoint", "access.key", "secret.key", "session.token")
# The lake's own configuration replaces these where the body has keys.
_ACCESS = ("aws.credentials.provider", "path.style.access", "connection.ssl.enabled", "endpoint.region")
_LAKE_FIX = (
    "penstock lake add NAME --endpoint URL --bucket BUCKET keeps a store's keys in a private file; "
    "then leave them out of the body"
)


@dataclass(frozen=True)
class Store:
    endpoint: str | None = None
    keys: Credentials | None = None


def split_stores(settings: Mapping[str, str]) -> tuple[dict[str, Store], dict[str, str]]:
    """Return the stores by their names, and the settings that do not configure a store.

    Raises `InvalidInput` for half a pair of keys, and for kinds of keys that do not open an S3 store.
    """
    parts_of: dict[str, dict[str, str]] = {}
    others: dict[str, str] = {}
    for key, value in settings.items():
        name, part = _store_and_part(key)
        if part in _PARTS:
            parts_of.setdefault(name, {})[part] = value
        elif part is None:
            others[key] = value
    stores = {name: _store(name, parts) for name, parts in parts_of.items()}
    if any(store.keys for store in stores.values()):
        others = {key: value for key, value in others.items() if not key.endswith(_ACCESS) or ".fs.s3a." not in key}
    return stores, others


def _store_and_part(key: str) -> tuple[str, str | None]:
    """Return the store's name, and the part of its configuration that the key sets; None for other settings."""
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
        raise InvalidInput(f"{key} is not supported", why="stores need an access key and a secret key", fix=_LAKE_FIX)
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
    return Store(
        parts.get("endpoint"), validate_credentials(Credentials(access, secret, parts.get("session.token") or None))
    )


def resolve_credentials(home: Home, lake: Lake, keys: Credentials | None, *, queue: str) -> Lake:
    """Return the lake itself for its own keys or none, else a lake at the same place with these keys.

    The new lake is visible to that queue alone. Only keys that open the bucket are stored, in the credentials file.
    Raises `InvalidInput` for keys that do not open the bucket and for other keys of the embedded lake, which has one
    pair; `LakeError` where the store does not answer.
    """
    if keys is None:
        return lake
    lakes = Lakes(home)
    if lake.kind == "embedded":
        # Before its first start it has no keys to compare with.
        if lake in lakes.all() and _same(keys, lakes.credentials_of(lake)):
            return lake
        raise InvalidInput(
            f"The keys are not those of the lake “{lake.name}”",
            why="it has one pair of its own, which every application gets",
            fix="omit the keys",
        )
    own = lakes.credentials_of(lake)
    if _same(keys, own):
        return lake
    try:
        require_reachable(lake, keys)
    except LakeError as refusal:
        require_reachable(lake, own)  # if these fail, too, the store is the problem
        raise InvalidInput(
            f"The keys do not open the lake “{lake.name}”",
            why=refusal.why,
            fix="give keys that may read and write its bucket, or omit them: the lake has its own",
        ) from None
    return lakes.add(registry.credential_scoped(lake, keys, queue), keys)


def _same(one: Credentials, other: Credentials) -> bool:
    return all(
        hmac.compare_digest((mine or "").encode(), (theirs or "").encode())
        for mine, theirs in (
            (one.access_key, other.access_key),
            (one.secret_key, other.secret_key),
            (one.session_token, other.session_token),
        )
    )


_COS = re.compile(r"cos://(?P<bucket>[^\s/,;'\"]+)\.(?P<service>[^\s/.,;'\"]+)(?=[/\s,;'\"]|$)")
_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

Address = Callable[[str], str]


@dataclass(frozen=True)
class CosAddress:
    bucket: str
    service: str


def cos_addresses(submission: ParsedRequest) -> Iterator[CosAddress]:
    """Yield the addresses in a request, the application's own first."""
    for text in (
        submission.application,
        *submission.jars,
        *submission.files,
        *submission.settings.values(),
        *submission.arguments,
    ):
        for found in _COS.finditer(text):
            yield CosAddress(found["bucket"], found["service"])


def rewrite_cos_addresses(text: str) -> str:
    """Return the text with its `cos://` addresses rewritten."""
    return _COS.sub(lambda found: f"s3a://{found['bucket']}", text)


def map_mounts(volumes: Sequence[Volume], root: str) -> Address:
    """Return a function that maps paths below a mount to addresses below `root`, the lake's address.

    It leaves other paths unchanged. Raises `InvalidInput` for a volume whose name or path leads out of it.
    """
    mounts = sorted((_mount(volume, root) for volume in volumes), key=lambda mount: len(mount[0]), reverse=True)

    def address(path: str) -> str:
        for mount_path, target in mounts:
            if path == mount_path or path.startswith(f"{mount_path}/"):
                rest = posixpath.normpath(path.removeprefix(mount_path) or "/").lstrip("/")
                return f"{target}/{rest}" if rest else target
        return path

    return address


def application_address(path: str) -> str:
    """Return the path with the scheme `s3a` for S3."""
    for prefix in ("s3://", "s3n://"):
        if path.startswith(prefix):
            return f"s3a://{path.removeprefix(prefix)}"
    return path


def _mount(volume: Volume, root: str) -> tuple[str, str]:
    # On premises a volume is written `namespace::name`.
    name = volume.name.rpartition("::")[2]
    if not _VOLUME_NAME.fullmatch(name):
        raise InvalidInput(
            "The name of a volume is invalid",
            why="it must have letters, digits, '.', '_' and '-', and begin with a letter or digit",
            fix="name a directory below volumes/ of the lake",
        )
    mount_path = posixpath.normpath(volume.mount_path)
    if not mount_path.startswith("/") or mount_path in ("/", "//"):
        raise InvalidInput(
            f"The volume “{name}” cannot be mounted there", why="it needs an absolute path", fix='"mount_path": "/data"'
        )
    parts = [part for part in volume.source.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidInput(
            f"The path of the volume “{name}” leads out of it", why="it contains '..'", fix="name a directory inside it"
        )
    return mount_path, "/".join([root, "volumes", name, *parts])


@dataclass(frozen=True)
class LakeChoice:
    """The lake of a body, and the keys that came with it, which are neither compared nor stored yet."""

    lake: Lake
    keys: Credentials | None = None


def choose_lake(
    stores: Mapping[str, Store], addresses: Sequence[CosAddress], lakes: Sequence[Lake], home: Lake
) -> LakeChoice:
    """Return the lake that a body's stores and addresses mean.

    `lakes` are the known lakes, `home` the instance's own or the default one. Only registered stores are opened:
    otherwise a body could have the engine call any address. Raises `InvalidInput` for another store, or for more than
    one.
    """
    buckets: dict[str, str] = {}
    for address in addresses:
        buckets.setdefault(address.service, address.bucket)
    # Services of addresses come first, that of the application's own address before all: it decides the lake.
    found = [
        _lake_of(name, buckets.get(name), stores.get(name, Store()), lakes, home)
        for name in dict.fromkeys([*buckets, *stores])
    ]
    keys = {store.keys for store in stores.values() if store.keys}
    if len(keys) > 1 or len({lake.endpoints for lake in found}) > 1:
        raise InvalidInput(
            "The body names more than one store",
            why="an application reads one store, with one pair of keys",
            fix="copy its data into one lake, or run one application for each",
        )
    return LakeChoice(found[0] if found else home, next(iter(keys), None))


def _lake_of(name: str, bucket: str | None, store: Store, lakes: Sequence[Lake], home: Lake) -> Lake:
    if store.endpoint is None:
        return min(
            (lake for lake in lakes if _fit(lake, name, bucket) < _ANY), key=_order(name, bucket, home), default=home
        )
    host = _host(store.endpoint)
    known = [lake for lake in lakes if host in map(_host, lake.endpoints)]
    if not known:
        raise InvalidInput(
            f"The store “{name or 's3a'}” is unknown",
            why=f"no lake has the endpoint {host}",
            fix="ask an administrator to add it: "
            f"penstock lake add {name or 'NAME'} --endpoint https://{host} --bucket {bucket or 'BUCKET'}",
        )
    return min(known, key=_order(name, bucket, home))


_BUCKET, _NAME, _ANY = range(3)


def _fit(lake: Lake, name: str, bucket: str | None) -> int:
    if lake.bucket == bucket:
        return _BUCKET
    return _NAME if name in (lake.bucket, lake.name) else _ANY


def _order(name: str, bucket: str | None, home: Lake) -> Callable[[Lake], tuple[int, bool, str]]:
    """Return a sort key that puts the best fit first, then the home, then the first name.

    A lake with other keys is named after its original, so it comes after it.
    """
    return lambda lake: (_fit(lake, name, bucket), lake.name != home.name, lake.name)


def _host(endpoint: str) -> str:
    """Return host and port of an endpoint with or without a scheme, without a password that it may contain."""
    return endpoint.strip().lower().rpartition("://")[2].rpartition("@")[2].rstrip("/")
