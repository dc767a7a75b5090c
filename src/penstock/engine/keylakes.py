"""Lakes that were made for a pair of keys which came with a submission: another lake's place, opened by these keys."""

from __future__ import annotations

import hashlib
import re

from penstock.lake.base import Credentials

_DIGITS = 16
_NAME = re.compile(rf"(.+)\.[0-9a-f]{{{_DIGITS}}}")


def name_for(lake: str, keys: Credentials) -> str:
    """One for each pair of keys, so that a pair given again needs no second place; it tells nothing of them."""
    digest = hashlib.sha256("\0".join([keys.access_key, keys.secret_key, keys.session_token or ""]).encode())
    return f"{lake[: 62 - _DIGITS]}.{digest.hexdigest()[:_DIGITS]}"


def original(name: str) -> str | None:
    """The lake it was made from, as far as its name tells; None where it has no such name."""
    found = _NAME.fullmatch(name)
    return found.group(1) if found else None
