"""Sizes, times, quantities, counts: parsed as Spark, Hadoop and Kubernetes write them, shown as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.errors import InvalidInput

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def gibibytes(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB"


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


def parse_size(text: str, *, unit: str = "b") -> int | None:
    """Parse `4g`, `512 MB`… to bytes (powers of 1024), a bare number counted in `unit`; None where it is not a size."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or (match[2] or unit) not in _SIZE_UNITS:
        return None
    return int(match[1]) * _SIZE_UNITS[match[2] or unit]


def parse_seconds(text: str, *, unit: str = "s") -> float | None:
    """Parse `10s`, `500ms`, `5min`… to seconds, a bare number counted in `unit`; None where it is not a time."""
    match = _TIME.fullmatch(text.strip().lower())
    if match is None or (match[2] or unit) not in _TIME_UNITS:
        return None
    return int(match[1]) * _TIME_UNITS[match[2] or unit]


def require_size(text: str, option: str, *, unit: str = "", example: str = "32m", least: int = 1) -> int:
    """Parse the size of an option. Raises `InvalidInput`, also for a bare number if it has no `unit`."""
    found = parse_size(text, unit=unit)
    if found is None or found < least:
        raise InvalidInput(
            f"{option} {text} is not a size", why="a size is a number with k, m, g or t", fix=f"{option} {example}"
        )
    return found


def require_seconds(text: str, option: str) -> float:
    """Parse the time of an option; a bare number is seconds. Raises `InvalidInput`."""
    found = parse_seconds(text)
    if found is None or found < 0:
        raise InvalidInput(
            f"{option} {text} is not a time", why="a time is a number with s, m, h or d", fix=f"{option} 90s, 15m, 2h"
        )
    return found


def short_size(count: int) -> str:
    """`32m`, `256k`, `100000b`: the shortest text that `parse_size` reads."""
    for unit, letter in ((GIB, "g"), (MIB, "m"), (KIB, "k")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return f"{count}b"


def parse_number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None


def parse_flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|[KMGTPE]i?|k)?")
_QUANTITY_UNITS = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 0.001,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
} | {f"{letter}i": float(1 << (10 * power)) for power, letter in enumerate(" KMGTPE") if power}


def parse_quantity(text: str) -> float:
    """Parse `500m`, `2`, `1Gi`, `1e3` to a number. Raises `ValueError`."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _QUANTITY_UNITS.get(match[2] or "", 1.0)


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def seconds(value: float) -> str:
    """`0.84 s`, `12.3 s`, `4 min 05 s`, `1 h 02 min`."""
    if value < 10:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def latency(value: float) -> str:
    """`850 µs`, `4.21 ms`, `1.30 s`; `value` is in seconds."""
    if value < 0.9995e-3:
        return f"{_three_digits(value * 1e6)} µs"
    return f"{_three_digits(value * 1e3)} ms" if value < 0.9995 else f"{_three_digits(value)} s"


def data(count: float) -> str:
    """Data moved or stored, in powers of ten as the field counts it: `1.07 GB`. Memory has `size`."""
    unit = 0
    while count >= 999.5 and unit < len(_DECIMAL_UNITS) - 1:
        count /= 1000
        unit += 1
    return f"{count:.0f} B" if unit == 0 else f"{_three_digits(count)} {_DECIMAL_UNITS[unit]}"


def rate(bytes_per_second: float) -> str:
    """`87.3 MB/s`."""
    return f"{data(bytes_per_second)}/s"


def operations(per_second: float) -> str:
    """`1 240 operations/s`."""
    return f"{count(per_second) if per_second >= 1000 else _three_digits(per_second)} operations/s"


def _three_digits(value: float) -> str:
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def size(count: float) -> str:
    """`252.0 MiB`."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def count(value: float) -> str:
    """`1 234 567`, with thin spaces."""
    return f"{value:,.0f}".replace(",", "\u202f")


def number(value: float) -> str:
    """A factor with its significant digits: `0.683`, `1.52`, `12.4`."""
    return f"{value:.3g}" if value < 1000 else count(value)


def digits(value: float) -> str:
    """Seconds in a column: three decimals for small values, else one."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def plural(many: int, noun: str, nouns: str = "") -> str:
    return f"{count(many)} {noun if many == 1 else nouns or noun + 's'}"


def some(names: Sequence[str], many: int = 5) -> str:
    """The first few names and the number of the others."""
    return ", ".join(names[:many]) + (f" and {len(names) - many} more" if len(names) > many else "")


def capitalised(sentence: str) -> str:
    """Capitalise the first letter only, since the rest may contain names."""
    return sentence[:1].upper() + sentence[1:]
