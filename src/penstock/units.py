"""Powers of two that sizes in bytes are made of."""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def gibibytes(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB"
