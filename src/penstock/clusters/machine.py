"""This machine's resources: cores and memory within the limits of control groups, page-cache tiers, scratch space.

Clusters need not run on this machine: their backend reports the capacity for them (`clusters.choice.capacity`).
The tiers belong to a home and outlive its clusters. The applications' file systems read and fill them
(jvm/filesystem, `io.penstock.fs.cache`); this module only chooses place and size, and reads the header of their table.
Scratch outside of the home is below a directory that only its user can read. A link in the application's directory
points at it, so that it is found whatever the environment or the settings have become.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import struct
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.errors import InvalidInput, StateError
from penstock.home import Home, read_json, require_private, write_atomically, write_json
from penstock.model import Capacity
from penstock.profiles.s3a import CACHE_PREFIX

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the directory below it is private, and checked to be ours
_SHARE_OF_MEMORY = 0.10
_SHARE_OF_DISK = 0.10
_SHARE_OF_ROOM = 0.5
"""The maximum share of a file system's free space: it has other users."""

_GENERATION = "v1"
_DISCARDED = "v1-discarded-"
_OWNER = "home"
# io.penstock.fs.cache.PageTable: 64-bit words, each in a cache line of its own.
_MAGIC = 0x50454E53544B3031
_HEADER = struct.Struct("@QQ48xQ56xQ56xQ56x64xQ")


@dataclass(frozen=True)
class TierBudgets:
    """The user's budgets of the tiers, in bytes; None for the default share, 0 for no such tier."""

    memory_bytes: int | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True)
class TierContents:
    """The figures in a tier's table: bytes in use, pages in it, and evictions since it was created."""

    used_bytes: int
    pages: int
    evictions: int


@dataclass(frozen=True)
class Tier:
    """A tier of the page cache. `budget_bytes` is 0 where the tier is off."""

    name: str
    directory: Path
    budget_bytes: int
    contents: TierContents | None
    """None while the tier is empty: unused so far, or dropped."""


def tiers(home: Home, memory_bytes: int) -> tuple[Tier, Tier]:
    """Return the memory tier and the disk tier, on a machine with that much memory.

    The default is a tenth of the machine's memory and of the disk, at most half of the free space of their file
    systems. The memory tier is off where another user owns its place.
    """
    budgets = configured_budgets(home)
    memory, disk = _memory_directory(home), home.cache / "pages"
    in_memory = int(memory_bytes * _SHARE_OF_MEMORY) if _SHARED_MEMORY.is_dir() else 0
    return (
        _off(memory) if _is_foreign(memory) else _tier("memory", memory, budgets.memory_bytes, in_memory),
        _tier("disk", disk, budgets.disk_bytes, int(_usage(disk).total * _SHARE_OF_DISK)),
    )


def prepare_tiers(home: Home, found: Iterable[Tier]) -> list[Tier]:
    """Claim the memory tier for this home, and remove those of deleted homes: nothing else would free their memory.

    Returns the tiers, with the memory tier off where its place cannot be used. Never raises: without a tier,
    applications are only slower.
    """
    for other in _SHARED_MEMORY.glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):
            require_private(other)
            if not Path((other / _OWNER).read_text(encoding="utf-8")).exists():
                shutil.rmtree(other, ignore_errors=True)
    return [_claimed(home, tier) if tier.name == "memory" and tier.budget_bytes else tier for tier in found]


def _claimed(home: Home, tier: Tier) -> Tier:
    try:
        tier.directory.mkdir(mode=0o700, exist_ok=True)
        # Any user may create names in shared memory, also since the tiers were listed.
        require_private(tier.directory)
        write_atomically(tier.directory / _OWNER, str(home.root))
    except OSError:
        return _off(tier.directory)
    return tier


def tier_settings(found: Iterable[Tier]) -> dict[str, str]:
    """Return the Spark settings of the cache for every application on this machine."""
    settings: dict[str, str] = {}
    for tier in found:
        settings[f"{CACHE_PREFIX}{tier.name}.dir"] = str(tier.directory)
        settings[f"{CACHE_PREFIX}{tier.name}.size"] = str(tier.budget_bytes)
    return settings


def configured_budgets(home: Home) -> TierBudgets:
    found = read_json(_chosen_file(home))
    return TierBudgets(**found) if found else TierBudgets()


def configure_budgets(home: Home, budgets: TierBudgets) -> None:
    """Store the user's budgets. Applications that start from now on keep to them, and evict the excess as they run."""
    home.create()
    write_json(_chosen_file(home), asdict(budgets))


def drop_pages(found: Iterable[Tier]) -> int:
    """Remove all pages and all metadata of objects; return their size in bytes.

    Running applications no longer find them: the table that they share is marked as invalid. They read from the lake,
    and fill the directory again. Raises `StateError` where a file cannot be removed.
    """
    freed = 0
    for tier in found:
        if tier.contents is None:
            continue
        freed += tier.contents.used_bytes
        try:
            aside = tier.directory / f"{_DISCARDED}{os.getpid()}-{time.monotonic_ns()}"
            (tier.directory / _GENERATION).rename(aside)
            # Only after the rename, so that another process finds either no table or a new one.
            with contextlib.suppress(FileNotFoundError), (aside / "table").open("r+b") as table:
                table.write(bytes(8))
            for entry in tier.directory.iterdir():
                # An application may have started a new table. The processes synchronize on one lock file: it stays.
                if entry.name not in (_GENERATION, "lock", _OWNER):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError as error:
            raise StateError(
                f"The pages in {tier.directory} cannot be removed", why=f"{error.strerror}: {error.filename}"
            ) from error
    return freed


def remove_tiers(found: Iterable[Tier]) -> None:
    """Remove the tiers with their directories. No application may be using them."""
    for tier in found:
        if tier.name != "memory" or not _is_foreign(tier.directory):
            shutil.rmtree(tier.directory, ignore_errors=True)


def _tier(name: str, directory: Path, budget: int | None, default: int) -> Tier:
    contents = _contents(directory)
    if budget is None:
        used = contents.used_bytes if contents else 0
        budget = min(default, int((_usage(directory).free + used) * _SHARE_OF_ROOM))
    return Tier(name, directory, budget, contents)


def _off(directory: Path) -> Tier:
    return Tier("memory", directory, 0, None)


def _is_foreign(directory: Path) -> bool:
    """Return whether the path exists and is not a private directory of this account."""
    try:
        require_private(directory)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _contents(directory: Path) -> TierContents | None:
    with contextlib.suppress(OSError, struct.error):
        with (directory / _GENERATION / "table").open("rb") as table:
            magic, _slots, _budget, used, pages, evictions = _HEADER.unpack(table.read(_HEADER.size))
        if magic == _MAGIC:
            return TierContents(used, pages, evictions)
    return None


def _memory_directory(home: Home) -> Path:
    # Each home has a cache of its own, whose name is the same after every start.
    of_home = hashlib.sha256(os.fsencode(home.root)).hexdigest()[:12]
    return _SHARED_MEMORY / f"{_prefix()}{of_home}"


def _prefix() -> str:
    return f"penstock-{os.getuid()}-"


def _chosen_file(home: Home) -> Path:
    return home.root / "page-cache.json"


def _usage(directory: Path) -> Any:
    """Return the usage of the file system that holds the directory, or will hold it."""
    for place in (directory, *directory.parents):
        with contextlib.suppress(FileNotFoundError):
            return shutil.disk_usage(place)
    raise AssertionError("the root directory exists")


_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")

_KEPT_FREE = 0.10
"""The share of memory reserved for the system, the embedded lake and the catalog."""


def capacity(home: Home | None = None) -> Capacity:
    """Return the capacity for applications, less the memory tier of `home`, or of the default home."""
    in_memory, _ = page_cache(home or Home.default())
    return Capacity(cores=_cores(), memory_bytes=int(_memory() * (1 - _KEPT_FREE)) - in_memory.budget_bytes)


def page_cache(home: Home) -> tuple[Tier, Tier]:
    """Return the memory tier and the disk tier."""
    return tiers(home, _memory())


def require_room(budgets: TierBudgets) -> None:
    """Raise `InvalidInput` where these budgets would leave applications less than half of the memory."""
    most = _memory() // 2
    if budgets.memory_bytes is not None and budgets.memory_bytes > most:
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
    """Return the values of a file in the process's control group (cgroup v2) and in each group that contains it.

    The limits of a systemd unit or slice are there; in a container they are in the outermost visible group.
    """
    try:
        lines = (_PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    group = PurePosixPath("/", own)
    # In a cgroup namespace, a group outside of it appears as "/../…": only the root is visible then.
    groups = [PurePosixPath("/")] if ".." in group.parts else [group, *group.parents]
    found = []
    for one in groups:
        with contextlib.suppress(OSError):
            found.append((_CGROUP / one.relative_to("/") / name).read_text(encoding="ascii").strip())
    return found


_ATTEMPTS = 3


def make_scratch(home: Home, application_id: str, root: Path, link_name: str) -> Path:
    """Create the application's directory below `root`, and the link to it. Raises `OSError`.

    First removes the directories of deleted applications, which remain where every process that would have removed them
    was killed.
    """
    for _ in range(_ATTEMPTS - 1):
        # Another application, the last one there, may be removing the parent directories.
        with contextlib.suppress(FileNotFoundError):
            return _make_once(home, application_id, root, link_name)
    return _make_once(home, application_id, root, link_name)


def _make_once(home: Home, application_id: str, root: Path, link_name: str) -> Path:
    ours = _ours(home, root)
    link = home.application(application_id) / link_name
    place = ours / application_id
    for directory in (ours.parent, ours):
        directory.mkdir(mode=0o700, exist_ok=True)
        require_private(directory)
    _sweep(home, ours)
    if not link.is_symlink():
        link.symlink_to(place)
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def remove_scratch(directory: Path, link_name: str) -> None:
    """Remove the scratch of the application in `directory`, if any."""
    link = directory / link_name
    if link.is_symlink():
        place = link.readlink()
        shutil.rmtree(place, ignore_errors=True)
        # `rmdir` fails while other applications use the directory.
        for emptied in (place.parent, place.parent.parent):
            with contextlib.suppress(OSError):
                emptied.rmdir()


def _ours(home: Home, root: Path) -> Path:
    """Return the directory of this user and home, in which the ids of applications are unique."""
    name = hashlib.sha256(os.fsencode(home.root.absolute())).hexdigest()[:16]
    return root / f"penstock-{os.getuid()}-scratch" / name


def _sweep(home: Home, ours: Path) -> None:
    for place in ours.iterdir():
        if not home.application(place.name).exists():
            shutil.rmtree(place, ignore_errors=True)


_ROOT = "/dev/shm"  # noqa: S108  Linux's file system in memory; the directory below it is private
_LINK = "scratch-memory"


def prepare_scratch_memory(home: Home, application_id: str) -> Path | None:
    """Create the directory; return None where no memory file system can be used: scratch is on disk then."""
    root = Path(os.environ.get("PENSTOCK_MEMORY_DIRECTORY") or _ROOT)
    try:
        return make_scratch(home, application_id, root, _LINK)
    except OSError:
        return None


def remove_scratch_memory(directory: Path) -> None:
    """Remove the scratch in memory of the application in `directory`, if any."""
    remove_scratch(directory, _LINK)
