"""The engine of a service on a real PostgreSQL, with clusters that are directories: queue, pages, attempts, audit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from sqlalchemy.exc import DBAPIError

from benchmarks.service.queue_under_kill import run
from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE
from penstock.catalog.database import METASTORE, RECORDS, Database
from penstock.cli.main import command
from penstock.clusters.backend import Handle, Observation, Phase
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.policy import lifecycle
from penstock.engine.policy.scheduling import Instance, InstanceUsage, Quota
from penstock.engine.repository.applications import now
from penstock.engine.repository.audit import Audit
from penstock.engine.repository.listing import Interval, Query
from penstock.engine.tokens import EVERY_INSTANCE, Scope, TokenStore
from penstock.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from penstock.home import Home
from penstock.model import Application, Capacity, State, promised
from tests.support.fake_engine import SIZE, FakeBackend, FakeEngine, launches, specification
from tests.support.waiting import within


@pytest.fixture
def home(records_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A separate engine's home, over the shared database."""
    database = Database(records_home)
    database.up()
    for variable, address in ((DATABASE_VARIABLE, database.url(RECORDS)), (CATALOG_VARIABLE, database.url(METASTORE))):
        monkeypatch.setenv(
            variable, f"postgresql://{address.user}:{address.password}@{address.host}:{address.port}/{address.dbname}"
        )
    home = Home(tmp_path)
    home.create()
    return home


@pytest.fixture
def engine(home: Home) -> FakeEngine:
    return FakeEngine(home)


@contextmanager
def dispatched_by(*engines: FakeEngine) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=Dispatcher(engine).run, args=[stop]) for engine in engines]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for engine in engines:
            engine.supervisors.end()


def ended(engine: FakeEngine, application: Application) -> Application:
    deadline = time.monotonic() + 30
    while not (found := engine.get(application.id)).state.final or found.cluster is not None:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def test_two_engines_on_one_database_launch_every_application_once(home: Home, engine: FakeEngine) -> None:
    submitted = [engine.enqueue(specification(home, number)) for number in range(12)]
    with dispatched_by(engine, FakeEngine(home)):
        assert {ended(engine, one).state for one in submitted} == {State.FINISHED}
    assert sorted(launches(home)) == sorted(one.id for one in submitted)


def test_none_is_lost_or_doubled_or_overtaken_while_the_engine_is_killed(home: Home) -> None:
    result = run(home, submissions=40, kills=2, seconds=(1.0, 2.5))
    assert (result["broken"], result["kills"]) == ([], 2)


def test_the_overhead_that_a_user_asks_for_is_what_the_queue_promises(home: Home, engine: FakeEngine) -> None:
    asked = specification(home, 1, settings={"spark.executor.memoryOverhead": "2g"})
    recorded = engine.get(engine.enqueue(asked).id).spec
    assert recorded.size.executor_bytes == SIZE.executor.memory_bytes + (2 << 30)
    assert recorded.size.driver_overhead == SIZE.driver_overhead


def test_what_waits_for_a_dispatcher_is_left_to_it_and_needs_no_process(home: Home, engine: FakeEngine) -> None:
    application = engine.enqueue(specification(home, 1))
    assert list(engine.applications.unsupervised()) == []
    assert engine.request_stop(application.id).state is State.STOPPED
    assert launches(home) == []


def test_the_queue_tells_who_is_next_and_why_the_others_wait(home: Home) -> None:
    promise = promised(SIZE)
    engine = FakeEngine(home, FakeBackend(home, capacity=Capacity(1, promise.memory_bytes), seconds=60))
    with dispatched_by(engine):
        first = engine.enqueue(specification(home, 1))
        within(lambda: engine.get(first.id).state is State.RUNNING, 10)
        second, third = (engine.enqueue(specification(home, number, priority=number)) for number in (2, 3))
        places = engine.queue()
        assert [(place.id, place.position, place.reason and place.reason.code) for place in places] == [
            (third.id, 1, "memory"),
            (second.id, 2, "queue"),
        ]
        assert engine.queues.usage_of("default") == InstanceUsage(1, 2, promise.cores, promise.memory_bytes)
        for application in (second, third):
            engine.request_stop(application.id)
        engine.request_stop(first.id)
        assert ended(engine, first).state is State.STOPPED


def test_a_cluster_larger_than_todays_nodes_waits_for_more_and_holds_up_nobody(home: Home) -> None:
    promise = promised(SIZE)
    today = Capacity(promise.cores, promise.memory_bytes, elastic=True)
    backend = FakeBackend(home, capacity=today)
    engine = FakeEngine(home, backend)
    larger = replace(SIZE, executors=40)
    waiting = [engine.enqueue(replace(specification(home, number), size=larger)) for number in (1, 2)]
    small = engine.enqueue(specification(home, 3))
    with dispatched_by(engine):
        assert ended(engine, small).state is State.FINISHED
        # The small one's cluster may end before the dispatcher has recorded what the others wait for.
        within(lambda: all(engine.get(one.id).state is State.WAITING for one in waiting))
        for application in map(engine.get, [one.id for one in waiting]):
            assert application.state is State.WAITING
            assert application.reason is not None
            assert application.reason.code == "capacity"
            assert "today's have" in application.reason.message
        times = len(engine.applications.events(waiting[0].id))
        engine.enqueue(specification(home, 4))
        time.sleep(0.3)
        assert len(engine.applications.events(waiting[0].id)) == times, (
            "reported once, and not with every check of the queue"
        )
        backend.has = Capacity(100, 100 * promise.memory_bytes, elastic=True)
        engine.enqueue(specification(home, 5))
        assert [ended(engine, one).state for one in waiting] == [State.FINISHED, State.FINISHED]


class Lossy(FakeBackend):
    """A backend that loses the first cluster of every application."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self.released: set[object] = set()

    def observe(self, handle: Handle) -> Observation:
        if handle["application_id"] in self.released:
            return super().observe(handle)
        return Observation(Phase.LOST, detail="for the test")

    def release(self, handle: Handle) -> None:
        super().release(handle)
        self.released.add(handle["application_id"])


def test_an_attempt_that_was_lost_is_followed_by_another(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_FIRST", timedelta(seconds=0.1))
    engine = FakeEngine(home, Lossy(home))
    application = engine.enqueue(specification(home, 1, retries=1))
    without = engine.enqueue(specification(home, 2))
    with dispatched_by(engine):
        found, failed = ended(engine, application), ended(engine, without)
    assert (found.state, found.attempt) == (State.FINISHED, 2)
    assert [one.reason.code for one in found.attempts] == ["driver_lost"]
    assert (failed.state, failed.attempts) == (State.FAILED, ())
    assert launches(home).count(application.id) == 2


def test_a_full_queue_refuses_and_many_at_once_do_not_slip_through(home: Home, engine: FakeEngine) -> None:
    engine.queues.put(Instance("small", quota=Quota(waiting=3)))

    def submit(number: int) -> bool:
        try:
            engine.enqueue(specification(home, number, instance="small"))
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(submit, range(12))) == 3


def test_a_cluster_larger_than_its_instance_may_be_is_refused_at_once(home: Home, engine: FakeEngine) -> None:
    engine.queues.put(Instance("tiny", quota=Quota(cores=1)))
    with pytest.raises(QuotaExceeded, match="exceeds the quota of the instance"):
        engine.enqueue(specification(home, 1, instance="tiny"))
    with pytest.raises(NotFound):
        engine.enqueue(specification(home, 1, instance="nowhere"))


def test_a_key_is_one_application_of_its_instance_and_no_other(home: Home, engine: FakeEngine) -> None:
    engine.queues.put(Instance("other"))
    asked = specification(home, 1, idempotency_key="k")
    first = engine.enqueue(asked)
    Path(asked.application).unlink()
    assert engine.enqueue(asked).id == first.id
    with pytest.raises(Conflict, match="belongs to another"):
        engine.enqueue(replace(asked, arguments=("more",)))
    assert engine.enqueue(specification(home, 1, idempotency_key="k", instance="other")).id != first.id


def test_an_instance_goes_when_nothing_of_it_runs_and_the_default_stays(home: Home, engine: FakeEngine) -> None:
    made = engine.queues.put(Instance("made", 2.0, Quota(running=1), {"defaults": {"a": 1}}))
    assert engine.queues.instance("made") == made
    changed = engine.queues.put(Instance("made", 3.0))
    assert engine.queues.instance("made") == changed == Instance("made", 3.0, Quota(), {"defaults": {"a": 1}})
    application = engine.enqueue(specification(home, 1, instance="made"))
    with pytest.raises(Conflict):
        engine.queues.delete("made")
    engine.request_stop(application.id)
    engine.queues.delete("made")
    with pytest.raises(NotFound):
        engine.queues.instance("made")
    with pytest.raises(Conflict):
        engine.queues.delete("default")
    assert [instance.name for instance in engine.queues.instances()] == ["default"]


def test_a_token_of_a_removed_instance_does_not_open_a_later_one_of_its_name(home: Home, engine: FakeEngine) -> None:
    store = TokenStore(Database(home).engine())
    engine.queues.put(Instance("made"))
    other, _ = store.create("other", {"made-too": Scope.SUBMIT, EVERY_INSTANCE: Scope.READ})
    past, _ = store.create("past", {"made": Scope.SUBMIT}, expires_at=now() - timedelta(seconds=1))
    valid, _ = store.create("valid", {"made": Scope.READ}, expires_at=now() + timedelta(hours=1))
    with pytest.raises(Conflict, match=valid.id) as refused:
        engine.queues.delete("made")
    assert past.id not in str(refused.value)
    assert other.id not in str(refused.value)
    store.revoke(valid.id)
    engine.queues.delete("made")
    for token in (other, past):
        store.revoke(token.id)


def test_a_quota_reduced_below_the_first_waiting_cluster_starts_those_behind_it(home: Home, engine: FakeEngine) -> None:
    engine.queues.put(Instance("made"))
    large = engine.enqueue(replace(specification(home, 1, instance="made"), size=replace(SIZE, executors=9)))
    small = engine.enqueue(specification(home, 2, instance="made"))
    engine.queues.put(Instance("made", quota=Quota(cores=promised(SIZE).cores)))
    with dispatched_by(engine):
        assert ended(engine, small).state is State.FINISHED
        within(lambda: engine.get(large.id).state is State.WAITING)
        reason = engine.get(large.id).reason
        assert reason is not None
        assert "exceeds the quota of the instance made" in reason.message
        engine.queues.put(Instance("made"))
        engine.enqueue(specification(home, 3, instance="made"))
        assert ended(engine, large).state is State.FINISHED


def test_of_changes_to_one_instance_at_once_none_is_lost(engine: FakeEngine) -> None:
    def one_more(found: Instance) -> Instance:
        return replace(found, attributes={"count": found.attributes.get("count", 0) + 1})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: engine.queues.change("default", one_more), range(20)))
    assert engine.queues.instance("default").attributes == {"count": 20}
    with pytest.raises(NotFound):
        engine.queues.change("none", one_more)


@pytest.mark.parametrize("sort", ["submitted_at", "-submitted_at", "name", "-name", "ended_at", "-started_at"])
def test_pages_there_and_back_hold_everything_once(home: Home, engine: FakeEngine, sort: str) -> None:
    for number in range(7):
        application = engine.enqueue(replace(specification(home, number), name=f"{number % 3}"))
        if number % 2:
            engine.request_stop(application.id)
    page = engine.applications.page(Query(sort=sort, limit=3))
    assert page.previous is None
    pages = [page]
    while page.next:
        page = engine.applications.page(Query(sort=sort, limit=3, page=page.next))
        pages.append(page)
    forwards = [[one.id for one in page.items] for page in pages]
    assert [len(ids) for ids in forwards] == [3, 3, 1]
    assert len({one for ids in forwards for one in ids}) == 7
    backwards = [forwards[-1]]
    while page.previous:
        page = engine.applications.page(Query(sort=sort, limit=3, page=page.previous))
        backwards.append([one.id for one in page.items])
    assert backwards[::-1] == forwards


def test_what_is_submitted_meanwhile_moves_nobody_to_another_page(home: Home, engine: FakeEngine) -> None:
    before = [engine.enqueue(specification(home, number)).id for number in range(4)]
    first = engine.applications.page(Query(limit=2))
    engine.enqueue(specification(home, 9))
    second = engine.applications.page(Query(limit=2, page=first.next))
    assert [one.id for one in (*first.items, *second.items)] == before[::-1]


def test_filters_go_together(home: Home, engine: FakeEngine) -> None:
    engine.queues.put(Instance("b"))
    began = now()
    for number, (instance, tags) in enumerate([("default", ("x", "y")), ("b", ("x",)), ("b", ("x", "y"))]):
        engine.enqueue(specification(home, number, instance=instance, tags=tags))

    def names(**query: object) -> list[str]:
        return [one.spec.name for one in engine.applications.page(Query(sort="name", **query)).items]  # type: ignore[arg-type]

    assert names(tags=("x", "y"), instances=("b",)) == ["load-2"]
    assert names(states=(State.ACCEPTED,), name="load-1") == ["load-1"]
    assert names(submitted=Interval(before=began)) == []
    assert names(submitted=Interval(after=began)) == ["load-0", "load-1", "load-2"]
    assert names(ended=Interval(after=began)) == []
    assert engine.applications.counts() == {"default": {State.ACCEPTED: 1}, "b": {State.ACCEPTED: 2}}
    with pytest.raises(InvalidInput):
        engine.applications.page(Query(page="nonsense"))


def test_the_audit_can_only_be_added_to(records_home: Home, engine: FakeEngine) -> None:
    submitted = Audit(now(), "token:a", "application.submit", subject="app-1", detail={"name": "x"})
    engine.audit.add([submitted, replace(submitted, actor="token:b", action="application.stop", outcome="refused")])
    page = engine.audit.page(limit=1)
    assert [(entry.actor, entry.outcome) for entry in page.items] == [("token:b", "refused")]
    assert [entry.actor for entry in engine.audit.page(before=page.next).items] == ["token:a"]
    for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(DBAPIError, match="only added to"), Database(records_home).engine().begin() as connection:
            connection.execute(sa.text(statement))


def test_every_change_of_state_is_queued_once_for_each_webhook(home: Home) -> None:
    engine = FakeEngine(home, FakeBackend(home, seconds=0.5))
    urls = ("https://a.example/", "https://b.example/")
    application = engine.enqueue(specification(home, 1, webhooks=urls))
    with dispatched_by(engine):
        ended(engine, application)
    outgoing = engine.applications.deliveries(application.id)
    states = ["accepted", "starting", "running", "stopping", "finished"]
    assert [(one["url"], one["state"]) for one in outgoing] == [(url, state) for state in states for url in urls]
    assert all(one["tries"] == 0 and one["due_at"] for one in outgoing)


def test_a_change_is_heard_of(home: Home, engine: FakeEngine) -> None:
    with engine.applications.changes() as changes:
        assert changes.wait(0.01) == set()
        application = engine.enqueue(specification(home, 1))
        assert changes.wait(2) == {application.id}


def test_instances_and_the_queue_at_the_command_line(
    home: Home, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(home.root))

    def said(*arguments: str) -> str:
        ran = CliRunner().invoke(command(), arguments)
        assert ran.exit_code == 0, ran.output
        return ran.output

    said("instance", "set", "team-a", "--weight", "2", "--memory", "4g", "--running", "1")
    assert engine.queues.instance("team-a") == Instance("team-a", 2.0, Quota(memory_bytes=4 << 30, running=1))
    first, second = (engine.enqueue(specification(home, number, instance="team-a")) for number in (1, 2))
    assert "0 of 1" in said("instance", "list")
    with dispatched_by(FakeEngine(home, FakeBackend(home, seconds=60))):
        within(lambda: engine.get(second.id).state is State.WAITING, 10)
        waiting = said("queue", "--instance", "team-a")
        assert second.id in waiting
        assert first.id not in waiting
        assert "may run 1 at once" in waiting
        for application in (second, first):
            engine.request_stop(application.id)
        ended(engine, first)
    said("instance", "remove", "team-a")


def commanded(engine: FakeEngine, number: int) -> Application:
    """Return an application that its own command starts, as after `submit`, without the lake that the latter opens."""
    application = engine.enqueue(specification(engine.home, number))
    with engine.repositories.database.begin() as connection:
        change = sa.text("UPDATE applications SET dispatched = false WHERE id = :id")
        connection.execute(change, {"id": application.id})
    return engine.get(application.id)


def test_a_suspended_command_at_the_head_of_the_queue_stops_nobody(home: Home, engine: FakeEngine) -> None:
    """Two commands hold their claims, as a suspended one does; only the second polls."""
    suspended, polling = (commanded(engine, number) for number in (1, 2))
    records, at = engine.repositories.transitions, now()

    def admit(application: Application, seconds: float) -> Application:
        event = lifecycle.Admitted(at + timedelta(seconds=seconds), engine.backend.handle(application.id))
        return records.admit(application.id, event, capacity=engine.backend.capacity())[0]

    with records.claim(suspended.id), records.claim(polling.id):
        assert admit(polling, 0).state is State.WAITING
        assert admit(polling, 9).state is State.WAITING
        place = engine.queues.schedule(at=at + timedelta(seconds=10), capacity=engine.backend.capacity()).places[-1]
        assert (place.id, place.reason and place.reason.code) == (suspended.id, "turn")
        assert admit(polling, 10).state is State.STARTING
        # A command that continues has its place again.
        third = commanded(engine, 3)
        with records.claim(third.id):
            assert admit(suspended, 11).state is State.STARTING
            assert admit(third, 12).state is State.STARTING


def test_a_dispatcher_passes_over_a_suspended_command(home: Home, engine: FakeEngine) -> None:
    suspended, dispatched = commanded(engine, 1), engine.enqueue(specification(home, 2))
    records, at = engine.repositories.transitions, now()

    def admit_next(seconds: float) -> Application | None:
        def admit(application_id: str) -> lifecycle.Admitted:
            return lifecycle.Admitted(at, engine.backend.handle(application_id))

        return records.admit_next(admit, at=at + timedelta(seconds=seconds), capacity=engine.backend.capacity())

    with records.claim(suspended.id), engine.applications.changes(dispatching=True):
        assert admit_next(0) is None
        assert admit_next(9) is None
        started = admit_next(10)
        assert started is not None
        assert started.id == dispatched.id
