"""Which service the commands work through, where one is named."""

from __future__ import annotations

import os

SERVER_VARIABLE = "PENSTOCK_SERVER"


def server() -> str | None:
    """Its address, by `--server` or the environment."""
    return os.environ.get(SERVER_VARIABLE) or None


def choose(url: str) -> None:
    """For this process, and those it starts."""
    os.environ[SERVER_VARIABLE] = url
