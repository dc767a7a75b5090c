"""What the applications of a run cost: one section for every workload."""

from __future__ import annotations

from collections.abc import Callable

from penstock import units
from penstock.lab.analysis import roles
from penstock.lab.records import Run
from penstock.lab.report.document import Section, Table
from penstock.summary import LakeUse

_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("elapsed", "elapsed_ms", lambda value: units.seconds(value / 1000)),
    ("core-seconds", "core_seconds", units.number),
    ("peak memory", "peak_memory_bytes", units.size),
    ("task time", "task_ms", lambda value: units.seconds(value / 1000)),
    ("garbage collection", "gc_ms", lambda value: units.seconds(value / 1000)),
    ("tasks", "tasks", units.count),
    ("tasks failed", "tasks_failed", units.count),
    ("read by Spark", "bytes_read", units.data),
    ("written by Spark", "bytes_written", units.data),
    ("shuffled", "shuffle_write_bytes", units.data),
    ("spilled to disk", "spill_disk_bytes", units.data),
    ("shuffle and spill in memory", "scratch_memory_bytes", units.data),
    ("shuffle and spill on disk", "scratch_disk_bytes", units.data),
    ("S3 requests repeated", "s3_retries", units.count),
)


def _counted(name: str) -> Callable[[LakeUse], float | None]:
    """None where an application knew no such counter: zero and unknown are not the same."""
    return lambda use: use.counts.get(name)


# By whatever reader or writer: Spark knows the bytes of its own only; TeraSort, DFSIO and the ingest use others.
_LAKE_FIGURES: tuple[tuple[str, Callable[[LakeUse], float | None], Callable[[float], str]], ...] = (
    ("received from the store", _counted("bytes_received"), units.data),
    ("sent to the store", _counted("bytes_sent"), units.data),
    ("time per request", lambda use: use.milliseconds_per_request, lambda value: units.latency(value / 1000)),
    ("read from cache", lambda use: use.hit_rate, lambda value: f"{value:.1%}"),
    ("read from memory", _counted("bytes_from_memory"), units.data),
    ("read from cache on disk", _counted("bytes_from_disk"), units.data),
    ("read past the cache", _counted("bytes_from_store"), units.data),
    ("pages evicted", _counted("pages_evicted"), units.count),
    ("answers “slow down”", _counted("answers_throttled"), units.count),
    ("errors of the store", _counted("answers_failed"), units.count),
)


def sections(run: Run) -> list[Section]:
    """Nothing for a run that no application was part of."""
    found = roles(run)
    if not found:
        return []
    rows: list[tuple[str, ...]] = []
    for label, key, write in _FIGURES:
        values = [role.median(key) for role in found]
        if any(value is not None for value in values):
            rows.append((label, *("" if value is None else write(value) for value in values)))
    for label, figure, write in _LAKE_FIGURES:
        values = [role.median_of_lake(figure) for role in found]
        if any(values):
            rows.append((label, *("" if value is None else write(value) for value in values)))
    kinds = dict.fromkeys(kind for role in found for kind in role.requests())
    rows += [(f"{kind} requests", *(units.count(role.requests().get(kind, 0)) for role in found)) for kind in kinds]
    several = any(len(role.applications) > 1 for role in found)
    if several:
        rows.insert(0, ("applications", *(units.count(len(role.applications)) for role in found)))
    note = "Drivers and executors together, of one application"
    columns = ("", *(role.name for role in found))
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
    return [Section("Resources", f"{note}{': the median over those of one kind' if several else ''}.", [table])]
