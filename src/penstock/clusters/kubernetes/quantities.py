"""Kubernetes' way to write amounts. Pure."""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|[KMGTPE]i?|k)?")
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 0.001, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18} | {
    f"{letter}i": float(1 << (10 * power)) for power, letter in enumerate(" KMGTPE") if power
}


def quantity(text: str) -> float:
    """`500m`, `2`, `1Gi`, `1e3`, as a number; `ValueError` where it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _UNITS.get(match[2] or "", 1.0)
