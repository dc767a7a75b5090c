"""The lake and the credentials of a body: store settings, addresses, and keys that came with the request.

Bodies name a store `<service>` in `cos://bucket.<service>/…` and configure it by `fs.cos.<service>.endpoint`,
`.access.key` and `.secret.key`; others use S3A's own settings, for all buckets or for one. No key of a store stays
among an application's settings. `cos://bucket.service/path` becomes `s3a://bucket/path`, and a path below a volume's
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
from penstock.lake.check import require_reachable
from penstock.lake.credentials import checked
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.service.ibm.bodies import Asked, Volume

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


def lake_opened_by(home: Home, lake: Lake, keys: Credentials | None, *, queue: str) -> Lake:
    """The lake itself where the keys are its own or none came; else one at the same place that refers to these keys,
    and is that queue's alone.

    They are tried before they are kept, in the private credentials file, so only keys that open the bucket stay there.
    Raises `InvalidInput` where they do not, also for other keys of the embedded lake, which has one pair; `LakeError`
    where the store does not answer.
    """
    if keys is None:
        return lake
    lakes = Lakes(home)
    if lake.kind == "embedded":
        # Before its first start it has none, which nobody's can be.
        if lake in lakes.all() and _same(keys, lakes.credentials_of(lake)):
            return lake
        raise InvalidInput(
            f"The keys are not those of the lake “{lake.name}”",
            why="it has one pair of its own, which applications are given without asking",
            fix="leave the keys out",
        )
    own = lakes.credentials_of(lake)
    if _same(keys, own):
        return lake
    try:
        require_reachable(lake, keys)
    except LakeError as refusal:
        require_reachable(lake, own)  # where these fail too, it is not the keys
        raise InvalidInput(
            f"The keys do not open the lake “{lake.name}”",
            why=refusal.why,
            fix="give keys that may read and write its bucket, or none: it has its own",
        ) from None
    return lakes.add(registry.scoped(lake, keys, queue), keys)


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


def cos_addresses(asked: Asked) -> Iterator[CosAddress]:
    """In the order of importance: the application's own first."""
    for text in (asked.application, *asked.jars, *asked.files, *asked.settings.values(), *asked.arguments):
        for found in _COS.finditer(text):
            yield CosAddress(found["bucket"], found["service"])


def translated(text: str) -> str:
    """The text with every `cos://` address in it rewritten."""
    return _COS.sub(lambda found: f"s3a://{found['bucket']}", text)


def mounted(volumes: Sequence[Volume], root: str) -> Address:
    """A function that finds a path below a mount again below `root`, the lake's address; others stay as they are.

    Raises `InvalidInput` for a volume whose name or paths lead out of it.
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
    """As Spark here can load it: S3 has one scheme."""
    for prefix in ("s3://", "s3n://"):
        if path.startswith(prefix):
            return f"s3a://{path.removeprefix(prefix)}"
    return path


def _mount(volume: Volume, root: str) -> tuple[str, str]:
    # On premises a volume is written `namespace::name`.
    name = volume.name.rpartition("::")[2]
    if not _VOLUME_NAME.fullmatch(name):
        raise InvalidInput(
            "A volume's name cannot be used",
            why="a name has letters, digits, '.', '_' and '-', and begins with a letter or digit",
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
            f"The volume “{name}” has a path that leads out of it", why="it holds '..'", fix="name what is inside it"
        )
    return mount_path, "/".join([root, "volumes", name, *parts])


@dataclass(frozen=True)
class Choice:
    """`keys` came with the body: to be compared with the lake's own, or kept where secrets are, before it is used."""

    lake: Lake
    keys: Credentials | None = None


def choose(stores: Mapping[str, Store], addresses: Sequence[CosAddress], lakes: Sequence[Lake], home: Lake) -> Choice:
    """`lakes` are those known here, `home` the instance's own or the default one.

    Only stores an administrator has registered are opened: a body could otherwise have the engine call any address.
    Raises `InvalidInput` for another store, or for more than one.
    """
    buckets: dict[str, str] = {}
    for address in addresses:
        buckets.setdefault(address.service, address.bucket)
    # The services of addresses first, the application's own before all: its lake is the application's.
    found = [
        _lake_of(name, buckets.get(name), stores.get(name, Store()), lakes, home)
        for name in dict.fromkeys([*buckets, *stores])
    ]
    keys = {store.keys for store in stores.values() if store.keys}
    if len(keys) > 1 or len({lake.endpoints for lake in found}) > 1:
        raise InvalidInput(
            "The body names more than one store",
            why="an application reads one store, with one pair of keys",
            fix="copy what it needs into one lake, or run one application for each",
        )
    return Choice(found[0] if found else home, next(iter(keys), None))


def _lake_of(name: str, bucket: str | None, store: Store, lakes: Sequence[Lake], home: Lake) -> Lake:
    if store.endpoint is None:
        return min(
            (lake for lake in lakes if _fit(lake, name, bucket) < _ANY), key=_order(name, bucket, home), default=home
        )
    host = _host(store.endpoint)
    known = [lake for lake in lakes if host in map(_host, lake.endpoints)]
    if not known:
        raise InvalidInput(
            f"The store “{name or 's3a'}” is not known here",
            why=f"no lake has the endpoint {host}",
            fix="have an administrator add it: "
            f"penstock lake add {name or 'NAME'} --endpoint https://{host} --bucket {bucket or 'BUCKET'}",
        )
    return min(known, key=_order(name, bucket, home))


_BUCKET, _NAME, _ANY = range(3)


def _fit(lake: Lake, name: str, bucket: str | None) -> int:
    if lake.bucket == bucket:
        return _BUCKET
    return _NAME if name in (lake.bucket, lake.name) else _ANY


def _order(name: str, bucket: str | None, home: Lake) -> Callable[[Lake], tuple[int, bool, str]]:
    """Of lakes that fit as well, the home; then the first by name: one with other keys is named after its original."""
    return lambda lake: (_fit(lake, name, bucket), lake.name != home.name, lake.name)


def _host(endpoint: str) -> str:
    """Host and port, as bodies give them with a scheme or without; never the password an address may hold."""
    return endpoint.strip().lower().rpartition("://")[2].rpartition("@")[2].rstrip("/")
