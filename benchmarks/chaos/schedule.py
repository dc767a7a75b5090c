"""The process faults of a round: a seeded plan of victims and moments. Pure; `process_faults.py` carries it out.

These faults come by the clock, whatever happens at the moment. Kills at a chosen request (in a task's upload, in the
decision, in the commit) are request faults, `faults.KillClient` and `faults.StopClient`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

KILL, STOP = "kill", "stop"

GATEWAY, STORE, DATABASE = "gateway", "store", "database"
SUPERVISOR, SHIM, DRIVER, EXECUTOR = "supervisor", "shim", "driver", "executor"
DISK = "disk"
OSD, MONITOR, RADOS_GATEWAY = "osd", "monitor", "rados gateway"

# Relative frequencies. A killed process supervisor (`shim`) or driver ends its application.
_WEIGHTS = {
    (GATEWAY, KILL): 4,
    (GATEWAY, STOP): 3,
    (DATABASE, KILL): 3,
    (DATABASE, STOP): 2,
    (SUPERVISOR, KILL): 4,
    (SUPERVISOR, STOP): 1,
    (SHIM, KILL): 1,
    (DRIVER, KILL): 1,
    (DRIVER, STOP): 1,
    (EXECUTOR, KILL): 4,
    (EXECUTOR, STOP): 2,
}
EMBEDDED, CEPH = "embedded", "ceph"
# Relative frequencies by the kind of the store.
_STORES = {
    EMBEDDED: {(STORE, KILL): 2, (STORE, STOP): 3},
    CEPH: {
        (OSD, KILL): 4,
        (OSD, STOP): 3,
        (MONITOR, KILL): 2,
        (MONITOR, STOP): 1,
        (RADOS_GATEWAY, KILL): 4,
        (RADOS_GATEWAY, STOP): 3,
    },
}
_FULL = {(DISK, "fill"): 3}


@dataclass(frozen=True)
class ProcessFault:
    """A fault `at` seconds after the work has begun.

    After `seconds` a stopped victim continues, and a killed one that is not part of an application is started again.
    `chance`, of [0, 1), chooses among several victims.
    """

    at: float
    victim: str
    action: str
    seconds: float
    chance: float

    @property
    def kind(self) -> str:
        return {KILL: f"{self.victim} killed", STOP: f"{self.victim} stopped"}.get(self.action, "disk full")


def process_faults(
    seed: str, *, count: int, within: tuple[float, float], store: str = EMBEDDED, small_disk: bool = False
) -> Sequence[ProcessFault]:
    """`count` faults at moments in the interval `within`, in chronological order.

    `store` is the kind of the store whose processes are among the victims. With `small_disk` a disk can be filled, too.
    """
    chance = random.Random(seed)
    weights = {**_WEIGHTS, **_STORES.get(store, {}), **(_FULL if small_disk else {})}
    chosen = chance.choices(list(weights), list(weights.values()), k=count)
    moments = sorted(chance.uniform(*within) for _ in range(count))
    return [
        ProcessFault(at, victim, action, chance.uniform(1.0, 5.0), chance.random())
        for at, (victim, action) in zip(moments, chosen, strict=True)
    ]
