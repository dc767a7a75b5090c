"""Amounts as people read them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from penstock.cli.output import closing_line, lake_line, skipped_line
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.summary import IoMetrics, SkippingMetrics


def _use(**counts: int) -> IoMetrics:
    return IoMetrics({"GET": 1000, "PUT": 34, "HEAD": 0}, 2, {"GET": 9_000_000, "PUT": 1_340_000}, counts)


def test_the_line_says_where_bytes_came_from_and_never_rounds_up_to_all() -> None:
    line = lake_line(_use(bytes_from_memory=199 << 20, bytes_from_disk=1 << 20, bytes_from_store=1 << 10))
    assert line == (
        "1 034 requests (GET 1 000, PUT 34), 10.0 ms each, 200.0 MiB read, 99 % from cache "
        "(memory 199.0 MiB, disk 1.0 MiB), 2 retries"
    )


def test_problems_are_printed_only_where_there_are_some() -> None:
    assert "SlowDown" not in lake_line(_use())
    assert lake_line(_use(answers_throttled=3)).endswith("2 retries, 3 “SlowDown” responses")


_ONE = ProcessSize(cores=1, memory_bytes=1 << 30)
_SKIPPED = {"scans": 3, "files": 1440, "files_skipped": 1240, "bytes": 9 << 30, "bytes_skipped": 8 << 30}
_SUMMARY = {"task_ms": 2000, "bytes_read": 1 << 20, "bytes_written": 0}


def _ended(**summary: Any) -> str:
    spec = ApplicationSpec(application="app.py", size=ClusterSize(_ONE, _ONE, 1), name="app")
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return closing_line(Application("app-1", spec, State.FINISHED, now, ended_at=now, summary={**_SUMMARY, **summary}))


def test_the_closing_line_tells_of_skipping_only_where_an_index_was_asked() -> None:
    assert "skipped 1 240 of 1 440 files" in _ended(skipping={**_SKIPPED, "select_us": 0})
    assert "skipped 0 of 1 440 files" in _ended(skipping={**_SKIPPED, "files_skipped": 0, "select_us": 0})
    assert "skipped" not in _ended(skipping=dict.fromkeys(_SKIPPED, 0))
    assert "skipped" not in _ended()


def test_skipping_is_summed_up_in_files_bytes_and_time() -> None:
    skipped = SkippingMetrics.of({"skipping": {**_SKIPPED, "select_us": 4200}})
    assert skipped
    assert skipped_line(skipped) == (
        "1 240 of 1 440 files, 8.0 GiB of 9.0 GiB, in 3 scans of indexed tables; index look-ups took 4 ms"
    )
