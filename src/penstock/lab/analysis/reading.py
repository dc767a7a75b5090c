"""What each query read, from its `query` samples: files and their sizes by table, requests, and bytes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.lab.analysis.samples import counted, natural
from penstock.lab.records import Run, Sample
from penstock.summary import LakeUse


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

    uses = [LakeUse({}, 0, {}, counts=sample["lake"]) for sample in samples if "lake" in sample]
    return Reading(
        query,
        files=by_table("files"),
        file_bytes=by_table("bytes"),
        gets=statistics.median(use.count("requests_get") for use in uses) if uses else None,
        bytes_read=statistics.median(use.read for use in uses) if uses else None,
    )
