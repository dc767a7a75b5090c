"""Addresses of other services as addresses of a lake here. Pure.

`cos://bucket.service/path` becomes `s3a://bucket/path`, and a path below a volume's mount becomes one below
`volumes/<name>/` of the lake.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import InvalidInput
from penstock.service.dialects.asked import Asked, Volume

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
