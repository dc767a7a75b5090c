"""The Kubernetes of these tests is in memory, so polling it every hundredth of a second costs nothing."""

from __future__ import annotations

import pytest

from penstock.clusters.kubernetes import backend


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_POLL_SECONDS", 0.01)
