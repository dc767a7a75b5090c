"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

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
    """A factor with as many digits as mean something: `0.683`, `1.52`, `12.4`."""
    return f"{value:.3g}" if value < 1000 else count(value)


def digits(value: float) -> str:
    """Seconds in a column: three digits where they are few, else one after the point."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def plural(many: int, noun: str, nouns: str = "") -> str:
    return f"{count(many)} {noun if many == 1 else nouns or noun + 's'}"


def some(names: Sequence[str], many: int = 5) -> str:
    """The first few, and how many more."""
    return ", ".join(names[:many]) + (f" and {len(names) - many} more" if len(names) > many else "")


def capitalised(sentence: str) -> str:
    """Only the first letter: the rest may hold names."""
    return sentence[:1].upper() + sentence[1:]
