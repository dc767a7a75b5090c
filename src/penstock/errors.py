"""All errors that users can see: the problem, its cause and its fix.

Each kind has its own class, so that callers can distinguish kinds and an exit code has one meaning. A `PenstockError`
is shown without a stack trace, for the user to fix; any other exception that escapes is a defect of Penstock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PenstockError(Exception):
    """A problem that the user can fix.

    `problem` is one sentence in the user's words, `why` the known cause, and `fix` the remedy, with the command to type
    where there is one.
    """

    exit_code = 1
    code = "error"

    def __init__(self, problem: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        parts = [self.problem]
        if self.why:
            parts.append(f"Why: {self.why}")
        if self.fix:
            parts.append(f"Fix: {self.fix}")
        return "\n".join(parts)


class InvalidInput(PenstockError):
    """An argument, a file or a setting from the user is invalid."""

    exit_code = 2
    code = "invalid_input"


class NotFound(PenstockError):
    """A named object does not exist: an application, a lake, a table, a file, a class."""

    exit_code = 3
    code = "not_found"


class MissingRequirement(PenstockError):
    """The machine lacks a requirement of Penstock: Java, memory, disk space, a free port, a package."""

    exit_code = 4
    code = "missing_requirement"


class LakeError(PenstockError):
    """The object store refuses, cannot be reached, or lacks expected data."""

    exit_code = 5
    code = "lake_error"


class CatalogError(PenstockError):
    """The table catalog's database refuses, cannot be reached, or has another schema."""

    exit_code = 6
    code = "catalog_error"


class StateError(PenstockError):
    """Penstock's own state directory or records cannot be read, or are in use by another process."""

    exit_code = 7
    code = "state_error"


class Superseded(StateError):
    """Another process already does this work and continues it."""


class ClusterError(PenstockError):
    """A dedicated cluster could not be started, or was lost."""

    exit_code = 8
    code = "cluster_error"


class ValidationFailed(PenstockError):
    """A measured result differs from that of the independent engine."""

    exit_code = 9
    code = "validation_failed"


class Unauthenticated(PenstockError):
    """The request has no token, or one that is not valid (any more)."""

    exit_code = 10
    code = "unauthenticated"


class Forbidden(PenstockError):
    """The token is valid but does not permit this."""

    exit_code = 11
    code = "forbidden"


class ServiceError(PenstockError):
    """The service cannot be reached, is overloaded or shutting down, or sends an unexpected response."""

    exit_code = 12
    code = "service_error"


class Conflict(PenstockError):
    """A request conflicts with the present state: a key used for another submission, an instance in use."""

    exit_code = 13
    code = "conflict"


class QuotaExceeded(PenstockError):
    """An instance or a client has reached its limit; the same request may succeed later."""

    exit_code = 14
    code = "quota_exceeded"


class InternalError(PenstockError):
    """A defect of Penstock, which the user can report but not fix."""

    exit_code = 15
    code = "internal_error"


def from_problem(body: Mapping[str, Any]) -> PenstockError:
    """The error in a service's response, of the class that its code names; the base class for an unknown code."""
    kinds = {kind.code: kind for kind in PenstockError.__subclasses__()}
    kind = kinds.get(str(body.get("code")), PenstockError)
    return kind(str(body.get("problem", "")), why=str(body.get("why", "")), fix=str(body.get("fix", "")))
