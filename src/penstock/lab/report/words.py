"""Numbers as people read them."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


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
    """A factor with as many digits as mean something: `0.683`, `1.52`, `12.4`."""
    return f"{value:.3g}" if value < 1000 else count(value)


def plural(many: int, noun: str, nouns: str = "") -> str:
    return f"{count(many)} {noun if many == 1 else nouns or noun + 's'}"
