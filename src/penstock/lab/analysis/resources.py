"""What the counted work cost: processors' time, memory, requests, from `application` and `usage` samples.

What each process of a local store did in a repetition, from `usage` samples.

What the block devices of the measuring machine did in each counted repetition, from `usage` samples.

What each query read, from its `query` samples: files and their sizes by table, requests, and bytes.

Users at once: what each query took each of them, against one alone; who did what when.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.samples import GB, Measure, counted, executor_cores, natural, seconds_of
from penstock.lab.analysis.verdicts import Ratio, ratio
from penstock.lab.records import Run, Sample
from penstock.summary import IoMetrics


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

    def median_of_lake(self, figure: Callable[[IoMetrics], float | None]) -> float | None:
        """Over the applications, of what each asked of its lake; None where none has the figure."""
        values = [value for use in self._lake_uses() if (value := figure(use)) is not None]
        return statistics.median(values) if values else None

    def requests(self) -> Mapping[str, float]:
        """S3 requests by kind, the median over the applications; the most frequent first."""
        counts = [use.requests for use in self._lake_uses()]
        kinds = dict.fromkeys(kind for count in counts for kind in count)
        found = {kind: statistics.median(count.get(kind, 0) for count in counts) for kind in kinds}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _lake_uses(self) -> list[IoMetrics]:
        return [use for sample in self.applications if (use := IoMetrics.of(sample.get("summary") or {}))]


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


@dataclass(frozen=True)
class DaemonUse:
    """Medians over the repetitions that it was there for, start to end; bytes are those of block devices."""

    core_seconds: float
    peak_memory_bytes: float | None
    read_bytes: float | None
    written_bytes: float | None


def daemons(run: Run) -> Mapping[str, DaemonUse]:
    """By name (`osd.0`); empty where the store is on other machines, or the record is an older one."""
    samples = [sample.get("daemons") or {} for sample in counted(run, "usage")]
    names = sorted({name for sample in samples for name in sample}, key=natural)

    def median(name: str, key: str) -> float | None:
        values = [sample[name][key] for sample in samples if key in sample.get(name, {})]
        return statistics.median(values) if values else None

    return {
        name: DaemonUse(
            median(name, "core_seconds") or 0.0,
            *(median(name, key) for key in ("peak_memory_bytes", "read_bytes", "written_bytes")),
        )
        for name in names
    }


@dataclass(frozen=True)
class DiskTrack:
    """The shuffle's disk in one repetition. Each figure is of the interval that ends at its second."""

    repetition: int
    seconds: tuple[float, ...]
    busy_shares: tuple[float, ...]
    queues: tuple[float, ...]
    read_rates: tuple[float, ...]
    """In bytes per second, as `written_rates`."""
    written_rates: tuple[float, ...]


@dataclass(frozen=True)
class DeviceUse:
    """Medians over the repetitions; see `lab.devices.between`."""

    busy_share: float
    queue: float
    read_bytes: float
    written_bytes: float


def disk_tracks(run: Run) -> list[DiskTrack]:
    """None of a repetition that was too short to be looked at more than once, or of an older record."""
    found = []
    for sample in counted(run, "usage"):
        track = sample.get("disk_over_time") or {}
        seconds = tuple(track.get("second", ()))
        if len(seconds) > 1:
            widths = [end - start for start, end in zip((0.0, *seconds), seconds, strict=False)]
            # Records of before 2026-11-24 may end with an interval too short to be told from the one before it.
            kept = [index for index, width in enumerate(widths) if width > 0]
            found.append(
                DiskTrack(
                    int(sample.get("repetition", 1)),
                    tuple(seconds[index] for index in kept),
                    tuple(track["busy_share"][index] for index in kept),
                    tuple(track["queue"][index] for index in kept),
                    tuple(track["read_bytes"][index] / widths[index] for index in kept),
                    tuple(track["written_bytes"][index] / widths[index] for index in kept),
                )
            )
    return found


def device_uses(run: Run) -> Mapping[str, DeviceUse]:
    """Of every device that worked in any repetition, by name; one that did not in some of them did nothing there."""
    samples = [sample["devices"] for sample in counted(run, "usage") if "devices" in sample]
    return {
        name: DeviceUse(
            *(
                statistics.median(sample.get(name, {}).get(key, 0) for sample in samples)
                for key in ("busy_share", "queue", "read_bytes", "written_bytes")
            )
        )
        for name in dict.fromkeys(name for sample in samples for name in sample)
    }


def shuffle_disk(run: Run) -> str | None:
    """The name of the device that the shuffle's directories are on; None where that is not one device."""
    names = {str(sample["disk"]) for sample in counted(run, "usage") if sample.get("disk")}
    return names.pop() if len(names) == 1 else None


@dataclass(frozen=True)
class Reading:
    """One query, the medians over its counted executions.

    `files` and `file_bytes` are of the files its scans opened, by table: the bytes are the files' sizes. `gets` were
    sent and `bytes_read` given to readers by driver and executors meanwhile; None where nothing counted them.
    """

    query: str
    files: Mapping[str, float]
    file_bytes: Mapping[str, float]
    gets: float | None
    bytes_read: float | None

    @property
    def all_files(self) -> float:
        return sum(self.files.values())

    @property
    def all_file_bytes(self) -> float:
        return sum(self.file_bytes.values())


def readings(run: Run) -> dict[str, Reading]:
    """By query, in their natural order; only of those whose reads were recorded."""
    found: dict[str, list[Sample]] = {}
    for sample in counted(run, "query"):
        if sample["status"] == "ok" and "reads" in sample:
            found.setdefault(str(sample["query"]), []).append(sample)
    return {query: _reading(query, found[query]) for query in sorted(found, key=natural)}


def _reading(query: str, samples: Sequence[Sample]) -> Reading:
    tables = sorted({table for sample in samples for table in sample["reads"]})

    def by_table(figure: str) -> dict[str, float]:
        return {
            table: statistics.median(sample["reads"].get(table, {}).get(figure, 0) for sample in samples)
            for table in tables
        }

    uses = [IoMetrics({}, 0, {}, counts=sample["lake"]) for sample in samples if "lake" in sample]
    return Reading(
        query,
        files=by_table("files"),
        file_bytes=by_table("bytes"),
        gets=statistics.median(use.count("requests_get") for use in uses) if uses else None,
        bytes_read=statistics.median(use.read for use in uses) if uses else None,
    )


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
