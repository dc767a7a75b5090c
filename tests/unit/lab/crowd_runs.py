"""Handmade runs of concurrent users, in the lab's recorded form."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from penstock.lab.records import Run
from penstock.lab.workloads import concurrency
from tests.unit.lab import lab_runs


def phase(
    name: str, drawn: Sequence[concurrency.User], seconds_per_query: float, *, noise: float = 0.0, failing: str = ""
) -> list[dict[str, Any]]:
    """Return samples of concurrent users. Their clusters take 3 s to start and no time to end."""
    dice = random.Random(len(drawn))
    samples: list[dict[str, Any]] = []
    ends = []
    for user in drawn:
        tags = {"user": user.number, "phase": name}
        submitted, at = 1_000_000 + user.number * 10, 1_003_000 + user.number * 10
        for query in user.order:
            elapsed = round(seconds_per_query * 1000 * dice.uniform(1 - noise, 1 + noise))
            status = "failed" if query == failing else "ok"
            query_sample = {"kind": "query", "query": query, "iteration": 1, "started_ms": at, "elapsed_ms": elapsed}
            samples.append({**query_sample, "rows": 1, "status": status, **tags})
            at += elapsed
        role = {"role": f"{len(drawn)} users", "submitted_ms": submitted, "elapsed_ms": at - submitted}
        samples.append({**lab_runs.application("users", core_seconds=5.0), **role, **tags})
        if not failing:
            total = {"elapsed_ms": at - submitted, "queries": len(user.order), "until_first_query_ms": 3000}
            samples.append({"kind": "user", **total, **tags})
        ends.append(at)
    if not failing:
        called = "1 user" if len(drawn) == 1 else f"{len(drawn)} users"
        samples.append({**lab_runs.measure(called, (max(ends) - 1_000_010) / 1000), "phase": name})
    return samples


def streams(
    queries: Sequence[str] = ("q1", "q2", "q10"),
    *,
    count: int = 3,
    seconds: tuple[float, float] = (1.0, 2.0),
    noise: float = 0.0,
    alone: bool = True,
    wrong: str = "",
    failing: str = "",
) -> Run:
    """Return a run. `seconds` are those of a query alone and together; user 2's answer to query `wrong` differs."""
    drawn = concurrency.draw_users(count, queries, 1)
    samples = phase("alone", drawn[:1], seconds[0], noise=noise, failing=failing) if alone else []
    samples += phase("together", drawn, seconds[1], noise=noise, failing=failing)
    for query in queries:
        samples.append({"kind": "answer", "query": query, "verdict": "equal", "whose": ["user 1"]})
        if query == wrong:
            verdict = {"verdict": "different", "note": "1 row", "whose": ["user 2"], "lines": ["- 1", "+ 2"]}
            samples.append({"kind": "answer", "query": query, **verdict})
    return lab_runs.run(
        "streams",
        lab_runs.repetition(1, samples),
        outcome="wrong" if wrong else "failed" if failing else "ok",
        scale=1,
        options={"users": count, "queries": list(queries)},
    )
