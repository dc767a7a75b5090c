"""The stream of changes over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.engine.tokens import Scope
from penstock.model import ApplicationSpec
from penstock.service.streaming import EngineEvents
from tests.unit.service.fakes import Stage


def test_the_stream_is_one_of_events_and_ends_with_the_service(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    client = stage.client(Scope.READ)
    stage.service.closing.set()
    answer = client.get("/v1/changes")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert stage.service.feed.listeners == 0


def test_an_event_shows_an_application_as_the_list_does(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", stage.engine.usual_size(), "a"))
    event = EngineEvents(stage.service).application("app-1")
    assert event is not None
    assert event.instance == "default"
    assert json.loads(json.dumps(event.data)) == stage.client(Scope.READ).get("/v1/applications/app-1").json()
    assert EngineEvents(stage.service).application("gone") is None
