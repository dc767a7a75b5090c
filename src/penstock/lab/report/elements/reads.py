"""Sections on reads: clients of the store against local files and the best of S3A, and use of the page cache."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock import units
from penstock.lab.analysis.samples import Measure, counted, measures_by_name
from penstock.lab.analysis.verdicts import spread
from penstock.lab.records import Run, Sample
from penstock.lab.report.elements.render import Section, Table
from penstock.summary import IoMetrics


@dataclass(frozen=True)
class _Arm:
    name: str
    measures: Mapping[str, Measure]
    local: bool
    s3a: bool

    @property
    def ours(self) -> bool:
        return not (self.local or self.s3a)


def sections(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """Processor time per GB in every arm, and Penstock's arms relative to the others."""
    arms = [
        _Arm(
            name,
            measures_by_name(run),
            local=run.description.options.get("source") == "local",
            s3a="+s3a" in (run.description.profile or ""),
        )
        for name, run in zip(names, runs, strict=True)
        # Raw reads have no checksums: they are a bound, and not how Spark reads local files.
        if run.description.options.get("source") != "raw"
    ]
    common = [name for name in arms[0].measures if all(name in arm.measures for arm in arms)]
    if not common:
        return []
    everything = [(name, measures_by_name(run)) for name, run in zip(names, runs, strict=True)]
    return [
        _processor_time(everything, common),
        *_against_others(arms, common),
        _requests(dict(zip(names, map(_requests_sent, runs), strict=True)), common),
    ]


def _processor_time(arms: Sequence[tuple[str, Mapping[str, Measure]]], common: Sequence[str]) -> Section:
    rows = [
        (name, *(_spread(found[name].core_seconds_per_gb) if name in found else "" for _, found in arms))
        for name in common
    ]
    table = Table(("measure", *(name for name, _ in arms)), rows, numeric=frozenset(range(1, len(arms) + 1)))
    note = (
        "Core-seconds of the reading process per GB that reached its buffers: median and range over all passes. They "
        "include compilation and garbage collection, but no work of the store."
    )
    return Section("Processor time per GB", note, [table], brief=True)


def _against_others(arms: Sequence[_Arm], common: Sequence[str]) -> list[Section]:
    ours = [arm for arm in arms if arm.ours]
    local = next((arm for arm in arms if arm.local), None)
    s3a = [arm for arm in arms if arm.s3a]
    if not ours or not (local or s3a):
        return []
    columns = ["measure"]
    for arm in ours:
        columns += [f"{arm.name}: processor time, × {local.name}"] if local else []
        columns += [f"{arm.name}: time, × best of S3A"] if s3a else []
    rows = []
    for name in common:
        row = [name]
        for arm in ours:
            if local:
                row.append(_ratio(arm.measures[name].core_seconds_per_gb, local.measures[name].core_seconds_per_gb))
            if s3a:
                best = min((other.measures[name] for other in s3a), key=lambda measure: measure.median)
                row.append(_ratio(arm.measures[name].seconds, best.seconds))
        rows.append(row)
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
    note = "Ratios of medians; below 1 Penstock takes less. The best of S3A is its fastest arm in that measure."
    return [Section("Against local files and S3A", note, [table], brief=True)]


def _requests_sent(run: Run) -> dict[str, float]:
    """Requests to the store in one pass of each measure: the median."""
    found: dict[str, list[int]] = {}
    for sample in counted(run, "measure"):
        found.setdefault(str(sample["name"]), []).append(sum(sample.get("s3_requests", {}).values()))
    return {name: statistics.median(sent) for name, sent in found.items()}


def _requests(sent: Mapping[str, Mapping[str, float]], common: Sequence[str]) -> Section:
    rows = [(name, *(units.count(of_arm.get(name, 0)) for of_arm in sent.values())) for name in common]
    table = Table(("measure", *sent), rows, numeric=frozenset(range(1, len(sent) + 1)))
    return Section("Requests", "Requests of all kinds to the store in one pass: the median.", [table])


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    found = spread(values)
    return f"{units.digits(found.median)} ({units.digits(found.low)}–{units.digits(found.high)})"


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    if not ours or not theirs:
        return ""
    return f"{units.digits(statistics.median(ours) / statistics.median(theirs))}×"


def cache_sections(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """Cache use of each application in the order they ran, including warm-up; empty where none used the cache."""
    rows = []
    for run, name in zip(runs, names, strict=True):
        for sample in run.of_kind("application"):
            use = IoMetrics.of(sample.get("summary") or {})
            if use and use.hit_rate is not None and "repetition" in sample:
                rows.append((name, _when(sample), str(sample["role"]), *_figures(use)))
    if not rows:
        return []
    columns = ("arm", "round", "application", "read from cache", "pages", "hits", "memory", "disk", "store", "GET")
    note = (
        "Each application runs on a cluster of its own, which only the cache outlives. “Read from cache” is a share of "
        "the bytes returned to readers, “hits” a share of the requested pages."
    )
    table = Table(columns, rows, numeric=frozenset(range(3, len(columns))))
    return [Section("Page cache", note, [table], brief=True)]


def _when(sample: Sample) -> str:
    return "warm-up" if sample.get("warmup") else str(sample["repetition"])


def _figures(use: IoMetrics) -> tuple[str, ...]:
    hits, misses = use.count("page_hits"), use.count("page_misses")
    requested = hits + misses
    return (
        f"{use.hit_rate:.1%}",
        units.count(requested),
        f"{hits / requested:.1%}" if requested else "",
        units.data(use.count("bytes_from_memory")),
        units.data(use.count("bytes_from_disk")),
        units.data(use.count("bytes_from_store")),
        units.count(use.requests.get("GET", 0)),
    )
