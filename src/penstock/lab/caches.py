"""What a repetition finds in the caches: what the one before it left there, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.clusters import machine
from penstock.errors import InvalidInput, MissingRequirement
from penstock.home import Home

KEEP = "keep"
DROP = "drop"
POLICIES = (KEEP, DROP)

_SWITCH = Path("/proc/sys/vm/drop_caches")
_PAGES_AND_NAMES = "3\n"


def require(policy: str) -> None:
    """Raise where this process could not do as the policy says: `InvalidInput` or `MissingRequirement`."""
    if policy not in POLICIES:
        raise InvalidInput(f"“{policy}” is nothing to do with caches", fix=f"choose one of {', '.join(POLICIES)}")
    if policy == DROP:
        try:
            os.close(os.open(_SWITCH, os.O_WRONLY))
        except OSError as error:
            raise MissingRequirement(
                "The operating system's caches cannot be dropped here",
                why=f"{_SWITCH}: {error.strerror}; it takes root, and in a container the host's consent",
                fix="run the command as root, or measure with the caches as they are (caches: keep)",
            ) from error


def prepare(policy: str, home: Home) -> None:
    """Before a repetition: drop every cache of this machine, or none.

    This is the one place where caches are dropped. Penstock's page cache goes first, both tiers. The operating system's
    holds the embedded store's data, tables and jars alike; what is not written yet is written first, since only clean
    pages are dropped. What a store on other machines keeps in memory is out of reach.

    Raises `StateError` where pages cannot be removed.
    """
    if policy == DROP:
        machine.drop_pages(machine.page_cache(home))
        os.sync()
        _SWITCH.write_text(_PAGES_AND_NAMES, encoding="ascii")
