"""The console's files, by the names a browser asks for. Read once; nothing outside this list can be asked for."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import penstock

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str

    @functools.cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


@functools.cache
def assets() -> Mapping[str, Asset]:
    """By the path below `/console/`: `main.js`, `views/run.js`, …"""
    here = Path(__file__).parent
    found = {path.relative_to(here).as_posix(): path for path in here.rglob("*") if path.suffix in _TYPES}
    # One home for the colours: the lab's reports have them inside, the console asks for them.
    found["colours.css"] = Path(penstock.__file__).with_name("colours.css")
    return {name: Asset(path.read_bytes(), _TYPES[path.suffix]) for name, path in found.items()}
