"""Prepared records of measurements that a reader must not trust blindly: one for each reason, and one without any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from penstock.lab.records import Description, Run

MACHINE = {"processor": "Xeon", "cores": 2, "memory_bytes": 8 << 30, "system": "Debian 12, Linux 6.1"}
SIZE = {
    "driver": {"cores": 1, "memory_bytes": 1 << 30},
    "executor": {"cores": 2, "memory_bytes": 2 << 30},
    "executors": 1,
}
QUERIES = ("q1", "q2", "q14a")


def tpcds(
    arm: str = "Penstock",
    *,
    rounds: int = 5,
    seconds: float = 2.0,
    failing: str = "",
    unchecked: str = "",
    more: tuple[dict[str, Any], ...] = (),
    usage: Mapping[str, Any] | None = None,
    load: float = 0.1,
    **changes: Any,
) -> Run:
    """A run of three queries, measured in turns with the other arms: every round idle, checked and complete.

    Query `failing` fails, and the answer of `unchecked` is not checked, in the second round. `usage` changes the
    metering of that round, and `load` that of the machine before the first.
    """
    samples: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        second = number == 2
        own: list[dict[str, Any]] = [
            {"kind": "begin", "order": 2 * number - 1, "load_1m": load if number == 1 else 2.5}
        ]
        for query in QUERIES:
            failed = second and query == failing
            took = {"elapsed_ms": 1000 * seconds * (1 + number / 100), "planning_ms": 200, "rows": 100, "started_ms": 0}
            status = {"status": "failed", "error": "no space left"} if failed else {"status": "ok"}
            own.append({"kind": "query", "query": query, "iteration": 1, **took, **status})
            if not failed and not (second and query == unchecked):
                own.append({"kind": "answer", "query": query, "verdict": "equal", "note": ""})
        metered = {"elapsed_ms": 10_000, "other_core_seconds": 0.3, "machine_core_seconds": 16.0}
        own.append({"kind": "usage", **metered, **((usage or {}) if second else {})})
        own.append({"kind": "repetition", "status": "ok", "elapsed_ms": 10_000})
        samples += [{"repetition": number, "attempt": 1, **sample} for sample in own]
    samples += [*more, {"kind": "end", "outcome": "failed" if failing else "ok"}]
    plan = {"repetitions": 5, "warmup": 0, "caches": "keep"}
    described = {"experiment": "e", "size": SIZE, "machine": MACHINE, "commit": "0a1b2c3", "plan": plan}
    description = Description(
        id=f"20260101-101500-tpcds-{arm.lower().replace(' ', '-')}-4f2a",
        workload="tpcds",
        arm=arm,
        created_at="2026-01-01 10:15:00 UTC",
        command="penstock lab tpcds --against-plain --repetitions 5",
        scale=1.0,
        versions={"penstock": "1.0", "spark": "4.1.2"},
        **{**described, **changes},
    )
    return Run(description, tuple({"at_ms": 0, **sample} for sample in samples))


def against_plain(**changes: Any) -> list[Run]:
    """Two arms, of which the second has the changes."""
    return [tpcds("plain Spark", seconds=4.0, launcher="plain"), tpcds(**changes)]


BUSY = {"other_core_seconds": 13.0}
LARGER = {**SIZE, "executors": 2}
RESUMED = {"kind": "resumed", "commit": "0a1b2c3", "machine": MACHINE, "versions": {"spark": "4.1.2"}}

RUNS: Mapping[str, Callable[[], list[Run]]] = {
    "failed query": lambda: against_plain(failing="q2"),
    "unchecked answer": lambda: against_plain(unchecked="q14a"),
    "different machines": lambda: against_plain(machine={**MACHINE, "processor": "EPYC"}),
    "changed commit": lambda: against_plain(commit="4d5e6f7"),
    "too few rounds": lambda: against_plain(rounds=2),
    "doubtful time": lambda: against_plain(usage=BUSY),
    "different cluster sizes": lambda: against_plain(size=LARGER),
    "damaged record": lambda: [replace(run, damaged_lines=number) for number, run in enumerate(against_plain())],
    "busy machine": lambda: against_plain(load=6.5),
    "resumed run": lambda: against_plain(more=(RESUMED,)),
}
"""The records by the kind of their doubt."""
