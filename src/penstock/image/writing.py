"""Layers and the archive, written so that the same contents are the same bytes, whenever and by whomever."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from penstock.image.contents import Entry, Source
from penstock.image.oci import LAYER, Blob, Layer
from penstock.image.roots import open_source

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
