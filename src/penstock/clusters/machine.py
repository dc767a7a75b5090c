"""What this machine has: the cores and the memory this process may use, containers' limits included.

What clusters may have is for their backend to say (`choice.capacity`): they need not be on this machine.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path, PurePosixPath

from penstock.clusters import pagecache
from penstock.engine.application import Capacity
from penstock.errors import InvalidInput
from penstock.home import Home

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")

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


def _cores() -> int:
    return max(1, min([len(os.sched_getaffinity(0)), *(int(cpus) for cpus in map(_cpus, _limits("cpu.max")) if cpus)]))


def _cpus(limit: str) -> float | None:
    try:
        quota, period = limit.split()
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max 100000": no limit
        return None


def _memory() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([memory, *(int(limit) for limit in _limits("memory.max") if limit.isdigit())])


def _limits(name: str) -> list[str]:
    """The values of this file of the process's own control group (cgroup v2) and of each group that contains it.

    A systemd unit or slice has its limits there; in a container the outermost group that is visible has them.
    """
    try:
        lines = (_PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    group = PurePosixPath("/", own)
    # With a cgroup namespace, a group outside of it is shown as "/../…": only the root is visible then.
    groups = [PurePosixPath("/")] if ".." in group.parts else [group, *group.parents]
    found = []
    for one in groups:
        with contextlib.suppress(OSError):
            found.append((_CGROUP / one.relative_to("/") / name).read_text(encoding="ascii").strip())
    return found
