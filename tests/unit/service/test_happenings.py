"""The engine as listeners of changes see it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.service import responses
from penstock.service.streaming import Happenings


def test_a_queue_that_is_cut_for_its_listeners_still_has_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "queue", lambda *_: {"items": list(range(1234)), "used": {}})
    told = Happenings(cast(Any, None)).queue(None)
    assert len(told["items"]) < told["waiting"] == 1234
