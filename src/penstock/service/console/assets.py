"""The console's files and their routes. Files are read once, and no other file can be served.

They contain no data and need no token: the scripts fetch their data from the API.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

import penstock
from penstock.errors import NotFound

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
    """The files by their paths below `/console/` (`main.js`, `views/run.js`)."""
    here = Path(__file__).parent
    found = {path.relative_to(here).as_posix(): path for path in here.rglob("*") if path.suffix in _TYPES}
    # Shared with the lab's reports, which embed the colours.
    found["colours.css"] = Path(penstock.__file__).with_name("colours.css")
    return {name: Asset(path.read_bytes(), _TYPES[path.suffix]) for name, path in found.items()}


router = APIRouter(include_in_schema=False)

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text can never become markup, whatever the name of an application, a table or a log.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Revalidated at every use, so that an upgraded service never runs with a former version's files.
    "Cache-Control": "no-cache",
}


@router.api_route("/", methods=["GET", "HEAD"])
def page(request: Request) -> Response:
    return _answer(request, assets()["index.html"])


@router.api_route("/docs", methods=["GET", "HEAD"])
def reference(request: Request) -> Response:
    return _answer(request, assets()["reference.html"])


@router.api_route("/console/{name:path}", methods=["GET", "HEAD"])
def file(name: str, request: Request) -> Response:
    if name not in assets():
        raise NotFound("The console has no such file", fix="open / instead")
    return _answer(request, assets()[name])


def _answer(request: Request, asset: Asset) -> Response:
    headers = {**_HEADERS, "ETag": asset.etag}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
