"""What can be wrong with settings, found before a cluster is started."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(str, enum.Enum):
    ERROR = "error"
    """The application would fail, or run otherwise than asked: it is not launched."""
    WARNING = "warning"
    """It runs, but a setting likely does not do what was meant."""


@dataclass(frozen=True)
class Problem:
    """One finding about `keys`, in the terms of `PenstockError`. Never holds the value of a secret."""

    severity: Severity
    keys: tuple[str, ...]
    problem: str
    why: str = ""
    fix: str = ""

    def __str__(self) -> str:
        text = self.problem
        if self.why:
            text += f": {self.why}"
        if self.fix:
            text += f" (fix: {self.fix})"
        return text


def error(*keys: str, problem: str, why: str = "", fix: str = "") -> Problem:
    return Problem(Severity.ERROR, keys, problem, why, fix)


def warning(*keys: str, problem: str, why: str = "", fix: str = "") -> Problem:
    return Problem(Severity.WARNING, keys, problem, why, fix)
