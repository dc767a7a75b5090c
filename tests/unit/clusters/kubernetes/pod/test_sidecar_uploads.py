"""A cluster's artifacts are in the lake completely at its end, and before it as often as their growth justifies."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from penstock import recovery
from penstock.clusters.kubernetes.pod import sidecar
from penstock.clusters.kubernetes.pod.sidecar import ArtifactUploader, has_grown_enough
from penstock.errors import LakeError


class Store:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refusals = 0
        self.refusal: Exception = LakeError("The store is out of reach")
        self.unreadable = ""

    def put(self, key: str, content: Path) -> None:
        if self.refusals:
            self.refusals -= 1
            raise self.refusal
        if content.name == self.unreadable:
            raise OSError(errno.EIO, "Input/output error", str(content))
        self.objects[key] = content.read_bytes()

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.objects.pop(key, None)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(sidecar, "_POLICY", replace(recovery.SIDECAR, first_seconds=0.0))
    monkeypatch.setattr(sidecar, "_UPLOAD_EVERY_SECONDS", 0.0)
    return Store()


@pytest.fixture
def uploader(tmp_path: Path, store: Store) -> ArtifactUploader:
    (tmp_path / "events").mkdir()
    (tmp_path / "driver.out").write_text("said")
    return ArtifactUploader("app-1", lambda: store, tmp_path)  # type: ignore[arg-type, return-value]


def test_everything_is_where_the_engine_would_have_put_it(
    tmp_path: Path, uploader: ArtifactUploader, store: Store
) -> None:
    (tmp_path / "events" / "spark-1").write_text("log")
    (tmp_path / "driver.err").touch()
    assert uploader.upload_all()
    assert store.objects == {
        "penstock/applications/app-1/driver.out": b"said",
        "penstock/applications/app-1/driver.err": b"",
        "penstock/events/app-1~spark-1": b"log",
    }
    assert uploader.complete({"driver.out": 4, "driver.err": 0, "late": 1}) == {"driver.out", "driver.err"}


def test_a_file_that_was_renamed_is_in_the_lake_once(tmp_path: Path, uploader: ArtifactUploader, store: Store) -> None:
    growing = tmp_path / "events" / "spark-1.inprogress"
    growing.write_text("lo")
    uploader.upload_grown()
    assert "penstock/events/app-1~spark-1.inprogress" in store.objects
    growing.rename(tmp_path / "events" / "spark-1")
    assert uploader.upload_all()
    assert [key for key in store.objects if "events" in key] == ["penstock/events/app-1~spark-1"]


def test_what_grew_little_waits(tmp_path: Path, uploader: ArtifactUploader, store: Store) -> None:
    out = tmp_path / "driver.out"
    uploader.upload_grown()
    out.write_text("said more"[:6])
    uploader.upload_grown()
    assert store.objects["penstock/applications/app-1/driver.out"] == b"said"
    out.write_text("said more")
    uploader.upload_grown()
    assert store.objects["penstock/applications/app-1/driver.out"] == b"said more"


def test_a_lake_that_comes_back_in_time_gets_it_all(uploader: ArtifactUploader, store: Store) -> None:
    store.refusals = 2
    uploader.upload_grown()
    assert uploader.upload_all()
    assert store.objects


def test_a_lake_that_stays_away_is_owned_up_to(uploader: ArtifactUploader, store: Store) -> None:
    store.refusals = 100
    assert not uploader.upload_all()
    assert uploader.complete({"driver.out": 4}) == set()


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "gone"), ValueError("not JSON"), RuntimeError("x")])
def test_no_failure_of_any_kind_ends_who_brings_the_logs(
    uploader: ArtifactUploader, store: Store, error: Exception
) -> None:
    store.refusals, store.refusal = 2, error
    uploader.upload_grown()
    assert uploader.upload_all()
    assert uploader.complete({"driver.out": 4}) == {"driver.out"}


def test_a_file_that_cannot_be_read_keeps_no_other_from_the_lake(
    tmp_path: Path, uploader: ArtifactUploader, store: Store
) -> None:
    (tmp_path / "executor-1.log").write_text("said")
    store.unreadable = "driver.out"
    assert not uploader.upload_all()
    assert uploader.complete({"driver.out": 4, "executor-1.log": 4}) == {"executor-1.log"}


def test_all_that_is_sent_of_a_growing_file_stays_within_three_times_its_size() -> None:
    sent = brought = 0
    for size in range(1, 100_000):
        if has_grown_enough(size, brought):
            sent, brought = sent + size, size
    assert sent + 100_000 <= 4 * 100_000  # the complete file once more at its end
