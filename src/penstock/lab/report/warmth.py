"""What each application found in the page cache: the first on a node fills it, the next should find it warm."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab.records import Run, Sample
from penstock.lab.report.document import Section, Table
from penstock.summary import LakeUse


def sections(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """In the order they ran, warm-up included; nothing where none read through the cache."""
    rows = []
    for run, name in zip(runs, names, strict=True):
        for sample in run.of_kind("application"):
            use = LakeUse.of(sample.get("summary") or {})
            if use and use.hit_rate is not None and "repetition" in sample:
                rows.append((name, _when(sample), str(sample["role"]), *_figures(use)))
    if not rows:
        return []
    columns = ("arm", "round", "application", "read from cache", "pages", "hits", "memory", "disk", "store", "GET")
    note = (
        "Each application has a cluster of its own, started for it and gone after it; the cache stays. The share is of "
        "the bytes given to readers, hits are of the pages asked for."
    )
    table = Table(columns, rows, numeric=frozenset(range(3, len(columns))))
    return [Section("Page cache", note, [table], brief=True)]


def _when(sample: Sample) -> str:
    return "warm-up" if sample.get("warmup") else str(sample["repetition"])


def _figures(use: LakeUse) -> tuple[str, ...]:
    hits, misses = use.count("page_hits"), use.count("page_misses")
    asked = hits + misses
    return (
        f"{use.hit_rate:.1%}",
        units.count(asked),
        f"{hits / asked:.1%}" if asked else "",
        units.data(use.count("bytes_from_memory")),
        units.data(use.count("bytes_from_disk")),
        units.data(use.count("bytes_from_store")),
        units.count(use.requests.get("GET", 0)),
    )
