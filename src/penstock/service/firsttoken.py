"""Where the service of a home leaves its first token: commands of the same home find it there."""

from __future__ import annotations

from pathlib import Path

from penstock.home import Home


def first_token_file(home: Home) -> Path:
    return home.root / "service" / "admin.token"
