"""Estimates follow from the newest finished run of the same workload and scale, and no other samples are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.home import Home
from penstock.lab import records
from penstock.lab.environment import last_samples
from penstock.lab.records import Description, Recorder


def test_the_newest_finished_run_of_the_scale_is_the_only_one_whose_samples_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)

    def record(day: int, *, scale: float = 1.0, workload: str = "tpcds", ended: bool = True) -> Recorder:
        run_id = f"2026010{day}-000000-{workload}-penstock-0001"
        recorder = Recorder.begin(home, Description(run_id, workload, "Penstock", "", "", scale=scale))
        recorder.add("query", query=f"q{day}")
        if ended:
            recorder.add("end", outcome="ok")
        return recorder

    record(1)
    record(2)
    record(3, scale=10.0)
    record(4, workload="streams")
    record(5, ended=False)
    (record(6).directory / "run.json").write_text("{")
    read: list[Path] = []
    load = records.load
    monkeypatch.setattr(records, "load", lambda directory: read.append(directory) or load(directory))
    assert [sample["query"] for sample in last_samples(home, "tpcds", 1.0, "query")] == ["q2"]
    assert len(read) == 1
    assert last_samples(home, "tpcds", 3.0, "query") == []
