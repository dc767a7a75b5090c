"""Caches are dropped as planned, and a plan without the permission is refused before the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clusters import machine
from penstock.errors import InvalidInput, MissingRequirement
from penstock.home import Home
from penstock.lab import experiment


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "drop_caches"
    monkeypatch.setattr(experiment, "_SWITCH", path)
    return path


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of the cache of the home in `tmp_path`."""
    directory = tmp_path / "tier"
    found = directory / "v1" / "page"
    found.parent.mkdir(parents=True)
    found.touch()
    tier = machine.Tier("memory", directory, 1 << 20, machine.TierContents(1, 1, 0))
    monkeypatch.setattr(machine, "page_cache", lambda home: (tier,) if home == Home(tmp_path) else ())
    return found


def test_dropping_empties_the_page_cache_and_tells_the_kernel_to_forget_pages_and_names(
    switch: Path, page: Path, tmp_path: Path
) -> None:
    switch.touch()
    experiment.require_caches(experiment.DROP)
    assert switch.read_text() == "" and page.exists(), "the check of the permission drops nothing"
    experiment.prepare_caches(experiment.DROP, Home(tmp_path))
    assert switch.read_text() == "3\n"
    assert not page.exists()


def test_keeping_needs_no_permission_and_does_nothing(switch: Path, page: Path, tmp_path: Path) -> None:
    experiment.require_caches(experiment.KEEP)
    experiment.prepare_caches(experiment.KEEP, Home(tmp_path))
    assert not switch.exists() and page.exists()


def test_without_permission_it_is_refused_with_a_way_out(switch: Path) -> None:
    with pytest.raises(MissingRequirement, match="cannot be dropped here") as raised:
        experiment.require_caches(experiment.DROP)
    assert str(switch) in raised.value.why
    assert "root" in raised.value.fix


def test_another_policy_is_refused_with_those_there_are(switch: Path) -> None:
    with pytest.raises(InvalidInput, match="“flush”") as raised:
        experiment.require_caches("flush")
    assert "keep, drop" in raised.value.fix
