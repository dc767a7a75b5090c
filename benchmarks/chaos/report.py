"""The report of a run: tables of work done and of faults by place and kind, and a line for each proof. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.chaos.iterations import Result

REQUEST, CHOSEN_MOMENT, ANY_MOMENT = "requests", "processes at a chosen request", "processes and disks at any moment"
PLACES = (REQUEST, CHOSEN_MOMENT, ANY_MOMENT)


def violations(results: Sequence[Result]) -> list[tuple[str, str, str]]:
    """Seed, proof and problem of each violation."""
    return [
        (result.seed, proof, problem)
        for result in results
        for proof, problems in result.broken.items()
        for problem in problems
    ]


def faults_by_kind(results: Sequence[Result]) -> Mapping[str, int]:
    return Counter(kind_of(fault) for result in results for fault in result.faults)


def kind_of(fault: Mapping[str, Any]) -> str:
    """The fault's kind with its status, if it has one; a status with `Retry-After` is another kind than one without."""
    kind = str(fault["kind"])
    if kind == "status":
        kind += f" {fault['status']}" + (" with Retry-After" if fault.get("retry_after") is not None else "")
    if fault.get("refused"):
        kind += ", refused"
    if "victim" in fault and kind.startswith("client"):
        kind = kind.replace("client", f"{fault['victim']['role']} at a {fault['operation']}")
    return kind


def place_of(fault: Mapping[str, Any]) -> str:
    """The place of a fault: a request, a process at a chosen request, or a process or disk at any moment."""
    if "operation" not in fault:
        return ANY_MOMENT
    return CHOSEN_MOMENT if "victim" in fault else REQUEST


def summary(results: Sequence[Result]) -> Mapping[str, Any]:
    """Counts of work, faults and violations, as plain data."""
    faults = [fault for result in results for fault in result.faults]
    outcomes = _sum(result.outcomes for result in results)
    return {
        "rounds": len(results),
        "seconds": round(sum(result.seconds for result in results), 1),
        "jobs": {"all": sum(result.jobs for result in results), **_ordered(outcomes)},
        "applications": _ordered(_sum(result.applications for result in results)),
        "requests": _ordered(_sum(result.requests for result in results)),
        "faults": {
            place: _ordered(Counter(kind_of(fault) for fault in faults if place_of(fault) == place)) for place in PLACES
        },
        "swept": _ordered(_sum(result.swept for result in results)),
        "violations": {
            proof: sum(len(result.broken[proof]) for result in results)
            for proof in dict.fromkeys(proof for result in results for proof in result.broken)
        },
        "broken": [{"seed": seed, "proof": proof, "problem": problem} for seed, proof, problem in violations(results)],
    }


def text(results: Sequence[Result]) -> str:
    found = summary(results)
    requests, jobs = sum(found["requests"].values()), dict(found["jobs"])
    faults = sum(sum(counts.values()) for counts in found["faults"].values())
    lines = [
        f"{found['rounds']} rounds, {found['seconds']:.0f} s, {jobs.pop('all')} jobs of "
        f"{sum(found['applications'].values())} applications, {requests} requests, {faults} faults",
        "",
        *(line for place, counts in found["faults"].items() for line in _table(f"faults of {place}", counts)),
        *_table("jobs", jobs),
        *_table("applications", found["applications"]),
        *_table("swept", found["swept"]),
        "proofs",
        *(
            f"  {proof:<56} {'holds' if not broken else f'{broken} VIOLATIONS'}"
            for proof, broken in found["violations"].items()
        ),
    ]
    if found["broken"]:
        lines += ["", *(f"  seed {one['seed']}: {one['problem']}" for one in found["broken"])]
    return "\n".join(lines)


def _sum(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    return sum(map(Counter, counts), Counter())


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts in descending order, then by name."""
    return dict(sorted(counts.items(), key=lambda row: (-row[1], row[0])))


def _table(title: str, counts: Mapping[str, int]) -> list[str]:
    rows = [f"  {name:<56} {count:>7}" for name, count in counts.items()]
    return [f"{title:<58} {sum(counts.values()):>7}", *rows, ""]
