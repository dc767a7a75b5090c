"""Fixtures of the lab's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.home import Home
from penstock.lab import environment as benches
from penstock.lab.workloads import registry
from tests.unit.lab.lab_world import Lab, Noted


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose only workload records its calls."""
    made = Lab(Home(tmp_path / "home"))
    monkeypatch.setattr(registry, "suite_class", lambda _: Noted)
    monkeypatch.setattr(benches, "versions", dict)
    monkeypatch.setattr(Noted, "lab", made, raising=False)
    return made
