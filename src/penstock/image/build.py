"""Building the image: from a base and what is installed here to an OCI archive."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from penstock import __version__
from penstock.errors import InvalidInput, MissingRequirement
from penstock.image import contents, debian, installed, keystore, oci, roots, writing
from penstock.image.contents import Entry
from penstock.image.roots import Root

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
    debian.make(installed.RUNNING, to, at=time_of_files())
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
        return _Build(to, called, work, telling, more).on(stack.enter_context(roots.opened(base)))


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
        contents.same_python(base, installed.RUNNING, roots.this_architecture(), root.architecture)
        # Before anything that takes long: it is refused where something is not installed.
        libraries, ours = installed.libraries(self._more), installed.package()
        if root.entries:
            kept = (found for entry in root.entries if (found := contents.kept(self._timeless(entry))) is not None)
            self._write("root", list(kept))
        for blob in root.layers:
            self._blobs[blob.path] = partial(root.open_layer, blob)
        self._write("spark", installed.jars())
        self._write("libraries", installed.compiled(libraries, self._work / "compiled"))
        ours = installed.compiled(ours, self._work / "compiled")
        self._write("penstock", [*ours, *contents.own_entries(root.texts, _ENTRYPOINT_SOURCE)])
        return self._finish(root, contents.settings(base, __version__))

    def _timeless(self, entry: Entry) -> Entry:
        if entry.path != keystore.PATH or entry.kind != "file":
            return entry
        with roots.open_source(entry.source) as file:
            return replace(entry, source=keystore.timeless(file.read(), self._at))

    def _write(self, what: str, entries: list[Entry]) -> None:
        began = time.monotonic()
        file = self._work / f"{len(self._layers)}.layer"
        layer = writing.write_layer(contents.ordered(entries), file, history=what, at=self._at)
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
        size = writing.write_archive(self._to, documents, self._blobs, at=self._at)
        self._telling(f"archive {self._to}", size, time.monotonic() - began)
        return Built(self._name.full, manifest.digest, size, tuple(self._layers))


_ENTRYPOINT_SOURCE = Path(__file__).parent / "entrypoint.sh"
