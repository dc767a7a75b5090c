"""Samples that count, which are those of successful repetitions without warm-up, and measures made of them.

A measure is a query, the start of an application, or a timed piece of work of any other workload, by name.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.lab.records import Run, Sample
from penstock.model import ClusterSize


def counted(run: Run, kind: str) -> list[Sample]:
    """The samples of one kind that count in medians.

    Where the run records its repetitions, those that failed or have not ended do not count. All samples of a run
    without an ended repetition count, since its report says that it is unfinished.
    """
    ends = {sample["repetition"]: sample["status"] for sample in run.of_kind("repetition")}
    return [
        sample
        for sample in run.of_kind(kind)
        if not is_warm_up(sample) and (not ends or ends.get(sample.get("repetition"), "running") == "ok")
    ]


def is_warm_up(sample: Sample) -> bool:
    return bool(sample.get("warmup", False))


@dataclass(frozen=True)
class Repetitions:
    """The outcome of the repetitions, without warm-up. `errors` are those of the failed ones, by number."""

    succeeded: int
    errors: Mapping[int, str]

    @property
    def failed(self) -> int:
        return len(self.errors)


def repetitions(run: Run) -> Repetitions:
    ended = [sample for sample in run.of_kind("repetition") if not is_warm_up(sample)]
    errors = {
        int(sample["repetition"]): str(sample.get("error") or "it failed")
        for sample in ended
        if sample["status"] != "ok"
    }
    return Repetitions(len(ended) - len(errors), errors)


def checks(run: Run) -> list[Sample]:
    """All checks, including those of warm-up and failed repetitions: a wrong result is wrong anywhere."""
    return run.of_kind("check")


def failed_checks(run: Run) -> list[Sample]:
    return [sample for sample in checks(run) if not sample["right"]]


def failed_queries(run: Run) -> set[str]:
    return {str(sample["query"]) for sample in run.of_kind("query") if sample["status"] != "ok"}


def answer_verdicts(run: Run) -> Mapping[str, str]:
    """Verdicts by query: the worst of its answers'. Queries without an `answer` sample are left out."""
    worst = ("equal", "unchecked", "different")
    found = sorted(run.of_kind("answer"), key=lambda sample: worst.index(sample["verdict"]))
    return {str(sample["query"]): str(sample["verdict"]) for sample in found}


@dataclass(frozen=True)
class ValidationCounts:
    """The number of validations, which are checks and answers of queries, and of those that passed."""

    total: int
    passed: int


def validation_counts(run: Run) -> ValidationCounts:
    found = [bool(sample["right"]) for sample in checks(run)]
    found += [sample["verdict"] == "equal" for sample in run.of_kind("answer") if sample["verdict"] != "unchecked"]
    return ValidationCounts(len(found), sum(found))


def all_passed(run: Run) -> bool:
    """Return whether all validations passed; True without any."""
    found = validation_counts(run)
    return found.total == found.passed


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key that sorts q2 before q10 and q14a before q14b."""
    parts: list[tuple[int, int | str]] = []
    digits = ""
    for character in name + "\0":
        if character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, character))
    return tuple(parts)


GB = 1e9
"""The unit of data moved; memory is counted in GiB."""

SECONDS, PER_GB, PER_1000_OPERATIONS = "s", "s/GB", "s/1000 operations"


@dataclass(frozen=True)
class Work:
    """One successful, timed piece of work. `round` is its repetition and the iteration within."""

    round: tuple[int, int]
    seconds: float
    bytes: int = 0
    rows: int = 0
    operations: int = 0
    core_seconds: float | None = None
    cores: int | None = None
    """The cores it ran on, where those are not the cluster of its run."""


@dataclass(frozen=True)
class Measure:
    """All counted work of one name, in the order it was done; never empty.

    `fixed_time` marks work that ran for a fixed time, so that its amount varies.
    """

    name: str
    works: tuple[Work, ...]
    fixed_time: bool = False
    clients: int | None = None
    excluded_from_total: bool = False
    """Excluded from totals: the work of one of several users or concurrent parts, which a measure of all of them
    covers, or a reference measured outside of the cluster."""

    @property
    def seconds(self) -> list[float]:
        return [work.seconds for work in self.works]

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return statistics.median(self.seconds)

    @property
    def series(self) -> str:
        """The name without a number of clients at its end: `read` of `read, 4 clients`."""
        head, comma, tail = self.name.rpartition(", ")
        return (
            head
            if comma
            and self.clients
            and tail.split() in ([str(self.clients), "client"], [str(self.clients), "clients"])
            else self.name
        )

    @property
    def bytes(self) -> float:
        """The median over the executions."""
        return statistics.median(work.bytes for work in self.works)

    @property
    def rows(self) -> float:
        return statistics.median(work.rows for work in self.works)

    @property
    def operations(self) -> float:
        return statistics.median(work.operations for work in self.works)

    @property
    def bytes_per_second(self) -> list[float]:
        return [work.bytes / work.seconds for work in self.works]

    @property
    def operations_per_second(self) -> list[float]:
        return [work.operations / work.seconds for work in self.works]

    @property
    def core_seconds(self) -> float | None:
        """The median over the executions whose processor time the workload measured; None without any."""
        known = [work.core_seconds for work in self.works if work.core_seconds is not None]
        return statistics.median(known) if known else None

    @property
    def core_seconds_per_gb(self) -> list[float]:
        """Core-seconds per GB of each execution that has bytes and whose processor time the workload measured."""
        return [
            work.core_seconds / work.bytes * GB for work in self.works if work.core_seconds is not None and work.bytes
        ]

    @property
    def cores(self) -> int | None:
        return self.works[0].cores

    def costs(self, basis: str) -> dict[int, float]:
        """The cost of each round on this basis: seconds, or seconds for a fixed amount of work. Less is better.

        A round is one application run, the unit of replication: its iterations share a JVM and a minute, so their mean
        is one figure. Concurrent executions, which are those of users or runs, count as one by their median: their sum
        would count the same minute twice.
        """
        concurrent: dict[tuple[int, int], list[float]] = {}
        for work in self.works:
            concurrent.setdefault(work.round, []).append(_cost(work, basis))
        rounds: dict[int, list[float]] = {}
        for (repetition, _), costs in sorted(concurrent.items()):
            rounds.setdefault(repetition, []).append(statistics.median(costs))
        return {repetition: statistics.fmean(costs) for repetition, costs in rounds.items()}


Costs = Mapping[int, float]
"""The cost of each round, by its number."""


def complete_rounds(costs: Sequence[Costs]) -> dict[int, list[float]]:
    """The costs of all measures, for each round that completed all of them."""
    common = set.intersection(*(set(own) for own in costs)) if costs else set()
    return {number: [own[number] for own in costs] for number in sorted(common)}


def measured_in_turns(runs: Sequence[Run]) -> bool:
    """Return whether the runs were measured in turns, as the arms of one experiment.

    Only then does drift of the machine and its store affect them alike.
    """
    experiments = {run.description.experiment for run in runs}
    return len(experiments) == 1 and None not in experiments


def _cost(work: Work, basis: str) -> float:
    if basis == PER_GB:
        return work.seconds / work.bytes * GB
    if basis == PER_1000_OPERATIONS:
        return work.seconds / work.operations * 1000
    return work.seconds


def measures_by_name(run: Run) -> dict[str, Measure]:
    """The measures of the counted repetitions by name, in the order they first occurred."""
    found: dict[str, list[tuple[Work, Sample]]] = {}
    for name, work, sample in (*_queries(run), *_starts(run), *_measures(run)):
        found.setdefault(name, []).append((work, sample))
    return {
        name: Measure(
            name,
            tuple(work for work, _ in works),
            fixed_time=works[0][1].get("basis") == "rate",
            clients=works[0][1].get("clients"),
            excluded_from_total=any(_is_excluded(sample) for _, sample in works),
        )
        for name, works in found.items()
    }


def _is_excluded(sample: Sample) -> bool:
    return sample["kind"] == "measure" and ("user" in sample or bool(sample.get("reference", False)))


def query_seconds(run: Run) -> dict[str, list[float]]:
    """Seconds of each counted, successful execution by query, in the order they ran."""
    found: dict[str, list[float]] = {}
    for name, work, _ in _queries(run):
        found.setdefault(name, []).append(work.seconds)
    return found


def start_seconds(run: Run) -> list[float]:
    """Seconds from submission to the first task, per counted repetition."""
    return [work.seconds for _, work, _ in _starts(run)]


def seconds_of(sample: Sample) -> float:
    """The elapsed seconds, at least one tick of the clock, so that rates stay finite."""
    return float(sample["elapsed_ms"] or 1) / 1000


def gb_per_core_hour(amount: float, seconds: float, cores: int) -> float:
    """GB per core and hour: size / cores / seconds × 3600, the price/performance figure of the Ceph and Spark studies.

    More is better. `amount` is in bytes; `cores` are those that work on the data.
    """
    return amount / GB / cores / seconds * 3600


def working_cores(size: Any) -> int:
    """`ClusterSize.working_cores` of a description's `size`; 0 where none is recorded."""
    return ClusterSize.from_json(size).working_cores if size else 0


_Found = Sequence[tuple[str, Work, Sample]]


def _queries(run: Run) -> _Found:
    return [
        (
            str(sample["query"]),
            Work((sample.get("repetition", 1), sample["iteration"]), seconds_of(sample), rows=sample.get("rows") or 0),
            sample,
        )
        for sample in counted(run, "query")
        # A query of one of several users belongs to a measure with a name of its own.
        if sample["status"] == "ok" and "user" not in sample
    ]


def _starts(run: Run) -> _Found:
    return [
        (
            "submission to first task",
            Work((sample.get("repetition", 1), 1), (sample["first_task_ms"] - sample["submitted_ms"]) / 1000),
            sample,
        )
        for sample in run.of_kind("start")
    ]


def _measures(run: Run) -> _Found:
    return [
        (
            str(sample["name"]),
            Work(
                (sample.get("repetition", 1), 1),
                seconds_of(sample),
                bytes=int(sample.get("bytes") or 0),
                rows=int(sample.get("rows") or 0),
                operations=int(sample.get("operations") or 0),
                core_seconds=sample.get("core_seconds"),
                cores=sample.get("cores"),
            ),
            sample,
        )
        for sample in counted(run, "measure")
    ]
