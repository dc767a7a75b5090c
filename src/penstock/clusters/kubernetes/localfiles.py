"""An application's files of the engine's machine: those that travel in its secret, and those the image has already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.clusters import jvm
from penstock.clusters.base import Launch


def keys(launch: Launch) -> dict[str, str]:
    """The secret's keys that hold the application's local files, with their places below the launch directory."""
    return {f"file-{number}": f"files/{number}/{path.rpartition('/')[2]}" for number, path in enumerate(paths(launch))}


def paths(launch: Launch) -> Sequence[str]:
    spec = launch.spec
    named = (spec.application, *spec.jars, *spec.python_files, *spec.files)
    return [path for path in dict.fromkeys(named) if path.startswith("/") and not in_image(path)]


def in_image(path: str) -> str | None:
    """Which of Penstock's own jars that is, below their directory; None where it is none."""
    own = jvm.penstock_jars()
    return Path(path).relative_to(own).as_posix() if Path(path).is_relative_to(own) else None


def content(launch: Launch) -> Mapping[str, bytes]:
    """The application's local files by the secret's keys. Reads them: `OSError`."""
    return {key: Path(path).read_bytes() for key, path in zip(keys(launch), paths(launch), strict=True)}
