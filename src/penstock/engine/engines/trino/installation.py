"""Trino's server on this machine: its place, and its download. All state directories of an account share one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import ssl
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from penstock.errors import MissingRequirement

VERSION = "476"
"""The last version of which a repository has the server without plug-ins, and the one that Java 25 was tried with."""

REPOSITORY = "https://repo1.maven.org/maven2"
"""Maven Central."""


@dataclass(frozen=True)
class Archive:
    """A file of the repository, and its content's directory relative to the server's."""

    path: str
    size_bytes: int
    sha256: str
    root: str
    place: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


ARCHIVES = (
    Archive(
        f"io/trino/trino-server-core/{VERSION}/trino-server-core-{VERSION}.tar.gz",
        194_358_953,
        "0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158",
        f"trino-server-core-{VERSION}/lib/",
        "lib",
    ),
    Archive(
        f"io/trino/trino-iceberg/{VERSION}/trino-iceberg-{VERSION}.zip",
        345_890_737,
        "99edba5b491ed94d599aeb61e0794272d3569d8b563f3bb8569e8a49daa87b6c",
        f"trino-iceberg-{VERSION}/",
        "plugin/iceberg",
    ),
)
DOWNLOAD_BYTES = sum(archive.size_bytes for archive in ARCHIVES)
INSTALLED_BYTES = 270_000_000
"""On disk, once the files that are in both archives are one."""

_UNUSED = re.compile(r"snowflake-jdbc|rocksdbjni|(?:osx|windows|darwin)[-_](?:x86_64|aarch_64)")
"""Files that only other catalogs, or other systems, need."""
_UNFINISHED = ".unfinished-"
"""The part of a directory's name that no other program would give it: such a one is removed."""
_PARTS = ("lib", "plugin/iceberg")
_CHUNK_BYTES = 1 << 20
_SPARE_BYTES = 200_000_000

Progress = Callable[[int], None]
"""Called with the number of bytes that have come since the last call."""


DIRECTORY_VARIABLE = "PENSTOCK_TRINO_HOME"


def directory() -> Path:
    """`$PENSTOCK_TRINO_HOME`, else below `$XDG_DATA_HOME/penstock`, else below `~/.local/share/penstock`.

    Where the variable names a directory without a server, such as a new volume, the server's directory is in it.
    """
    name = f"trino-{VERSION}"
    if variable := os.environ.get(DIRECTORY_VARIABLE):
        chosen = Path(variable).expanduser().absolute()
        return chosen / name if chosen.is_dir() and not (chosen / _PARTS[0]).is_dir() else chosen
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "penstock" / name


def is_installed() -> bool:
    return all((directory() / part).is_dir() for part in _PARTS)


def require_installed() -> None:
    """Raises `MissingRequirement`."""
    if not is_installed():
        raise MissingRequirement(
            "Trino is not installed",
            why=f"its server is no Python package, and there is none in {directory()}",
            fix=f"penstock engines install trino downloads it ({DOWNLOAD_BYTES / 1e6:.0f} MB)",
        )


def install(progress: Progress, repository: str = REPOSITORY) -> None:
    """Download and unpack the server, all of it or nothing. Does nothing where it is installed.

    Raises `MissingRequirement` where the repository does not answer or has another file, or the disk is full.
    """
    place = directory()
    with _as_requirement(place), _alone(place.parent):
        if is_installed():
            return
        if place.exists():
            raise MissingRequirement(
                "Trino was not installed",
                why=f"{place} exists, and is no directory of a whole server",
                fix="remove it, or choose another place with PENSTOCK_TRINO_HOME=/path",
            )
        for left in place.parent.glob(f"{place.name}{_UNFINISHED}*"):
            shutil.rmtree(left)
        free, needed = shutil.disk_usage(place.parent).free, DOWNLOAD_BYTES + 2 * INSTALLED_BYTES + _SPARE_BYTES
        if free < needed:
            raise MissingRequirement(
                "There is no room for Trino",
                why=f"it takes {needed / 1e6:.0f} MB for a while, and {place.parent} has {free / 1e6:.0f} MB",
                fix="free some space, or choose another place with PENSTOCK_TRINO_HOME=/path",
            )
        unfinished = Path(mkdtemp(prefix=f"{place.name}{_UNFINISHED}", dir=place.parent))
        try:
            for archive in ARCHIVES:
                file = unfinished / archive.name
                _download(archive, f"{repository.rstrip('/')}/{archive.path}", file, progress)
                (_untar if archive.name.endswith("gz") else _unzip)(file, archive, unfinished / archive.place)
                file.unlink()
            _link_equal(unfinished / "plugin" / "iceberg", unfinished / "lib")
            unfinished.rename(place)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _as_requirement(place: Path) -> Iterator[None]:
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        raise MissingRequirement(
            "Trino could not be downloaded",
            why=str(error) or type(error).__name__,
            fix="check the network, or name a repository that this machine reaches: --repository URL",
        ) from error
    except OSError as error:
        raise MissingRequirement(
            "Trino could not be installed",
            why=f"{error.strerror or error}: {place.parent}",
            fix="free some space, or choose another place with PENSTOCK_TRINO_HOME=/path",
        ) from error


@contextlib.contextmanager
def _alone(parent: Path) -> Iterator[None]:
    """Wait until no other process installs here."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (parent / "install.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(archive: Archive, url: str, to: Path, progress: Progress) -> None:
    import certifi
    import httpx

    # The system's authorities, among which a company's proxy has its own, and the public ones.
    authorities = ssl.create_default_context()
    authorities.load_verify_locations(certifi.where())
    digest = hashlib.sha256()
    with (
        httpx.Client(follow_redirects=True, timeout=60, verify=authorities) as client,
        client.stream("GET", url) as answer,
        to.open("wb") as file,
    ):
        answer.raise_for_status()
        for chunk in answer.iter_raw(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
            progress(len(chunk))
    if digest.hexdigest() != archive.sha256:
        raise MissingRequirement(
            "Trino was not installed",
            why=f"{url} is another file than the one that Penstock knows",
            fix="try it again; if it stays so, use another repository: --repository URL",
        )


def _untar(file: Path, archive: Archive, to: Path) -> None:
    to.mkdir(parents=True)
    with tarfile.open(file) as content:
        for member in content:
            if member.isfile() and (name := _kept(archive, member.name)):
                source = content.extractfile(member)
                if source is not None:
                    with source, (to / name).open("wb") as target:
                        shutil.copyfileobj(source, target)


def _unzip(file: Path, archive: Archive, to: Path) -> None:
    to.mkdir(parents=True)
    with zipfile.ZipFile(file) as content:
        for member in content.namelist():
            if name := _kept(archive, member):
                with content.open(member) as source, (to / name).open("wb") as target:
                    shutil.copyfileobj(source, target)


def _kept(archive: Archive, member: str) -> str | None:
    """The file's name in its place; None for one that is not needed."""
    name = member.removeprefix(archive.root)
    return name if name and name != member and "/" not in name and not _UNUSED.search(name) else None


def _link_equal(plugin: Path, lib: Path) -> None:
    """Store a jar that is in both directories once."""
    for jar in plugin.iterdir():
        twin = lib / jar.name
        if twin.is_file() and twin.read_bytes() == jar.read_bytes():
            jar.unlink()
            os.link(twin, jar)
