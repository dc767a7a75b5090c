"""Reader of an application's journal. A job without an entry never began."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.history import JobReport, Outcome
from benchmarks.chaos.operations import Work

_INTERRUPTED = "CommitInterrupted"
"""The exception after which the outcome of a write is unknown; it is the only one (docs/guide/filesystem.md)."""


@dataclass(frozen=True)
class Journal:
    """Journal of one application: `answers` and `causes` by the job's id, `contexts` the number of Spark contexts."""

    reports: Sequence[JobReport] = ()
    answers: Mapping[str, Any] = field(default_factory=dict)
    causes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    contexts: int = 0
    ended: bool = False


def read(path: Path, work: Work) -> Journal:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    jobs = {job.id: job for job in work.jobs()}
    began = {line["job"]: line["at"] for line in lines if line["event"] == "began"}
    ends = {line["job"]: line for line in lines if line["event"] in ("done", "failed")}
    return Journal(
        reports=[
            JobReport(jobs[name], _outcome(ends.get(name)), at, ends[name]["at"] if name in ends else None)
            for name, at in began.items()
        ],
        answers={name: line["answer"] for name, line in ends.items() if line["event"] == "done"},
        causes={name: line["causes"] for name, line in ends.items() if line["event"] == "failed"},
        contexts=sum(line["event"] == "application began" for line in lines),
        ended=any(line["event"] == "application ended" for line in lines),
    )


def _outcome(end: Mapping[str, Any] | None) -> Outcome:
    if end is None:
        return Outcome.UNKNOWN
    if end["event"] == "done":
        return Outcome.DONE
    interrupted = any(_INTERRUPTED in cause.partition(":")[0] for cause in end["causes"])
    return Outcome.UNKNOWN if interrupted or not end["known"] else Outcome.FAILED
