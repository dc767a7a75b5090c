"""Every error a user can see: what is wrong, why, and how to fix it.

One class per kind, so that a caller can tell kinds apart and an exit code means one thing. A `PenstockError` is the
user's to fix and is shown without a stack trace; any other exception that escapes is a defect of Penstock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PenstockError(Exception):
    """A problem the user can fix.

    `problem` is one sentence in the user's words; `why` the cause as far as it is known;
    `fix` what to do about it, with the command to type where there is one.
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
    """An argument, a file or a setting the user gave cannot be used as it is."""

    exit_code = 2
    code = "invalid_input"


class NotFound(PenstockError):
    """Something named does not exist: an application, a lake, a table, a file, a class."""

    exit_code = 3
    code = "not_found"


class MissingRequirement(PenstockError):
    """The machine lacks what Penstock needs: Java, memory, disk space, a free port, a package."""

    exit_code = 4
    code = "missing_requirement"


class LakeError(PenstockError):
    """The object store refuses, is out of reach, or does not hold what it should."""

    exit_code = 5
    code = "lake_error"


class CatalogError(PenstockError):
    """The table catalog's database refuses, is out of reach, or holds another schema."""

    exit_code = 6
    code = "catalog_error"


class StateError(PenstockError):
    """Penstock's own state directory or records cannot be read or are in use by another process."""

    exit_code = 7
    code = "state_error"


class Superseded(StateError):
    """Another process does this work already, and goes on doing it."""


class ClusterError(PenstockError):
    """A dedicated cluster could not be started, or was lost."""

    exit_code = 8
    code = "cluster_error"


class ValidationFailed(PenstockError):
    """A measured answer differs from the independent engine's."""

    exit_code = 9
    code = "validation_failed"


class Unauthenticated(PenstockError):
    """The service does not know who is asking: no token, or one that is not valid (any more)."""

    exit_code = 10
    code = "unauthenticated"


class Forbidden(PenstockError):
    """The token is valid, and does not permit this."""

    exit_code = 11
    code = "forbidden"


class ServiceError(PenstockError):
    """The service is out of reach, overloaded, shutting down, or answers what no service of ours would."""

    exit_code = 12
    code = "service_error"


class Conflict(PenstockError):
    """A request contradicts what exists: a key used for something else, an instance in use."""

    exit_code = 13
    code = "conflict"


class QuotaExceeded(PenstockError):
    """An instance, or who asks, has as much as it may have; the same may be possible later."""

    exit_code = 14
    code = "quota_exceeded"


class InternalError(PenstockError):
    """A defect of Penstock, where there is something to report and nothing for the user to fix."""

    exit_code = 15
    code = "internal_error"


def from_problem(body: Mapping[str, Any]) -> PenstockError:
    """The error a service answered with, as the class its code names; of a newer release's, the base class."""
    kinds = {kind.code: kind for kind in PenstockError.__subclasses__()}
    kind = kinds.get(str(body.get("code")), PenstockError)
    return kind(str(body.get("problem", "")), why=str(body.get("why", "")), fix=str(body.get("fix", "")))
