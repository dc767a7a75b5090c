"""The runs recorded on this machine, as lists show them."""

from __future__ import annotations

from typing import Any

from penstock.home import Home
from penstock.lab import records
from penstock.lab.records import Run


def all_of(home: Home) -> list[dict[str, Any]]:
    """Oldest first."""
    return [_told(home, records.load(home.root / "lab" / run_id)) for run_id in records.runs(home)]


def _told(home: Home, run: Run) -> dict[str, Any]:
    """A run in the list. One without an end is `running` while a process measures it, else `interrupted`."""
    described, plan = run.description, run.description.plan
    ended = run.outcome != "unfinished"
    unfinished = "running" if records.in_progress(home, described.id) else "interrupted"
    return {
        "run": described.id,
        "workload": described.workload,
        "arm": described.arm,
        "scale": described.scale,
        "created_at": described.created_at,
        "experiment": described.experiment,
        "batch": described.batch,
        "ended": ended,
        "outcome": run.outcome if ended else unfinished,
        "repetitions": plan["repetitions"] + plan["warmup"] if plan else None,
        "repetitions_done": len(run.of_kind("repetition")),
    }
