"""The feed: listeners get each event that they may see, soon and once, and hold few of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

import pytest

from penstock.service import streaming
from penstock.service.streaming import HEARTBEAT, Event, EventFeed, Instances
from tests.support import virtual_time


class World:
    """A source of events in memory."""

    def __init__(self) -> None:
        self.instances = {"a1": "science", "b1": "pipelines"}
        self.running: dict[str, int] = {}
        self.waiting = ["a1"]
        self.looks = 0
        self.closed = False
        self.broken = False

    def application(self, application_id: str) -> Event | None:
        if application_id not in self.instances:
            return None
        return Event("application", self.instances[application_id], {"id": application_id})

    def progress(self) -> Iterable[Event]:
        self.looks += 1
        if self.broken:
            raise RuntimeError("the database is away")
        return [
            Event("progress", self.instances[one], {"id": one, "updated_ms": at}) for one, at in self.running.items()
        ]

    def queue(self, instances: Instances) -> Mapping[str, Any]:
        return {"items": [one for one in self.waiting if instances is None or self.instances[one] in instances]}


def within(work: Callable[[World, EventFeed], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        feed = EventFeed(world, closing=lambda: world.closed)
        await asyncio.wait_for(work(world, feed), 3600)

    virtual_time.run(run())


@pytest.fixture(autouse=True)
def _on_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "time", virtual_time.Clock)
    monkeypatch.setattr(streaming, "to_thread", virtual_time.Inline)


async def heard(stream: AsyncIterator[bytes], number: int) -> list[tuple[str, Any]]:
    found = []
    async for written in stream:
        if written != HEARTBEAT:
            kind, data = written.decode().split("\n")[:2]
            found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        if len(found) == number:
            break
    return found


def test_a_page_hears_of_a_change_and_of_the_queue() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        stream = feed.listen(None)
        assert await heard(stream, 1) == [("queue", {"items": ["a1"]})]
        feed.notify("b1")
        assert await heard(stream, 1) == [("application", {"id": "b1"})]

    within(work)


def test_a_page_hears_nothing_of_instances_it_does_not_see() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        world.running = {"a1": 1}
        stream = feed.listen(frozenset({"pipelines"}))
        assert await heard(stream, 1) == [("queue", {"items": []})]
        feed.notify("a1")
        feed.notify("b1")
        assert await heard(stream, 1) == [("application", {"id": "b1"})]

    within(work)


def test_progress_is_sent_when_it_changes_and_to_new_listeners_at_once() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        world.running = {"b1": 1}
        early = feed.listen(None)
        assert {kind for kind, _ in await heard(early, 2)} == {"queue", "progress"}
        late = feed.listen(None)
        assert ("progress", {"id": "b1", "updated_ms": 1}) in await heard(late, 2)
        world.running = {"b1": 2}
        assert await heard(early, 1) == [("progress", {"id": "b1", "updated_ms": 2})]

    within(work)


def test_a_page_hears_of_the_queue_when_it_changes_and_not_when_it_does_not() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        stream = feed.listen(None)
        await heard(stream, 1)
        await asyncio.sleep(15)
        world.waiting = []
        assert await heard(stream, 1) == [("queue", {"items": []})]

    within(work)


def test_all_listeners_cost_one_look_and_none_costs_nothing() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        streams = [feed.listen(None) for _ in range(50)]
        for stream in streams:
            await heard(stream, 1)
        assert world.looks <= 3
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(5)
        looks = world.looks
        await asyncio.sleep(5)
        assert (world.looks, feed.listeners) == (looks, 0)

    within(work)


def test_who_does_not_read_is_let_go_with_nothing_kept() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        stream = feed.listen(None)
        await heard(stream, 1)
        for number in range(2 * streaming._MOST_WAITING_EVENTS):
            world.instances[f"c{number}"] = "science"
            world.running = {f"c{number}": 1}
            await feed._publish(set())
        began = asyncio.get_running_loop().time()
        assert [written async for written in stream] == []
        assert asyncio.get_running_loop().time() == began, "let go at once, not when its time was over"

    within(work)


def test_a_thousand_running_applications_disconnect_nobody() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        applications = [f"c{number}" for number in range(1000)]
        world.instances.update(dict.fromkeys(applications, "science"))
        world.running = dict.fromkeys(applications, 1)
        early, late = feed.listen(None), feed.listen(None)
        for stream in (early, late):
            assert {data["id"] for kind, data in await heard(stream, 1001) if kind == "progress"} == set(applications)
        world.running = dict.fromkeys(applications, 2)
        await asyncio.sleep(3)
        for stream in (early, late):
            assert {data["updated_ms"] for _, data in await heard(stream, 1000)} == {2}

    within(work)


def test_of_what_a_slow_page_has_not_read_of_an_application_it_gets_the_last() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        stream = feed.listen(None)
        await heard(stream, 1)
        for number in range(2 * streaming._MOST_WAITING_EVENTS):
            world.running = {"b1": number}
            await feed._publish(set())
        assert await heard(stream, 1) == [("progress", {"id": "b1", "updated_ms": number})]
        world.running = {"b1": -1}
        assert await heard(stream, 1) == [("progress", {"id": "b1", "updated_ms": -1})]

    within(work)


@pytest.mark.parametrize("why", ["closing", "broken", "all"])
def test_pages_are_let_go_where_the_feed_cannot_go_on(why: str) -> None:
    async def work(world: World, feed: EventFeed) -> None:
        stream = feed.listen(None)
        await heard(stream, 1)
        if why == "all":
            feed.notify_all()
        else:
            setattr(world, "closed" if why == "closing" else "broken", True)
        assert await heard(stream, 1) == []
        world.closed = world.broken = False
        assert await heard(feed.listen(None), 1) == [("queue", {"items": ["a1"]})], "and may come back"

    within(work)


def test_a_feed_that_is_ended_in_the_moment_of_a_change_ends() -> None:
    async def work(_: World, feed: EventFeed) -> None:
        stream = feed.listen(None)
        await heard(stream, 1)
        await asyncio.sleep(0.2)
        polling = feed._polling
        assert polling is not None
        feed.notify("a1")
        await asyncio.sleep(0)
        polling.cancel()
        await asyncio.wait([polling], timeout=5)
        assert polling.cancelled()

    within(work)


def test_a_page_comes_back_before_it_could_outlive_its_token() -> None:
    async def work(world: World, feed: EventFeed) -> None:
        began = asyncio.get_running_loop().time()
        written = [written async for written in feed.listen(None)]
        assert 900 <= asyncio.get_running_loop().time() - began <= 915
        assert 59 <= written.count(HEARTBEAT) <= 62, "every fifteen seconds"

    within(work)
