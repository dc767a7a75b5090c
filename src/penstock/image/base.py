"""The base of an image: a root directory, a tar of one, another image as an OCI layout, or Debian's packages.

mmdebstrap unpacks the packages, without a container daemon or a registry.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import posixpath
import shlex
import shutil
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from penstock.errors import InvalidInput, MissingRequirement
from penstock.image import oci
from penstock.image.contents import NAME_SWITCH, PACKAGES, Entry, Source, normalize_byte_code

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_READ_BY_US = ("/etc/passwd", NAME_SWITCH)
_MOST_JSON_BYTES = 4 << 20


def _no_layer(blob: oci.Blob) -> IO[bytes]:
    raise KeyError(blob.digest)


@dataclass(frozen=True)
class Root:
    """The root file system of a base.

    `entries` become a layer; `layers` and `configuration` are those of a base that is an image itself.
    """

    architecture: str
    paths: tuple[str, ...]
    texts: Mapping[str, str]
    """The contents of its `/etc/passwd` and `/etc/nsswitch.conf`, where these exist."""
    entries: tuple[Entry, ...] = ()
    layers: tuple[oci.Blob, ...] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    open_layer: Callable[[oci.Blob], IO[bytes]] = _no_layer
    """Opens one of `layers`."""


def this_architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


@contextlib.contextmanager
def open_base(path: Path) -> Iterator[Root]:
    """Open the base in `path`, readable within the context. Raises `InvalidInput` where it is not a base."""
    if not path.exists():
        raise InvalidInput(f"There is no {path}", fix="--base a root directory, a tar of one, or an OCI layout")
    if path.is_dir():
        layout = (path / oci.LAYOUT_FILE).is_file()
        with _reporting_damage(path):
            root = _image(_Directory(path), path) if layout else _root(_directory_entries(path))
        yield root
        return
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - closed below; only errors of the opening belong here
    except (tarfile.TarError, OSError) as error:
        raise InvalidInput(
            f"{path} is not a tar archive", why=str(error), fix="--base a root directory or a tar"
        ) from error
    with archive:
        with _reporting_damage(path):
            files = _Archive(archive)
            root = _image(files, path) if files.has(oci.LAYOUT_FILE) else _root(_archive_entries(archive))
        yield root


@contextlib.contextmanager
def _reporting_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, OSError, KeyError, zlib.error) as error:
        raise InvalidInput(
            f"{path} cannot be read to its end", why=str(error) or type(error).__name__, fix="build or fetch it again"
        ) from error


def _root(entries: Iterable[Entry]) -> Root:
    found = tuple(entries)
    texts = {}
    for entry in found:
        if "/" + entry.path in _READ_BY_US and entry.kind == "file":
            with open_source(entry.source) as file:
                texts["/" + entry.path] = file.read().decode()
    return Root(this_architecture(), tuple(entry.path for entry in found), texts, found)


def _directory_entries(root: Path) -> Iterator[Entry]:
    for directory, names, files in os.walk(root):
        for name in [*names, *files]:
            path = Path(directory) / name
            status = path.lstat()
            where = str(path.relative_to(root))
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                yield Entry(where, "link", target=str(path.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                yield Entry(where, "directory", mode)
            elif stat.S_ISREG(status.st_mode):
                inode = (status.st_dev, status.st_ino) if status.st_nlink > 1 else None
                yield Entry(where, "file", mode, source=_source(where, path), identity=inode)


def _archive_entries(archive: tarfile.TarFile) -> Iterator[Entry]:
    for member in archive:
        where = posixpath.normpath(member.name).lstrip("/")
        if where in (".", ""):
            continue
        if member.issym():
            yield Entry(where, "link", target=member.linkname)
        elif member.isdir():
            yield Entry(where, "directory", member.mode)
        elif member.isreg() or member.islnk():
            first = archive.getmember(member.linkname) if member.islnk() else member
            source = _source(where, partial(_member, archive, first))
            yield Entry(where, "file", member.mode, source=source, identity=first.name)


def _source(where: str, source: Source) -> Source:
    return partial(_timeless, source) if where.endswith(".pyc") else source


def _timeless(source: Source) -> IO[bytes]:
    with open_source(source) as file:
        return io.BytesIO(normalize_byte_code(file.read()))


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member)
    if file is None:
        raise InvalidInput(f"{member.name} cannot be read", why="the archive is damaged", fix="build it again")
    return file


def open_source(source: Source) -> IO[bytes]:
    """Open the bytes of an entry."""
    if isinstance(source, Path):
        return source.open("rb")
    return io.BytesIO(source) if isinstance(source, bytes) else source()


class _Files(Protocol):
    """The files of a layout, by their paths in it."""

    def has(self, path: str) -> bool: ...

    def open(self, path: str) -> IO[bytes]: ...


class _Directory:
    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, path: str) -> bool:
        return (self._root / path).is_file()

    def open(self, path: str) -> IO[bytes]:
        return (self._root / path).open("rb")


class _Archive:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._names = {posixpath.normpath(name): name for name in archive.getnames()}

    def has(self, path: str) -> bool:
        return path in self._names

    def open(self, path: str) -> IO[bytes]:
        return _member(self._archive, self._archive.getmember(self._names[path]))


def _image(files: _Files, where: Path) -> Root:
    manifest = _chosen(files, _json(files, "index.json", where), where)
    config = _json(files, _path(manifest["config"]["digest"], where), where)
    layers = tuple(oci.Blob(str(one["digest"]), int(one["size"]), str(one["mediaType"])) for one in manifest["layers"])
    paths: dict[str, None] = {}
    texts: dict[str, str] = {}
    for layer in layers:
        if not layer.media_type.endswith((".tar", "+gzip", ".gzip")):
            raise InvalidInput(
                f"A layer of {where} is {layer.media_type}",
                why="layers can be uncompressed or compressed by gzip",
                fix="convert it: skopeo copy --dest-compress-format gzip …",
            )
        with files.open(_path(layer.digest, where)) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                path = posixpath.normpath(member.name).lstrip("/")
                paths[path] = None
                if "/" + path in _READ_BY_US and member.isreg():
                    texts["/" + path] = _member(archive, member).read().decode()
    return Root(
        str(config["architecture"]),
        tuple(paths),
        texts,
        layers=layers,
        configuration=config,
        open_layer=lambda blob: files.open(_path(blob.digest, where)),
    )


def _chosen(files: _Files, index: Mapping[str, Any], where: Path) -> Mapping[str, Any]:
    """Return the manifest for this machine's architecture, through nested indices."""
    architecture = this_architecture()
    for described in index.get("manifests", []):
        if described.get("platform", {}).get("architecture", architecture) == architecture:
            found = _json(files, _path(described["digest"], where), where)
            return _chosen(files, found, where) if "manifests" in found else found
    raise InvalidInput(
        f"{where} has no image for {architecture}",
        why="the image contains this machine's installation, so its base must have this machine's architecture",
        fix=f"skopeo copy --override-arch {architecture} …",
    )


def _json(files: _Files, path: str, where: Path) -> Any:
    if not files.has(path):
        raise InvalidInput(
            f"{where} is not a complete image", why=f"it has no {path}", fix="copy it again: skopeo copy …"
        )
    with files.open(path) as file:
        data = file.read(_MOST_JSON_BYTES)
    try:
        return json.loads(data)
    except ValueError as error:
        raise InvalidInput(
            f"{where} is damaged", why=f"{path} is not JSON", fix="copy it again: skopeo copy …"
        ) from error


def _path(digest: str, where: Path) -> str:
    if digest[:7] != "sha256:" or not digest[7:].isalnum():
        raise InvalidInput(
            f"{where} is damaged",
            why="it refers to a file without a SHA-256 digest",
            fix="copy it again: skopeo copy …",
        )
    return "blobs/" + digest.replace(":", "/")


RELEASES = {"3.11": "bookworm", "3.13": "trixie"}
"""Debian's releases by their version of Python."""

_SECONDS = 1800


def mmdebstrap_command(release: str, to: Path) -> list[str]:
    # The setup of Java's packages fails without the directory; the licenses require the copyright files.
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"',
        '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        release,
        str(to),
    ]


def make_debian_root(python: str, to: Path, *, at: int) -> None:
    """Write the root's tar to `to`, in half a minute to some minutes, by the network. Raises `MissingRequirement`."""
    release = RELEASES.get(python)
    if release is None:
        raise MissingRequirement(
            f"No release of Debian has Python {python}",
            why="the image contains the local installation, so its Python must be of the same release",
            fix="--base a root with it, or run Penstock with Python " + " or ".join(RELEASES),
        )
    if shutil.which("mmdebstrap") is None:
        raise MissingRequirement(
            "mmdebstrap is not installed",
            why="it builds the base of the image from Debian's packages",
            fix="sudo apt-get install --yes mmdebstrap, or --base a root directory, a tar of one, or another image",
        )
    try:
        made = subprocess.run(
            mmdebstrap_command(release, to),
            env={**os.environ, "SOURCE_DATE_EPOCH": str(at)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        failed = "\n".join(made.stderr.strip().splitlines()[-5:]) if made.returncode else None
    except subprocess.TimeoutExpired:
        failed = f"it had not ended after {_SECONDS // 60} minutes"
    if failed is not None:
        raise MissingRequirement(
            "mmdebstrap could not build the base",
            why=failed,
            fix=f"run it manually to see more: {shlex.join(mmdebstrap_command(release, to))}",
        )
