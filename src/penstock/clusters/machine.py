"""This machine's resources: cores and memory within containers' limits, page-cache tiers, scratch space.

The capacity for clusters is their backend's to report (`clusters.capacity`): they need not be on this machine.
The tiers belong to a home and outlive its clusters. The applications' file systems read and fill them
(jvm/filesystem, `io.penstock.fs.cache`); this module only decides where, and looks at the header of their table.
Scratch outside of the home is below a directory that only its user can look into, and known to the cluster by a link in
the application's directory: whoever has that finds it, whatever the environment or the settings have become.
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
"""Of what the file system could give: it has other users."""

_GENERATION = "v1"
_DISCARDED = "v1-discarded-"
_OWNER = "home"
# io.penstock.fs.cache.PageTable: words of 64 bits, one cache line each.
_MAGIC = 0x50454E53544B3031
_HEADER = struct.Struct("@QQ48xQ56xQ56xQ56x64xQ")


@dataclass(frozen=True)
class Chosen:
    """Budgets the user has set, in bytes; None where the usual share holds, 0 for no such tier."""

    memory_bytes: int | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True)
class Contents:
    """What a tier's table says of it: bytes and counts since the tier was made."""

    used_bytes: int
    pages: int
    evictions: int


@dataclass(frozen=True)
class Tier:
    """`budget_bytes` is 0 where there is no such tier."""

    name: str
    directory: Path
    budget_bytes: int
    contents: Contents | None
    """None where nothing was kept there yet, or all of it was dropped."""


def tiers(home: Home, memory_bytes: int) -> tuple[Tier, Tier]:
    """The memory tier and the disk tier, on a machine with so much memory.

    A tenth of the machine's memory and of the disk, but never more than half of what their file systems could give.
    There is no memory tier where its place is somebody else's.
    """
    wanted = chosen_budgets(home)
    memory, disk = _memory_directory(home), home.cache / "pages"
    in_memory = int(memory_bytes * _SHARE_OF_MEMORY) if _SHARED_MEMORY.is_dir() else 0
    return (
        _off(memory) if _is_a_strangers(memory) else _tier("memory", memory, wanted.memory_bytes, in_memory),
        _tier("disk", disk, wanted.disk_bytes, int(_usage(disk).total * _SHARE_OF_DISK)),
    )


def prepare_tiers(home: Home, found: Iterable[Tier]) -> list[Tier]:
    """Say whose the memory tier is, and remove those whose home is gone: nothing else would give their memory back.

    Returns the tiers, without memory where its place cannot be used. Never raises: a missing tier makes applications
    slower and no more.
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
        # Everybody may make names in shared memory, also since the tiers were looked at.
        require_private(tier.directory)
        write_atomically(tier.directory / _OWNER, str(home.root))
    except OSError:
        return _off(tier.directory)
    return tier


def tier_settings(found: Iterable[Tier]) -> dict[str, str]:
    """What every application on this machine is told of the cache."""
    told: dict[str, str] = {}
    for tier in found:
        told[f"{CACHE_PREFIX}{tier.name}.dir"] = str(tier.directory)
        told[f"{CACHE_PREFIX}{tier.name}.size"] = str(tier.budget_bytes)
    return told


def chosen_budgets(home: Home) -> Chosen:
    found = read_json(_chosen_file(home))
    return Chosen(**found) if found else Chosen()


def choose_budgets(home: Home, budgets: Chosen) -> None:
    """Applications started from now on keep to it; what is too much then is evicted as they go."""
    home.create()
    write_json(_chosen_file(home), asdict(budgets))


def drop_pages(found: Iterable[Tier]) -> int:
    """Remove all pages, and what was known of objects; returns how many bytes they took.

    Applications that run meanwhile find none of them from now on: the table that they share says that it is gone. They
    read from the lake, and fill the directory again.
    """
    freed = 0
    for tier in found:
        if tier.contents is None:
            continue
        freed += tier.contents.used_bytes
        try:
            aside = tier.directory / f"{_DISCARDED}{os.getpid()}-{time.monotonic_ns()}"
            (tier.directory / _GENERATION).rename(aside)
            # After the rename: whoever looks sees either no table or a new one.
            with contextlib.suppress(FileNotFoundError), (aside / "table").open("r+b") as table:
                table.write(bytes(8))
            for entry in tier.directory.iterdir():
                # An application may have begun anew. The lock is what processes agree through: never two of it.
                if entry.name not in (_GENERATION, "lock", _OWNER):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError as error:
            raise StateError(
                f"The pages in {tier.directory} cannot be removed", why=f"{error.strerror}: {error.filename}"
            ) from error
    return freed


def remove_tiers(found: Iterable[Tier]) -> None:
    """The directories too; nothing may be using them."""
    for tier in found:
        if tier.name != "memory" or not _is_a_strangers(tier.directory):
            shutil.rmtree(tier.directory, ignore_errors=True)


def _tier(name: str, directory: Path, wanted: int | None, usual: int) -> Tier:
    contents = _contents(directory)
    if wanted is None:
        used = contents.used_bytes if contents else 0
        wanted = min(usual, int((_usage(directory).free + used) * _SHARE_OF_ROOM))
    return Tier(name, directory, wanted, contents)


def _off(directory: Path) -> Tier:
    return Tier("memory", directory, 0, None)


def _is_a_strangers(directory: Path) -> bool:
    """Whether something is there that this account did not make for itself alone."""
    try:
        require_private(directory)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _contents(directory: Path) -> Contents | None:
    with contextlib.suppress(OSError, struct.error):
        with (directory / _GENERATION / "table").open("rb") as table:
            magic, _slots, _budget, used, pages, evictions = _HEADER.unpack(table.read(_HEADER.size))
        if magic == _MAGIC:
            return Contents(used, pages, evictions)
    return None


def _memory_directory(home: Home) -> Path:
    # Two homes have two caches; the name says whose it is, and is the same after every start.
    of_home = hashlib.sha256(os.fsencode(home.root)).hexdigest()[:12]
    return _SHARED_MEMORY / f"{_prefix()}{of_home}"


def _prefix() -> str:
    return f"penstock-{os.getuid()}-"


def _chosen_file(home: Home) -> Path:
    return home.root / "page-cache.json"


def _usage(directory: Path) -> Any:
    """Of the file system the directory is in, or will be."""
    for place in (directory, *directory.parents):
        with contextlib.suppress(FileNotFoundError):
            return shutil.disk_usage(place)
    raise AssertionError("the root directory exists")


_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")

_KEPT_FREE = 0.10
"""Of the memory, for the system, the embedded lake and the catalog."""


def capacity(home: Home | None = None) -> Capacity:
    """What applications may be promised; the page cache of `home` (else the default one) has its memory already."""
    in_memory, _ = page_cache(home or Home.default())
    return Capacity(cores=_cores(), memory_bytes=int(_memory() * (1 - _KEPT_FREE)) - in_memory.budget_bytes)


def page_cache(home: Home) -> tuple[Tier, Tier]:
    """The memory tier and the disk tier."""
    return tiers(home, _memory())


def require_room(wanted: Chosen) -> None:
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


_ATTEMPTS = 3


def make_scratch(home: Home, application_id: str, root: Path, link_name: str) -> Path:
    """Make the directory below `root`, and the link to it. Raises `OSError` where that cannot be.

    What applications that are no more have left there, with all who would have removed it killed, goes first.
    """
    for _ in range(_ATTEMPTS - 1):
        # Another application, the last one there, may be tidying up.
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
    """Give back what the application in `directory` had there. Nothing happens where it has none."""
    link = directory / link_name
    if link.is_symlink():
        place = link.readlink()
        shutil.rmtree(place, ignore_errors=True)
        # Not empty while others use it.
        for emptied in (place.parent, place.parent.parent):
            with contextlib.suppress(OSError):
                emptied.rmdir()


def _ours(home: Home, root: Path) -> Path:
    """Of one user and one home: the ids of applications are unique there."""
    name = hashlib.sha256(os.fsencode(home.root.absolute())).hexdigest()[:16]
    return root / f"penstock-{os.getuid()}-scratch" / name


def _sweep(home: Home, ours: Path) -> None:
    for place in ours.iterdir():
        if not home.application(place.name).exists():
            shutil.rmtree(place, ignore_errors=True)


_ROOT = "/dev/shm"  # noqa: S108  where Linux has memory; what is made below it is private
_LINK = "scratch-memory"


def prepare_scratch_memory(home: Home, application_id: str) -> Path | None:
    """Make the directory; None where this machine has no memory file system that can be used: disk is used then."""
    root = Path(os.environ.get("PENSTOCK_MEMORY_DIRECTORY") or _ROOT)
    try:
        return make_scratch(home, application_id, root, _LINK)
    except OSError:
        return None


def remove_scratch_memory(directory: Path) -> None:
    """Give the memory of the application in `directory` back. Nothing happens where it has none."""
    remove_scratch(directory, _LINK)
