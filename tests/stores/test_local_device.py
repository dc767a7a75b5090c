"""fio on a directory of this machine: each pattern is measured and no file is left."""

from __future__ import annotations

from pathlib import Path

from penstock.lab.records import Description, Recorder
from penstock.lab.session import Session
from penstock.lab.workloads.blocks import PATTERNS, Blocks
from tests.unit.lab.lab_fakes import Silent


def test_a_real_device_is_measured_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, Description("run", "blocks", "arm", "", ""))
    session = Session(None, recorder, None, Silent(), None, "default", {}, 1)  # type: ignore[arg-type]
    place = tmp_path / "a place: here"
    place.mkdir()
    (tmp_path / "run.json").write_text('{"id":"run","workload":"blocks","arm":"arm","created_at":"","command":""}')
    Blocks(directory=str(place), size_bytes=4 << 20, seconds=1).repetition(session)
    run = recorder.run()
    assert [sample["name"] for sample in run.of_kind("measure")] == [pattern.name for pattern in PATTERNS]
    assert [sample["right"] for sample in run.of_kind("check")] == [True]
    assert not list(place.iterdir())
