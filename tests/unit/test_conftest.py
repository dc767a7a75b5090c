"""The current run keeps the promises of tests/conftest.py to all tests."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_one_worker_runs_all_tests_of_a_module(request: pytest.FixtureRequest) -> None:
    """Otherwise each worker starts the servers of a module, and makes its tables, for itself."""
    marker = request.node.get_closest_marker("xdist_group")
    assert marker is not None and marker.args == (Path(__file__).stem,)
    # A worker reports a test's group to the scheduler in the test's name.
    if request.config.getoption("loadgroup", False):
        assert request.node.nodeid.endswith(f"@{Path(__file__).stem}")
