"""The engine as a source of events."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.service import responses
from penstock.service.responses import Capacity, Queue, Use, Waiting
from penstock.service.streaming import EngineEvents
from tests.unit.service.fakes import BEGAN


def test_a_queue_that_is_cut_for_its_listeners_still_has_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(
        id="a", name="a", instance="a", priority=0, position=1, submitted_at=BEGAN, reason=None, cores=1, memory_bytes=1
    )
    queue = Queue(
        items=[waiting] * 1234,
        capacity=Capacity(cores=1, memory_bytes=1, promisable_cores=2),
        used=Use(cores=0, memory_bytes=0, running=0, waiting=1234),
    )
    monkeypatch.setattr(responses, "queue", lambda *_: queue)
    event = EngineEvents(cast(Any, None)).queue(None)
    assert len(event["items"]) < event["waiting"] == 1234
