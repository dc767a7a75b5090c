"""This machine's capacity: the limits of control groups apply at every level above this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.clusters import machine

GIB = 1 << 30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of control groups; this process is in /system.slice/penstock.service."""
    monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 64 * GIB // 4096}.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    write(tmp_path / "proc" / "self" / "cgroup", "0::/system.slice/penstock.service\n")
    return tmp_path / "cgroup"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_machine_without_limits_gives_all_it_has(groups: Path) -> None:
    write(groups / "system.slice/penstock.service/memory.max", "max\n")
    write(groups / "system.slice/penstock.service/cpu.max", "max 100000\n")
    assert (machine._memory(), machine._cores()) == (64 * GIB, 16)


def test_the_limits_of_a_systemd_unit_are_heeded(groups: Path) -> None:
    write(groups / "system.slice/penstock.service/memory.max", f"{8 * GIB}\n")
    write(groups / "system.slice/penstock.service/cpu.max", "400000 100000\n")
    assert (machine._memory(), machine._cores()) == (8 * GIB, 4)


def test_the_narrowest_limit_of_all_groups_around_counts(groups: Path) -> None:
    write(groups / "system.slice/penstock.service/memory.max", f"{8 * GIB}\n")
    write(groups / "system.slice/memory.max", f"{4 * GIB}\n")
    write(groups / "system.slice/cpu.max", "50000 100000\n")
    assert (machine._memory(), machine._cores()) == (4 * GIB, 1)


@pytest.mark.parametrize("group", ["0::/\n", "0::/../other\n", "12:memory:/x\n", ""])
def test_in_a_container_the_limit_is_that_of_the_root_that_is_seen(groups: Path, group: str) -> None:
    write(groups.parent / "proc" / "self" / "cgroup", group)
    write(groups / "memory.max", f"{2 * GIB}\n")
    assert machine._memory() == 2 * GIB
