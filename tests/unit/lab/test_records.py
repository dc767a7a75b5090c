"""Samples survive the process that writes them, and are never lost, repeated or overwritten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import NotFound, StateError
from penstock.home import Home
from penstock.lab import records
from penstock.lab.records import Description, Recorder, find, list_runs, load, outcome, run_ids


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


DAMAGED_LINES = (
    b"not json",
    b"",
    b'{"kind": "query", "query": "q2"',
    b'{"query": "q2"}',
    b'{"kind": 7}',
    b"[]",
    b"\x00" * 100,
    b'{"kind": "query", "query": "\xff"}',
    b'{"kind": "query", "attempt": 1}',
    b'{"kind": "query", "repetition": [], "attempt": 1}',
    b'{"kind": "end"}',
    b"[" * 100_000,
)


@pytest.mark.parametrize("line", DAMAGED_LINES, ids=range(len(DAMAGED_LINES)))
def test_a_damaged_line_is_left_out_and_counted(home: Home, line: bytes) -> None:
    recorder = Recorder.begin(home, description())
    recorder.add("query", query="q1")
    with (recorder.directory / "samples.jsonl").open("ab") as file:
        file.write(line + b"\n")
    recorder.add("query", query="q3")
    run = recorder.run()
    assert [sample["query"] for sample in run.samples] == ["q1", "q3"]
    assert run.damaged_lines == 1


@given(st.data())
def test_damage_that_leaves_valid_json_changes_no_sample(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    recorder = Recorder.begin(Home(tmp_path_factory.mktemp("home")), description())
    for query, elapsed_ms in (("q1", 1234), ("q2", 56.78)):
        recorder.add("query", query=query, elapsed_ms=elapsed_ms)
    before, file = recorder.run().samples, recorder.directory / "samples.jsonl"
    whole = file.read_bytes()
    at, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.binary(min_size=1, max_size=1))
    file.write_bytes(whole[:at] + byte + whole[at + 1 :])
    for sample in recorder.run().samples:
        assert any(sample.items() >= one.items() for one in before)


def test_another_digit_of_a_time_is_damage(home: Home) -> None:
    recorder = Recorder.begin(home, description())
    recorder.add("query", query="q1", elapsed_ms=1234)
    file = recorder.directory / "samples.jsonl"
    file.write_bytes(file.read_bytes().replace(b"1234", b"9234"))
    assert (recorder.run().samples, recorder.run().damaged_lines) == ((), 1)


def sample_lines() -> list[bytes]:
    """Two repetitions and the end of a run, the first of them measured in two attempts."""
    at = [{"repetition": 1, "attempt": 1}, {"repetition": 1, "attempt": 2}, {"repetition": 2, "attempt": 1}]
    samples: list[dict[str, Any]] = [{"kind": "dataset", "manifest": {"tables": ["é", "店"]}}]
    samples += [{"kind": kind, **one} for one in at for kind in ("begin", "measure", "repetition")]
    samples.append({"kind": "end", "outcome": "ok"})
    return [json.dumps(sample, ensure_ascii=False).encode() + b"\n" for sample in samples]


@given(st.data())
def test_samples_damaged_at_any_byte_lose_nothing_but_the_damaged_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = sample_lines()
    whole = b"".join(lines)
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    recorder = Recorder.begin(Home(tmp_path_factory.mktemp("home")), description())
    file = recorder.directory / "samples.jsonl"
    file.write_bytes(whole[:at] + byte + whole[at + 1 :])
    read = file.read_bytes().split(b"\n")
    untouched = [json.loads(line) for line in lines if line.rstrip(b"\n") in read]
    damaged = recorder.run()
    newest = [one for one in untouched if not any(newer(other, one) for other in damaged.samples)]
    assert all(sample in damaged.samples for sample in newest)
    assert len(damaged.samples) <= len(lines)
    assert damaged.damaged_lines <= 2
    assert outcome(Home(recorder.directory.parents[1]), description().id) == damaged.outcome


def newer(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether `one` belongs to a later attempt at the repetition of `other`."""
    same = one.get("repetition", -1) == other.get("repetition", -2)
    return same and one.get("attempt", 0) > other.get("attempt", 0)


@given(st.integers(0, len(b"".join(sample_lines()))))
def test_samples_cut_at_any_byte_lose_nothing_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    whole = b"".join(sample_lines())
    recorder = Recorder.begin(Home(tmp_path_factory.mktemp("home")), description())
    (recorder.directory / "samples.jsonl").write_bytes(whole[:kept])
    cut = recorder.run()
    assert cut.damaged_lines == 0
    complete = [json.loads(line) for line in whole[:kept].split(b"\n")[:-1]]
    assert [sample for sample in complete if sample not in cut.samples] == [
        sample for sample in complete if any(newer(other, sample) for other in complete)
    ]
    assert outcome(Home(recorder.directory.parents[1]), description().id) == cut.outcome


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


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"id": "only"}', "\x00\x00"])
def test_a_damaged_description_is_listed_as_damaged_and_the_others_as_they_are(home: Home, content: str) -> None:
    first, second = "20260101-000000-tpcds-penstock-0001", "20260102-000000-tpcds-plain-0002"
    damaged = Recorder.begin(home, description(first))
    Recorder.begin(home, description(second)).add("end", outcome="ok")
    (damaged.directory / "run.json").write_text(content)
    assert [(row["run"], row["outcome"]) for row in list_runs(home)] == [(first, "damaged"), (second, "ok")]
    assert [described.id for described in records.descriptions(home, newest_first=True)] == [second]
    with pytest.raises(StateError, match=r"run\.json is damaged"):
        find(home, first)


def test_the_list_has_outcomes_and_progress_without_reading_all_samples(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"repetitions": 3, "warmup": 1, "caches": "keep"}
    ended, interrupted = (
        Recorder.begin(home, replace(description(f"2026010{day}-000000-tpcds-penstock-0001"), plan=plan))
        for day in (1, 2)
    )
    for recorder in (ended, interrupted):
        recorder.add("measure", error='a text with "kind": "repetition" in it', repetition=0, attempt=1)
        recorder.add("repetition", repetition=0, attempt=1, status="ok", elapsed_ms=1)
        with (recorder.directory / "samples.jsonl").open("ab") as file:
            file.write(b'{"kind": "measure"}\n' * 20_000)
    ended.add("end", outcome="wrong")
    parsed: list[bytes] = []
    parse = records._parse_line
    monkeypatch.setattr(records, "_parse_line", lambda line: parsed.append(line) or parse(line))
    assert [(row["outcome"], row["repetitions"], row["repetitions_done"]) for row in list_runs(home)] == [
        ("wrong", 4, 4),
        ("interrupted", 4, 1),
    ]
    assert len(parsed) < 4_000


def test_a_resumption_recorded_after_the_end_does_not_hide_it(home: Home) -> None:
    """As releases before the end of 2026 recorded it for runs that had ended."""
    recorder = Recorder.begin(home, description())
    recorder.add("end", outcome="failed")
    recorder.add("resumed", commit="abc")
    assert outcome(home, description().id) == recorder.run().outcome == "failed"
