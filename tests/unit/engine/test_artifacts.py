"""Places of artifacts in the lake, and their retrieval by name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine import artifacts
from penstock.engine.artifacts import Archive, store_artifacts
from penstock.errors import NotFound
from penstock.home import Home
from penstock.lake.model import EVENT_LOGS, Lake, ObjectInfo, ObjectStore, artifact_key, artifact_name, attempt_prefix

ID = "app-20261121-rsprnsjxn"
_part = st.text("abcz019._-", min_size=1, max_size=12)


def test_event_logs_lie_side_by_side_and_each_application_knows_its_own() -> None:
    assert artifact_key(ID, "events/penstock-17.zstd") == f"{EVENT_LOGS}{ID}~penstock-17.zstd"
    assert artifact_key(ID, "attempts/2/events/penstock-17.zstd") == f"{EVENT_LOGS}{ID}~2~penstock-17.zstd"


@pytest.mark.parametrize(
    "name", ["driver.log", "attempts/1/driver.err", "events/eventlog_v2_a/events_1_a", "summary.json"]
)
def test_everything_else_lies_with_its_application(name: str) -> None:
    assert artifact_key(ID, name) == f"penstock/applications/{ID}/{name}"


@given(part=_part, attempt=st.none() | st.integers(1, 99), events=st.booleans())
def test_a_name_is_found_again_in_what_the_lake_lists(part: str, attempt: int | None, events: bool) -> None:
    name = ("" if attempt is None else f"attempts/{attempt}/") + ("events/" if events else "") + part
    assert artifact_name(ID, artifact_key(ID, name)) == name


class Kept:
    """A store in memory with the operations that archives use."""

    def __init__(self, content: Mapping[str, bytes]) -> None:
        self.content = content

    def get(self, place: str, *, start: int = 0, length: int | None = None) -> bytes:
        if place not in self.content:
            raise NotFound(f"There is no object {place}")
        assert length is not None, "a whole event log in memory"
        return self.content[place][start : None if length is None else start + length]

    def download(self, place: str, target: Path) -> None:
        target.write_bytes(self.content[place])

    def put(self, place: str, content: bytes | Path) -> None:
        self.content = {**self.content, place: content.read_bytes() if isinstance(content, Path) else content}

    def delete(self, place: str) -> None:
        self.content = {name: what for name, what in self.content.items() if name != place}

    def list(self, root: str) -> Iterator[ObjectInfo]:
        at = datetime.now(timezone.utc)
        return (ObjectInfo(place, len(what), at, "") for place, what in self.content.items() if place.startswith(root))


def archive(store: Kept, tmp_path: Path) -> Archive:
    return Archive(Home(tmp_path), ID, {}, lambda: cast(ObjectStore, store))


def test_what_an_older_release_kept_with_its_application_is_listed_and_loaded(tmp_path: Path) -> None:
    older = Kept({f"penstock/applications/{ID}/events/penstock-17.zstd": b"0123"})
    found = archive(older, tmp_path)
    assert found.sizes() == {"events/penstock-17.zstd": 4}
    assert found.load("events/penstock-17.zstd", start=1, length=2) == b"12"
    with pytest.raises(NotFound):
        found.load("events/another")


def test_an_event_log_that_is_larger_than_memory_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "PIECE_BYTES", 4)
    for here in (True, False):
        store = Kept({} if here else {artifact_key(ID, "events/a"): b"0123456789"})
        found = archive(store, tmp_path)
        if here:
            place = tmp_path / "artefacts" / ID / "events" / "a"
            place.parent.mkdir(parents=True)
            place.write_bytes(b"0123456789")
            found = replace(found, summary={artifacts.PLACE: tmp_path.as_uri()})
        assert list(found.pieces("events/a", start=1)) == [b"1234", b"5678", b"9"]
        assert list(found.pieces("events/a", start=10)) == []
        with pytest.raises(NotFound):
            list(found.pieces("events/b"))
        shutil.rmtree(tmp_path / "artefacts", ignore_errors=True)


def test_what_there_is_has_its_length_wherever_it_lies(tmp_path: Path) -> None:
    store = Kept({f"penstock/applications/{ID}/driver.log": b"abc", f"{EVENT_LOGS}{ID}~2~x": b"1"})
    assert archive(store, tmp_path).sizes() == {"attempts/2/events/x": 1, "driver.log": 3}


def test_no_name_leads_to_another_application_s_event_log() -> None:
    other = artifact_key("app-20261121-other", "events/penstock-17.zstd")
    for name in (other, f"events/../{other}", "events/app-20261121-other~penstock-17.zstd"):
        assert artifact_key(ID, name) != other


def test_what_a_cluster_kept_itself_is_set_aside_for_the_next_attempt(tmp_path: Path) -> None:
    before = {
        artifact_key(ID, name): name.encode() for name in ("driver.log", "events/spark-1", "attempts/1/driver.log")
    }
    store = Kept(before)
    (tmp_path / "summary.json").write_text("{}")
    lake = Lake("l", ("http://here",), "bucket", "environment")
    opened = (lake, cast(ObjectStore, store))
    store_artifacts(lambda: opened, Home(tmp_path / "home"), ID, tmp_path, within=attempt_prefix(2))
    assert {artifact_name(ID, place) for place in store.content} == {
        "attempts/1/driver.log",
        "attempts/2/driver.log",
        "attempts/2/events/spark-1",
        "attempts/2/summary.json",
    }
