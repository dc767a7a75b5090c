"""Samples survive the process that writes them, and are never lost, repeated or overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import NotFound, StateError
from penstock.home import Home
from penstock.lab.records import Description, Recorder, find, load, run_ids


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "état de l'art")


def description(run_id: str = "20260101-000000-tpcds-penstock-0001") -> Description:
    return Description(
        id=run_id, workload="tpcds", arm="penstock", created_at="2026-01-01T00:00:00Z", command="penstock lab tpcds"
    )


def test_a_run_reads_back_as_written(home: Home) -> None:
    recorder = Recorder.begin(home, description())
    recorder.add("query", query="q1", elapsed_ms=12)
    recorder.add("end", outcome="ok")
    run = recorder.run()
    assert run.description == description()
    assert [sample["kind"] for sample in run.samples] == ["query", "end"]
    assert run.outcome == "ok"


def test_a_run_without_an_end_is_unfinished(home: Home) -> None:
    recorder = Recorder.begin(home, description())
    assert recorder.run().outcome == "unfinished"


@pytest.mark.parametrize("kept", range(0, 30, 7))
def test_killed_in_the_middle_of_a_line(home: Home, kept: int) -> None:
    recorder = Recorder.begin(home, description())
    recorder.add("query", query="q1")
    samples = recorder.directory / "samples.jsonl"
    with samples.open("ab") as file:
        file.write(b'{"kind": "query", "query": "q2", "elapsed'[:kept])
    assert len(recorder.run().samples) == 1
    Recorder.resume(home, description().id).add("query", query="q3")
    assert [sample["query"] for sample in recorder.run().samples] == ["q1", "q3"]


def test_a_torn_line_longer_than_a_block_is_cut_whole(home: Home) -> None:
    recorder = Recorder.begin(home, description())
    recorder.add("query", query="q1")
    with (recorder.directory / "samples.jsonl").open("ab") as file:
        file.write(b'{"kind": "' + b"x" * 10_000)
    recorder.add("query", query="q2")
    assert [sample["query"] for sample in recorder.run().samples] == ["q1", "q2"]


def test_a_damaged_line_is_named(home: Home) -> None:
    recorder = Recorder.begin(home, description())
    recorder.add("query", query="q1")
    with (recorder.directory / "samples.jsonl").open("ab") as file:
        file.write(b"not json\n")
    with pytest.raises(StateError, match="Line 2"):
        recorder.run()


def test_raw_samples_are_never_overwritten(home: Home) -> None:
    Recorder.begin(home, description())
    with pytest.raises(StateError, match="recorded already"):
        Recorder.begin(home, description())


def test_a_run_is_found_by_a_part_of_its_name_and_last_is_the_newest(home: Home) -> None:
    for run_id in ("20260101-000000-tpcds-penstock-0001", "20260102-000000-tpcds-plain-0002"):
        Recorder.begin(home, description(run_id))
    assert len(run_ids(home)) == 2
    assert find(home, "plain").description.id.endswith("0002")
    assert find(home, "last").description.id.endswith("0002")
    with pytest.raises(NotFound, match="fits 2 runs"):
        find(home, "tpcds")
    with pytest.raises(NotFound, match="no run"):
        find(home, "terasort")


def test_fields_of_a_newer_release_are_ignored(home: Home) -> None:
    recorder = Recorder.begin(home, description())
    file = recorder.directory / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "of_tomorrow": 1}))
    assert load(recorder.directory).description == description()
