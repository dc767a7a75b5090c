"""Who is asking, and what they may do: scopes per instance. Deciding is pure; finding the token is the store's."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from penstock.engine.tokens import Caller, Scope, forbidden
from penstock.errors import Unauthenticated


def authenticated(request: Request) -> Caller:
    """The caller of this request. Raises `Unauthenticated`.

    Nothing is trusted because of where it comes from: every account of a machine can reach its loopback addresses,
    and so can any web page in a browser on it.
    """
    # What `Guard` found by the token; nothing where none was sent.
    identity = getattr(request.state, "identity", None)
    if isinstance(identity, Exception):
        raise identity
    caller: Caller = identity or _by_grant(request)
    request.state.caller = caller
    return caller


def presented(header: str) -> str | None:
    """The token in an `Authorization` header: `Bearer TOKEN`, or as IBM's clients on premises write it,
    `ZenApiKey` with base64 of `USER:TOKEN`. None where there is none."""
    kind, _, text = header.partition(" ")
    if kind.lower() == "bearer":
        return text.strip() or None
    if kind.lower() == "zenapikey":
        try:
            return base64.b64decode(text.strip(), validate=True).decode("ascii").partition(":")[2] or None
        except ValueError:
            return None
    return None


def _by_grant(request: Request) -> Caller:
    """What a browser opens by address carries no token: it may have been granted that one path."""
    grants = request.app.state.service.browser_grants
    if _is_own(request):
        found: Caller | None = grants.caller(request.url.path, request.cookies)
        if found is not None:
            request.state.slot.belongs_to(found.token_id)
            return found
    raise Unauthenticated(
        "This needs a token",
        why="the request has no header “Authorization: Bearer TOKEN”",
        fix="penstock token create NAME makes one; with the CLI, PENSTOCK_TOKEN_FILE names the file it is in",
    )


def _is_own(request: Request) -> bool:
    """Whether no other page than this service's own made the browser ask.

    Another server on this machine is the “same site” to a browser, which sends it strict cookies too.
    """
    return request.method in ("GET", "HEAD") and request.headers.get("sec-fetch-site", "none") in (
        "none",
        "same-origin",
    )


def _needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    # On the event loop, as it asks nobody: a thread would have to be waited for.
    async def check(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
        if not caller.may_anywhere(scope):
            raise forbidden(caller.name, scope, "")
        return caller

    return check


Reader = Annotated[Caller, Depends(_needs(Scope.READ))]
"""May read something; the route asks about the instance (`sees`, `require`)."""
Submitter = Annotated[Caller, Depends(_needs(Scope.SUBMIT))]
Administrator = Annotated[Caller, Depends(_needs(Scope.ADMINISTER))]
