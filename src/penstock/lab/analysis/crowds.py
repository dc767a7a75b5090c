"""Users at once: what each query took each of them, against one alone; who did what when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.measures import seconds_of
from penstock.lab.analysis.samples import counted, natural
from penstock.lab.analysis.spread import Ratio, ratio
from penstock.lab.records import Run, Sample

ALONE, TOGETHER = "alone", "together"
"""The tag `phase` of a sample: measured by itself, or in the company that it is to be compared with."""


@dataclass(frozen=True)
class Execution:
    """One query of one user that succeeded. `repetition` counts from 1."""

    query: str
    user: int
    repetition: int
    started_ms: int
    seconds: float


@dataclass(frozen=True)
class Life:
    """One application of a crowd: seconds since the first of them was submitted."""

    who: str
    submitted: float
    ended: float
    queries: tuple[tuple[str, float, float], ...]
    """(name, when it began, seconds), in the order they ran."""


def executions(run: Run, phase: str, group: str | None = None) -> list[Execution]:
    return [
        Execution(
            str(sample["query"]),
            int(sample["user"]),
            int(sample.get("repetition", 1)),
            int(sample["started_ms"]),
            seconds_of(sample),
        )
        for sample in counted(run, "query")
        if sample["status"] == "ok" and sample.get("phase") == phase and sample.get("group") == group
    ]


def by_query(found: Sequence[Execution]) -> dict[str, list[Execution]]:
    """In the order people count them: q2 before q10."""
    queries: dict[str, list[Execution]] = {}
    for execution in found:
        queries.setdefault(execution.query, []).append(execution)
    return {name: queries[name] for name in sorted(queries, key=natural)}


def slow_downs(run: Run, group: str | None = None) -> list[Ratio]:
    """For each query measured in both phases: the median in company over the median alone."""
    alone, together = (by_query(executions(run, phase, group)) for phase in (ALONE, TOGETHER))
    return [
        ratio(name, [one.seconds for one in alone[name]], [one.seconds for one in found])
        for name, found in together.items()
        if name in alone
    ]


def totals(run: Run, phase: str, group: str | None = None) -> Mapping[int, list[Sample]]:
    """By user, the `user` samples of the counted repetitions: only where all of the user's queries succeeded."""
    found: dict[int, list[Sample]] = {}
    for sample in counted(run, "user"):
        if sample["phase"] == phase and sample.get("group") == group:
            found.setdefault(int(sample["user"]), []).append(sample)
    return dict(sorted(found.items()))


def lives(run: Run) -> list[Life]:
    """Who did what when in the last counted repetition, all at once; users by number, then whatever ran beside them."""
    applications = [sample for sample in counted(run, "application") if sample.get("phase") == TOGETHER]
    if not applications:
        return []
    last = max(sample["repetition"] for sample in applications)
    applications = [sample for sample in applications if sample["repetition"] == last]
    asked = [s for s in counted(run, "query") if s.get("phase") == TOGETHER and s["repetition"] == last]
    zero = min(sample["submitted_ms"] for sample in applications)
    made = []
    for sample in applications:
        begun = (sample["submitted_ms"] - zero) / 1000
        own = [s for s in asked if _same_user(s, sample)]
        made.append(
            Life(
                _who(sample),
                begun,
                begun + sample["elapsed_ms"] / 1000,
                tuple(
                    (str(s["query"]), (s["started_ms"] - zero) / 1000, seconds_of(s))
                    for s in sorted(own, key=lambda s: s["started_ms"])
                ),
            )
        )
    return sorted(made, key=lambda life: natural(life.who))


def _same_user(one: Sample, other: Sample) -> bool:
    return "user" in other and (one["user"], one.get("group")) == (other["user"], other.get("group"))


def _who(sample: Sample) -> str:
    """A group of one is called by the group's name."""
    group = str(sample.get("group") or "")
    several = not group or group[0].isdigit()
    return f"user {sample['user']}" if "user" in sample and several else group
