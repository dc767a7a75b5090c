"""The counts in a run's report: faults by place and by kind, and violated invariants."""

from __future__ import annotations

import json

from benchmarks.chaos import report
from benchmarks.chaos.iterations import Result

LATENCY = {"kind": "latency", "seconds": 0.2, "operation": "GetObject", "key": "t/a"}
BUSY = {"kind": "status", "status": 503, "code": "SlowDown", "retry_after": None, "operation": "PutObject", "key": "a"}
LATER = {**BUSY, "retry_after": 1}
STRUCK = {
    "kind": "client killed",
    "done": True,
    "operation": "CompleteUpload",
    "key": "a",
    "victim": {"role": "driver"},
}
DEAD = {"kind": "database killed", "seconds": 2.0, "victim": {"role": "database", "application": "", "pid": 7}}
FULL = {"kind": "disk full", "seconds": 2.0, "directory": "/scratch"}


def result(seed: str, *faults: dict[str, object], broken: tuple[str, ...] = ()) -> Result:
    return Result(
        seed=seed,
        jobs=3,
        outcomes={"write done": 2, "read failed": 1},
        applications={"finished": 2},
        requests={"GetObject": 10},
        faults=faults,
        swept={},
        broken={"every answer right": broken, "every state true": ()},
        seconds=1.5,
        details=(),
    )


def test_faults_are_counted_where_they_struck_and_by_kind() -> None:
    found = report.summary([result("7/0", LATENCY, BUSY, LATER, STRUCK), result("7/1", LATENCY, DEAD, FULL)])
    assert found["faults"] == {
        "requests": {"latency": 2, "status 503": 1, "status 503 with Retry-After": 1},
        "processes at a chosen request": {"driver at a CompleteUpload killed": 1},
        "processes and disks at any moment": {"database killed": 1, "disk full": 1},
    }
    assert found["jobs"] == {"all": 6, "write done": 4, "read failed": 2}
    assert found["seconds"] == 3.0
    assert json.loads(json.dumps(found)) == found


def test_a_violated_invariant_is_reported_with_its_seed() -> None:
    results = [result("7/0"), result("7/1", broken=("query a: 1 instead of 2",))]
    assert report.summary(results)["violations"] == {"every answer right": 1, "every state true": 0}
    said = report.text(results)
    assert "1 VIOLATIONS" in said
    assert "seed 7/1: query a: 1 instead of 2" in said
    assert report.violations(results) == [("7/1", "every answer right", "query a: 1 instead of 2")]


def test_the_text_has_every_count_of_the_summary() -> None:
    said = report.text([result("7", LATENCY, STRUCK, DEAD)])
    assert said.splitlines()[0] == "1 rounds, 2 s, 3 jobs of 2 applications, 10 requests, 3 faults"
    for name in ("latency", "driver at a CompleteUpload killed", "database killed", "write done", "every state true"):
        assert name in said
