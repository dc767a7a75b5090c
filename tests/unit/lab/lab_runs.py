"""Handmade runs in the lab's recorded form: one of each shape that reports and comparisons must handle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any

from penstock.lab.records import Description, Run

GB = 10**9


def size(executors: int) -> dict[str, Any]:
    return {
        "driver": {"cores": 1, "memory_bytes": 1 << 30},
        "executor": {"cores": 2, "memory_bytes": 2 << 30},
        "executors": executors,
    }


SIZE = size(1)


def run(workload: str, samples: Iterable[dict[str, Any]], *, arm: str = "Penstock", **described: Any) -> Run:
    described.setdefault("experiment", "one experiment")
    described.setdefault("outcome", "ok")
    outcome = described.pop("outcome")
    end = [] if outcome == "unfinished" else [{"kind": "end", "outcome": outcome}]
    description = Description(
        id=f"20260101-101500-{workload}-{'-'.join(arm.lower().split())}",
        workload=workload,
        arm=arm,
        created_at="2026-01-01 10:15:00 UTC",
        command=f"penstock lab {workload}",
        size=described.pop("size", SIZE),
        **described,
    )
    return Run(description, tuple({"at_ms": 0, **sample} for sample in (*samples, *end)))


def repetition(number: int, samples: Iterable[dict[str, Any]], *, error: str | None = None) -> list[dict[str, Any]]:
    """Return the samples of one repetition and its end; 0 and below are warm-up."""
    at = {"repetition": number, "attempt": 1, **({"warmup": True} if number < 1 else {})}
    ended = {"status": "failed", "error": error} if error else {"status": "ok"}
    return [{**at, **sample} for sample in (*samples, {"kind": "repetition", "elapsed_ms": 30_000, **ended})]


def measure(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {"kind": "measure", "name": name, "elapsed_ms": seconds * 1000, **more}


def check(name: str, right: bool = True, note: str = "") -> dict[str, Any]:
    return {"kind": "check", "name": name, "right": right, "note": note}


def application(role: str, *, core_seconds: float | None, **summary: Any) -> dict[str, Any]:
    return {
        "kind": "application",
        "role": role,
        "elapsed_ms": 21_000,
        "core_seconds": core_seconds,
        "peak_memory_bytes": 1_600_000_000,
        "summary": {
            "task_ms": 18_000,
            "gc_ms": 700,
            "tasks": 64,
            "bytes_read": GB,
            "bytes_written": GB,
            "shuffle_write_bytes": GB,
            "spill_disk_bytes": 0,
            "s3_requests": {"GET": 320, "PUT": 70, "HEAD": 12},
            **summary,
        },
    }


def terasort(
    *,
    seconds: float = 12.0,
    repetitions: int = 3,
    stumble: float = 1.0,
    more: Iterable[dict[str, Any]] = (),
    **described: Any,
) -> Run:
    """Three measures of fixed work, validated, after a slower warm-up; round one takes `stumble` times its time."""
    samples: list[dict[str, Any]] = []
    for number in range(repetitions + 1):
        slow = seconds * (1.5 if number == 0 else 1 + number / 50) * (stumble if number == 1 else 1)
        work = [
            measure("generate", slow / 3, bytes=GB, rows=10**7),
            measure("sort", slow, bytes=GB, rows=10**7),
            measure("validate", slow / 5, bytes=GB, rows=10**7),
            check("order", note="no record out of order"),
            check("checksum", note="4c5fa0 as generated"),
            application("sort", core_seconds=slow * 1.8),
        ]
        samples += repetition(number, work)
    return run("terasort", [*samples, *more], **described)


def terasort_gone_wrong() -> Run:
    """A record out of order, and a fourth repetition that failed."""
    found = check("order", False, "record 17 of part-00003 is smaller than the one before it")
    fourth = repetition(4, [found], error="executor 1 was lost, and so was every one that replaced it")
    return terasort(more=fourth, outcome="wrong")


def dfsio(*, repetitions: int = 3, faster: float = 1.0, **described: Any) -> Run:
    """Throughput that grows with the number of clients until the store is full."""
    samples: list[dict[str, Any]] = []
    for number in range(1, repetitions + 1):
        work = [
            measure(
                f"{kind}, {clients} client{'s' if clients > 1 else ''}",
                clients * 0.128 / (speed * faster * clients / (1 + clients / 6)) * (1 + number / 60),
                bytes=clients * 128_000_000,
                clients=clients,
            )
            for kind, speed in (("write", 0.09), ("read", 0.21))
            for clients in (1, 2, 4, 8, 16)
        ]
        samples += repetition(number, [*work, check("contents", note="31 files as written")])
    return run("dfsio", samples, **described)


def objects(*, seconds: int = 30, faster: float = 1.0, **described: Any) -> Run:
    """Work of fixed time, with throughput in every second and the latency of every request."""
    dice = random.Random(7)
    work: list[dict[str, Any]] = []
    for name, size, rate in (("put", 1_000_000, 110), ("get", 1_000_000, 420), ("delete", 0, 900)):
        every = [
            round(rate * faster * dice.uniform(0.75, 1.1) * (0.4 if second == 17 else 1)) for second in range(seconds)
        ]
        done = sum(every)
        work += [
            {"kind": "point", "series": name, "second": second, "bytes": many * size, "operations": many}
            for second, many in enumerate(every)
        ]
        work.append(measure(name, seconds, basis="rate", bytes=done * size, operations=done))
        for phase, slower in (("first_byte", 1.0), ("total", 2.2)):
            times = [dice.lognormvariate(math.log(3000 * slower), 0.5) / faster for _ in range(done)]
            work.append({"kind": "latency", "name": name, "phase": phase, "unit": "us", "histogram": histogram(times)})
    return run(
        "objects", repetition(1, [*work, check("contents", note="every byte read was the byte written")]), **described
    )


def histogram(microseconds: Iterable[float], growth: float = 1.05) -> list[list[float]]:
    """Return (upper bound, count) pairs of a scale whose bounds grow by `growth`, without empty buckets."""
    counts: dict[float, int] = {}
    for value in microseconds:
        bound = float(growth ** math.ceil(math.log(max(value, 1.0), growth) - 1e-12))
        counts[bound] = counts.get(bound, 0) + 1
    return [[bound, counts[bound]] for bound in sorted(counts)]
