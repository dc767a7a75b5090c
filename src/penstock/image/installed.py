"""Penstock and all it needs, as it is installed here, as entries of the image."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement

import penstock
from penstock.clusters.jvm import penstock_jar
from penstock.errors import MissingRequirement
from penstock.image.contents import PYTHON_PATH, Entry, required

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGE = PYTHON_PATH.lstrip("/")
_JARS = f"{_PACKAGE}/pyspark/jars/"
_SEPARATORS = re.compile(r"[-_.]+")
# What tells of this machine and its installation, not of the package.
_ABOUT_HERE = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def jars() -> list[Entry]:
    """Spark's: most of the image, and changed by its releases alone. Those below are its remote shell's, in no pod."""
    return [entry for entry in _distribution("pyspark") if entry.path.rpartition("/")[0] + "/" == _JARS]


def libraries(more: Sequence[str] = ()) -> list[Entry]:
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
    """Of every distribution below `wanted`, the names of those that it needs here, by the extras asked for."""
    found: dict[str, list[str]] = {}
    waiting = [(name, "") for name in wanted]
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
            f"{name} is not installed", why="the image takes what is installed here", fix=f"pip install {name}"
        ) from error


def _name(text: str) -> str:
    return _SEPARATORS.sub("-", text).lower()


def _entry(path: str, source: Path) -> Entry:
    return Entry(f"{_PACKAGE}/{path}", "file", 0o755 if source.stat().st_mode & 0o100 else 0o644, source=source)
