"""What the applications of a run cost: one section for every workload."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.lakeuse import LakeUse
from penstock.lab.analysis import roles
from penstock.lab.records import Run
from penstock.lab.report import words
from penstock.lab.report.document import Section, Table

_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("elapsed", "elapsed_ms", lambda value: words.seconds(value / 1000)),
    ("core-seconds", "core_seconds", words.number),
    ("peak memory", "peak_memory_bytes", words.size),
    ("task time", "task_ms", lambda value: words.seconds(value / 1000)),
    ("garbage collection", "gc_ms", lambda value: words.seconds(value / 1000)),
    ("tasks", "tasks", words.count),
    ("tasks failed", "tasks_failed", words.count),
    ("read by Spark", "bytes_read", words.data),
    ("written by Spark", "bytes_written", words.data),
    ("shuffled", "shuffle_write_bytes", words.data),
    ("spilled to disk", "spill_disk_bytes", words.data),
    ("shuffle and spill in memory", "scratch_memory_bytes", words.data),
    ("shuffle and spill on disk", "scratch_disk_bytes", words.data),
    ("S3 requests repeated", "s3_retries", words.count),
)


def _counted(name: str) -> Callable[[LakeUse], float | None]:
    """None where an application knew no such counter: zero and unknown are not the same."""
    return lambda use: use.counts.get(name)


# By whatever reader or writer: Spark knows the bytes of its own only; TeraSort, DFSIO and the ingest use others.
_LAKE_FIGURES: tuple[tuple[str, Callable[[LakeUse], float | None], Callable[[float], str]], ...] = (
    ("received from the store", _counted("bytes_received"), words.data),
    ("sent to the store", _counted("bytes_sent"), words.data),
    ("time per request", lambda use: use.milliseconds_per_request, lambda value: words.latency(value / 1000)),
    ("read from cache", lambda use: use.hit_rate, lambda value: f"{value:.1%}"),
    ("read from memory", _counted("bytes_from_memory"), words.data),
    ("read from cache on disk", _counted("bytes_from_disk"), words.data),
    ("read past the cache", _counted("bytes_from_store"), words.data),
    ("pages evicted", _counted("pages_evicted"), words.count),
    ("answers “slow down”", _counted("answers_throttled"), words.count),
    ("errors of the store", _counted("answers_failed"), words.count),
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
    rows += [(f"{kind} requests", *(words.count(role.requests().get(kind, 0)) for role in found)) for kind in kinds]
    several = any(len(role.applications) > 1 for role in found)
    if several:
        rows.insert(0, ("applications", *(words.count(len(role.applications)) for role in found)))
    note = "Drivers and executors together, of one application"
    columns = ("", *(role.name for role in found))
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns))))
    return [Section("Resources", f"{note}{': the median over those of one kind' if several else ''}.", [table])]
