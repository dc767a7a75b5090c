"""What a finding about this installation means. Pure: no I/O, no clock.

A `Judgement` is the lake check's: what was seen, and what Penstock does because of it or the user can do.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from penstock.engine.policy import admission
from penstock.engine.tokens import Scope, Token
from penstock.errors import PenstockError
from penstock.lake.check import Judgement, Outcome
from penstock.model import CORES_PER_CORE, Capacity, promised
from penstock.units import GIB, gibibytes

_LEAST_FREE_BYTES = 2 * GIB
_FEW_FREE_BYTES = 10 * GIB
_FEW_OPEN_FILES = 4096
_SOON = timedelta(days=14)
_EVERYBODY_ELSE = stat.S_IRWXG | stat.S_IRWXO


def failed(error: PenstockError) -> Judgement:
    """What stands in the way, as any command would say it."""
    told = f"{error.problem}: {error.why}" if error.why else error.problem
    return Judgement(Outcome.FAILED, told, error.fix)


def without_costs(error: PenstockError) -> Judgement:
    """Prices that cannot be read stop no application."""
    return Judgement(Outcome.LIMITED, f"{error.problem}: {error.why}", f"tells no costs until mended: {error.fix}")


def skipped(why: str) -> Judgement:
    return Judgement(Outcome.SKIPPED, why, "")


def room(capacity: Capacity) -> Judgement:
    """Whether an application that asks for nothing fits, and how many at once."""
    usual = admission.usual_size(capacity)
    wanted = promised(usual)
    seen = f"{capacity.cores} cores, {gibibytes(capacity.memory_bytes)} for applications"
    if refusal := admission.too_large(usual, capacity):
        return Judgement(Outcome.FAILED, seen, f"cannot start an application of the usual size: {refusal.message}")
    if waits := admission.waits_for(usual, capacity):
        return Judgement(Outcome.LIMITED, seen, f"queues an application of the usual size: {waits.message}")
    at_once = min(
        capacity.memory_bytes // wanted.memory_bytes,
        int(capacity.cores * CORES_PER_CORE) // wanted.cores,
    )
    return Judgement(Outcome.OK, seen, f"runs {at_once} of the usual size at once; others wait")


def disk(free_bytes: int, directory: Path) -> Judgement:
    seen = f"{gibibytes(free_bytes)} free for {directory}"
    if free_bytes < _LEAST_FREE_BYTES:
        return Judgement(Outcome.FAILED, seen, "shuffles and logs find no room: free some, or move PENSTOCK_HOME")
    if free_bytes < _FEW_FREE_BYTES:
        return Judgement(Outcome.LIMITED, seen, "a large shuffle may fill it: free some, or move PENSTOCK_HOME")
    return Judgement(Outcome.OK, seen, "keeps scratch, logs and the records there")


def open_files(limit: int) -> Judgement:
    if limit < _FEW_OPEN_FILES:
        return Judgement(
            Outcome.LIMITED, f"{limit} at once", f"may refuse clients and lose shuffles: ulimit -n {_FEW_OPEN_FILES}"
        )
    return Judgement(Outcome.OK, f"{limit} at once", "serves clients and shuffles with them")


def private(modes: Mapping[Path, int]) -> Judgement:
    """`modes` of what holds secrets: directories and files that are there."""
    if open_to_others := sorted(path for path, mode in modes.items() if mode & _EVERYBODY_ELSE):
        paths = " ".join(f"'{path}'" for path in open_to_others)
        return Judgement(Outcome.FAILED, f"others can read {len(open_to_others)} of them", f"chmod go= {paths}")
    seen = f"{len(modes)} places for their owner only" if modes else "none yet"
    return Judgement(Outcome.OK, seen, "keeps credentials and tokens there")


def records(version: str | None, head: str) -> Judgement:
    """The version of the records, and this release's."""
    if version is None:
        return Judgement(Outcome.OK, "none yet", "makes them with the first application")
    if version == head:
        return Judgement(Outcome.OK, f"version {version}", "reads and writes them")
    if version < head:
        return Judgement(
            Outcome.LIMITED, f"version {version}", f"the next command brings them to {head}: back them up before"
        )
    return Judgement(
        Outcome.FAILED, f"version {version}, made by a newer Penstock", f"install that release; this one knows {head}"
    )


def attended(left_alone: int, waiting: int, *, dispatched: bool) -> Judgement:
    """`left_alone`: nobody looks after them. `waiting`: for a dispatcher to start them. `dispatched`: one lives."""
    if waiting and not dispatched:
        return Judgement(Outcome.LIMITED, f"{waiting} wait, and no service starts them", "start one: penstock serve")
    if left_alone:
        return Judgement(
            Outcome.LIMITED, f"nobody looks after {left_alone}", "a service adopts them, or: penstock down stops them"
        )
    return Judgement(Outcome.OK, "somebody looks after each", "finds those that lose their process")


def tokens(known: Sequence[Token], at: datetime) -> Judgement:
    if not known:
        return Judgement(Outcome.OK, "none", "makes an administrator's with the first penstock serve")
    valid = [token for token in known if token.expires_at is None or token.expires_at > at]
    if not valid:
        return Judgement(Outcome.FAILED, f"all {len(known)} have expired", "penstock token create NAME")
    soon = [token for token in valid if token.expires_at is not None and token.expires_at - at < _SOON]
    if soon:
        names = ", ".join(token.name for token in soon)
        return Judgement(Outcome.LIMITED, f"{len(valid)} valid; soon to expire: {names}", "penstock token rotate ID")
    lasting = sum(
        token.expires_at is None and any(scope is Scope.ADMINISTER for scope in token.grants.values())
        for token in valid
    )
    told = f"{len(valid)} valid" + (f", {lasting} of an administrator for ever" if lasting else "")
    return Judgement(Outcome.OK, told, "accepts them")


def certificate(not_after: datetime, at: datetime) -> Judgement:
    left = not_after - at
    seen = f"valid until {not_after:%Y-%m-%d}"
    if left <= timedelta():
        return Judgement(Outcome.FAILED, seen, "clients refuse it: renew it and start the service again")
    if left < _SOON:
        return Judgement(Outcome.LIMITED, seen, "renew it, and start the service again")
    return Judgement(Outcome.OK, seen, "encrypts with it")
