"""The policy of faults: the seed alone decides which request gets which fault."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.chaos import request_faults, schedule
from benchmarks.chaos.faults import Answer, Delay, FaultSelector, KillClient, Plan, Request, Reset, Rule, draw

JOB = "3f0e8a52-6b1c-4d0e-9a51-0c4a8f3b7d10"
OTHER = "00000000-6b1c-4d0e-9a51-0c4a8f3b7d10"


def get(key: str) -> Request:
    return Request("GetObject", "GET", key)


@pytest.mark.parametrize(
    ("line", "operation", "key"),
    [
        ("GET /lake/a/b.parquet", "GetObject", "a/b.parquet"),
        ("GET /lake?list-type=2&prefix=a%2Fb", "ListObjects", "a/b"),
        ("GET /lake/?uploads&prefix=a", "ListUploads", "a"),
        ("GET /lake/a?uploadId=1", "ListParts", "a"),
        ("HEAD /lake/a", "HeadObject", "a"),
        ("PUT /lake/a%20b", "PutObject", "a b"),
        ("PUT /lake/a?partNumber=1&uploadId=2", "UploadPart", "a"),
        ("POST /lake/a?uploads", "CreateUpload", "a"),
        ("POST /lake/a?uploadId=2", "CompleteUpload", "a"),
        ("DELETE /lake/a?uploadId=2", "AbortUpload", "a"),
        ("DELETE /lake/a", "DeleteObject", "a"),
        ("POST /lake/?delete", "DeleteObjects", ""),
    ],
)
def test_a_request_is_known_by_its_line(line: str, operation: str, key: str) -> None:
    method, target = line.split(" ")
    request = Request.of(method, target, {})
    assert (request.operation, request.key) == (operation, key)


def test_a_copy_is_distinguished_from_a_put_by_its_header() -> None:
    assert Request.of("PUT", "/lake/a", {"x-amz-copy-source": "/lake/b"}).operation == "CopyObject"


def test_the_same_seed_does_the_same_whatever_the_order() -> None:
    plan = request_faults.usual("7")
    keys = [f"chaos/t/part={number}/x" for number in range(300)]
    there, back = FaultSelector(plan), FaultSelector(plan)
    first = {key: there.choose(get(key)) for key in keys}
    assert {key: back.choose(get(key)) for key in reversed(keys)} == first
    assert any(fault for fault, _ in first.values())
    other = FaultSelector(request_faults.usual("8"))
    assert {key: other.choose(get(key)) for key in keys} != first


def test_names_that_a_run_makes_up_do_not_count() -> None:
    assert get(f"t/part-00000-{JOB}.c000.parquet").subject == get(f"t/part-00000-{OTHER}.c000.parquet").subject
    assert (
        get("penstock/applications/app-2-ab/driver.log").subject
        == get("penstock/applications/app-1/driver.log").subject
    )
    assert get("t/part=1/a").subject != get("t/part=2/a").subject


def test_a_request_that_is_tried_again_has_a_chance_of_its_own() -> None:
    selector = FaultSelector(Plan("7", (Rule(Reset(), 0.5),)))
    drawn = [selector.choose(get("a")) for _ in range(100)]
    assert [occurrence for _, occurrence in drawn] == list(range(1, 101))
    assert 30 < sum(fault is not None for fault, _ in drawn) < 70


def test_rates_are_of_the_requests_that_fit() -> None:
    selector = FaultSelector(Plan("7", (Rule(Delay(1.0), 0.2, ("GetObject",), "^a/"), Rule(Reset(), 0.1))))
    drawn = Counter(selector.choose(get(f"a/{number}"))[0] for number in range(4_000))
    assert drawn[Delay(1.0)] == pytest.approx(800, rel=0.15)
    assert drawn[Reset()] == pytest.approx(400, rel=0.2)
    others = Counter(selector.choose(Request("PutObject", "PUT", f"a/{number}"))[0] for number in range(4_000))
    assert others[Delay(1.0)] == 0
    assert others[Reset()] == pytest.approx(400, rel=0.2)


def test_a_rule_is_used_no_more_often_than_it_says() -> None:
    selector = FaultSelector(Plan("7", (Rule(KillClient(), 1.0, at_most=2),)))
    assert [selector.choose(get(key))[0] for key in "abcd"] == [KillClient(), KillClient(), None, None]


def test_a_plan_survives_being_written_down() -> None:
    plan = request_faults.usual("7")
    assert Plan.from_json(plan.to_json()) == plan
    assert Answer(503, "SlowDown", 1).to_json() == {
        "kind": "status", "status": 503, "code": "SlowDown", "retry_after": 1,
    }  # fmt: skip


def test_the_usual_rates_leave_most_requests_alone() -> None:
    for operation in ("GetObject", "PutObject", "UploadPart", "CompleteUpload", "ListObjects"):
        request = Request(operation, "GET", "chaos/r/mixed/_penstock_commit/000000000001")
        assert sum(rule.rate for rule in request_faults.usual("7").rules if rule.fits(request)) < 0.3


def test_draws_are_spread_evenly() -> None:
    assert sum(draw("seed", number) for number in range(2_000)) / 2_000 == pytest.approx(0.5, abs=0.02)


def test_process_faults_come_in_order_and_from_the_seed_alone() -> None:
    planned = schedule.process_faults("7", count=50, within=(5.0, 60.0))
    assert planned == schedule.process_faults("7", count=50, within=(5.0, 60.0))
    assert [fault.at for fault in planned] == sorted(fault.at for fault in planned)
    assert {fault.victim for fault in planned} >= {schedule.GATEWAY, schedule.EXECUTOR, schedule.DATABASE}
    assert not any(fault.victim in (schedule.DISK, schedule.OSD) for fault in planned)
    faults_on_ceph = schedule.process_faults("7", count=99, within=(5.0, 60.0), store=schedule.CEPH)
    on_ceph = {fault.victim for fault in faults_on_ceph}
    assert on_ceph >= {schedule.OSD, schedule.MONITOR, schedule.RADOS_GATEWAY}
    assert schedule.STORE not in on_ceph
    assert any(
        fault.kind == "disk full" for fault in schedule.process_faults("7", count=99, within=(5, 60), small_disk=True)
    )
