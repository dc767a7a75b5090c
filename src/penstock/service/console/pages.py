"""Serving the console's files. They hold no data and need no token; what they show, they ask the API for."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from penstock.errors import NotFound
from penstock.service.console.assets import Asset, assets

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
        # Text can never become markup, whatever an application, a table or a log is called.
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
    # Asked for each time, and sent again only where it changed: an upgraded service never meets a former page's files.
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
