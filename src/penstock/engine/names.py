"""The name of an engine, under which its records are in its database and its uploads in its lakes."""

from __future__ import annotations

import logging
import secrets
import socket
from dataclasses import astuple, dataclass
from pathlib import Path

from penstock.home import Home, write_atomically, write_once

FILE = "engine"
"""The file in the state directory: the name, and below it the place where the directory was last used."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """The place of a state directory: the host and the path, and what a renamed host and a renamed directory keep."""

    host: str
    path: str
    identity: str
    """The machine's id, where it has one, and the number of the directory's inode, which a copy does not share."""


def host_and_directory(home: Home) -> str:
    """The name of an engine whose database others use, too."""
    return f"{socket.gethostname()}:{home.root}"


def name_of(home: Home) -> str:
    """The name of an engine that has an embedded database.

    The database belongs to its state directory, so the name is that of the first use also when the machine is renamed
    or the directory is moved. A copy gets a name of its own: it must not take charge of the original's running
    clusters. Names of new directories end with a random number, so that a directory at the place of one that was moved
    has another name.
    """
    fresh = _fresh_name(home)
    home.create()
    file, here = home.root / FILE, place_of(home)
    write_once(file, _text(fresh, here))
    recorded, last = _recorded(file)
    if recorded is None:
        recorded, last = fresh, None
    elif last is not None and is_copy(last, here, original=_original(recorded, file, last)):
        _log.warning(
            "%s is a copy of the state directory of %s, whose applications it does not show; docs/reference/files.md",
            home.root,
            recorded,
        )
        recorded, last = fresh, None
    if last != here:
        write_atomically(file, _text(recorded, here))
    return recorded


def is_copy(last: Place, here: Place, *, original: bool | None) -> bool:
    """Whether a directory that was last used at one place, and is now at another, is a copy of that one.

    `original` says whether the directory at the former path of this machine has the same name, and is None where there
    is none.
    """
    if original or last.identity == here.identity:
        return bool(original)
    # Directories are moved between file systems by copying, and restored in place.
    return last.host != here.host or (last.path != here.path and original is not None)


def _fresh_name(home: Home) -> str:
    # Records of earlier versions have the name without a number.
    number = "" if home.database.exists() else f"#{secrets.token_hex(4)}"
    return host_and_directory(home) + number


def _original(name: str, file: Path, last: Place) -> bool | None:
    former = Path(last.path) / FILE
    # An error means that another user's directory is in the way.
    try:
        return None if former.samefile(file) else _recorded(former)[0] == name
    except OSError:
        return None


def place_of(home: Home) -> Place:
    """Return the place of a state directory that exists."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        machine = ""
    return Place(socket.gethostname(), str(home.root), f"{machine}:{home.root.stat().st_ino}")


def _text(name: str, place: Place) -> str:
    return "\n".join((name, *astuple(place))) + "\n"


def _recorded(file: Path) -> tuple[str | None, Place | None]:
    """The name and the last place; None for what a damaged file lacks."""
    name, *place = file.read_text(encoding="utf-8").splitlines() or [""]
    return name or None, Place(*place) if len(place) == len(Place.__dataclass_fields__) else None
