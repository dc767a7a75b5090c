"""Who is asking, and what they may do: scopes per instance. Deciding is pure; finding the token is the store's."""

from __future__ import annotations

import base64
import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from penstock.errors import Forbidden, Unauthenticated

EVERY_INSTANCE = "*"


class Scope(str, enum.Enum):
    """Each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMINISTER = "administer"

    def includes(self, other: Scope) -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER = tuple(Scope)


@dataclass(frozen=True)
class Caller:
    """One authenticated client. `grants` maps an instance's name, or `*` for all there will ever be, to a scope."""

    token_id: str
    name: str
    grants: Mapping[str, Scope]

    def may(self, scope: Scope, instance: str = EVERY_INSTANCE) -> bool:
        """On that instance; on all of them where none is named."""
        given = (self.grants.get(instance), self.grants.get(EVERY_INSTANCE))
        return any(grant is not None and grant.includes(scope) for grant in given)

    def may_anywhere(self, scope: Scope) -> bool:
        return any(grant.includes(scope) for grant in self.grants.values())

    def sees(self, instance: str) -> bool:
        return self.may(Scope.READ, instance)

    @property
    def instances(self) -> frozenset[str] | None:
        """Those it may read; None for all."""
        return None if EVERY_INSTANCE in self.grants else frozenset(self.grants)

    def require(self, scope: Scope, instance: str = EVERY_INSTANCE) -> None:
        """Raise `Forbidden` unless it may."""
        if not self.may(scope, instance):
            where = "all instances" if instance == EVERY_INSTANCE else f"instance “{instance}”"
            raise _forbidden(self.name, scope, f" on {where}")


def widest(scopes: Iterable[Scope]) -> Scope:
    return max(scopes, key=_ORDER.index)


def grants(scope: Scope, instances: Iterable[str] | None) -> dict[str, Scope]:
    """That scope on those instances; on all there will ever be for None."""
    return dict.fromkeys([EVERY_INSTANCE] if instances is None else instances, scope)


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
            raise _forbidden(caller.name, scope, "")
        return caller

    return check


def _forbidden(name: str, scope: Scope, where: str) -> Forbidden:
    return Forbidden(
        "Your token does not permit this",
        why=f"it takes the scope “{scope.value}”{where}, which “{name}” does not have",
        fix="ask an administrator of this service for it",
    )


Reader = Annotated[Caller, Depends(_needs(Scope.READ))]
"""May read something; the route asks about the instance (`sees`, `require`)."""
Submitter = Annotated[Caller, Depends(_needs(Scope.SUBMIT))]
Administrator = Annotated[Caller, Depends(_needs(Scope.ADMINISTER))]
