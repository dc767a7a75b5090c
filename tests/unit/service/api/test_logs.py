"""`/v1/applications/{id}/logs`: bounded work for each request, and none for an invalid token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State
from tests.unit.service.fakes import Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)


def test_the_last_lines_of_a_long_log_cost_no_look_at_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", SIZE, "a", lake="embedded"))
    stage.engine.logs[application.id, "driver.log"] = b"a line of the log\n" * (2 << 20) + b"the last\n"
    stage.engine.submitted[application.id] = replace(application, state=State.FINISHED)
    read = []
    piece = stage.engine.artifacts.piece

    def counted(*given: object, **more: object) -> bytes:
        read.append(piece(*given, **more))  # type: ignore[arg-type]
        return read[-1]

    monkeypatch.setattr(stage.engine, "piece", counted)
    answer = stage.client().get(f"/v1/applications/{application.id}/logs/driver.log", params={"tail": 2})
    assert answer.text == "a line of the log\nthe last\n"
    assert sum(map(len, read)) <= 5 << 20
