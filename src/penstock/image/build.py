"""The build of the image: from a base and this installation's files to an OCI archive.

The build is reproducible: the same contents give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from packaging.requirements import Requirement

import penstock
from penstock import __version__
from penstock.errors import InvalidInput, MissingRequirement
from penstock.image import base, contents, oci
from penstock.image.base import Root, open_base, open_source, this_architecture
from penstock.image.contents import PYTHON_PATH, Entry, Source, required_distributions
from penstock.image.oci import LAYER, Blob, Layer
from penstock.runtime.jvm import penstock_jar

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGE = PYTHON_PATH.lstrip("/")
_JARS = f"{_PACKAGE}/pyspark/jars/"
_SEPARATORS = re.compile(r"[-_.]+")
# Files that describe this machine and its installation, not the package.
_INSTALLATION_FILES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def jars() -> list[Entry]:
    """Return Spark's jars, most of the image, which change only with its releases.

    Jars in subdirectories belong to Spark's remote shell and are left out.
    """
    return [entry for entry in _distribution("pyspark") if entry.path.rpartition("/")[0] + "/" == _JARS]


def installed_libraries(more: Sequence[str] = ()) -> list[Entry]:
    """Return the files of all that Penstock and `more` require, without Spark's jars. Raises `MissingRequirement`."""
    _require_current_installation()
    roots = ("penstock", *map(_name, more))
    names = [name for name in required_distributions(roots, _requirements(roots)) if name != "penstock"]
    return [entry for name in names for entry in _distribution(name) if not entry.path.startswith(_JARS)]


def package() -> list[Entry]:
    """Return the files of Penstock and its jars, for any kind of installation. Raises `MissingRequirement`."""
    penstock_jar("cluster", "Penstock's jars are not built")
    root = Path(penstock.__file__).parent
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    found = [_entry(f"penstock/{path.relative_to(root)}", path) for path in files]
    # The metadata of an installation from sources may name an older version.
    metadata = f"Metadata-Version: 2.1\nName: penstock\nVersion: {penstock.__version__}\n"
    where = f"{_PACKAGE}/penstock-{penstock.__version__}.dist-info/METADATA"
    return [*found, Entry(where, "file", 0o644, source=metadata.encode())]


def compiled(entries: Iterable[Entry], work: Path) -> list[Entry]:
    """Add the compiled modules, which Python would otherwise compile at every start: it cannot write to the image.

    Python uses them without a check (PEP 552, unchecked), since their sources have no reliable time in an image. The
    files are written below `work`.
    """
    entries = list(entries)
    modules = {entry.source: entry.path for entry in entries if _is_module(entry) and isinstance(entry.source, Path)}
    for root in {_root(source, path) for source, path in modules.items()}:
        listed = sorted(str(source) for source, path in modules.items() if _root(source, path) == root)
        # In a process of its own: the byte code depends on the modules that the process has loaded before.
        python = [sys.executable, "-I", "-S", "-X", f"pycache_prefix={work}"]
        options = ["-qq", "-f", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", PYTHON_PATH]
        subprocess.run(
            [*python, "-m", "compileall", *options, "-i", "-"],
            input="\n".join(listed).encode(),
            check=False,  # Some packages contain modules for other releases of Python.
        )
    tag = sys.implementation.cache_tag
    for source, path in modules.items():
        file = work / source.parent.relative_to("/") / f"{source.stem}.{tag}.pyc"
        if file.is_file():
            directory, _, name = path.rpartition("/")
            cached = f"{directory}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"
            entries.append(Entry(cached, "file", 0o644, source=file))
    return entries


def _is_module(entry: Entry) -> bool:
    # Other files, such as scripts for command lines and templates, are not imported.
    return entry.path.endswith(".py")


def _root(source: Path, path: str) -> Path:
    """Return the local directory that corresponds to the image's directory of packages."""
    return source.parents[path.removeprefix(f"{_PACKAGE}/").count("/")]


def _require_current_installation() -> None:
    """Raise `MissingRequirement` where the sources changed since the installation, which records the requirements."""
    site = _metadata("penstock").locate_file("")
    sources = Path(penstock.__file__).parents[2] / "pyproject.toml"
    metadata = next(Path(str(site)).glob("penstock-*.dist-info/METADATA"), None)
    if metadata and sources.is_file() and metadata.stat().st_mtime < sources.stat().st_mtime:
        raise MissingRequirement(
            "Penstock's installation is older than its sources",
            why=f"{sources} may require packages that {metadata.parent.name} does not, and the image would lack them",
            fix="make setup",
        )


def _requirements(roots: Sequence[str]) -> dict[str, list[str]]:
    """Return the requirements of every distribution that `roots` lead to, on this platform and with their extras.

    Penstock has all its extras, since a service runs in the image, and the lab beside it.
    """
    found: dict[str, list[str]] = {}
    waiting = [*((name, "") for name in roots), ("penstock", "all")]
    visited = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in visited:
            continue
        visited.add((name, extra))
        for needed in map(Requirement, _metadata(name).requires or []):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                below = _name(needed.name)
                found.setdefault(name, []).append(below)
                waiting += [(below, one) for one in ("", *sorted(needed.extras))]
        found.setdefault(name, [])
    return found


def _distribution(name: str) -> list[Entry]:
    found = []
    for file in _metadata(name).files or []:
        path = Path(str(file.locate()))
        # Paths above the packages are commands and manual pages.
        if ".." in file.parts or "__pycache__" in file.parts or file.suffix in (".pyc", ".pth"):
            continue
        if file.parts[0].endswith(".dist-info") and file.name in _INSTALLATION_FILES:
            continue
        found.append(_entry(str(file), path))
    return found


def _metadata(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingRequirement(
            f"{name} is not installed",
            why="the image contains the local installation, with all extras of Penstock",
            fix=f"pip install 'penstock[all]' {name}",
        ) from error


def _name(text: str) -> str:
    return _SEPARATORS.sub("-", text).lower()


def _entry(path: str, source: Path) -> Entry:
    return Entry(f"{_PACKAGE}/{path}", "file", 0o755 if source.stat().st_mode & 0o100 else 0o644, source=source)


_KINDS = {"directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "file": tarfile.REGTYPE}


class _Digesting(io.RawIOBase):
    """A writer that forwards its input, and computes digest and length."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to = to
        self._hash = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._hash.update(data)
        self.size += len(data)
        return self._to.write(data)

    @property
    def digest(self) -> str:
        return "sha256:" + self._hash.hexdigest()


def write_layer(entries: Sequence[Entry], to: Path, *, history: str, at: int) -> Layer:
    """Write a layer with `entries`, ordered by `contents.sort_entries`; every time is `at`, in seconds since 1970."""
    with to.open("wb") as file:
        packed = _Digesting(file)
        # The header of gzip must contain no name and no time.
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0, compresslevel=6) as unpacked_to:
            plain = _Digesting(unpacked_to)  # type: ignore[arg-type]
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                _add(archive, entries, at)
    return Layer(Blob(packed.digest, packed.size, LAYER), plain.digest, history)


def _add(archive: tarfile.TarFile, entries: Iterable[Entry], at: int) -> None:
    first: dict[Hashable, str] = {}
    for entry in entries:
        member = _member(entry.path, at, entry.mode)
        member.type, member.linkname = _KINDS[entry.kind], entry.target
        if entry.identity is not None and entry.identity in first:
            member.type, member.linkname = tarfile.LNKTYPE, first[entry.identity]
        elif entry.kind == "file":
            if entry.identity is not None:
                first[entry.identity] = entry.path
            _add_file(archive, member, entry.source)
            continue
        archive.addfile(member)


def write_archive(to: Path, documents: Mapping[str, bytes], blobs: Mapping[str, Source], *, at: int) -> int:
    """Write the tar of a complete layout atomically; return its size in bytes.

    `documents` and `blobs` are keyed by their paths in the tar.
    """
    part = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for path, source in sorted({**blobs, **documents}.items()):
                    _add_file(archive, _member(path, at, 0o644), source)
            file.flush()
            os.fsync(file.fileno())
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)
    return to.stat().st_size


def _add_file(archive: tarfile.TarFile, member: tarfile.TarInfo, source: Source) -> None:
    with open_source(source) as file:
        member.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        archive.addfile(member, file)


def _member(path: str, at: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.mtime, member.mode, member.uname, member.gname = at, mode, "root", "root"
    return member


RELEASED_AT = 1767225600
"""2026-01-01, the time of all files, so that two images of the same contents are equal."""

Report = Callable[[str, int, float], None]
"""Called after each step with its name, the size of its result in bytes, and its duration in seconds."""


@dataclass(frozen=True)
class BuiltImage:
    """A built image. `digest` is that of the manifest, by which a registry identifies the image."""

    name: str
    digest: str
    size: int
    """The size of the archive, in bytes."""
    layers: tuple[oci.Layer, ...]


def time_of_files() -> int:
    """Return `$SOURCE_DATE_EPOCH`, the convention of reproducible builds, or the default time."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None and not given.isdecimal():
        raise InvalidInput("SOURCE_DATE_EPOCH is not a time", why="it is in whole seconds since 1970", fix="unset it")
    return RELEASED_AT if given is None else int(given)


def make_base(to: Path, report: Report) -> None:
    """Write the root that `build` creates where no base is given, for repeated use."""
    began = time.monotonic()
    base.make_debian_root(RUNNING, to, at=time_of_files())
    report(f"root of Debian's packages ({', '.join(contents.PACKAGES)})", to.stat().st_size, time.monotonic() - began)


def build(to: Path, name: oci.Name, base: Path | None, report: Report, *, more: Sequence[str] = ()) -> BuiltImage:
    """Write the archive to `to`, with the distributions `more` in addition to those that Penstock requires.

    Raises `InvalidInput` for an unsuitable base, and `MissingRequirement`.
    """
    with ExitStack() as stack:
        # In the directory of the result, which is as large: /tmp may be in memory.
        try:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".penstock-image-", dir=to.parent)))
        except OSError as error:
            raise MissingRequirement(
                f"{to.parent} cannot be written to", why=error.strerror or str(error), fix="choose another: -o FILE"
            ) from error
        if base is None:
            base = work / "root.tar"
            make_base(base, report)
        return _Build(to, name, work, report, more).on(stack.enter_context(open_base(base)))


class _Build:
    def __init__(self, to: Path, name: oci.Name, work: Path, report: Report, more: Sequence[str]) -> None:
        self._to = to
        self._name = name
        self._work = work
        self._report = report
        self._more = more
        self._at = time_of_files()
        self._layers: list[oci.Layer] = []
        self._blobs: dict[str, contents.Source] = {}

    def on(self, root: Root) -> BuiltImage:
        base = contents.find_base(root.paths)
        contents.require_same_platform(base, RUNNING, this_architecture(), root.architecture)
        # First, since these raise at once where a package is not installed.
        libraries, ours = installed_libraries(self._more), package()
        if root.entries:
            kept = (
                found for entry in root.entries if (found := contents.image_entry(self._timeless(entry))) is not None
            )
            self._write("root", list(kept))
        for blob in root.layers:
            self._blobs[blob.path] = partial(root.open_layer, blob)
        self._write("spark", jars())
        self._write("libraries", compiled(libraries, self._work / "compiled"))
        ours = compiled(ours, self._work / "compiled")
        self._write("penstock", [*ours, *contents.own_entries(root.texts, _ENTRYPOINT_SOURCE)])
        return self._finish(root, contents.settings(base, __version__))

    def _timeless(self, entry: Entry) -> Entry:
        if entry.path != contents.TRUST_STORE or entry.kind != "file":
            return entry
        with open_source(entry.source) as file:
            return replace(entry, source=contents.normalize_keystore(file.read(), self._at))

    def _write(self, name: str, entries: list[Entry]) -> None:
        began = time.monotonic()
        file = self._work / f"{len(self._layers)}.layer"
        layer = write_layer(contents.sort_entries(entries), file, history=name, at=self._at)
        self._layers.append(layer)
        self._blobs[layer.blob.path] = file
        self._report(f"layer {name}", layer.blob.size, time.monotonic() - began)

    def _finish(self, root: Root, settings: dict[str, object]) -> BuiltImage:
        began = time.monotonic()
        configuration = oci.configuration(
            self._layers, architecture=root.architecture, created=self._at, config=settings, base=root.configuration
        )
        config, config_bytes = oci.document(configuration, oci.CONFIG)
        blobs = [*root.layers, *(layer.blob for layer in self._layers)]
        manifest, manifest_bytes = oci.document(oci.manifest(config, blobs, contents.LABELS), oci.MANIFEST)
        documents = {
            config.path: config_bytes,
            manifest.path: manifest_bytes,
            oci.LAYOUT_FILE: oci.document(oci.LAYOUT, "")[1],
            "index.json": oci.document(oci.index(manifest, self._name, root.architecture), oci.INDEX)[1],
            "manifest.json": oci.document(oci.docker_manifest(config, blobs, self._name), "")[1],
        }
        size = write_archive(self._to, documents, self._blobs, at=self._at)
        self._report(f"archive {self._to}", size, time.monotonic() - began)
        return BuiltImage(self._name.full, manifest.digest, size, tuple(self._layers))


_ENTRYPOINT_SOURCE = Path(__file__).parent / "entrypoint.sh"
