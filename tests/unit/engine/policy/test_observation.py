"""The translation of an observation into one event, the most definite one first."""

from __future__ import annotations

from dataclasses import replace

from penstock.clusters.backend import Observation, Phase
from penstock.engine.policy.lifecycle import Blocked, ClusterSeen, ContextStarted, DriverEnded, EndRequested, step
from penstock.engine.policy.observation import event_of
from penstock.model import Application, Reason, State
from tests.unit.engine.engine_making import after, application, spec

STOP = Reason("stopped_by_user", "asked")


def seen(observation: Observation, **more: object) -> object:
    given = {"at": after(10), "launched_at": after(0), **more}
    running = given.pop("application", application(State.RUNNING))
    return event_of(running, observation, **given)  # type: ignore[arg-type]


def known(starting: Application) -> Application:
    """Return the application once its cluster was seen."""
    return step(starting, ClusterSeen(after(0)))[0]


def test_an_end_that_was_seen_wins_over_a_stop_that_was_asked_for() -> None:
    assert seen(Observation(Phase.ENDED, exit_code=0), end_request=STOP) == DriverEnded(after(10), 0)


def test_a_lost_cluster_is_a_failure_with_a_reason() -> None:
    event = seen(Observation(Phase.LOST, detail="the keeper was killed"))
    assert isinstance(event, DriverEnded)
    assert event.exit_code is None
    assert event.reason is not None
    assert event.reason.code == "driver_lost"


def test_a_failed_driver_is_explained_from_its_own_words() -> None:
    event = seen(Observation(Phase.ENDED, exit_code=1), errors="ModuleNotFoundError: No module named 'pandas'")
    assert isinstance(event, DriverEnded)
    assert event.reason is not None
    assert event.reason.code == "module_missing"


def test_the_time_limit_counts_from_the_launch() -> None:
    limited = known(application(State.STARTING, spec=spec(time_limit_seconds=10)))
    assert seen(Observation(Phase.STARTING), application=limited, at=after(9)) is None
    event = seen(Observation(Phase.STARTING), application=limited, at=after(10))
    assert isinstance(event, EndRequested)
    assert event.reason.code == "time_limit"


def test_dying_executors_end_the_application() -> None:
    event = seen(Observation(Phase.RUNNING, executors_failed=True, lost_executors=4))
    assert isinstance(event, EndRequested)
    assert event.reason.code == "executors_failed"


def test_the_context_is_noticed_once() -> None:
    up = Observation(Phase.RUNNING, spark_application_id="s-1")
    assert seen(up, application=application(State.STARTING)) == ContextStarted(after(10), "s-1")
    assert seen(up) is None


def test_a_cluster_is_recorded_once_it_exists() -> None:
    starting = application(State.STARTING)
    assert seen(Observation(Phase.STARTING, postponed=True), application=starting) is None
    assert seen(Observation(Phase.STARTING), application=starting) == ClusterSeen(after(10))
    assert seen(Observation(Phase.STARTING), application=known(starting)) is None


NO_ROOM = Reason("unschedulable", "no node takes its pod", "wait")


def test_an_obstacle_is_reported_once_and_withdrawn() -> None:
    starting = known(application(State.STARTING))
    assert seen(Observation(Phase.STARTING, reason=NO_ROOM), application=starting) == Blocked(after(10), NO_ROOM)
    blocked = replace(starting, reason=NO_ROOM)
    assert seen(Observation(Phase.STARTING, reason=NO_ROOM), application=blocked) is None
    assert seen(Observation(Phase.STARTING), application=blocked) == Blocked(after(10), None)


def test_what_waiting_will_not_mend_ends_it_with_that_reason() -> None:
    permanent = Observation(Phase.STARTING, reason=NO_ROOM, permanent=True)
    assert seen(permanent, application=application(State.STARTING)) == EndRequested(after(10), NO_ROOM)


def test_what_would_have_prevented_a_start_does_not_end_what_has_started() -> None:
    lost = Reason("keeper_lost", "the sidecar of its driver ended", "see its log")
    unseen = Observation(Phase.STARTING, reason=lost, permanent=True)
    assert seen(unseen) == Blocked(after(10), lost)


def test_how_the_backend_explains_an_end_comes_before_the_drivers_words() -> None:
    killed = Reason("out_of_memory", "more than its limit", "--driver-memory")
    event = seen(Observation(Phase.ENDED, exit_code=137, reason=killed), errors="ModuleNotFoundError: …")
    assert event == DriverEnded(after(10), 137, killed)
    evicted = Reason("evicted", "the node evicted it", "--retries")
    assert seen(Observation(Phase.LOST, reason=evicted)) == DriverEnded(after(10), None, evicted)
