"""Files that were brought to a lake for applications: where they are, and which are to be removed. Pure.

Each engine has a place of its own, so that none removes what another one's applications use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from penstock.lake.base import ObjectInfo

ROOT = "penstock/uploads/"
_TO_SUBMIT = timedelta(days=1)
"""Between learning a file's address and naming it in a submission."""


def place(owner: str) -> str:
    """Of that engine, in every lake."""
    return f"{ROOT}{hashlib.sha256(owner.encode()).hexdigest()[:12]}/"


def key(place: str, digest: str, name: str) -> str:
    return f"{place}{digest}/{name}"


def pattern(place: str) -> str:
    """A regular expression for the keys in a text."""
    return place + r"[0-9a-f]{64}/[A-Za-z0-9._-]+"


def is_there(found: ObjectInfo, *, at: datetime, kept: timedelta) -> bool:
    """Whether it will stay until somebody who is told of it now has submitted; else it is better brought again."""
    return at - found.modified < kept - _TO_SUBMIT


def unused(found: Iterable[ObjectInfo], named: Collection[str], *, at: datetime, kept: timedelta) -> list[str]:
    """The keys of those no application names, and nobody has brought for so long."""
    return [one.key for one in found if one.key not in named and at - one.modified >= kept]
