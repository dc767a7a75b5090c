"""The build of the image: from a base and this installation's files to an OCI archive.

The same contents make the same bytes, whenever and by whomever it is built.
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
from penstock.image.base import Root, open_source, opened, this_architecture
from penstock.image.contents import PYTHON_PATH, Entry, Source, required
from penstock.image.oci import LAYER, Blob, Layer
from penstock.runtime.jvm import penstock_jar

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGE = PYTHON_PATH.lstrip("/")
_JARS = f"{_PACKAGE}/pyspark/jars/"
_SEPARATORS = re.compile(r"[-_.]+")
# What tells of this machine and its installation, not of the package.
_ABOUT_HERE = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def jars() -> list[Entry]:
    """Spark's: most of the image, and changed by its releases alone. Those below are its remote shell's, in no pod."""
    return [entry for entry in _distribution("pyspark") if entry.path.rpartition("/")[0] + "/" == _JARS]


def installed_libraries(more: Sequence[str] = ()) -> list[Entry]:
    """All that Penstock and `more` need of others, without Spark's jars. Raises `MissingRequirement`."""
    _require_told_requirements()
    wanted = ("penstock", *map(_name, more))
    names = [name for name in required(wanted, _requirements(wanted)) if name != "penstock"]
    return [entry for name in names for entry in _distribution(name) if not entry.path.startswith(_JARS)]


def package() -> list[Entry]:
    """Penstock with its jars, be it installed from a wheel or from its sources. Raises `MissingRequirement`."""
    penstock_jar("cluster", "Penstock's jars are not built")
    root = Path(penstock.__file__).parent
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    found = [_entry(f"penstock/{path.relative_to(root)}", path) for path in files]
    # Of an installation from sources the recorded one may be older.
    about = f"Metadata-Version: 2.1\nName: penstock\nVersion: {penstock.__version__}\n"
    where = f"{_PACKAGE}/penstock-{penstock.__version__}.dist-info/METADATA"
    return [*found, Entry(where, "file", 0o644, source=about.encode())]


def compiled(entries: Iterable[Entry], work: Path) -> list[Entry]:
    """The entries with the modules that Python would compile each time, since it cannot keep them in the image.

    They are taken as they are (PEP 552, unchecked), for no time of their sources holds in an image. Written below
    `work`.
    """
    entries = list(entries)
    modules = {entry.source: entry.path for entry in entries if _is_module(entry) and isinstance(entry.source, Path)}
    for root in {_root(source, path) for source, path in modules.items()}:
        listed = sorted(str(source) for source, path in modules.items() if _root(source, path) == root)
        # In a process of its own: what is compiled depends on what the compiling process has loaded before.
        python = [sys.executable, "-I", "-S", "-X", f"pycache_prefix={work}"]
        options = ["-qq", "-f", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", PYTHON_PATH]
        subprocess.run(
            [*python, "-m", "compileall", *options, "-i", "-"],
            input="\n".join(listed).encode(),
            check=False,  # Some packages carry modules for other releases of Python.
        )
    tag = sys.implementation.cache_tag
    for source, path in modules.items():
        made = work / source.parent.relative_to("/") / f"{source.stem}.{tag}.pyc"
        if made.is_file():
            directory, _, name = path.rpartition("/")
            cached = f"{directory}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"
            entries.append(Entry(cached, "file", 0o644, source=made))
    return entries


def _is_module(entry: Entry) -> bool:
    # Scripts for command lines and templates are not imported.
    return entry.path.endswith(".py")


def _root(source: Path, path: str) -> Path:
    """The directory that becomes the image's directory of packages."""
    return source.parents[path.removeprefix(f"{_PACKAGE}/").count("/")]


def _require_told_requirements() -> None:
    """An installation from sources names what Penstock required when it was made; `git pull` may have changed that."""
    told = _metadata("penstock").locate_file("")
    sources = Path(penstock.__file__).parents[2] / "pyproject.toml"
    metadata = next(Path(str(told)).glob("penstock-*.dist-info/METADATA"), None)
    if metadata and sources.is_file() and metadata.stat().st_mtime < sources.stat().st_mtime:
        raise MissingRequirement(
            "Penstock's installation is older than its sources",
            why=f"{sources} may name packages that {metadata.parent.name} does not, and the image would lack them",
            fix="make setup",
        )


def _requirements(wanted: Sequence[str]) -> dict[str, list[str]]:
    """Of every distribution below `wanted`, the names of those that it needs here, by the extras asked for.

    Of Penstock all extras: a service runs in the image, and the lab beside it.
    """
    found: dict[str, list[str]] = {}
    waiting = [*((name, "") for name in wanted), ("penstock", "all")]
    asked = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in asked:
            continue
        asked.add((name, extra))
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
        # Above the packages: commands, manual pages.
        if ".." in file.parts or "__pycache__" in file.parts or file.suffix in (".pyc", ".pth"):
            continue
        if file.parts[0].endswith(".dist-info") and file.name in _ABOUT_HERE:
            continue
        found.append(_entry(str(file), path))
    return found


def _metadata(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingRequirement(
            f"{name} is not installed",
            why="the image takes what is installed here, with all extras of Penstock",
            fix=f"pip install 'penstock[all]' {name}",
        ) from error


def _name(text: str) -> str:
    return _SEPARATORS.sub("-", text).lower()


def _entry(path: str, source: Path) -> Entry:
    return Entry(f"{_PACKAGE}/{path}", "file", 0o755 if source.stat().st_mode & 0o100 else 0o644, source=source)


_KINDS = {"directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "file": tarfile.REGTYPE}


class _Digesting(io.RawIOBase):
    """Passes on what is written and knows its digest and length."""

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
    """`entries` as `contents.ordered` gives them; every time is `at`, in seconds since 1970."""
    with to.open("wb") as file:
        packed = _Digesting(file)
        # No name and no time in gzip's own header.
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
    """A tar of a whole layout, in place at once; returns its size. `documents` and `blobs` by their paths in it."""
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
"""2026-01-01. Files of an image have one time, or two images of the same contents would differ."""

Telling = Callable[[str, int, float], None]
"""What was done, how many bytes came of it, and how many seconds it took."""


@dataclass(frozen=True)
class Built:
    """`digest` is the manifest's: what a registry will know the image by."""

    name: str
    digest: str
    size: int
    """Of the archive."""
    layers: tuple[oci.Layer, ...]


def time_of_files(environment: dict[str, str] | None = None) -> int:
    """`$SOURCE_DATE_EPOCH` where it is set, as in any reproducible build."""
    given = (os.environ if environment is None else environment).get("SOURCE_DATE_EPOCH")
    if given is not None and not given.isdecimal():
        raise InvalidInput("SOURCE_DATE_EPOCH is no time", why="it is whole seconds since 1970", fix="unset it")
    return RELEASED_AT if given is None else int(given)


def make_base(to: Path, telling: Telling) -> None:
    """The root that `build` makes where none is given, for use again and again."""
    began = time.monotonic()
    base.make(RUNNING, to, at=time_of_files())
    telling(f"root of Debian's packages ({', '.join(contents.PACKAGES)})", to.stat().st_size, time.monotonic() - began)


def build(to: Path, called: oci.Name, base: Path | None, telling: Telling, *, more: Sequence[str] = ()) -> Built:
    """Write the archive to `to`, with the distributions `more` beside what Penstock needs.

    Raises `InvalidInput` for a base that cannot carry it, `MissingRequirement`.
    """
    with ExitStack() as stack:
        # Beside the result, which is as large: /tmp may be kept in memory.
        try:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".penstock-image-", dir=to.parent)))
        except OSError as error:
            raise MissingRequirement(
                f"{to.parent} cannot be written to", why=error.strerror or str(error), fix="choose another: -o FILE"
            ) from error
        if base is None:
            base = work / "root.tar"
            make_base(base, telling)
        return _Build(to, called, work, telling, more).on(stack.enter_context(opened(base)))


class _Build:
    def __init__(self, to: Path, called: oci.Name, work: Path, telling: Telling, more: Sequence[str]) -> None:
        self._to = to
        self._name = called
        self._work = work
        self._telling = telling
        self._more = more
        self._at = time_of_files()
        self._layers: list[oci.Layer] = []
        self._blobs: dict[str, contents.Source] = {}

    def on(self, root: Root) -> Built:
        base = contents.recognised(root.paths)
        contents.same_python(base, RUNNING, this_architecture(), root.architecture)
        # Before anything that takes long: it is refused where something is not installed.
        libraries, ours = installed_libraries(self._more), package()
        if root.entries:
            kept = (found for entry in root.entries if (found := contents.kept(self._timeless(entry))) is not None)
            self._write("root", list(kept))
        for blob in root.layers:
            self._blobs[blob.path] = partial(root.open_layer, blob)
        self._write("spark", jars())
        self._write("libraries", compiled(libraries, self._work / "compiled"))
        ours = compiled(ours, self._work / "compiled")
        self._write("penstock", [*ours, *contents.own_entries(root.texts, _ENTRYPOINT_SOURCE)])
        return self._finish(root, contents.settings(base, __version__))

    def _timeless(self, entry: Entry) -> Entry:
        if entry.path != contents.PATH or entry.kind != "file":
            return entry
        with open_source(entry.source) as file:
            return replace(entry, source=contents.normalized_keystore(file.read(), self._at))

    def _write(self, what: str, entries: list[Entry]) -> None:
        began = time.monotonic()
        file = self._work / f"{len(self._layers)}.layer"
        layer = write_layer(contents.ordered(entries), file, history=what, at=self._at)
        self._layers.append(layer)
        self._blobs[layer.blob.path] = file
        self._telling(f"layer {what}", layer.blob.size, time.monotonic() - began)

    def _finish(self, root: Root, settings: dict[str, object]) -> Built:
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
        self._telling(f"archive {self._to}", size, time.monotonic() - began)
        return Built(self._name.full, manifest.digest, size, tuple(self._layers))


_ENTRYPOINT_SOURCE = Path(__file__).parent / "entrypoint.sh"
