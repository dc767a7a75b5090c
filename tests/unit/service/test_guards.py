"""Limits of every request (size, depth, time, control characters), and the headers of every response."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from penstock.service import guards
from penstock.service.access_log import AnsweredRequest
from penstock.service.guards import Guard, RequestLimits
from tests.support import virtual_time
from tests.unit.service.fakes import Stage

ADDRESS = "/v1/applications"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(stage: Stage) -> None:
    answer = stage.client().post(ADDRESS, content=b"x" * ((1 << 20) + 1))
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_body_without_a_length_is_counted_as_it_comes(tmp_path: Path) -> None:
    client = Stage(tmp_path, limits=RequestLimits(body_bytes=100)).client()
    assert client.post(ADDRESS, content=iter([b"x" * 60, b"x" * 60])).status_code == 413


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_body_that_is_nested_too_deeply_reaches_no_parser(stage: Stage, opening: str) -> None:
    answer = stage.client().post(ADDRESS, content=opening * 50_000, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "nested too deeply" in answer.json()["problem"]


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_too_deep_is_what_the_value_itself_is(value: Any) -> None:
    def depth(part: Any) -> int:
        if isinstance(part, (list, dict)):
            return 1 + max(map(depth, part.values() if isinstance(part, dict) else part), default=0)
        return 0

    for most in range(6):
        assert (guards.nesting_depth(json.dumps(value).encode(), most) > most) == (depth(value) > most)


def test_brackets_in_strings_are_no_nesting() -> None:
    assert guards.nesting_depth(json.dumps({"a": "[{" * 1000 + '"\\'}).encode(), 5) <= 5


@pytest.mark.parametrize("address", ["/v1/applications/a%00b", "/v1/applications/a%0ab", "/v1/tables?pattern=%00"])
def test_control_characters_in_an_address_are_refused(stage: Stage, address: str) -> None:
    assert stage.client().get(address).status_code == 400


def test_every_answer_has_an_id_and_allows_a_browser_nothing(stage: Stage) -> None:
    answer = stage.client().get("/v1/nothing")
    assert answer.status_code == 404
    assert len(answer.headers["x-request-id"]) == 16
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.json()["instance"].endswith(answer.headers["x-request-id"])


def test_a_defect_discloses_its_requests_id_only(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.engine.counts = None  # type: ignore[assignment, method-assign]
    answer = stage.client().get("/metrics")
    assert answer.status_code == 500
    assert "Traceback" not in answer.text
    assert "NoneType" not in answer.text
    assert any(record.exc_info for record in caplog.records)


def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    sent = virtual_time.run(_asked(RequestLimits(body_seconds=10.0), receive_after=100.0))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("stuck", range(4), ids=["the-start", "the-first-piece", "a-piece", "the-end"])
def test_a_client_that_stops_reading_is_hung_up_on(stuck: int) -> None:
    seen: list[AnsweredRequest] = []
    virtual_time.run(_asked(RequestLimits(send_seconds=10.0), receive_after=0.0, stuck=stuck, seen=seen))
    assert [answered.status for answered in seen] == [499]


def test_a_client_that_reads_no_refusal_and_no_defect_is_hung_up_on() -> None:
    seen: list[AnsweredRequest] = []
    limits = RequestLimits(body_seconds=10.0, send_seconds=10.0)
    virtual_time.run(_asked(limits, receive_after=30.0, stuck=0, seen=seen))
    virtual_time.run(_asked(limits, receive_after=0.0, stuck=0, seen=seen, defect=ValueError()))
    assert [answered.status for answered in seen] == [499, 500]


async def _asked(
    limits: RequestLimits,
    *,
    receive_after: float,
    stuck: int | None = None,
    seen: list[AnsweredRequest] | None = None,
    defect: Exception | None = None,
) -> list[dict[str, Any]]:
    """Return the messages of an answer. The client does not read the one of the number `stuck`, nor any after it."""
    sent: list[dict[str, Any]] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if defect is not None:
            raise defect
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"x", "more_body": number < 2})

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(receive_after)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)
        if stuck is not None and len(sent) > stuck:
            await asyncio.sleep(1000)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    report = (seen if seen is not None else []).append
    await asyncio.wait_for(Guard(app, limits=limits, report=report)(scope, receive, send), 50)
    return sent


def test_records_that_are_away_are_no_defect(stage: Stage) -> None:
    def away() -> None:
        raise OperationalError("SELECT 1", {}, Exception("secret-host refused"))

    stage.engine.counts = away  # type: ignore[assignment, method-assign, return-value]
    answer = stage.client().get("/metrics")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "secret-host" not in answer.text


def test_all_bodies_under_way_together_are_bounded() -> None:
    async def work() -> list[int]:
        release = asyncio.Event()
        statuses: list[int] = []

        async def app(_scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guard = Guard(app, limits=RequestLimits(bodies_bytes=250), report=lambda seen: statuses.append(seen.status))

        async def ask() -> None:
            pieces = iter([(b"x" * 100, True), (b"", False)])

            async def receive() -> dict[str, Any]:
                body, more = next(pieces)
                if not more:
                    await release.wait()
                return {"type": "http.request", "body": body, "more_body": more}

            async def send(_: Any) -> None: ...

            await guard(
                {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}, receive, send
            )

        asked = [asyncio.ensure_future(ask()) for _ in range(3)]
        await asyncio.sleep(0.01)
        release.set()
        await asyncio.gather(*asked)
        # The released bytes are available again.
        await ask()
        return statuses

    assert asyncio.run(work()) == [503, 200, 200, 200]


def test_a_body_counts_until_its_request_is_answered() -> None:
    async def work() -> list[int]:
        working, finish = asyncio.Event(), asyncio.Event()
        statuses: list[int] = []

        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            working.set()
            await finish.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guard = Guard(app, limits=RequestLimits(bodies_bytes=150), report=lambda seen: statuses.append(seen.status))

        async def ask() -> None:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"x" * 100, "more_body": False}

            async def send(_: Any) -> None: ...

            await guard(
                {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}, receive, send
            )

        first = asyncio.ensure_future(ask())
        await working.wait()
        await ask()
        finish.set()
        await first
        await ask()
        return statuses

    assert asyncio.run(work()) == [503, 200, 200]
