"""Which files an application did not have to read, from its summary. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
