"""Retries of failures, their number and delays, and the user's final message."""

from __future__ import annotations

import errno
import itertools
import logging
import threading

import pytest

from penstock import recovery
from penstock.errors import (
    CatalogError,
    ClusterError,
    InternalError,
    InvalidInput,
    LakeError,
    NotFound,
    PenstockError,
    StateError,
    Superseded,
)
from penstock.recovery import Failures, Kind, Policy, Restarts, as_problem, keep_going, kind_of


class Lost(Exception):
    """A library's own exception for a broken connection."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Superseded("x"), Kind.SUPERSEDED),
        (StateError("x"), Kind.REPORTED),
        (ClusterError("x"), Kind.REPORTED),
        (NotFound("x"), Kind.REFUSED),
        (InvalidInput("x"), Kind.REFUSED),
        (OSError(errno.ENOSPC, "full"), Kind.TRANSIENT),
        (TimeoutError(), Kind.TRANSIENT),
        (Lost(), Kind.TRANSIENT),
        (RuntimeError(), Kind.DEFECT),
        (InternalError("x"), Kind.DEFECT),
    ],
)
def test_a_failure_is_of_the_kind_that_says_whether_another_try_may_help(error: Exception, kind: Kind) -> None:
    assert kind_of(error, (Lost,)) is kind


def test_pauses_double_to_the_longest_and_then_the_work_is_given_up() -> None:
    failures = Failures({"work": Policy(0, 4, 4, 1, first_seconds=1, longest_seconds=5)})
    assert [failures.failed("work", LakeError("x")) for _ in range(5)] == [1, 2, 4, 5, None]


def test_a_success_of_the_same_work_alone_clears_its_failures() -> None:
    failures = Failures({"a": recovery.LAUNCH, "b": recovery.LAUNCH})
    assert failures.failed("a", RuntimeError()) is not None
    failures.succeeded("b")
    assert failures.failed("a", RuntimeError()) is None
    failures.succeeded("a")
    assert failures.failed("a", RuntimeError()) is not None


@pytest.mark.parametrize("policy", [recovery.ONCE, recovery.LAUNCH, recovery.HOUR, recovery.DATABASE, recovery.SIDECAR])
@pytest.mark.parametrize("error", [NotFound("x"), LakeError("x"), OSError(), RuntimeError(), Superseded("x")])
def test_what_belongs_to_one_application_is_given_up_within_little_more_than_an_hour(
    policy: Policy, error: Exception
) -> None:
    failures, seconds = Failures({0: policy}), 0.0
    while (pause := failures.failed(0, error)) is not None:
        seconds += pause
    assert seconds < 1.1 * 3600


def test_a_service_is_never_given_up() -> None:
    failures = Failures({0: recovery.SERVICE})
    assert all(failures.failed(0, RuntimeError()) is not None for _ in range(10_000))


@pytest.mark.parametrize(
    ("error", "kind"), [(OSError(errno.ENOSPC, "full", "/a"), ClusterError), (Lost("x"), CatalogError)]
)
def test_the_user_reads_what_could_not_be_done_why_and_what_to_do(error: Exception, kind: type[PenstockError]) -> None:
    problem = as_problem(error, "start the cluster", (Lost,))
    assert type(problem) is kind
    assert problem.problem == "Penstock could not start the cluster"
    assert problem.why
    assert problem.fix


def test_the_text_of_an_unexpected_exception_is_nobody_s_to_read() -> None:
    problem = as_problem(RuntimeError("password=x"), "start the cluster")
    assert problem.code == "internal_error"
    assert "x" not in str(problem).split("RuntimeError")[0].split("=")
    assert "password" not in str(problem)


def test_what_is_written_for_users_is_said_as_it_is() -> None:
    error = LakeError("The lake is out of reach", fix="penstock lake up")
    assert as_problem(error, "start the cluster") is error


def restarted_at(*, lives: float, until: float) -> tuple[list[float], Restarts]:
    """Return the start times of supervisors that live for `lives` seconds and are checked every 5 s."""
    restarts, started, at = Restarts(), [], 0.0
    while at < until:
        alive = bool(started) and at - started[-1] < lives
        for one in restarts.due([] if alive else ["app-1"], at):
            restarts.started(one, at)
            started.append(at)
        at += 5
    return started, restarts


def test_a_supervisor_that_never_gets_so_far_is_started_ever_more_seldom_until_the_application_is_hopeless() -> None:
    started, restarts = restarted_at(lives=0, until=7200)
    pauses = [after - before for before, after in itertools.pairwise(started)]
    assert pauses[:6] == [30, 30, 30, 30, 60, 120]
    assert pauses == sorted(pauses)
    assert max(pauses) == 600
    assert restarts.exhausted("app-1")


def test_a_supervisor_that_was_killed_is_followed_by_another_at_once() -> None:
    started, restarts = restarted_at(lives=20, until=60)
    assert started[:3] == [0, 20, 40]
    assert not restarts.exhausted("app-1")


def test_one_that_dies_in_its_first_seconds_again_and_again_is_no_better_than_one_that_never_lived() -> None:
    started, restarts = restarted_at(lives=10, until=7200)
    assert len(started) < 30
    assert restarts.exhausted("app-1")


def test_ten_minutes_of_a_living_supervisor_clear_the_count() -> None:
    started, restarts = restarted_at(lives=700, until=36_000)
    assert len(started) > 40
    assert not restarts.exhausted("app-1")


def test_a_thread_survives_errors_of_its_work_and_ends_on_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop, raised, pauses = threading.Event(), 0, []

    def work() -> None:
        nonlocal raised
        raised += 1
        if raised == 6:
            stop.set()
            return
        raise [Lost("x"), StateError("x"), OSError("x"), RuntimeError("x"), Superseded("x")][raised - 1]

    def failed(_: BaseException) -> None:
        raise KeyError("the remedy fails as well")

    log = logging.getLogger("test")
    policy = recovery.Policy(None, None, None, None, first_seconds=1, longest_seconds=4)
    keep_going(
        "the work",
        work,
        stop,
        log=log,
        transient=(Lost,),
        policy=policy,
        failed=failed,
        clock=lambda: 0.0,
        wait=lambda _, seconds: pauses.append(seconds),
    )
    assert raised == 6
    assert pauses == [1, 2, 4, 4, 4]
    assert sum(record.exc_info is not None for record in caplog.records) == 1 + 5


def test_work_that_went_on_for_a_while_begins_again_soon() -> None:
    stop, pauses, now = threading.Event(), [], 0.0

    def work() -> None:
        nonlocal now
        now += 100
        raise RuntimeError

    def wait(_: threading.Event, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            stop.set()

    keep_going("the work", work, stop, log=logging.getLogger("test"), clock=lambda: now, wait=wait)
    assert pauses == [1, 1, 1, 1]
