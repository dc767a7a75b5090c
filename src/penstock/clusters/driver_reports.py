"""Progress and summary as a driver leaves them, read as what submitted code may have put there instead.

An application's code runs with the rights of its driver and can write anything into these files. Other users see their
content, and a database keeps it: what has not the form of a report, or is too large for one, is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.home import open_below

MOST_BYTES = 1 << 20
"""A report of a thousand stages has a quarter of that."""

_LONGEST_TEXT = 1000
_MOST_STAGES = 1000
_LARGEST = 1 << 63
_TEXTS = ("application_id", "name", "description")
_NUMBERS = (
    "jobs_done",
    "stages_done",
    "tasks_done",
    "tasks_failed",
    "rows_read",
    "bytes_read",
    "bytes_written",
    "shuffle_bytes",
    "executors",
    "updated_ms",
    "first_task_ms",
)
_STAGE_NUMBERS = ("id", "tasks", "done", "running", "failed")
_COUNTS = ("s3_requests", "s3_request_us", "lake", "skipping")
"""The fields of a summary that are numbers by name."""
_SUMMARY_TEXTS = ("fell_over", "scratch_fell_over")
"""The fields of a summary that are text; all others are numbers."""
_PROCESS_NUMBERS = ("started_ms", "ended_ms", "exit_code", "peak_rss_bytes", "cpu_seconds")
_UNKNOWN = ("disk_bytes", "scratch_disk_bytes")
"""The fields of a summary that are null where nobody measured them."""


def read(directory: Path, name: str) -> Any:
    """Return the file's content as JSON; None where there is no file, or none that could be a report."""
    try:
        with open_below(directory, name) as file:
            content = file.read(MOST_BYTES + 1)
        return json.loads(content) if len(content) <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def progress(report: object) -> dict[str, Any] | None:
    """Return the progress (docs/reference/files.md) in the report; None where it has none."""
    if not isinstance(report, dict):
        return None
    found: dict[str, Any] = {name: _text(report[name]) for name in _TEXTS if isinstance(report.get(name), str)}
    found |= _numbers(report, _NUMBERS)
    if isinstance(stages := report.get("stages"), list):
        found["stages"] = [_stage(stage) for stage in stages[:_MOST_STAGES] if isinstance(stage, dict)]
    return found


def summary(report: object) -> dict[str, Any]:
    """Return the values of the report that a summary (docs/reference/files.md) can have."""
    if not isinstance(report, dict):
        return {}
    found: dict[str, Any] = {}
    for name, value in report.items():
        if name in _COUNTS:
            if isinstance(value, dict):
                found[name] = _numbers(value, value)
        elif name in _SUMMARY_TEXTS:
            found[name] = _text(value)
        elif _is_number(value) or (value is None and name in _UNKNOWN):
            found[_text(name)] = value
    return found


def process_end(report: object) -> dict[str, Any]:
    """Return times, exit code and resource usage in the record of a process's end; None for each that it lacks."""
    found = _numbers(report, _PROCESS_NUMBERS) if isinstance(report, dict) else {}
    return {name: found.get(name) for name in _PROCESS_NUMBERS}


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(_STAGE_NUMBERS, 0), **_numbers(stage, _STAGE_NUMBERS), "name": _text(stage.get("name", ""))}


def _numbers(values: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {_text(name): values[name] for name in names if _is_number(values.get(name))}


def _is_number(value: object) -> bool:
    return (isinstance(value, int) and abs(value) < _LARGEST) or (isinstance(value, float) and math.isfinite(value))


def _text(value: object) -> str:
    """Return the text without what a database refuses: zero bytes and halves of characters."""
    return str(value)[:_LONGEST_TEXT].replace("\0", "").encode("utf-8", "replace").decode()
