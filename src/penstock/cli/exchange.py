"""How a command's statements reach the driver that runs them, wherever that is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from penstock.model import Application


class Exchange(Protocol):
    """How statements get to a driver, and what they answer comes back."""

    def given(self, text: str) -> AbstractContextManager[str]:
        """Where the driver finds the statements, within."""

    def taken(self, application: Application, key: str, text: str) -> list[dict[str, Any]]:
        """What was answered, which is kept nowhere else then; none where the driver did not get as far. The statements
        are kept, to be run again."""

    def kept(self, application: Application) -> str:
        """The statements of an earlier run. Raises `NotFound` where they were not kept."""
