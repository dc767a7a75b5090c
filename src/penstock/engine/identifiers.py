"""Application ids: short, sorted by time, not to be guessed from one another."""

from __future__ import annotations

import secrets
from datetime import datetime

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, lower case: in order of their codes, none mistaken for another."""

_RANDOM_LETTERS = 5


def new_id(at: datetime) -> str:
    """`app-20261121-` and nine letters: four for the tenth of a second of the day, five at random (25 bits)."""
    tenths = (at.hour * 3600 + at.minute * 60 + at.second) * 10 + at.microsecond // 100_000
    time = "".join(_LETTERS[tenths >> shift & 31] for shift in (15, 10, 5, 0))
    random = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM_LETTERS))
    return f"app-{at:%Y%m%d}-{time}{random}"
