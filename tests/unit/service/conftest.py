"""Fixtures of the service's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.service.fakes import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)
