"""The summary of an application's run, typed: I/O metrics of its lake and page cache, and skipping metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IoMetrics:
    """I/O metrics of driver and executors together.

    `counts` are the file system's counters by name (docs/reference/files.md); bytes are those of contents, without HTTP
    overhead.
    """

    requests: Mapping[str, int]
    retries: int
    request_us: Mapping[str, int]
    counts: Mapping[str, int]

    @staticmethod
    def of(summary: Mapping[str, Any]) -> IoMetrics | None:
        """None where the summary has no counts of requests, since the application never had a Spark context."""
        if "s3_requests" not in summary:
            return None
        return IoMetrics(
            requests=summary["s3_requests"],
            retries=summary.get("s3_retries", 0),
            request_us=summary.get("s3_request_us", {}),
            counts=summary.get("lake", {}),
        )

    def count(self, name: str) -> int:
        """The counter of that name; 0 where it is missing, since older applications had fewer."""
        return self.counts.get(name, 0)

    @property
    def read(self) -> int:
        """Bytes returned to readers; without the cache, bytes read from the store."""
        return self._through_cache or self.count("bytes_received")

    @property
    def cached_bytes(self) -> int:
        """Bytes returned to readers that did not have to be fetched for them.

        The source of the bytes alone would make a cold run look warm, since a page that was just fetched is read from
        memory.
        """
        missed = max(self.count("bytes_fetched"), self.count("bytes_from_store"))
        return max(0, self._through_cache - missed)

    @property
    def hit_rate(self) -> float | None:
        """The share of spared bytes in those returned to readers; None where none went through the cache."""
        return self.cached_bytes / self._through_cache if self._through_cache else None

    @property
    def _through_cache(self) -> int:
        return sum(self.count(f"bytes_from_{place}") for place in ("memory", "disk", "store"))

    @property
    def milliseconds_per_request(self) -> float | None:
        """The mean time to the head of a response, each retry counted on its own; None without requests."""
        sent = sum(self.requests.values())
        return sum(self.request_us.values()) / sent / 1000 if sent and self.request_us else None


@dataclass(frozen=True)
class SkippingMetrics:
    """Skipping metrics of all scans of tables with a skipping index.

    Files and bytes are those left after partition pruning, with the skipped ones among them; `select_us` is the time
    of the index look-ups, in microseconds.
    """

    scans: int
    files: int
    files_skipped: int
    bytes: int
    bytes_skipped: int
    select_us: int

    @staticmethod
    def of(summary: Mapping[str, Any]) -> SkippingMetrics | None:
        """None where no table with an index was read; older applications' summaries have no skipping metrics."""
        counts: Mapping[str, int] = summary.get("skipping", {})
        if not counts.get("scans"):
            return None
        return SkippingMetrics(
            scans=counts["scans"],
            files=counts["files"],
            files_skipped=counts["files_skipped"],
            bytes=counts["bytes"],
            bytes_skipped=counts["bytes_skipped"],
            select_us=counts["select_us"],
        )
