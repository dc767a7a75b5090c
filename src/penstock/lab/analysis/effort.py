"""What the counted work cost: processors' time, memory, requests, from `application` and `usage` samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.measures import GB, Measure, executor_cores
from penstock.lab.analysis.samples import counted
from penstock.lab.records import Run, Sample
from penstock.summary import LakeUse


@dataclass(frozen=True)
class Role:
    """The counted applications that did the same thing, one or more in each repetition."""

    name: str
    applications: tuple[Sample, ...]

    def median(self, key: str) -> float | None:
        """Over the applications, of a figure in the sample itself or in its summary; None where none has it."""
        values = [
            value
            for sample in self.applications
            if (value := sample.get(key, (sample.get("summary") or {}).get(key))) is not None
        ]
        return statistics.median(values) if values else None

    def median_of_lake(self, figure: Callable[[LakeUse], float | None]) -> float | None:
        """Over the applications, of what each asked of its lake; None where none has the figure."""
        values = [value for use in self._lake_uses() if (value := figure(use)) is not None]
        return statistics.median(values) if values else None

    def requests(self) -> Mapping[str, float]:
        """S3 requests by kind, the median over the applications; the most frequent first."""
        counts = [use.requests for use in self._lake_uses()]
        kinds = dict.fromkeys(kind for count in counts for kind in count)
        found = {kind: statistics.median(count.get(kind, 0) for count in counts) for kind in kinds}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _lake_uses(self) -> list[LakeUse]:
        return [use for sample in self.applications if (use := LakeUse.of(sample.get("summary") or {}))]


def roles(run: Run) -> list[Role]:
    """In the order they first ran."""
    found: dict[str, list[Sample]] = {}
    for sample in counted(run, "application"):
        found.setdefault(str(sample["role"]), []).append(sample)
    return [Role(name, tuple(samples)) for name, samples in found.items()]


def core_seconds(run: Run) -> float | None:
    """Of drivers and executors in one repetition: the median; None where an application's is not known."""
    rounds: dict[int, list[float | None]] = {}
    for sample in counted(run, "application"):
        rounds.setdefault(sample.get("repetition", 1), []).append(sample.get("core_seconds"))
    totals = [sum(filter(None, values)) for values in rounds.values() if all(value is not None for value in values)]
    return statistics.median(totals) if totals else None


def core_seconds_per_gb(run: Run, measure: Measure) -> float | None:
    """Of what did the measure's work: measured by itself, or the application whose role is called as the measure is."""
    if not measure.bytes:
        return None
    own = measure.core_seconds
    if own is None:
        own = next((role.median("core_seconds") for role in roles(run) if role.name == measure.name), None)
    return None if own is None else own / measure.bytes * GB


def cores(run: Run) -> int:
    """Those of the executors; 0 where no application was part of what counts, or its size is not known."""
    return executor_cores(run.description.size) if roles(run) else 0


def main_measure(run: Run, found: Sequence[Measure]) -> Measure | None:
    """What the price of a run is told by: the longest work on data, of a whole application where there is such."""
    names = {role.name for role in roles(run)}
    with_data = [measure for measure in found if measure.bytes]
    whole = [measure for measure in with_data if measure.name in names]
    return max(whole or with_data, key=lambda measure: (measure.median, measure.bytes), default=None)


def peak_memory(run: Run) -> float | None:
    """The highest of any counted application, in bytes: resident memory of its driver and executors together."""
    peaks = [sample["peak_memory_bytes"] for sample in counted(run, "application") if sample.get("peak_memory_bytes")]
    return max(peaks) if peaks else None


def usage(run: Run, key: str) -> Sequence[float]:
    """One figure of the `usage` samples, for each counted repetition that has it."""
    return [sample[key] for sample in counted(run, "usage") if sample.get(key) is not None]


def summed(run: Run, key: str) -> float | None:
    """A figure of the summaries, of all applications of one repetition: the median; None where none has it."""
    rounds: dict[int, float] = {}
    for sample in counted(run, "application"):
        if (value := (sample.get("summary") or {}).get(key)) is not None:
            repetition = sample.get("repetition", 1)
            rounds[repetition] = rounds.get(repetition, 0) + value
    return statistics.median(rounds.values()) if rounds else None
