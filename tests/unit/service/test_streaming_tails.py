"""Followers of a log get every byte once and in order, and many cost as much as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.errors import LakeError, ServiceError
from penstock.service import streaming
from penstock.service.streaming import PIECE_BYTES, LogTailing
from tests.support import virtual_time

KEY = ("a", "driver.log", 1)


class GrowingLog:
    """A log in memory that counts its reads."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        self.ended = False
        self.reads = 0
        self.problem: Exception | None = None

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None) -> bytes:
        self.reads += 1
        if self.problem is not None:
            raise self.problem
        return self.content[start : start + at_most]

    def complete(self, application_id: str, attempt: int | None) -> bool:
        return self.ended


@pytest.fixture(autouse=True)
def on_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "time", virtual_time.Clock)
    monkeypatch.setattr(streaming, "to_thread", virtual_time.Inline)


async def collected(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


def run(work: Any) -> Any:
    return virtual_time.run(asyncio.wait_for(work, 600))


def never() -> bool:
    return False


def test_what_is_there_is_read_in_bounded_pieces() -> None:
    log = GrowingLog(bytes(range(256)) * 2000)

    async def work() -> list[bytes]:
        return [piece async for piece in LogTailing(log, closing=never).read(KEY, 7)]

    pieces = run(work())
    assert b"".join(pieces) == log.content[7:]
    assert max(map(len, pieces)) <= PIECE_BYTES


def test_followers_who_begin_anywhere_get_every_byte_once() -> None:
    log = GrowingLog(b"0123456789" * 100)
    begins = [0, 3, 500, 999, 1000]

    async def work() -> list[bytes]:
        followed = LogTailing(log, closing=never)
        readers = [asyncio.ensure_future(collected(followed.follow(KEY, start))) for start in begins]
        for number in range(50):
            log.content += b"line %d\n" % number
            await asyncio.sleep(0.05)
        log.ended = True
        return list(await asyncio.gather(*readers))

    got = run(work())
    assert got == [log.content[start:] for start in begins]


def test_a_follower_far_behind_the_window_still_gets_all() -> None:
    log = GrowingLog()

    async def work() -> tuple[bytes, bytes]:
        followed = LogTailing(log, closing=never)

        async def slowly() -> bytes:
            got = b""
            async for piece in followed.follow(KEY):
                got += piece
                await asyncio.sleep(0.75)
            return got

        quick, slow = (
            asyncio.ensure_future(collected(followed.follow(KEY))),
            asyncio.ensure_future(slowly()),
        )
        for number in range(20):
            log.content += bytes([number]) * (90 << 10)
            await asyncio.sleep(0.12)
        log.ended = True
        return await quick, await slow

    quick, slow = run(work())
    assert quick == slow == log.content


def test_two_hundred_followers_of_one_log_read_it_hardly_more_often_than_one() -> None:
    async def followed_by(number: int) -> int:
        """Return the number of reads in seven and a half seconds, in which the log grew ten times."""
        log = GrowingLog(b"begin\n")
        followed = LogTailing(log, closing=never)
        readers = [asyncio.ensure_future(collected(followed.follow(KEY))) for _ in range(number)]
        await asyncio.sleep(5)
        begun = log.reads
        for _ in range(10):
            log.content += b"more\n"
            await asyncio.sleep(0.75)
        assert followed.open == 1
        reads = log.reads - begun
        log.ended = True
        assert set(await asyncio.gather(*readers)) == {log.content}
        assert followed.open == 0
        return reads

    alone, crowd = run(followed_by(1)), run(followed_by(200))
    assert crowd < 4 * alone
    assert alone <= 31, "a look every quarter of a second"


def test_a_log_nobody_follows_any_more_is_not_looked_at() -> None:
    log = GrowingLog(b"x")

    async def work() -> tuple[int, int]:
        followed = LogTailing(log, closing=never)
        reader = asyncio.ensure_future(collected(followed.follow(KEY)))
        await asyncio.sleep(2)
        during = followed.open
        reader.cancel()
        await asyncio.sleep(1.5)
        return during, followed.open

    assert run(work()) == (1, 0)


def test_followers_are_let_go_when_the_service_ends_and_can_tell_it_from_the_logs_end() -> None:
    log, closing = GrowingLog(b"so far"), []

    async def work() -> None:
        followed = LogTailing(log, closing=lambda: bool(closing))
        reader = asyncio.ensure_future(collected(followed.follow(KEY)))
        await asyncio.sleep(1)
        closing.append(True)
        await reader

    with pytest.raises(ServiceError, match="shutting down"):
        run(work())


def test_a_lake_that_fails_breaks_the_stream_rather_than_to_pass_for_its_end() -> None:
    log = GrowingLog(b"so far")

    async def work() -> None:
        reader = asyncio.ensure_future(collected(LogTailing(log, closing=never).follow(KEY)))
        await asyncio.sleep(1)
        log.problem = LakeError("The lake is away")
        await reader

    with pytest.raises(LakeError):
        run(work())


def test_a_log_that_never_rests_is_looked_at_no_more_often() -> None:
    class Restless(GrowingLog):
        def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None) -> bytes:
            self.content += b"."
            return super().piece(application_id, name, start, at_most)

    log = Restless()

    async def work() -> int:
        reader = asyncio.ensure_future(collected(LogTailing(log, closing=never).follow(KEY)))
        await asyncio.sleep(12.5)
        reads = log.reads
        reader.cancel()
        return reads

    assert run(work()) < 100
