"""`/v1/applications/{id}/logs`: bounded work for each look, and none for a token that is no longer valid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.engine.application import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.engine.rows import now
from penstock.errors import NotFound, Unauthenticated
from penstock.service.routes import logs
from penstock.service.tokens import Token
from tests.unit.service.fakes import Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
TOKEN = Token("t", "me", {}, "hash", now(), None)


def test_the_last_lines_of_a_long_log_cost_no_look_at_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", SIZE, "a", lake="embedded"))
    stage.engine.logs[application.id, "driver.log"] = b"a line of the log\n" * (2 << 20) + b"the last\n"
    stage.engine.applications[application.id] = replace(application, state=State.FINISHED)
    read = []
    piece = stage.engine.piece

    def counted(*given: object, **more: object) -> bytes:
        read.append(piece(*given, **more))  # type: ignore[arg-type]
        return read[-1]

    monkeypatch.setattr(stage.engine, "piece", counted)
    answer = stage.client().get(f"/v1/applications/{application.id}/logs/driver.log", params={"tail": 2})
    assert answer.text == "a line of the log\nthe last\n"
    assert sum(map(len, read)) <= 5 << 20


@pytest.mark.parametrize("what", ["revoked", "replaced", "expired"])
def test_a_follower_gets_nothing_once_his_token_is_not_valid_any_more(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    clock = 0.0
    valid = True

    def current(_: str) -> Token:
        if valid:
            return TOKEN
        if what == "revoked":
            raise NotFound("There is no such token")
        past = now() - timedelta(seconds=1)
        return replace(TOKEN, secret_hash="other") if what == "replaced" else replace(TOKEN, expires_at=past)

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal clock, valid
        for number in range(20):
            valid = number < 10
            clock += 2.0
            yield str(number).encode()

    async def follow() -> list[bytes]:
        got: list[bytes] = []
        with pytest.raises(Unauthenticated):
            async for piece in logs.while_valid(pieces(), TOKEN, current):
                got += [piece]
        return got

    monkeypatch.setattr(logs, "monotonic", lambda: clock)
    assert asyncio.run(follow()) == [str(number).encode() for number in range(11)]
