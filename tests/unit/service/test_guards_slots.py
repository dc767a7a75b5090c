"""No client's requests take all connections and threads, and streams end with the validity of their token."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.engine.repository.applications import now
from penstock.engine.tokens import Caller, Scope, Token
from penstock.errors import NotFound, QuotaExceeded, Unauthenticated
from penstock.model import Application, ApplicationSpec
from penstock.service import guards
from penstock.service.guards import UPLOAD, ConcurrencyLimits, RequestCounts, Slot, while_valid
from tests.support import virtual_time
from tests.unit.service.fakes import FakeTokens, Stage

TOKEN = Token("t", "me", {}, "hash", now(), None)
CALLER = Caller("t", "me", {}, "hash")
FEW = ConcurrencyLimits(per_token=3, per_address=2, uploads_per_token=1)


def begun(under_way: RequestCounts, token_id: str, times: int = 1, *, address: str = "10.0.0.1") -> list[Slot]:
    return [under_way.begin(address, token_id) for _ in range(times)]


def test_a_token_has_so_many_requests_under_way_and_others_have_theirs() -> None:
    under_way = RequestCounts(FEW)
    slots = begun(under_way, "greedy", 3)
    with pytest.raises(QuotaExceeded, match="of your token"):
        begun(under_way, "greedy", address="10.0.0.2")
    begun(under_way, "modest", 3)
    slots[0].end()
    begun(under_way, "greedy")


def test_who_has_no_valid_token_has_so_many_by_address() -> None:
    under_way = RequestCounts(FEW)
    slots = [under_way.begin("10.0.0.1", None) for _ in range(2)]
    with pytest.raises(QuotaExceeded, match="from your address"):
        under_way.begin("10.0.0.1", None)
    under_way.begin("10.0.0.2", None)
    begun(under_way, "with a token", 3, address="10.0.0.1")
    slots[0].end()
    under_way.begin("10.0.0.1", None)


def test_a_request_that_is_refused_for_its_token_counts_for_nobody_afterwards() -> None:
    under_way = RequestCounts(FEW)
    slots = begun(under_way, "greedy", 3)
    cookie = under_way.begin("10.0.0.1", None)
    with pytest.raises(QuotaExceeded):
        cookie.belongs_to("greedy")
    slots.pop().end()
    cookie.belongs_to("greedy")
    for slot in [*slots, cookie]:
        slot.end()
    assert not under_way._held


def test_addresses_that_one_machine_may_have_all_of_count_as_one() -> None:
    under_way = RequestCounts(FEW)
    for number in range(2):
        under_way.begin(f"2001:db8::{number}", None)
    with pytest.raises(QuotaExceeded):
        under_way.begin("2001:db8::ffff:1", None)
    under_way.begin("2001:db8:0:1::1", None)
    under_way.begin("fe80::1%eth0", None)
    under_way.begin("testclient", None)


def test_a_token_has_so_many_uploads_at_once() -> None:
    under_way = RequestCounts(FEW)
    with under_way.counting(UPLOAD, "greedy"):
        with pytest.raises(QuotaExceeded, match="uploads of your token"), under_way.counting(UPLOAD, "greedy"):
            pass
        with under_way.counting(UPLOAD, "modest"):
            pass
    with under_way.counting(UPLOAD, "greedy"):
        pass


@pytest.mark.parametrize(
    ("bounds", "method", "path", "problem"),
    [
        (ConcurrencyLimits(per_address=0), "GET", "/health/live", "from your address"),
        (ConcurrencyLimits(per_token=0), "GET", "/v1/self", "requests of your token"),
        (ConcurrencyLimits(uploads_per_token=0), "PUT", f"/v1/files/{'0' * 64}/a.py", "uploads of your token"),
        (ConcurrencyLimits(previews_per_token=0), "GET", "/v1/tables/a.b/preview", "previews of your token"),
    ],
)
def test_the_answer_says_what_there_is_too_much_of_and_when_to_come_back(
    tmp_path: Path, bounds: ConcurrencyLimits, method: str, path: str, problem: str
) -> None:
    answer = Stage(tmp_path, bounds=bounds).client(Scope.SUBMIT).request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert problem in answer.json()["problem"]
    assert answer.json()["why"] and answer.json()["fix"]
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("text", ["penstock_{id}_made-up", "{id}", "made up"])
def test_a_token_that_is_not_valid_takes_nothing_from_one_that_is(tmp_path: Path, text: str) -> None:
    stage = Stage(tmp_path, bounds=ConcurrencyLimits(per_token=0, per_address=1))
    stage.client()
    claimed = {"Authorization": f"Bearer {text.replace('{id}', stage.tokens.list()[0].id)}"}
    assert stage.client(None).get("/v1/self", headers=claimed).status_code == 401
    held = stage.service.request_counts.begin("testclient", None)
    assert stage.client(None).get("/v1/self", headers=claimed).status_code == 429
    held.end()


def test_many_who_come_at_once_after_a_restart_are_all_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All come from one address, as through an ingress, with tokens that the service has not seen yet."""
    together, authenticate = threading.Barrier(8), FakeTokens.authenticate

    def slow(tokens: FakeTokens, text: str) -> Caller:
        together.wait(20)
        return authenticate(tokens, text)

    monkeypatch.setattr(FakeTokens, "authenticate", slow)
    with Stage(tmp_path, bounds=ConcurrencyLimits(per_address=1)).client() as client, ThreadPoolExecutor(8) as clients:
        asked = [clients.submit(client.get, "/v1/self") for _ in range(8)]
        assert {one.result().status_code for one in asked} == {200}


def test_sparks_pages_count_for_the_token_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path, bounds=ConcurrencyLimits(per_token=1))
    application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", stage.engine.usual_size(), "a"))
    browser = stage.looking(f"/v1/applications/{application.id}/ui")
    (token,) = stage.tokens.list()
    held = begun(stage.service.request_counts, token.id)
    assert browser.get(f"/applications/{application.id}/").status_code == 429
    held[0].end()
    assert browser.get(f"/applications/{application.id}/", follow_redirects=False).status_code == 307


def test_what_was_answered_however_counts_no_more(tmp_path: Path) -> None:
    stage = Stage(tmp_path, bounds=ConcurrencyLimits(per_token=1, per_address=1, uploads_per_token=1))
    stage.engine.counts = None  # type: ignore[assignment, method-assign]
    client = stage.client()
    for _ in range(2):
        assert client.get("/v1/self").status_code == 200
        assert client.get("/v1/nothing").status_code == 404
        assert client.get("/metrics").status_code == 500
        assert client.post("/v1/applications", content=b"x" * (2 << 20)).status_code == 413
        assert client.put(f"/v1/files/{'0' * 64}/a.py", content=b"x").status_code == 422
        assert stage.client(None).get("/v1/self").status_code == 401
    assert not stage.service.request_counts._held


def test_one_token_does_not_hold_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its requests blocks a thread, as for a store that does not respond."""
    stage = Stage(tmp_path, bounds=ConcurrencyLimits(per_token=45, threads=48))
    application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", stage.engine.usual_size(), "a"))
    waiting, go_on, get = threading.Semaphore(0), threading.Event(), stage.engine.get

    def slow(application_id: str) -> Application:
        waiting.release()
        go_on.wait()
        return get(application_id)

    monkeypatch.setattr(stage.engine, "get", slow)
    with stage.client() as greedy, ThreadPoolExecutor(46) as clients:
        assert greedy.get("/v1/self").status_code == 200
        asked = [clients.submit(greedy.get, f"/v1/applications/{application.id}") for _ in range(45)]
        try:
            for _ in asked:
                assert waiting.acquire(timeout=20)
            modest = dict(stage.client(Scope.READ).headers)
            assert clients.submit(greedy.get, "/v1/self", headers=modest).result(timeout=20).status_code == 200
            assert clients.submit(greedy.get, "/v1/self").result(timeout=20).status_code == 429
        finally:
            go_on.set()
        assert {one.result().status_code for one in asked} == {200}


def gone(_: str) -> Token:
    raise NotFound("There is no such token")


def replaced(_: str) -> Token:
    return replace(TOKEN, secret_hash="other")


def expired(_: str) -> Token:
    return replace(TOKEN, expires_at=now() - timedelta(seconds=1))


@pytest.mark.parametrize("current", [gone, replaced, expired])
@pytest.mark.parametrize("every", [2.0, 3600.0], ids=["busy", "silent"])
def test_a_follower_is_let_go_once_his_token_is_not_valid_any_more(
    monkeypatch: pytest.MonkeyPatch, current: Callable[[str], Token], every: float
) -> None:
    monkeypatch.setattr(guards, "to_thread", virtual_time.Inline)
    left = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                await asyncio.sleep(every)
                yield b"x"
        finally:
            left.append(True)

    def since(second: float) -> Callable[[str], Token]:
        return lambda token_id: TOKEN if virtual_time.Clock.monotonic() < second else current(token_id)

    async def follow() -> float:
        with pytest.raises(Unauthenticated):
            async for _ in while_valid(pieces(), CALLER, since(60.0)):
                pass
        await asyncio.sleep(0)
        assert left == [True]
        return virtual_time.Clock.monotonic()

    assert 60 <= virtual_time.run(follow()) <= 70


@pytest.mark.parametrize("path", ["/v1/changes", "/v1/applications/app-1/logs/driver.log?follow=true"])
def test_nothing_that_is_followed_outlives_a_revoked_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    stage = Stage(tmp_path)
    stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", stage.engine.usual_size(), "a"))
    monkeypatch.setattr(guards, "_LOOK_AT_TOKEN_SECONDS", 0.01)
    client = stage.client(Scope.READ)
    looks = chain(stage.tokens.list(), repeat(NotFound("There is no such token")))
    monkeypatch.setattr(stage.tokens, "get", Mock(side_effect=looks))
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/v1/changes", "/v1/applications/app-1/logs/driver.log?follow=true"])
def test_a_request_that_was_open_while_its_token_was_rotated_follows_nothing_with_the_new_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    stage = Stage(tmp_path)
    stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", stage.engine.usual_size(), "a"))
    monkeypatch.setattr(guards, "_LOOK_AT_TOKEN_SECONDS", 0.01)
    client = stage.client(Scope.READ)
    rotated = replace(stage.tokens.list()[0], secret_hash="another")
    looks = Mock(side_effect=chain(repeat(rotated, 10), repeat(NotFound("There is no such token"))))
    monkeypatch.setattr(stage.tokens, "get", looks)
    assert client.get(path).status_code == 200
    assert looks.call_count == 1


def test_what_is_followed_comes_whole_and_ends_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "to_thread", virtual_time.Inline)

    async def pieces() -> AsyncGenerator[bytes, None]:
        for number in range(5):
            await asyncio.sleep(4.0)
            yield str(number).encode()

    async def follow() -> list[bytes]:
        return [piece async for piece in while_valid(pieces(), CALLER, lambda _: TOKEN)]

    assert virtual_time.run(follow()) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("seconds", [1.0, 3600.0], ids=["with-a-piece-ready", "while-waiting"])
def test_a_follower_who_leaves_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(guards, "to_thread", virtual_time.Inline)
    left = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await asyncio.sleep(seconds)
            yield b"x"
        finally:
            left.append(True)

    async def leave() -> None:
        following = while_valid(pieces(), CALLER, lambda _: TOKEN)
        assert await following.__anext__() == b"first"
        waits = asyncio.ensure_future(following.__anext__())
        await asyncio.sleep(2.0)
        waits.cancel()
        await asyncio.wait([waits])
        await following.aclose()
        await asyncio.sleep(0)

    virtual_time.run(leave())
    assert left == [True]
