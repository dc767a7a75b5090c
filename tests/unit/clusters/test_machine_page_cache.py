"""The page cache's place and size on this machine, and dropping its pages while applications use it."""

from __future__ import annotations

import os
import shutil
import struct
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.clusters import machine
from penstock.clusters.machine import Tier, TierBudgets
from penstock.errors import InvalidInput, StateError
from penstock.home import Home
from penstock.profiles.s3a import CACHE_PREFIX

GIB = 1 << 30
_Usage = namedtuple("_Usage", "total used free")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(machine, "_SHARED_MEMORY", tmp_path / "shm")
    (tmp_path / "shm").mkdir()
    found = Home(tmp_path / "home")
    found.create()
    return found


def room(monkeypatch: pytest.MonkeyPatch, *, free: int, total: int = 1000 * GIB) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(total, total - free, free))


def kept(tier: Tier, *, used: int = 12288, pages: int = 3, evictions: int = 7) -> None:
    """Create the files that the applications' file systems leave: a table, a page, the lock."""
    tier.directory.mkdir(mode=0o700, parents=True)
    generation = tier.directory / "v1"
    (generation / "pages" / "ab").mkdir(parents=True)
    (generation / "pages" / "ab" / "abcd").write_bytes(b"page")
    (tier.directory / "lock").write_bytes(b"")
    (tier.directory / "known").write_bytes(b"objects")
    table = bytearray(4096)
    for offset, word in ((0, 0x50454E53544B3031), (8, 128), (64, GIB), (128, used), (192, pages), (320, evictions)):
        struct.pack_into("@Q", table, offset, word)
    (generation / "table").write_bytes(table)


def test_a_machine_gives_a_tenth_of_its_memory_and_of_its_disk(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, free=900 * GIB)
    memory, disk = machine.tiers(home, 64 * GIB)
    assert memory.budget_bytes == pytest.approx(6.4 * GIB, abs=1)
    assert disk.budget_bytes == pytest.approx(100 * GIB, abs=1)
    assert memory.contents is None, "nothing was ever kept there"


def test_a_container_whose_shared_memory_is_small_gets_half_of_that(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, free=64 << 20)
    memory, disk = machine.tiers(home, 64 * GIB)
    assert memory.budget_bytes == 32 << 20
    assert disk.budget_bytes == 32 << 20


def test_what_the_tier_has_already_is_not_missing_from_its_budget(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, free=2 * GIB)
    empty, _ = machine.tiers(home, 64 * GIB)
    kept(empty, used=GIB)
    room(monkeypatch, free=GIB)
    filled, _ = machine.tiers(home, 64 * GIB)
    assert filled.budget_bytes == empty.budget_bytes


def test_without_a_memory_file_system_there_is_no_memory_tier(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_SHARED_MEMORY", home.root / "nowhere")
    memory, _ = machine.tiers(home, 64 * GIB)
    assert memory.budget_bytes == 0
    assert machine.tier_settings([memory])[CACHE_PREFIX + "memory.size"] == "0"


def test_two_homes_never_share_a_tier(home: Home) -> None:
    others = machine.tiers(Home(home.root.parent / "other"), GIB)
    assert {tier.directory for tier in others}.isdisjoint(tier.directory for tier in machine.tiers(home, GIB))


def test_memory_given_to_the_cache_is_promised_to_nobody_else(home: Home) -> None:
    machine.configure_budgets(home, TierBudgets(memory_bytes=0))
    without = machine.capacity(home).memory_bytes
    machine.configure_budgets(home, TierBudgets(memory_bytes=100 << 20))
    assert machine.capacity(home).memory_bytes == without - (100 << 20)


def test_a_cache_that_leaves_applications_too_little_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too large") as raised:
        machine.require_room(TierBudgets(memory_bytes=1 << 50))
    assert "--memory" in raised.value.fix


def test_the_table_tells_what_a_tier_holds_and_damage_tells_nothing(home: Home) -> None:
    memory, _ = machine.tiers(home, GIB)
    kept(memory, used=12288, pages=3, evictions=7)
    found, _ = machine.tiers(home, GIB)
    assert found.contents == machine.TierContents(used_bytes=12288, pages=3, evictions=7)
    (memory.directory / "v1" / "table").write_bytes(b"short")
    assert machine.tiers(home, GIB)[0].contents is None


def test_dropping_leaves_nothing_but_the_lock_that_processes_agree_through(home: Home) -> None:
    for tier in machine.tiers(home, GIB):
        kept(tier, used=4096)
    tiers = machine.tiers(home, GIB)
    assert machine.drop_pages(tiers) == 8192
    for tier in tiers:
        assert [path.name for path in tier.directory.iterdir()] == ["lock"]
    assert machine.drop_pages(machine.tiers(home, GIB)) == 0


def test_a_process_that_maps_a_dropped_table_reads_zeros(home: Home) -> None:
    memory, _ = machine.tiers(home, GIB)
    kept(memory, used=4096)
    with (memory.directory / "v1" / "table").open("rb") as mapped:
        machine.drop_pages(machine.tiers(home, GIB))
        assert mapped.read(8) == bytes(8)


def test_the_memory_of_a_home_that_is_gone_comes_back(home: Home) -> None:
    gone, strangers = Home(home.root.parent / "gone"), home.root.parent / "shm" / f"penstock-{os.getuid()}-unsigned"
    gone.create()
    strangers.mkdir()
    for each in (gone, home):
        machine.prepare_tiers(each, machine.tiers(each, GIB))
    theirs, ours = (machine.tiers(each, GIB)[0].directory for each in (gone, home))
    assert theirs.is_dir() and ours.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(gone.root)
    machine.prepare_tiers(home, machine.tiers(home, GIB))
    assert not theirs.exists()
    assert ours.is_dir() and strangers.is_dir()


def test_a_cache_that_cannot_be_dropped_says_which_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(machine.tiers(home, GIB)[0])

    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(StateError) as raised:
        machine.drop_pages(machine.tiers(home, GIB))
    assert "v1-discarded" in raised.value.why


def _link_to_ours(place: Path, ours: Path) -> None:
    place.symlink_to(ours)


def _dangling_link(place: Path, ours: Path) -> None:
    place.symlink_to(ours / "nothing")


def _open_to_all(place: Path, _: Path) -> None:
    place.mkdir()
    place.chmod(0o1777)


def _open_to_the_group(place: Path, _: Path) -> None:
    place.mkdir()
    place.chmod(0o750)


def _a_file(place: Path, _: Path) -> None:
    place.write_bytes(b"")


def _a_pipe(place: Path, _: Path) -> None:
    os.mkfifo(place)


@pytest.mark.parametrize(
    "put",
    [_link_to_ours, _dangling_link, _open_to_all, _open_to_the_group, _a_file, _a_pipe],
    ids=lambda put: put.__name__,
)
@pytest.mark.parametrize("late", [False, True], ids=["before the look", "after the look"])
def test_nothing_is_kept_where_somebody_else_has_put_something(
    home: Home, tmp_path: Path, put: Callable[[Path, Path], None], *, late: bool
) -> None:
    """Any user may create names in shared memory, and this one is predictable."""
    ours = tmp_path / "ours"
    kept(Tier("memory", ours, GIB, None))
    before = {path: path.lstat().st_mode for path in tmp_path.joinpath("ours").rglob("*")}
    place = machine._memory_directory(home)
    if not late:
        put(place, ours)
    tiers = machine.tiers(home, 64 * GIB)
    if late:
        put(place, ours)
    memory, _ = usable = machine.prepare_tiers(home, tiers)
    assert memory.budget_bytes == 0
    assert machine.tier_settings(usable)[f"{CACHE_PREFIX}memory.size"] == "0"
    # The commands of the cache list the tiers again.
    memory, disk = machine.tiers(home, 64 * GIB)
    assert memory.contents is None and memory.budget_bytes == 0 and disk.budget_bytes
    assert machine.drop_pages((memory,)) == 0
    machine.remove_tiers((memory,))
    assert place.is_symlink() or place.exists(), "it is not this account's to remove"
    assert {path: path.lstat().st_mode for path in tmp_path.joinpath("ours").rglob("*")} == before


@pytest.mark.root
def test_nothing_is_kept_in_a_private_directory_of_another_account(home: Home) -> None:
    place = machine._memory_directory(home)
    place.mkdir(mode=0o700)
    os.chown(place, 65534, 65534)
    memory, _ = machine.prepare_tiers(home, machine.tiers(home, 64 * GIB))
    assert memory.budget_bytes == 0 and not list(place.iterdir())


def test_a_link_is_not_followed_to_the_memory_of_a_home_that_is_gone(home: Home, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.mkdir(mode=0o700)
    (ours / "home").write_text(str(tmp_path / "gone"))
    (tmp_path / "shm" / f"penstock-{os.getuid()}-0123456789ab").symlink_to(ours)
    machine.prepare_tiers(home, machine.tiers(home, 64 * GIB))
    assert (ours / "home").exists()
