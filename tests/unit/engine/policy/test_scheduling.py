"""Turns are fair between queues under any load, in order within a queue, and no application starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.policy import admission, scheduling
from penstock.engine.policy.scheduling import (
    CLAIM_TIME,
    HALF_LIFE,
    LEAST_CHARGE,
    DecayedUsage,
    Instance,
    QueuedApplication,
    QueueSnapshot,
    Quota,
    RunningCluster,
    schedule,
)
from penstock.model import Capacity, ClusterSize, promised
from tests.unit.engine.engine_making import GIB, START, after, size

ONE_SLOT = Capacity(1, 16 * GIB)
"""Capacity for one cluster of `size()` and no more: its two cores, each promised twice."""
FOUR_SLOTS = Capacity(4, 64 * GIB)


def waiter(name: str, instance: str = "a", *, at: float = 0, priority: int = 0, **more: object) -> QueuedApplication:
    return QueuedApplication(name, instance, size(), after(at), priority, **more)  # type: ignore[arg-type]


def queue_of(instance: str, count: int, *, at: float = 0) -> list[QueuedApplication]:
    return [waiter(f"{instance}{number}", instance, at=at + number) for number in range(count)]


def starts(
    waiting: Sequence[QueuedApplication],
    count: int,
    *,
    capacity: Capacity,
    instances: Sequence[Instance] = (),
    lasting: dict[str, float] | None = None,
) -> list[str]:
    """Return the queues of the first `count` starts on a machine; `lasting` are a cluster's seconds (default 60)."""
    left, holding, used, now, started = list(waiting), [], {}, 0.0, []
    named = {instance.name: instance for instance in instances}
    while len(started) < count:
        scene = QueueSnapshot(after(now), capacity, left, [holder for holder, _ in holding], named, used)
        chosen = schedule(scene).start
        if chosen is not None:
            one = next(one for one in left if one.id == chosen)
            left.remove(one)
            started.append(one.instance)
            ends = now + (lasting or {}).get(one.instance, 60.0)
            holding.append((RunningCluster(one.instance, one.size, after(now)), ends))
            continue
        holding.sort(key=lambda pair: pair[1])
        holder, now = holding.pop(0)
        before = used.get(holder.instance, DecayedUsage())
        used[holder.instance] = before.plus(holder.size, since=holder.since, at=after(now))
    return started


def test_who_submits_a_thousand_first_does_not_get_the_machine() -> None:
    waiting = [*queue_of("many", 50), *queue_of("few", 3, at=1000)]
    assert starts(waiting, 7, capacity=ONE_SLOT) == ["many", "few", "many", "few", "many", "few", "many"]


def test_twice_the_weight_is_twice_the_share() -> None:
    waiting = [*queue_of("a", 50), *queue_of("b", 50)]
    for capacity in (ONE_SLOT, FOUR_SLOTS):
        shares = Counter(starts(waiting, 30, capacity=capacity, instances=[Instance("a", weight=2.0)]))
        assert abs(shares["a"] - 20) <= 1


def test_it_is_time_on_the_machine_that_is_shared_not_turns() -> None:
    """Three one-minute clusters run for each three-minute one."""
    waiting = [*queue_of("long", 40), *queue_of("short", 40)]
    shares = Counter(starts(waiting, 24, capacity=ONE_SLOT, lasting={"long": 180, "short": 60}))
    assert abs(shares["short"] - 3 * shares["long"]) <= 3


def test_a_crowd_of_instants_is_not_free() -> None:
    used = DecayedUsage().plus(size(), since=START, at=START)
    assert used.core_seconds == promised(size()).cores * LEAST_CHARGE.total_seconds()


def test_use_is_forgotten_by_halves() -> None:
    used = DecayedUsage(8.0, 4.0, START).decayed(START + 2 * HALF_LIFE)
    assert (used.core_seconds, used.byte_seconds) == (2.0, 1.0)


def test_within_an_instance_priority_comes_first_and_then_order() -> None:
    waiting = [
        waiter("late", at=2),
        waiter("urgent", at=3, priority=10),
        waiter("early", at=1),
        waiter("low", priority=-1),
    ]
    places = schedule(QueueSnapshot(START, ONE_SLOT, waiting)).places
    assert [place.id for place in places] == ["urgent", "early", "late", "low"]
    assert [place.position for place in places] == [1, 2, 3, 4]


def test_nobody_takes_a_share_of_others_by_a_high_priority() -> None:
    waiting = [waiter("mine", "greedy", at=1, priority=100), waiter("his", "modest", at=2)]
    held = [RunningCluster("greedy", size(), START)]
    assert schedule(QueueSnapshot(after(9), FOUR_SLOTS, waiting, held)).start == "his"


def test_a_large_cluster_is_not_overtaken_for_ever() -> None:
    large = QueuedApplication("large", "a", size(3), after(1))
    held = [RunningCluster("b", size(), START)]
    found = schedule(QueueSnapshot(after(9), Capacity(2, 64 * GIB), [large, waiter("small", "a", at=2)], held))
    assert found.start is None
    assert [(place.id, place.reason and place.reason.code) for place in found.places] == [
        ("large", "cores"),
        ("small", "queue"),
    ]


def test_an_instance_at_its_quota_holds_up_nobody_else() -> None:
    for quota in (Quota(running=1), Quota(cores=3), Quota(memory_bytes=3 * GIB)):
        held = [RunningCluster("full", size(), START)]
        waiting = [waiter("first", "full"), waiter("second", "other", at=1)]
        instances = {"full": Instance("full", quota=quota)}
        found = schedule(QueueSnapshot(after(9), FOUR_SLOTS, waiting, held, instances))
        assert found.start == "second"
        place = found.place("first")
        assert place is not None
        assert place.reason is not None
        assert (place.position, place.reason.code) == (2, "quota")


def test_the_next_attempt_waits_for_its_time_and_holds_up_nobody() -> None:
    waiting = [waiter("again", not_before=after(60)), waiter("fresh", at=5)]
    found = schedule(QueueSnapshot(after(10), FOUR_SLOTS, waiting))
    assert found.start == "fresh"
    assert schedule(QueueSnapshot(after(60), FOUR_SLOTS, waiting)).start == "again"
    later = found.place("again")
    assert later is not None
    assert later.reason is not None
    assert later.reason.message == "its next attempt may begin at 09:01:00 UTC"


def test_what_could_never_start_is_refused_and_holds_up_nobody() -> None:
    found = schedule(
        QueueSnapshot(START, ONE_SLOT, [QueuedApplication("huge", "a", size(100), START), waiter("small", at=1)])
    )
    assert found.start == "small"
    assert found.refused["huge"].code == "too_large"
    assert found.place("huge") is None


def test_what_only_todays_capacity_cannot_hold_waits_and_holds_up_nobody() -> None:
    today = replace(ONE_SLOT, elastic=True, most=FOUR_SLOTS)
    large = QueuedApplication("large", "a", size(5), START)
    found = schedule(
        QueueSnapshot(START, today, [large, waiter("small", at=1), QueuedApplication("huge", "a", size(100), START)])
    )
    assert found.start == "small"
    assert found.refused.keys() == {"huge"}
    assert found.set_aside.keys() == {"large"}
    place = found.place("large")
    assert place is not None
    assert place.reason is not None
    assert place.reason.code == "capacity"
    grown = replace(FOUR_SLOTS, elastic=True, most=FOUR_SLOTS)
    assert schedule(QueueSnapshot(START, grown, [large, waiter("small", at=1)])).start == "large"


def test_a_quota_that_was_reduced_below_a_waiting_cluster_holds_up_nobody_else() -> None:
    large = QueuedApplication("large", "a", size(5), START, priority=9)
    for quota, limit in ((Quota(cores=3), "6 cores"), (Quota(memory_bytes=4 * GIB), "GiB")):
        instances = {"a": Instance("a", quota=quota)}
        for held in ((), [RunningCluster("b", size(), START)]):
            found = schedule(QueueSnapshot(after(9), FOUR_SLOTS, [large, waiter("small", at=1)], held, instances))
            assert found.start == "small"
            assert found.set_aside.keys() == {"large"}
            place = found.place("large")
            assert place is not None
            assert place.reason is not None
            assert (place.position, place.reason.code) == (2, "quota")
            assert limit in place.reason.message
            assert "exceeds the quota of the instance a" in place.reason.message
    assert schedule(QueueSnapshot(after(9), FOUR_SLOTS, [large, waiter("small", at=1)])).start == "large"


def test_with_an_autoscaler_at_zero_everybody_waits() -> None:
    nothing = Capacity(0, 0, elastic=True)
    found = schedule(QueueSnapshot(START, nothing, queue_of("a", 3), [RunningCluster("a", size(), START)]))
    assert not found.refused
    assert found.start is None
    assert [place.id for place in found.places] == ["a0", "a1", "a2"]


sizes = st.builds(lambda executors, gib: size(executors, memory=gib * GIB), st.integers(1, 4), st.integers(1, 8))
crowds = st.lists(
    st.tuples(st.sampled_from("abc"), sizes, st.integers(0, 100), st.integers(-2, 2)), min_size=1, max_size=25
)
quotas = st.builds(
    Quota, running=st.one_of(st.none(), st.integers(1, 3)), cores=st.one_of(st.none(), st.integers(3, 12))
)


@given(crowds, st.lists(quotas, min_size=3, max_size=3), st.integers(3, 16))
def test_whatever_comes_everybody_starts_and_no_promise_is_broken(
    crowd: list[tuple[str, ClusterSize, int, int]], bounds: list[Quota], cores: int
) -> None:
    capacity = Capacity(cores, 64 * GIB)
    instances = {name: Instance(name, quota=quota) for name, quota in zip("abc", bounds, strict=True)}
    waiting = [
        QueuedApplication(f"{n}", name, wanted, after(at), rank) for n, (name, wanted, at, rank) in enumerate(crowd)
    ]
    holding: list[RunningCluster] = []
    for step in range(4 * len(crowd)):
        scene = QueueSnapshot(after(200 + step), capacity, waiting, holding, instances)
        found = schedule(scene)
        refused = set(found.refused)
        assert sorted(place.id for place in found.places) == sorted({one.id for one in waiting} - refused)
        assert [place.position for place in found.places] == list(range(1, len(found.places) + 1))
        assert all(place.reason is not None for place in found.places[1:])
        if found.start is not None:
            one = next(one for one in waiting if one.id == found.start)
            holding.append(RunningCluster(one.instance, one.size, scene.at))
            assert admission.room(one.size, [other.size for other in holding[:-1]], capacity) is None
            most = instances[one.instance].quota.running
            assert most is None or sum(other.instance == one.instance for other in holding) <= most
        elif holding:
            holding.pop(0)
        waiting = [one for one in waiting if one.id not in {found.start, *refused}]
    # Only applications above their queue's whole quota are left; they hold up none behind them.
    assert all(scheduling.exceeds_quota(instances[one.instance], one.size) for one in waiting)


def test_a_thousand_waiting_are_planned_in_less_than_their_poll() -> None:
    import time

    waiting = [waiter(f"{number}", f"instance-{number % 20}", at=number) for number in range(1000)]
    began = time.process_time()
    found = schedule(QueueSnapshot(after(5000), FOUR_SLOTS, waiting))
    assert len(found.places) == 1000
    assert timedelta(seconds=time.process_time() - began) < timedelta(seconds=1)


def test_a_command_that_does_not_claim_its_turn_is_passed_over_and_keeps_its_place() -> None:
    waiting = [waiter("suspended", turn_since=START), waiter("next", at=1)]
    offered = schedule(QueueSnapshot(START + CLAIM_TIME - timedelta(seconds=1), ONE_SLOT, waiting))
    assert offered.start == "suspended"
    passed = schedule(QueueSnapshot(START + CLAIM_TIME, ONE_SLOT, waiting))
    assert passed.start == "next"
    assert passed.set_aside["suspended"].code == "turn"
    back = schedule(QueueSnapshot(START + CLAIM_TIME, ONE_SLOT, [replace(waiting[0], turn_since=None), waiting[1]]))
    assert [place.id for place in back.places] == ["suspended", "next"]


def test_an_application_that_a_dispatcher_starts_is_never_passed_over_for_its_turn() -> None:
    waiting = [waiter("first", turn_since=START, dispatched=True), waiter("next", at=1)]
    assert schedule(QueueSnapshot(START + 2 * CLAIM_TIME, ONE_SLOT, waiting)).start == "first"
