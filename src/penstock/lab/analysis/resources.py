"""Resources of counted work.

`application` samples have processor time, memory and requests; `usage` samples have the processes of a local store and
the block devices of the measuring machine; `query` samples have files, requests and bytes read, `opened` samples the
files that an application without queries opened. Concurrent users have the times of each query, their slowdown against
one user alone, and timelines.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.samples import GB, Measure, counted, natural_key, seconds_of, working_cores
from penstock.lab.analysis.verdicts import Ratio, holm, ratio
from penstock.lab.records import Run, Sample
from penstock.summary import IoMetrics


@dataclass(frozen=True)
class Role:
    """The counted applications of one role, one or more in each repetition."""

    name: str
    applications: tuple[Sample, ...]

    def median(self, key: str) -> float | None:
        """The median of a figure of the samples or their summaries; None where none has it."""
        values = [
            value
            for sample in self.applications
            if (value := sample.get(key, (sample.get("summary") or {}).get(key))) is not None
        ]
        return statistics.median(values) if values else None

    def median_io(self, figure: Callable[[IoMetrics], float | None]) -> float | None:
        """The median of an I/O metric over the applications; None where none has it."""
        values = [value for use in self._io_metrics() if (value := figure(use)) is not None]
        return statistics.median(values) if values else None

    def requests(self) -> Mapping[str, float]:
        """S3 requests by kind, as the median over the applications; the most frequent kind first."""
        uses = self._io_metrics()
        found = {kind: statistics.median(use.requests.get(kind, 0) for use in uses) for kind in _kinds(uses)}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _io_metrics(self) -> list[IoMetrics]:
        return [use for sample in self.applications if (use := IoMetrics.of(sample.get("summary") or {}))]


def roles(run: Run) -> list[Role]:
    """Applications by role, in the order the roles first ran."""
    found: dict[str, list[Sample]] = {}
    for sample in counted(run, "application"):
        found.setdefault(str(sample["role"]), []).append(sample)
    return [Role(name, tuple(samples)) for name, samples in found.items()]


def core_seconds_by_round(run: Run) -> list[float]:
    """Core-seconds of drivers and executors in each repetition in which all are known."""
    rounds = _by_round(counted(run, "application"))
    return [
        sum(sample["core_seconds"] for sample in samples)
        for samples in rounds.values()
        if all(sample.get("core_seconds") is not None for sample in samples)
    ]


def core_seconds(run: Run) -> float | None:
    """The median of `core_seconds_by_round`; None without any."""
    return _median(core_seconds_by_round(run))


def peak_memory_by_round(run: Run) -> list[float]:
    """Peak resident memory, in bytes, of the drivers and executors at work at once in each repetition."""
    rounds = _by_round(counted(run, "application"))
    return [
        most_at_once(samples, [sample["peak_memory_bytes"] for sample in samples])
        for samples in rounds.values()
        if all(sample.get("peak_memory_bytes") for sample in samples)
    ]


def peak_memory(run: Run) -> float | None:
    """The median of `peak_memory_by_round`; None without any."""
    return _median(peak_memory_by_round(run))


def most_at_once(applications: Sequence[Sample], amounts: Sequence[int]) -> int:
    """The largest sum of the amounts of applications that overlap; one whose times are unknown stands for itself."""
    changes: list[tuple[int, int]] = []
    for sample, amount in zip(applications, amounts, strict=True):
        if sample.get("submitted_ms") is not None and sample.get("elapsed_ms") is not None:
            changes += [(sample["submitted_ms"], amount), (sample["submitted_ms"] + sample["elapsed_ms"], -amount)]
    # At the same moment an end sorts before a start, since consecutive applications are not concurrent.
    return max([*amounts, *itertools.accumulate(change for _, change in sorted(changes))])


@dataclass(frozen=True)
class RoundRequests:
    """Requests in one repetition by kind; one that nothing counts is missing.

    `files` are those that its applications opened to read; None unless all of them were counted.
    """

    kinds: Mapping[str, float]
    files: float | None

    @property
    def gets(self) -> float:
        return self.kinds.get("GET", 0)

    @property
    def gets_per_file(self) -> float | None:
        return self.gets / self.files if self.files else None

    def others(self, *named: str) -> float | None:
        """The requests of all other kinds; None where no other kind was counted."""
        counts = [count for kind, count in self.kinds.items() if kind not in named]
        return sum(counts) if counts else None


def counted_at_store(run: Run) -> bool:
    """Return whether the store counted the requests of every repetition."""
    samples = counted(run, "usage")
    return bool(samples) and all(sample.get("store_requests") for sample in samples)


def requests_at_store(run: Run) -> list[RoundRequests]:
    """Requests of each repetition that its store counted while applications ran, with those of warm-up iterations."""
    files = _opened_files(run)
    return [
        RoundRequests(sample["store_requests"], files.get(number))
        for number, samples in _by_round(counted(run, "usage")).items()
        for sample in samples
        if sample.get("store_requests")
    ]


def _opened_files(run: Run) -> dict[int, float]:
    """The files that the applications of each repetition opened, warm-up iterations included.

    Queries count theirs by table, other applications in one sample. A repetition is missing where a query has not
    counted them, as a failed one has not, or fewer applications than it ran.
    """
    if queries := _by_round(run.of_kind("query")):
        return {
            number: _files_of(samples)
            for number, samples in queries.items()
            if all("reads" in sample for sample in samples)
        }
    applications = _by_round(counted(run, "application"))
    return {
        number: sum(float(sample["files"]) for sample in samples)
        for number, samples in _by_round(counted(run, "opened")).items()
        if len(samples) == len(applications.get(number, []))
    }


def _files_of(queries: Sequence[Sample]) -> float:
    return sum(float(table["files"]) for sample in queries for table in sample["reads"].values())


def requests_by_round(run: Run) -> list[RoundRequests]:
    """Requests of each repetition that Penstock's file system counted.

    They are the GETs of the queries that count files and requests, or else all requests of all applications.
    """
    if queries := [s for s in counted(run, "query") if s["status"] == "ok" and "reads" in s and "lake" in s]:
        return [
            RoundRequests(
                {"GET": sum(sample["lake"].get("requests_get", 0) for sample in samples)},
                _files_of(samples),
            )
            for samples in _by_round(queries).values()
        ]
    files = _opened_files(run)
    rounds = _by_round(counted(run, "application"))
    uses = {
        number: [IoMetrics.of(sample.get("summary") or {}) for sample in samples] for number, samples in rounds.items()
    }
    return [
        RoundRequests(
            {kind: sum(use.requests.get(kind, 0) for use in known) for kind in _kinds(known)}, files.get(number)
        )
        for number, found in uses.items()
        if len(known := [use for use in found if use]) == len(found)
    ]


def _kinds(uses: Sequence[IoMetrics]) -> list[str]:
    return list(dict.fromkeys(kind for use in uses for kind in use.requests))


def _by_round(samples: Sequence[Sample]) -> dict[int, list[Sample]]:
    rounds: dict[int, list[Sample]] = {}
    for sample in samples:
        rounds.setdefault(int(sample.get("repetition", 1)), []).append(sample)
    return rounds


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def core_seconds_per_gb(run: Run, measure: Measure) -> float | None:
    """Core-seconds of the measure per GB, by its own measurement or that of the application role of its name."""
    if not measure.bytes:
        return None
    own = measure.core_seconds
    if own is None:
        own = next((role.median("core_seconds") for role in roles(run) if role.name == measure.name), None)
    return None if own is None else own / measure.bytes * GB


def cores(run: Run) -> int:
    """Cores of the executors; 0 where no application counts, or its size is unknown."""
    return working_cores(run.description.size) if roles(run) else 0


def main_measure(run: Run, found: Sequence[Measure]) -> Measure | None:
    """The measure that prices the run: the longest one with data, preferably that of a whole application."""
    names = {role.name for role in roles(run)}
    with_data = [measure for measure in found if measure.bytes]
    of_applications = [measure for measure in with_data if measure.name in names]
    return max(of_applications or with_data, key=lambda measure: (measure.median, measure.bytes), default=None)


def usage(run: Run, key: str) -> Sequence[float]:
    """A figure of the `usage` samples, for each counted repetition that has it."""
    return [sample[key] for sample in counted(run, "usage") if sample.get(key) is not None]


def repetition_total(run: Run, key: str) -> float | None:
    """A figure of the summaries, summed over a repetition, as the median; None where no summary has it."""
    having = [sample for sample in counted(run, "application") if (sample.get("summary") or {}).get(key) is not None]
    return _median([sum(sample["summary"][key] for sample in samples) for samples in _by_round(having).values()])


@dataclass(frozen=True)
class DaemonUse:
    """Use of one daemon: medians over the repetitions that it ran throughout. Bytes are those of block devices."""

    core_seconds: float
    peak_memory_bytes: float | None
    read_bytes: float | None
    written_bytes: float | None


def daemons(run: Run) -> Mapping[str, DaemonUse]:
    """Use by daemon (`osd.0`); empty where the store is on other machines, or the record is an older one."""
    samples = [sample.get("daemons") or {} for sample in counted(run, "usage")]
    names = sorted({name for sample in samples for name in sample}, key=natural_key)

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
    """The shuffle disk in one repetition. Each figure covers the interval that ends at its second."""

    repetition: int
    seconds: tuple[float, ...]
    busy_shares: tuple[float, ...]
    queues: tuple[float, ...]
    read_rates: tuple[float, ...]
    """Bytes per second, as are `written_rates`."""
    written_rates: tuple[float, ...]


@dataclass(frozen=True)
class DeviceUse:
    """Use of one device: medians over the repetitions; see `lab.metering.disk_use`."""

    busy_share: float
    queue: float
    read_bytes: float
    written_bytes: float


def disk_tracks(run: Run) -> list[DiskTrack]:
    """Tracks by repetition, without older records and repetitions too short for a second sample."""
    found = []
    for sample in counted(run, "usage"):
        track = sample.get("disk_over_time") or {}
        seconds = tuple(track.get("second", ()))
        if len(seconds) > 1:
            widths = [end - start for start, end in zip((0.0, *seconds), seconds, strict=False)]
            # Records from before 2026-11-24 may end with an interval of width zero.
            valid = [index for index, width in enumerate(widths) if width > 0]
            found.append(
                DiskTrack(
                    int(sample.get("repetition", 1)),
                    tuple(seconds[index] for index in valid),
                    tuple(track["busy_share"][index] for index in valid),
                    tuple(track["queue"][index] for index in valid),
                    tuple(track["read_bytes"][index] / widths[index] for index in valid),
                    tuple(track["written_bytes"][index] / widths[index] for index in valid),
                )
            )
    return found


def device_uses(run: Run) -> Mapping[str, DeviceUse]:
    """Use by device, of those that worked in any repetition; a missing device counts as idle."""
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
    """The device of the shuffle directories; None where they are not on one device."""
    names = {str(sample["disk"]) for sample in counted(run, "usage") if sample.get("disk")}
    return names.pop() if len(names) == 1 else None


@dataclass(frozen=True)
class QueryReads:
    """Reads of one query, as medians over its counted executions.

    `files` and `file_bytes` are number and total size of the files that its scans opened, by table. `gets` are requests
    sent and `bytes_read` bytes returned to readers by driver and executors meanwhile; None where they were not counted.
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
    def gets_per_file(self) -> float | None:
        return self.gets / self.all_files if self.gets is not None and self.all_files else None

    @property
    def all_file_bytes(self) -> float:
        return sum(self.file_bytes.values())


def query_reads(run: Run) -> dict[str, QueryReads]:
    """Reads by query in natural order, of the queries whose reads were recorded."""
    found: dict[str, list[Sample]] = {}
    for sample in counted(run, "query"):
        if sample["status"] == "ok" and "reads" in sample:
            found.setdefault(str(sample["query"]), []).append(sample)
    return {query: _query_reads(query, found[query]) for query in sorted(found, key=natural_key)}


def _query_reads(query: str, samples: Sequence[Sample]) -> QueryReads:
    tables = sorted({table for sample in samples for table in sample["reads"]})

    def by_table(figure: str) -> dict[str, float]:
        return {
            table: statistics.median(sample["reads"].get(table, {}).get(figure, 0) for sample in samples)
            for table in tables
        }

    uses = [IoMetrics({}, 0, {}, counts=sample["lake"]) for sample in samples if "lake" in sample]
    return QueryReads(
        query,
        files=by_table("files"),
        file_bytes=by_table("bytes"),
        gets=statistics.median(use.count("requests_get") for use in uses) if uses else None,
        bytes_read=statistics.median(use.read for use in uses) if uses else None,
    )


ALONE, TOGETHER = "alone", "together"
"""Values of the tag `phase` of a sample: measured alone, or concurrently with other work."""


@dataclass(frozen=True)
class Execution:
    """One query of one user that succeeded. `repetition` counts from 1."""

    query: str
    user: int
    repetition: int
    started_ms: int
    seconds: float


@dataclass(frozen=True)
class Timeline:
    """The timeline of one of several concurrent applications, in seconds since the first submission."""

    name: str
    submitted: float
    ended: float
    queries: tuple[tuple[str, float, float], ...]
    """(name, start, seconds), in the order they ran."""


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
    """Executions by query, in natural order: q2 before q10."""
    queries: dict[str, list[Execution]] = {}
    for execution in found:
        queries.setdefault(execution.query, []).append(execution)
    return {name: queries[name] for name in sorted(queries, key=natural_key)}


def slowdowns(run: Run, group: str | None = None) -> tuple[Ratio, ...]:
    """The slowdown of each query measured in both phases: its time together over its time alone, paired by round."""
    alone, together = (
        {name: _seconds_by_round(found) for name, found in by_query(executions(run, phase, group)).items()}
        for phase in (ALONE, TOGETHER)
    )
    return holm([ratio(name, alone[name], seconds) for name, seconds in together.items() if name in alone])


def _seconds_by_round(found: Sequence[Execution]) -> dict[int, float]:
    """The median over the users of each round, who share a minute."""
    rounds: dict[int, list[float]] = {}
    for one in found:
        rounds.setdefault(one.repetition, []).append(one.seconds)
    return {repetition: statistics.median(seconds) for repetition, seconds in rounds.items()}


def user_samples(run: Run, phase: str, group: str | None = None) -> Mapping[int, list[Sample]]:
    """The `user` samples of the counted repetitions, by user; a user has one where all their queries succeeded."""
    found: dict[int, list[Sample]] = {}
    for sample in counted(run, "user"):
        if sample["phase"] == phase and sample.get("group") == group:
            found.setdefault(int(sample["user"]), []).append(sample)
    return dict(sorted(found.items()))


def timelines(run: Run) -> list[Timeline]:
    """Timelines of the concurrent phase of the last counted repetition, in natural order of their names."""
    applications = [sample for sample in counted(run, "application") if sample.get("phase") == TOGETHER]
    if not applications:
        return []
    last = max(sample["repetition"] for sample in applications)
    applications = [sample for sample in applications if sample["repetition"] == last]
    queries = [s for s in counted(run, "query") if s.get("phase") == TOGETHER and s["repetition"] == last]
    zero = min(sample["submitted_ms"] for sample in applications)
    found = []
    for sample in applications:
        begun = (sample["submitted_ms"] - zero) / 1000
        own = [s for s in queries if _same_user(s, sample)]
        found.append(
            Timeline(
                _label(sample),
                begun,
                begun + sample["elapsed_ms"] / 1000,
                tuple(
                    (str(s["query"]), (s["started_ms"] - zero) / 1000, seconds_of(s))
                    for s in sorted(own, key=lambda s: s["started_ms"])
                ),
            )
        )
    return sorted(found, key=lambda one: natural_key(one.name))


def _same_user(one: Sample, other: Sample) -> bool:
    return "user" in other and (one["user"], one.get("group")) == (other["user"], other.get("group"))


def _label(sample: Sample) -> str:
    """The name of the user; a group of one user is named after the group."""
    group = str(sample.get("group") or "")
    several = not group or group[0].isdigit()
    return f"user {sample['user']}" if "user" in sample and several else group
