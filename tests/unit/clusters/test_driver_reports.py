"""A driver's reports are what submitted code may have written: they have a report's form and size, or are not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clusters import driver_reports
from penstock.summary import IoMetrics, SkippingMetrics

PROGRESS = {
    "application_id": "app-spark",
    "description": "q3 (1 of 104)",
    "tasks_done": 3,
    "stages": [{"id": 1, "name": "scan", "tasks": 4, "done": 3, "running": 1, "failed": 0}],
}
SUMMARY = {
    "task_ms": 5,
    "s3_requests": {"GET": 3},
    "lake": {"bytes_received": 7},
    "scratch_fell_over": "full",
    "scratch_disk_bytes": None,
}


def test_what_a_driver_reports_is_kept() -> None:
    assert driver_reports.progress(PROGRESS) == PROGRESS
    assert driver_reports.summary(SUMMARY) == SUMMARY


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"[" * 200_000, b'{"a":' * 5000, b"", b'"' + b"x" * (2 << 20) + b'"', b"1" * 5000],
    ids=["no text", "deep list", "deep object", "empty", "too large", "long number"],
)
def test_a_file_that_is_no_report_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "progress.json").write_bytes(content)
    assert driver_reports.read(tmp_path, "progress.json") is None


def test_a_pipe_or_a_link_in_a_report_s_place_is_none_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "progress.json")
    (tmp_path / "secret").write_text('{"description": "of another"}', encoding="utf-8")
    (tmp_path / "summary.json").symlink_to(tmp_path / "secret")
    assert driver_reports.read(tmp_path, "progress.json") is None
    assert driver_reports.read(tmp_path, "summary.json") is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from([*PROGRESS, *SUMMARY, "skipping", "s3_retries", "x\0"]), ANYTHING))
def test_nothing_that_a_report_holds_breaks_whoever_shows_or_stores_it(report: dict[str, Any]) -> None:
    report = json.loads(json.dumps(report))
    progress, summary = driver_reports.progress(report), driver_reports.summary(report)
    for found in (progress, summary):
        text = json.dumps(found, allow_nan=False)
        assert "\\u0000" not in text
        json.dumps(found, ensure_ascii=False).encode()
    assert progress is not None
    assert all({"id", "name", "tasks", "running"} <= stage.keys() for stage in progress.get("stages", ()))
    assert all(isinstance(summary.get(name, 0), int | float) for name in ("task_ms", "s3_retries"))
    metrics = IoMetrics.of(summary)
    assert metrics is None or metrics.cached_bytes >= 0
    SkippingMetrics.of({**summary, "skipping": dict.fromkeys(("files", "files_skipped"), 0)})


@pytest.mark.parametrize("report", [None, 1, "text", [1], float("nan")])
def test_a_report_of_another_kind_is_none(report: object) -> None:
    assert driver_reports.progress(report) is None
    assert driver_reports.summary(report) == {}


def test_numbers_that_a_database_refuses_are_left_out() -> None:
    report = {"tasks_done": 10**400, "rows_read": float("inf"), "bytes_read": float("nan"), "executors": 2}
    assert driver_reports.progress(report) == {"executors": 2}
