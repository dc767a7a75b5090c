"""The summary of an application's run, typed: I/O metrics of its lake and page cache, and skipping metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LakeUse:
    """Driver and executors together. `counts` are the file system's counters by name (docs/reference/files.md); all
    bytes are those of contents, without HTTP's own."""

    requests: Mapping[str, int]
    retries: int
    request_us: Mapping[str, int]
    counts: Mapping[str, int]

    @staticmethod
    def of(summary: Mapping[str, Any]) -> LakeUse | None:
        """None where the summary tells nothing of requests: the application never had a Spark context."""
        if "s3_requests" not in summary:
            return None
        return LakeUse(
            requests=summary["s3_requests"],
            retries=summary.get("s3_retries", 0),
            request_us=summary.get("s3_request_us", {}),
            counts=summary.get("lake", {}),
        )

    def count(self, name: str) -> int:
        """0 for what is not counted: an older application knew fewer names."""
        return self.counts.get(name, 0)

    @property
    def read(self) -> int:
        """Bytes given to readers; where they do not read through the cache, those that came from the store."""
        return self._through_cache or self.count("bytes_received")

    @property
    def spared(self) -> int:
        """Bytes given to readers that had not to be fetched for them.

        A page that was fetched a moment ago is in memory when it is read: where bytes were taken from alone would call
        a cold run warm.
        """
        missed = max(self.count("bytes_fetched"), self.count("bytes_from_store"))
        return max(0, self._through_cache - missed)

    @property
    def hit_rate(self) -> float | None:
        """The share of the bytes given to readers that was spared; None where none went by the cache."""
        return self.spared / self._through_cache if self._through_cache else None

    @property
    def _through_cache(self) -> int:
        return sum(self.count(f"bytes_from_{place}") for place in ("memory", "disk", "store"))

    @property
    def milliseconds_per_request(self) -> float | None:
        """The mean time until the head of an answer was there, retries by themselves; None without requests."""
        sent = sum(self.requests.values())
        return sum(self.request_us.values()) / sent / 1000 if sent and self.request_us else None


@dataclass(frozen=True)
class Skipped:
    """Over all scans of tables with a skipping index: files and bytes there were once partitions had been pruned, those
    of them that were skipped, and how long asking the index took."""

    scans: int
    files: int
    files_skipped: int
    bytes: int
    bytes_skipped: int
    select_us: int

    @staticmethod
    def of(summary: Mapping[str, Any]) -> Skipped | None:
        """None where no table with an index was read: an older application's summary does not tell."""
        counts: Mapping[str, int] = summary.get("skipping", {})
        if not counts.get("scans"):
            return None
        return Skipped(
            scans=counts["scans"],
            files=counts["files"],
            files_skipped=counts["files_skipped"],
            bytes=counts["bytes"],
            bytes_skipped=counts["bytes_skipped"],
            select_us=counts["select_us"],
        )
