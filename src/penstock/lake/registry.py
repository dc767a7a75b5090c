"""The registry of a home's lakes by name, with a default, and credential-scoped lakes.

A credential-scoped lake is another lake's bucket with keys from a submission, for the submission's queue only.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from penstock.catalog.secrets import SecretStore, secret_store
from penstock.errors import InvalidInput, NotFound, StateError
from penstock.formats import certificates, url_host
from penstock.home import Home, read_json, write_json
from penstock.lake import credentials as secrets
from penstock.lake.model import Credentials, CredentialScope, Lake, Sts, require_s3

EMBEDDED = "embedded"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# A bucket is the host of an s3a:// URI, and Java does not accept a host with an underscore.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ROLE = re.compile(r"arn:[a-z-]+:iam::[^:\s]*:role/[!-~]{1,512}")
_SHORTEST_SECONDS, _LONGEST_SECONDS = 10, 12 * 3600
_SHARED = "lake:"
"""The prefix of credential-scoped lakes' names among the shared secrets."""


@dataclass(frozen=True)
class _Registered:
    """The registry's content. `forgotten` maps a credential-scoped lake that has ended to its original."""

    lakes: dict[str, Lake]
    default: str | None
    forgotten: dict[str, str]


class Lakes:
    """The registry file `lakes.json`. Changes are atomic and serialized across processes.

    Credential-scoped lakes are also in `store`, if there is one, where services with other or new state directories
    find them. Reading one that the file lacks, and every change of one, raises `CatalogError` if the store does not
    answer.
    """

    def __init__(self, home: Home, store: SecretStore | None = None) -> None:
        self._home = home
        self._store = store or secret_store(home)
        self._path: Path = home.lake / "lakes.json"

    def all(self) -> list[Lake]:
        return sorted(self._read().lakes.values(), key=lambda lake: lake.name)

    def shared(self) -> list[Lake]:
        """The lakes that an administrator registered: all but those made from keys in request bodies."""
        return [lake for lake in self.all() if lake.scope is None]

    def artifact_lake(self, name: str | None) -> str | None:
        """The lake with the artifacts of this lake's applications.

        It is the original of a credential-scoped lake that has ended, and otherwise the lake itself.
        """
        registered = self._read_with(name)
        return name if name is None or name in registered.lakes else registered.forgotten.get(name, name)

    def scoped(self) -> set[str]:
        """The names of the credential-scoped lakes, including those that only other state directories have used."""
        elsewhere = self._store.names(_SHARED) if self._store else []
        here = {lake.name for lake in self.all() if lake.scope is not None}
        return here | {name.removeprefix(_SHARED) for name in elsewhere}

    def default(self) -> str | None:
        return self._read().default

    def get(self, name: str | None = None) -> Lake:
        """The lake of that name, or the default one; raises `NotFound` if there is none."""
        registered = self._read_with(name)
        wanted = name or registered.default
        if wanted is None:
            raise NotFound(
                "There is no lake yet",
                why="no embedded lake was started here and no other was added",
                fix="penstock lake up, or penstock lake add NAME --endpoint URL --bucket BUCKET",
            )
        if wanted not in registered.lakes:
            raise _unknown(wanted, registered)
        return registered.lakes[wanted]

    def require_usable(self, name: str | None, may: Callable[[str], bool]) -> None:
        """Raise `NotFound`, as for an unknown lake, if it was made from the keys of a queue that `may` refuses."""
        registered = self._read_with(name)
        lake = registered.lakes.get(name or "")
        if lake is not None and lake.scope is not None and (lake.scope.queue is None or not may(lake.scope.queue)):
            raise _unknown(lake.name, registered)

    def add(self, lake: Lake, credentials: Credentials | None = None) -> Lake:
        """Store a lake, replacing one of the same name; the first shared lake becomes the default.

        Given `credentials` are stored in the private credentials file, and the lake refers to them.
        """
        lake = validate_lake(lake)
        if credentials is not None:
            credentials = secrets.validate_credentials(credentials)
            lake = replace(lake, credentials=f"file:{lake.name}")
        if self._store and lake.scope is not None:
            # The store comes first: a lake that a service accepted must survive the loss of its state directory.
            self._store.put(_SHARED + lake.name, lake.to_json(), asdict(credentials or self.credentials_of(lake)))
        return self._add(lake, credentials)

    def _add(self, lake: Lake, credentials: Credentials | None) -> Lake:
        with self._changing() as registered:
            if credentials is not None:
                secrets.CredentialsFile(self._home).put(lake.name, credentials)
            registered.lakes[lake.name] = lake
            registered.forgotten.pop(lake.name, None)
            candidate = lake.name if lake.scope is None else None
            self._write(replace(registered, default=registered.default or candidate))
        return lake

    def remove(self, name: str) -> None:
        """Forget the lake and its stored credentials; nothing in the store changes."""
        if self._store and (_SHARED + name) in self._store.names(_SHARED + name):
            self._store.forget(_SHARED + name)
            if name not in self._read().lakes:
                return
        with self._changing() as registered:
            if name not in registered.lakes:
                raise _unknown(name, registered)
            if scope := registered.lakes.pop(name).scope:
                registered.forgotten[name] = scope.original
            left = sorted(lake.name for lake in registered.lakes.values() if lake.scope is None)
            default = registered.default if registered.default in left else next(iter(left), None)
            self._write(replace(registered, default=default))
            # The secret goes last: after a kill in between, an unused secret is better than a lake without its secret.
            secrets.CredentialsFile(self._home).remove(name)

    def forget_originals(self, *, except_for: Collection[str]) -> None:
        """Forget the originals of ended lakes, except for those in `but`, which recorded applications still name."""
        if self._store:
            forgotten = self._store.names(_SHARED, forgotten=True)
            self._store.remove(*(name for name in forgotten if name.removeprefix(_SHARED) not in except_for))
        if self._read().forgotten.keys() <= set(except_for):
            return
        with self._changing() as registered:
            left = {name: original for name, original in registered.forgotten.items() if name in except_for}
            self._write(replace(registered, forgotten=left))

    def set_default(self, name: str) -> None:
        with self._changing() as registered:
            if name not in registered.lakes:
                raise _unknown(name, registered)
            if scope := registered.lakes[name].scope:
                raise InvalidInput(
                    f"The lake “{name}” cannot be the default",
                    why="it was made from the keys of one queue, and only that queue may use it",
                    fix=f"penstock lake default {scope.original}",
                )
            self._write(replace(registered, default=name))

    def credentials_of(self, lake: Lake) -> Credentials:
        """The credentials of a lake on S3. Raises `InvalidInput` for another lake."""
        require_s3(lake, "A command with S3 credentials")
        return secrets.resolve(self._home, lake.credentials)

    def client_credentials(self, lake: Lake) -> Credentials | None:
        """The credentials that the lake's clients need; None for a lake without credentials."""
        return self.credentials_of(lake) if lake.is_s3 else None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Registered]:
        with self._home.lock("lakes", busy="Another command is changing the list of lakes", wait_seconds=10):
            yield self._read()

    def _read_with(self, name: str | None) -> _Registered:
        """The registry's content; a lake of that name that only the store has is registered first.

        The store also answers for a lake that this file calls forgotten: another service may have added it again.
        """
        registered = self._read()
        if self._store is None or name is None or name in registered.lakes:
            return registered
        found = self._store.get(_SHARED + name)
        if found is None:
            return registered
        lake = Lake.from_json(found.metadata)
        if found.content is not None:
            self._add(lake, Credentials(**found.content))
            return self._read()
        if lake.scope is not None:
            registered.forgotten[name] = lake.scope.original
        return registered

    def _read(self) -> _Registered:
        value = read_json(self._path)
        if value is None:
            return _Registered({}, None, {})
        try:
            lakes = {lake.name: lake for lake in map(Lake.from_json, value["lakes"])}
            default = value["default"] if value["default"] in lakes else None
            return _Registered(lakes, default, dict(value.get("forgotten", {})))
        except (KeyError, TypeError) as error:
            raise StateError(
                f"{self._path} is damaged",
                why=f"it does not describe lakes ({type(error).__name__}: {error})",
                fix=f"move it away (mv '{self._path}' '{self._path}.damaged'), then penstock lake up or lake add again",
            ) from error

    def _write(self, registered: _Registered) -> None:
        lakes = [registered.lakes[name].to_json() for name in sorted(registered.lakes)]
        forgotten = {"forgotten": registered.forgotten} if registered.forgotten else {}
        write_json(self._path, {"default": registered.default, "lakes": lakes, **forgotten})


def _unknown(wanted: str, registered: _Registered) -> NotFound:
    known = ", ".join(sorted(lake.name for lake in registered.lakes.values() if lake.scope is None)) or "none"
    if wanted in registered.forgotten:
        return NotFound(
            f"The lake “{wanted}” no longer exists",
            why="it was made from keys in a request body, and ended with the last application that used them",
            fix="submit the body with its keys again",
        )
    return NotFound(
        f"There is no lake “{wanted}”",
        why=f"known lakes: {known}",
        fix="penstock lake list shows the lakes; penstock lake add adds one",
    )


def validate_lake(lake: Lake) -> Lake:
    """The lake with normalized endpoints; raises `InvalidInput`, which names the invalid part."""
    if not _NAME.fullmatch(lake.name):
        raise InvalidInput(
            f"“{lake.name}” cannot be a lake's name",
            why="a name has at most 63 letters, digits, '.', '_' and '-', and begins with a letter or digit",
            fix="choose another name",
        )
    if not _BUCKET.fullmatch(lake.bucket) or ".." in lake.bucket:
        raise InvalidInput(
            f"“{lake.bucket}” cannot be a bucket's name",
            why="a bucket Spark can reach has 3 to 63 lower-case letters, digits, '.' and '-'",
            fix="give only the bucket (--bucket sales), without s3:// and without a folder",
        )
    if lake.ca_file is not None:
        certificates(lake.ca_file)
    sts = lake.sts and validate_sts(lake.sts)
    return replace(lake, endpoints=normalize_endpoints(lake.endpoints), sts=sts)


def validate_sts(sts: Sts) -> Sts:
    """The configuration with a normalized endpoint; raises `InvalidInput` for invalid values."""
    if sts.role_arn is not None and not _ROLE.fullmatch(sts.role_arn):
        raise InvalidInput(
            f"“{sts.role_arn[:80]}” cannot be a role",
            why="a role's name begins with arn:…:iam:: and has :role/ before its last part",
            fix="use a form like arn:aws:iam::123456789012:role/penstock, or, on Ceph, arn:aws:iam:::role/penstock",
        )
    if not _SHORTEST_SECONDS <= sts.seconds <= _LONGEST_SECONDS:
        raise InvalidInput(
            f"Credentials cannot be valid for {sts.seconds} s",
            why=f"they are renewed at half time, and stores issue none for more than {_LONGEST_SECONDS // 3600} hours",
            fix=f"use {_SHORTEST_SECONDS} to {_LONGEST_SECONDS}; most stores require at least 900",
        )
    return replace(sts, endpoint=normalize_endpoint(sts.endpoint))


def normalize_endpoints(endpoints: Sequence[str]) -> tuple[str, ...]:
    """The normalized gateways of one store, without duplicates; at least one, and all http or all https."""
    if not endpoints:
        raise InvalidInput("A lake needs an endpoint", fix="--endpoint http://HOST:PORT, once for each gateway")
    known = tuple(dict.fromkeys(map(normalize_endpoint, endpoints)))
    if len({urlsplit(endpoint).scheme for endpoint in known}) > 1:
        raise InvalidInput(
            "The endpoints mix http and https",
            why="gateways of one lake are used in turn, so all must offer the same protection",
            fix="give all of them as https://…, or all as http://…",
        )
    return known


def normalize_endpoint(text: str) -> str:
    """The endpoint normalized to `scheme://host[:port]`; raises `InvalidInput` for another form."""

    def wrong(why: str) -> InvalidInput:
        # The text may contain a password, and is then not repeated.
        shown = "The endpoint" if "@" in text else f"The endpoint “{text}”"
        return InvalidInput(f"{shown} cannot be used", why=why, fix="use a form like https://s3.example.com:8443")

    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise wrong(str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise wrong("it must begin with http:// or https://")
    if "@" in parts.netloc:
        raise wrong("credentials do not belong in an address")
    if not parts.hostname or any(letter.isspace() for letter in parts.netloc):
        raise wrong("it names no host")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong("an endpoint ends after the host and port; the bucket goes to --bucket")
    return f"{parts.scheme}://{url_host(parts.hostname)}" + (f":{port}" if port else "")


_DIGITS = 16
_SCOPED_NAME = re.compile(rf"(.+)\.([0-9a-f]{{{_DIGITS}}})")


def credential_scoped(lake: Lake, keys: Credentials, queue: str) -> Lake:
    """The credential-scoped lake of that queue with these keys, not stored yet; each such pair has a lake of its own.

    Its applications use the keys directly, and not the role of the original lake's user.
    """
    original = lake.scope.original if lake.scope else lake.name
    name = _name(original, _digest(queue, keys.access_key, keys.secret_key, keys.session_token or ""))
    return replace(lake, name=name, kind="external", sts=None, scope=CredentialScope(original, queue))


def adopt_unmarked(lakes: Lakes, homes: Mapping[str, set[str]]) -> list[str]:
    """Mark the lakes that earlier releases made from keys, which only their name marked; return their names.

    The digest in the name proves their origin: a lake with such a name and other keys was registered by a user.
    `homes` maps each home lake to its queues. A lake that is the home of one queue becomes that queue's; a lake that is
    no queue's home can no longer be named, while its running applications continue; the home of several queues stays
    unchanged.
    """
    adopted = []
    for lake in lakes.shared():
        found = _SCOPED_NAME.fullmatch(lake.name)
        queues = homes.get(lake.name, set())
        if found is None or lake.credentials != f"file:{lake.name}" or len(queues) > 1:
            continue
        try:
            keys = lakes.credentials_of(lake)
        except NotFound:
            continue
        if found.group(2) == _digest(keys.access_key, keys.secret_key, keys.session_token or ""):
            lakes.add(replace(lake, scope=CredentialScope(found.group(1), next(iter(queues), None))))
            adopted.append(lake.name)
    return adopted


def _name(original: str, digest: str) -> str:
    return f"{original[: 62 - _DIGITS]}.{digest}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
