"""Shuffle and spill in memory, up to a budget, and on disk beyond it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.application import ClusterSize
from penstock.profiles import values
from penstock.profiles.setting import Layer, Setting, mebibytes

MEMORY = "spark.penstock.scratch.memory"
"""How much all executors of an application together may have in memory, as a size; 0 for none."""

DISK = "spark.penstock.scratch.disk"
"""The directory below which scratch on disk is, on a device of its own; else it is in the home."""

_SOURCE = "docs/guide/filesystem.md, 'Scratch'"


def budget_bytes(settings: Mapping[str, str]) -> int:
    """What the final settings promise to scratch in memory."""
    return values.size_in_bytes(settings.get(MEMORY, "0")) or 0


def _quarter_of_the_heaps(size: ClusterSize) -> str:
    return mebibytes(size.executors * size.executor.memory_bytes // 4)


ON_DISK = Setting(
    MEMORY,
    "0",
    "What shuffle and spill have in memory no other cluster can be promised, and the system's own cache keeps a small "
    "shuffle from the disk anyway; profiles with “memory” in their name ask for it",
    _SOURCE,
)

LAYER = Layer(
    "memory",
    "shuffle and spill in memory, up to a quarter of the executors' heap",
    (
        Setting(
            MEMORY,
            _quarter_of_the_heaps,
            "Where the shuffle's disk is the limit, what fits into memory need not wait for it; the rest goes to disk",
            _SOURCE,
        ),
    ),
)
