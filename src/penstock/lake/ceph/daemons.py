"""The daemons of one Ceph: their names, their commands, and what is to be started next. Nothing is done here."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import NotFound
from penstock.lake.ceph.configuration import CONFIGURATION
from penstock.processes import ProcessId

MONITOR, MANAGER, OSD, GATEWAY = "monitor", "manager", "osd", "gateway"

_KINDS = {"mon": MONITOR, "mgr": MANAGER, "osd": OSD, "rgw": GATEWAY}
_PROGRAMS = {MONITOR: "ceph-mon", MANAGER: "ceph-mgr", OSD: "ceph-osd", GATEWAY: "radosgw"}
_NAME = re.compile(r"(mon|mgr|osd|rgw)\.([a-z0-9]+)")


@dataclass(frozen=True)
class Daemon:
    """One daemon and the process that is it now; None where it does not run."""

    name: str
    process: ProcessId | None

    @property
    def kind(self) -> str:
        return kind_of(self.name)


def names(*, osds: int, gateways: int) -> list[str]:
    """In the order in which they depend on each other."""
    return ["mon.a", "mgr.a", *(f"osd.{number}" for number in range(osds)), *(f"rgw.{n}" for n in range(gateways))]


def kind_of(name: str) -> str:
    return _KINDS[name.partition(".")[0]]


def in_words(names: Collection[str]) -> str:
    """`manager, 6 OSDs`"""
    kinds = [kind_of(name) for name in names]
    counted = {kind: kinds.count(kind) for kind in kinds}
    words = {kind: "OSD" if kind == OSD else kind for kind in counted}
    return ", ".join(words[kind] if count == 1 else f"{count} {words[kind]}s" for kind, count in counted.items())


def entity(name: str) -> str:
    """Ceph's own name for it: gateways are clients."""
    return f"client.{name}" if kind_of(name) == GATEWAY else name


def command(name: str) -> list[str]:
    """Run in the cluster's directory. In the foreground: what goes wrong before there is a log is then seen."""
    return [_PROGRAMS[kind_of(name)], "--foreground", "--conf", CONFIGURATION, "--name", entity(name)]


def name_in(arguments: Sequence[str]) -> str | None:
    """Which daemon these arguments of a process make it (the caller compares the working directory)."""
    if len(arguments) < 6 or Path(arguments[0]).name not in _PROGRAMS.values():
        return None
    name = arguments[5].removeprefix("client.")
    return name if _NAME.fullmatch(name) and list(arguments[1:6]) == command(name)[1:] else None


def known(name: str, among: Collection[str]) -> str:
    """The name itself; `NotFound` where there is no such daemon."""
    if name not in among:
        raise NotFound(
            f"This Ceph has no daemon “{name}”",
            why=f"its daemons are {', '.join(among)}",
            fix="penstock lake ceph status shows them",
        )
    return name


def stages(missing: Collection[str]) -> list[list[str]]:
    """What to start, those of one stage at once and only when all of the stages before serve.

    OSDs ask the monitor for the map, gateways need pools that answer; the manager only reports.
    """
    order = ((MONITOR,), (MANAGER, OSD), (GATEWAY,))
    found = [[name for name in missing if kind_of(name) in kinds] for kinds in order]
    return [stage for stage in found if stage]


def stopping(running: Collection[str]) -> list[list[str]]:
    """The other way round: nobody is left waiting for one that is gone."""
    return stages(running)[::-1]
