"""What this machine has: the cores and the memory this process may use, containers' limits included."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.clusters import pagecache
from penstock.clusters.base import Capacity
from penstock.engine.application import ClusterSize, ProcessSize
from penstock.errors import InvalidInput
from penstock.home import Home

_KEPT_FREE = 0.10
"""Of the memory, for the system, the embedded lake and the catalog."""


def capacity(home: Home | None = None) -> Capacity:
    """What applications may be promised; the page cache of `home` (else the default one) has its memory already."""
    in_memory, _ = page_cache(home or Home.default())
    return Capacity(cores=_cores(), memory_bytes=int(_memory() * (1 - _KEPT_FREE)) - in_memory.budget_bytes)


def page_cache(home: Home) -> tuple[pagecache.Tier, pagecache.Tier]:
    """The memory tier and the disk tier."""
    return pagecache.tiers(home, _memory())


def require_room(wanted: pagecache.Chosen) -> None:
    """Raise `InvalidInput` where such a cache would leave applications less than half of the memory."""
    most = _memory() // 2
    if wanted.memory_bytes is not None and wanted.memory_bytes > most:
        raise InvalidInput(
            "The memory tier would be too large",
            why=f"this machine has {_memory() >> 20} MiB, and applications need at least half of it",
            fix=f"penstock cache size --memory {most >> 20}m",
        )


def default_size(available: Capacity) -> ClusterSize:
    """What an application gets that asked for nothing: all cores in one executor, a quarter of the memory as its heap
    (at most 8 GiB), an eighth for the driver (at most 4 GiB); each at least 512 MiB."""
    return ClusterSize(
        driver=ProcessSize(1, _heap(available.memory_bytes // 8, at_most=4 << 30)),
        executor=ProcessSize(available.cores, _heap(available.memory_bytes // 4, at_most=8 << 30)),
        executors=1,
    )


def _heap(wanted: int, *, at_most: int) -> int:
    return min(max(wanted, 512 << 20), at_most) >> 20 << 20


def _cores() -> int:
    cores = len(os.sched_getaffinity(0))
    try:
        quota, _, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").partition(" ")
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def _memory() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        return memory if limit == "max" else min(memory, int(limit))
    except (OSError, ValueError):
        return memory
