"""Values as Spark and Hadoop read them: sizes with a suffix, times with a unit, flags."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(-?\d+)([a-z]*)")
_SIZE_UNITS = {
    suffix: 1 << (10 * power) for power, letter in enumerate(" kmgtp") if power for suffix in (letter, f"{letter}b")
} | {"b": 1}

_TIME = re.compile(r"(-?\d+)([a-z]*)")
_TIME_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def size_in_bytes(text: str, *, unit: str = "b") -> int | None:
    """`4g`, `512 MB`… in bytes (powers of 1024), a bare number counted in `unit`; None where it is no size."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or (match[2] or unit) not in _SIZE_UNITS:
        return None
    return int(match[1]) * _SIZE_UNITS[match[2] or unit]


def seconds(text: str, *, unit: str = "s") -> float | None:
    """`10s`, `500ms`, `5min`… in seconds, a bare number counted in `unit`; None where it is no time."""
    match = _TIME.fullmatch(text.strip().lower())
    if match is None or (match[2] or unit) not in _TIME_UNITS:
        return None
    return int(match[1]) * _TIME_UNITS[match[2] or unit]


def number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None


def flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())
