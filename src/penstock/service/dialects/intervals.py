"""IBM's time intervals: `<lower>,<upper>`, the lower end inclusive, the upper one exclusive. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from penstock.engine.repository.listing import Interval
from penstock.errors import InvalidInput

_BEGINNING, _CURRENT = "BEGINNING", "CURRENT"
_EXAMPLE = "BEGINNING,2026-11-21T12:00:00Z"
# Python 3.10 reads neither `Z`, nor `+0000`, nor a fraction of any length.
_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[Tt](?P<time>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))?)?",
    re.ASCII,
)


def parse(name: str, text: str | None, now: datetime) -> Interval:
    """Raises `InvalidInput`. A time without a zone is UTC, as everywhere in these APIs."""
    if not text:
        return Interval()
    lower, comma, upper = text.partition(",")
    if not comma or "," in upper:
        raise _wrong(name, "it needs two times and one comma between them")
    begin = None if lower.strip() == _BEGINNING else _time(name, lower)
    end = now if upper.strip() == _CURRENT else _time(name, upper)
    if begin is not None and end < begin:
        raise _wrong(name, "it ends before it begins")
    return Interval(begin, end)


def _time(name: str, text: str) -> datetime:
    # A `+` that came into an address as it is arrives as a blank.
    found = _TIME.fullmatch(text.strip().replace(" ", "+"))
    if found is None:
        raise _wrong(name, "a time is written in ISO 8601, or BEGINNING, or CURRENT at the end")
    zone = f"{found['sign']}{found['hours']}:{found['minutes']}" if found["sign"] else "+00:00"
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    time = found["time"] or "00:00"
    clock = f"{time if time.count(':') == 2 else time + ':00'}.{fraction}"
    try:
        return datetime.fromisoformat(f"{found['date']}T{clock}{zone}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise _wrong(name, "there is no such time") from None


def _wrong(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"{name} is no interval", why=why, fix=f"?{name}={_EXAMPLE}")
