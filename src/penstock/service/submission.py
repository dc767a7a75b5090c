"""The one way in: every dialect's submission passes here."""

from __future__ import annotations

import re

from penstock.engine.tokens import Caller, Scope
from penstock.errors import InvalidInput, NotFound
from penstock.lake.registry import Lakes
from penstock.model import Application, ApplicationSpec
from penstock.service import guards
from penstock.service.addresses import require_allowed
from penstock.service.context import Service

_KEY = re.compile(r"[\x21-\x7e]{1,200}")


def submit(service: Service, caller: Caller, spec: ApplicationSpec) -> Application:
    """Record the application for the dispatcher, or return the one its idempotency key belongs to.

    Raises `Forbidden`, and whatever `Engine.enqueue` does.
    """
    caller.require(Scope.SUBMIT, spec.instance)
    require_allowed(spec)
    application = service.engine.enqueue(spec)
    guards.note(application_id=application.id)
    return application


def require_lake(service: Service, caller: Caller, name: str | None) -> None:
    """Raise `NotFound`, as for an unknown lake, for one made from the keys of a queue that is not the caller's."""
    Lakes(service.home).require_usable(name, lambda queue: caller.may(Scope.SUBMIT, queue))


def checked_key(text: str | None) -> str | None:
    """An `Idempotency-Key` header. Raises `InvalidInput`."""
    if text is not None and not _KEY.fullmatch(text):
        raise InvalidInput(
            "Idempotency-Key is not understood",
            why="it has 1 to 200 visible ASCII characters",
            fix="a random UUID for each submission that may be repeated",
        )
    return text


def visible(service: Service, caller: Caller, application_id: str, scope: Scope = Scope.READ) -> Application:
    """The application of that id. Whose instance the caller does not see does not exist for it: `NotFound`, as for any
    id that is none. Raises `Forbidden` where it sees the application, and lacks the scope."""
    try:
        application = service.engine.get(application_id)
    except InvalidInput:
        # Of which ids it is the beginning is for those who see them all.
        if caller.instances is None:
            raise
        application = None
    if application is None or not caller.sees(application.spec.instance):
        raise NotFound(f"There is no application “{application_id}”", fix="GET /v1/applications lists them")
    caller.require(scope, application.spec.instance)
    return application
