"""The times of workers' requests, and which requests count."""

from __future__ import annotations

from penstock.lab.loadgen.processes import GIVE_UP_AFTER, LoadWorker
from penstock.lab.loadgen.schedule import Request
from penstock.lab.loadgen.statistics import UNFINISHED
from penstock.lab.loadgen.transfer import RequestOutcome
from penstock.lab.loadgen.workload import Limit, Numbers, Operation, OperationKind, Targets, Work

READ = Operation(OperationKind.GET, 1, Targets(Numbers(1, 1), Numbers(1, 9)))
GOOD = RequestOutcome("", "", transferred=100, verified=100, total_us=5000, first_byte_us=2000)
BAD = RequestOutcome("overloaded", "c1/o1: 503 SlowDown", 0, 0, 1000, None)


def slot(
    limit: Limit, *, rampup: float = 0, rampdown: float = 0, rate: float | None = None, workers: int = 1
) -> LoadWorker:
    return LoadWorker(Work("main", workers, (READ,), limit, rampup, rampdown, rate), 0, seed=1, gateway="http://g")


def make(slot: LoadWorker, at: float, *, until: float | None = None, outcome: RequestOutcome = GOOD) -> Request:
    request = slot.next(at)
    assert request is not None
    slot.completed(request, outcome, at, at + 0.005 if until is None else until)
    return request


def test_only_what_begins_in_the_counted_time_counts() -> None:
    worker = slot(Limit(seconds=10), rampup=5, rampdown=5)
    for moment in (4.9, 5.0, 14.9, 15.1):
        make(worker, moment)
    assert worker.tallies[0].operations == 2
    assert worker.next(19.9) is not None
    assert worker.next(20.0) is None
    assert not worker.ran_out


def test_what_ends_too_late_is_in_the_latencies_and_in_no_rate() -> None:
    worker = slot(Limit(seconds=10))
    make(worker, 9.0, until=11.0)
    tally = worker.tallies[0]
    assert (tally.operations, tally.bytes, tally.late, len(tally.total)) == (0, 0, 1, 1)


def test_what_does_not_end_at_all_is_an_error() -> None:
    worker = slot(Limit(seconds=10))
    request = worker.next(1.0)
    assert request is not None
    worker.cut_off(request, 1.0)
    assert worker.tallies[0].errors == {UNFINISHED: 1}


def test_pauses_grow_while_the_store_fails_and_are_over_with_the_first_success() -> None:
    worker = slot(Limit(seconds=100))
    pauses = []
    now = 0.0
    for _ in range(12):
        make(worker, now, until=now, outcome=BAD)
        pauses.append(round(worker.due - now, 3))
        now = worker.due
    assert pauses[:4] == [0.01, 0.02, 0.04, 0.08]
    assert pauses[-1] == 1.0
    assert worker.tallies[0].errors == {"overloaded": 12}
    make(worker, now, until=now + 0.5)
    assert worker.due == now + 0.5


def test_a_worker_that_has_no_time_limit_gives_up_on_a_store_that_is_gone() -> None:
    worker = slot(Limit(operations=1000))
    for moment in range(GIVE_UP_AFTER):
        make(worker, float(moment), outcome=BAD)
    assert worker.next(99.0) is None


def test_a_number_of_bytes_ends_the_work() -> None:
    worker = slot(Limit(bytes=600), workers=2)
    for moment in range(3):
        make(worker, float(moment))
    assert worker.next(3.0) is None
    assert worker.ran_out


def test_a_number_of_operations_or_bytes_is_not_used_up_before_the_counted_time() -> None:
    for limit in (Limit(operations=3), Limit(bytes=300)):
        worker = slot(limit, rampup=5)
        for moment in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0):
            make(worker, moment)
        assert worker.tallies[0].operations == 3
        assert worker.next(8.0) is None


def test_on_a_schedule_a_stall_is_charged_to_the_requests_it_kept_waiting() -> None:
    worker = slot(Limit(seconds=100), rate=1.0)
    make(worker, 0.0, until=3.5)
    assert worker.due == 1.0  # it was due long ago, and still is
    make(worker, 3.5, until=3.505)
    assert worker.due == 2.0
    # 5 ms of its own, and 2.5 s late; the first took 5 ms.
    assert worker.tallies[0].total.percentile(50) < 5100
    assert 2_505_000 <= worker.tallies[0].total.percentile(100) < 2_505_000 * 1.01
    assert 2_502_000 <= worker.tallies[0].first_byte.percentile(100) < 2_502_000 * 1.01


def test_a_failure_does_not_shift_the_schedule_by_which_the_requests_after_it_are_late() -> None:
    worker = slot(Limit(seconds=100), rate=1.0)
    make(worker, 0.0, until=5.0, outcome=BAD)
    assert worker.due == 5.01
    make(worker, 5.01, until=5.015)
    # 5 ms of its own, and 4.01 s after the second at which it was due.
    assert 4_015_000 <= worker.tallies[0].total.percentile(100) < 4_015_000 * 1.01


def test_without_a_schedule_the_next_request_is_due_when_the_last_has_ended() -> None:
    worker = slot(Limit(seconds=100))
    make(worker, 0.0, until=3.5)
    assert worker.due == 3.5


def test_what_is_acknowledged_is_remembered_until_it_is_touched_again() -> None:
    worker = slot(Limit(seconds=100))
    put, delete = (Request(0, kind, "c1/o1", 100, 0, 100) for kind in (OperationKind.PUT, OperationKind.DELETE))
    worker.completed(put, GOOD, 0.0, 0.1)
    assert (worker.written, worker.doubtful) == ({"c1/o1"}, set())
    worker.completed(put, BAD, 0.1, 0.2)
    assert (worker.written, worker.doubtful) == (set(), {"c1/o1"})
    worker.completed(put, GOOD, 0.2, 0.3)
    worker.completed(delete, GOOD, 0.3, 0.4)
    assert (worker.written, worker.doubtful) == (set(), {"c1/o1"})
    worker.completed(put, GOOD, 0.4, 0.5)
    worker.cut_off(put, 0.5)
    assert (worker.written, worker.doubtful) == (set(), {"c1/o1"})


def test_workers_on_a_schedule_take_turns() -> None:
    limit = Limit(seconds=10)
    workers = [LoadWorker(Work("main", 4, (READ,), limit, rate=2.0), index, 1, "g") for index in range(4)]
    assert [worker.due for worker in workers] == [0.0, 0.5, 1.0, 1.5]
    make(workers[1], 0.5)
    assert workers[1].due == 2.5
