"""The sidecar uploads the logs whatever failed before, and no driver blocks on its output."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.pod import driver
from penstock.clusters.kubernetes.pod import sidecar as module
from penstock.clusters.kubernetes.pod.driver import ChildProcess
from penstock.clusters.kubernetes.pod.sidecar import Sidecar
from penstock.errors import StateError

FULL = OSError(errno.ENOSPC, "No space left on device")


class Uploader:
    def __init__(self) -> None:
        self.brought = 0

    def upload_grown(self) -> None:
        raise FULL

    def upload_all(self) -> bool:
        self.brought += 1
        return True


@pytest.mark.parametrize("error", [FULL, StateError("ended.json is damaged"), RuntimeError("x")])
def test_nothing_ends_the_sidecar_before_the_logs_are_in_the_lake(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    for name in ("_EVERY_SECONDS", "_LAST_LINES_SECONDS", "_LINGER_SECONDS"):
        monkeypatch.setattr(module, name, 0.0)
    looks: list[Exception | bool] = [error, False, True]

    def look(_: Sidecar) -> bool:
        found = looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Sidecar, "_driver_is_gone", look)
    monkeypatch.setattr(Sidecar, "_write_termination_message", fails)
    sidecar = Sidecar({"application_id": "app-1", "lake": None})
    uploader = Uploader()
    monkeypatch.setattr(sidecar, "_uploader", uploader)
    sidecar.run()
    assert uploader.brought == 1
    assert not looks


def test_a_child_is_read_on_where_what_it_says_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(driver, "_POLL_SECONDS", 0.01)
    heard: list[bytes] = []

    def full(_: bytes) -> None:
        raise FULL

    code = "import sys; sys.stdout.write('x' * 1_000_000)"  # more than a pipe holds
    child = ChildProcess(
        [sys.executable, "-c", code],
        environment=os.environ,
        directory=tmp_path,
        out=(full, heard.append),
        err=(heard.append,),
    )
    assert child.wait()["exit_code"] == 0
    assert len(b"".join(heard)) == 1_000_000


def test_a_status_holds_no_more_than_a_report_whatever_a_program_wrote_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, cluster, ends = tmp_path, tmp_path / "cluster", tmp_path / "ends"
    for directory in (cluster, ends, work / "artefacts"):
        directory.mkdir()
    monkeypatch.setattr(layout, "WORK", work)
    monkeypatch.setattr(layout, "CLUSTER", cluster)
    monkeypatch.setattr(layout, "ARTIFACTS", work / "artefacts")
    monkeypatch.setattr(layout, "ENDED", work / "ended.json")
    sidecar = Sidecar({"application_id": "app-1", "lake": None})
    (cluster / "progress.json").write_text('{"application_id": "spark-1"}')
    (ends / "executor-1.json").write_text('{"exit_code": 0, "cpu_seconds": 1.5, "more": "text"}')
    status = sidecar.status()
    assert status["progress"] == {"application_id": "spark-1"}
    expected = {"started_ms": None, "ended_ms": None, "exit_code": 0, "peak_rss_bytes": None, "cpu_seconds": 1.5}
    assert status["processes"] == {"executor-1": expected}
    for path in (cluster / "progress.json", work / "ended.json", ends / "executor-1.json", cluster / "endpoint"):
        with path.open("wb") as file:
            file.truncate(1 << 40)
    status = sidecar.status()
    assert (status["progress"], status["ended"]) == (None, None)
    assert status["processes"] == {"executor-1": dict.fromkeys(expected)}
    assert sidecar.pages() == {"port": None, "key": None}
    (cluster / "progress.json").write_text("no JSON")
    (work / "ended.json").unlink()
    (work / "ended.json").symlink_to(ends)
    assert (sidecar.status()["progress"], sidecar.status()["ended"]) == (None, None)
