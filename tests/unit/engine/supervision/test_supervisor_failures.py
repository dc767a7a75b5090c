"""No exception at any call of a supervisor causes a loop, drops an application or hides why it ended."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from penstock.clusters.backend import ClusterBackend, Launch, Observation, Phase
from penstock.engine.policy.lifecycle import STOPPED_BY_USER, Event, Step
from penstock.engine.repository.applications import ApplicationRepository
from penstock.engine.supervision import supervisor as module
from penstock.engine.supervision.supervisor import Supervisor
from penstock.errors import CatalogError, InvalidInput, NotFound, StateError, Superseded
from penstock.model import Application, Reason, State
from tests.unit.engine.engine_making import HANDLE, Memory, application

ERRORS: Mapping[str, Callable[[], Exception]] = {
    "StateError": lambda: StateError("The credentials are being changed", fix="try again"),
    "OSError": lambda: OSError(errno.ENOSPC, "No space left on device", "/home/x"),
    "RuntimeError": lambda: RuntimeError("a secret"),
    "database lost": lambda: psycopg.OperationalError("server closed the connection unexpectedly"),
}
CODES = {
    "StateError": "state_error",
    "OSError": "cluster_error",
    "RuntimeError": "internal_error",
    "database lost": "catalog_error",
}

BEFORE_LAUNCH = ("admit", "capacity", "handle")
AT_LAUNCH = ("prepare", "launch")
ON_CLUSTER = ("companions", "observe")
AT_THE_END = ("stop", "collect", "keep")
RECORDS = ("claim", "get", "requested_end", "apply")
CALLS = (*RECORDS, *BEFORE_LAUNCH, *AT_LAUNCH, "check", *ON_CLUSTER, *AT_THE_END, "price", "release")

MOST_CALLS = 130
"""More calls than any retry policy makes."""


class Faults:
    """Errors raised by the named call, `times` times."""

    def __init__(self, name: str, make: Callable[[], Exception], times: int = 1 << 30) -> None:
        self.name, self.make, self.left = name, make, times
        self.calls: Counter[str] = Counter()
        self.waited = 0.0

    def at(self, name: str) -> None:
        self.calls[name] += 1
        assert self.calls[name] < 100_000, f"{name} is called without end"
        if name == self.name and self.left > 0:
            self.left -= 1
            raise self.make()

    def sleep(self, seconds: float) -> None:
        self.waited += seconds

    def monotonic(self) -> float:
        return self.waited


class FaultyRecords(Memory):
    def __init__(self, kept: Application, faults: Faults) -> None:
        super().__init__(kept)
        self.faults = faults
        self.asked: Reason | None = None
        self.shown: list[Reason | None] = []
        self.ends = 0

    def get(self, name: str) -> Application:
        self.faults.at("get")
        return super().get(name)

    def requested_end(self, _: str) -> Any:
        self.faults.at("requested_end")
        return self.asked

    def apply(self, name: str, event: Event) -> Step:
        self.faults.at("apply")
        before = self.kept
        step = super().apply(name, event)
        self.ends += self.kept.state.final and not before.state.final
        self.shown.append(self.kept.reason)
        return step

    def admit(self, name: str, admitted: Event, **more: Any) -> Step:
        self.faults.at("admit")
        return super().apply(name, admitted)

    @contextlib.contextmanager
    def claim(self, *_: Any, **__: Any) -> Iterator[Any]:
        self.faults.at("claim")
        faults, records = self.faults, self

        class Claim:
            @staticmethod
            def wait(seconds: float) -> bool:
                faults.sleep(seconds)
                return records.asked is not None

            wait_for_any = wait

        yield Claim()


class FaultyCluster:
    """A driver that is observed to start, run and succeed; it fails if it is stopped before."""

    def __init__(self, directory: Path, faults: Faults) -> None:
        self.directory, self.faults = directory, faults
        self.launched = self.stopped = self.released = 0
        self.seen = 0

    def capacity(self) -> None:
        self.faults.at("capacity")

    def handle(self, _: str) -> dict[str, Any]:
        self.faults.at("handle")
        return HANDLE

    def launch(self, _: Launch) -> None:
        self.faults.at("launch")
        self.launched = 1

    def observe(self, _: Any) -> Observation:
        self.faults.at("observe")
        self.seen += 1
        if self.seen > 3:
            return Observation(Phase.ENDED, exit_code=0)
        if self.stopped or not self.launched:
            return Observation(Phase.ENDED, exit_code=143)
        return Observation(Phase.STARTING if self.seen == 1 else Phase.RUNNING)

    def read(self, *_: Any, **__: Any) -> bytes:
        return b""

    def stop(self, _: Any, *, grace_seconds: float) -> None:
        self.faults.at("stop")
        self.stopped += 1

    def collect(self, _: Any, *, incomplete: bool = False) -> Path:
        if not incomplete:
            self.faults.at("collect")
        return self.directory

    def release(self, _: Any) -> None:
        self.faults.at("release")
        self.released += 1


class World:
    def __init__(self, tmp_path: Path, faults: Faults, kept: Application | None = None) -> None:
        self.faults = faults
        self.records = FaultyRecords(kept or application(State.ACCEPTED), faults)
        self.cluster = FaultyCluster(tmp_path, faults)
        self.supervisor = Supervisor(
            cast(ApplicationRepository, self.records),
            cast(ClusterBackend, self.cluster),
            prepare=self._prepare,
            store_artifacts=self._keep,
            price=self._price,
            check=lambda _: faults.at("check"),
            companions=self._companions,
            grace_seconds=0,
        )

    def run(self) -> Application:
        return self.supervisor.run("app-1", lambda *_: None)

    def _prepare(self, _: Application) -> Launch:
        self.faults.at("prepare")
        return cast(Launch, None)

    def _keep(self, *_: Any) -> dict[str, Any]:
        self.faults.at("keep")
        return {"kept": True}

    def _price(self, *_: Any) -> None:
        self.faults.at("price")

    @contextlib.contextmanager
    def _companions(self, *_: Any) -> Iterator[None]:
        self.faults.at("companions")
        yield


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def made(name: str, error: str, times: int = 1 << 30, kept: Application | None = None) -> World:
        faults = Faults(name, ERRORS[error], times)
        monkeypatch.setattr(module, "time", faults)
        # The check runs in a thread; here it completes before anything else happens.
        monkeypatch.setattr(module, "threading", SimpleNamespace(Thread=Inline, Event=threading.Event))
        return World(tmp_path, faults, kept)

    return made


class Inline:
    def __init__(self, *, target: Callable[..., None], args: Any, **_: Any) -> None:
        self._work = lambda: target(*args)

    def start(self) -> None:
        self._work()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", CALLS)
def test_a_failure_that_happens_once_costs_the_application_nothing(
    world: Callable[..., World], call: str, error: str
) -> None:
    here = world(call, error, times=1)
    ended = here.run()
    # A problem that the launch or the concurrent lake check reports is final.
    answered = error == "StateError" and call in (*AT_LAUNCH, "check")
    assert ended.state is (State.FAILED if answered else State.FINISHED), ended.reason
    assert here.records.ends == 1
    assert here.cluster.released == 1
    assert ended.cluster is None
    if answered:
        assert ended.reason is not None
        assert (ended.reason.code, ended.reason.fix) == ("state_error", "try again")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", CALLS)
def test_a_failure_that_stays_ends_the_application_once_with_its_reason(
    world: Callable[..., World], call: str, error: str
) -> None:
    here = world(call, error)
    if call in (*RECORDS, "release"):
        # Nothing can be recorded, or nothing is left to record: the process that starts supervisors continues.
        with pytest.raises(Exception) as raised:
            here.run()
        assert getattr(raised.value, "code", None) == CODES[error]
        assert here.records.ends == (call == "release")
    else:
        ended = here.run()
        assert here.records.ends == 1
        harmless = call in (*AT_THE_END, "price") or (call == "check" and error != "StateError")
        assert ended.state is (State.FINISHED if harmless else State.FAILED)
        assert ended.cluster is None
        if not harmless:
            assert ended.reason is not None
            assert ended.reason.code == CODES[error]
            assert ended.reason.message
            assert ended.reason.fix
            assert "a secret" not in ended.reason.message
        if call in ("collect", "keep"):
            assert ended.summary is not None
            assert ended.summary["artefacts_problem"]
            # What was collected before the failure is stored.
            assert ended.summary.get("kept") is (True if call == "collect" else None)
        if call == "price":
            assert ended.summary == {"kept": True}
    assert here.faults.calls[call] <= MOST_CALLS
    assert here.faults.waited < 2 * 3600


def test_a_defect_at_launch_is_tried_once_more_and_no_oftener(world: Callable[..., World]) -> None:
    here = world("launch", "RuntimeError")
    assert here.run().state is State.FAILED
    assert here.faults.calls["launch"] == 2


def test_lost_connections_between_which_all_goes_well_never_end_a_supervision(
    tmp_path: Path, world: Callable[..., World]
) -> None:
    here = world("nothing", "database lost")
    observe, looks = here.cluster.observe, 0

    def lost_now_and_then(handle: Any) -> Observation:
        nonlocal looks
        looks += 1
        if looks % 2 and looks < 400:
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return Observation(Phase.RUNNING) if looks < 400 else observe(handle)

    here.cluster.observe = lost_now_and_then  # type: ignore[method-assign]
    here.cluster.seen = 3
    assert here.run().state is State.FINISHED


def test_while_a_cluster_cannot_be_seen_the_reason_is_shown_and_goes_when_it_can(world: Callable[..., World]) -> None:
    here = world("observe", "OSError", times=5)
    assert here.run().state is State.FINISHED
    codes = [reason and reason.code for reason in here.records.shown]
    assert "cluster_error" in codes
    assert codes[codes.index("cluster_error") + 1 :].count(None) > 0


def test_while_a_queue_cannot_be_looked_at_the_application_waits_and_says_why(world: Callable[..., World]) -> None:
    here = world("capacity", "OSError", times=20)
    assert here.run().state is State.FINISHED
    assert any(reason and reason.code == "cluster_error" for reason in here.records.shown)


def test_a_stop_is_obeyed_while_the_cluster_cannot_be_seen(world: Callable[..., World]) -> None:
    here = world("observe", "StateError")
    here.records.asked = None
    at = here.faults.at

    def asked_later(name: str) -> None:
        if here.faults.calls["observe"] == 3:
            here.records.asked = Reason(STOPPED_BY_USER, "it was stopped on request")
            here.faults.left = 0
        at(name)

    here.faults.at = asked_later  # type: ignore[method-assign]
    ended = here.run()
    assert ended.state is State.STOPPED
    assert here.faults.waited < 60


def test_an_application_that_was_asked_to_end_is_not_launched(world: Callable[..., World]) -> None:
    here = world("nothing", "OSError", kept=application(State.STARTING))
    here.records.asked = Reason(STOPPED_BY_USER, "it was stopped on request")
    assert here.run().state is State.STOPPED
    assert not here.faults.calls["launch"]


def test_another_supervisor_is_no_failure_and_is_left_alone(world: Callable[..., World]) -> None:
    here = world("claim", "StateError")
    here.faults.make = lambda: Superseded("Another process looks after app-1")
    with pytest.raises(Superseded):
        here.run()
    assert here.faults.calls["claim"] == 1


def test_an_unknown_application_is_said_to_be_unknown_at_once(world: Callable[..., World]) -> None:
    here = world("get", "StateError")
    here.faults.make = lambda: NotFound("There is no application “app-1”")
    with pytest.raises(NotFound):
        here.run()
    assert here.faults.calls["get"] == 1


def test_what_a_listener_raises_ends_the_supervision_and_not_the_application(world: Callable[..., World]) -> None:
    here = world("nothing", "OSError")

    def on_change(*_: Any) -> None:
        raise InvalidInput("stop looking")

    with pytest.raises(InvalidInput):
        here.supervisor.run("app-1", on_change)
    assert here.records.ends == 0


def test_a_defect_leaves_its_trace_in_the_log_and_none_in_what_users_see(
    world: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, module.__name__):
        world("launch", "RuntimeError").run()
    assert any(record.exc_info for record in caplog.records if record.levelno == logging.DEBUG)
    assert not any(record.exc_info for record in caplog.records if record.levelno > logging.DEBUG)


def test_a_listener_that_loses_the_database_each_time_makes_no_loop(world: Callable[..., World]) -> None:
    here = world("nothing", "database lost")
    calls = 0

    def on_change(*_: Any) -> None:
        nonlocal calls
        calls += 1
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with pytest.raises(CatalogError):
        here.supervisor.run("app-1", on_change)
    assert calls <= MOST_CALLS
