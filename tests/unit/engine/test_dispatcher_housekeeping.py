"""Housekeeping of lakes and of the list of lakes: removed and retained entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.engine import uploads
from penstock.engine.dispatcher import Housekeeping
from penstock.engine.engine import Engine
from penstock.engine.repository.retention import Retention
from penstock.engine.uploads import UploadCopies
from penstock.errors import LakeError, NotFound
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake, ObjectInfo
from penstock.lake.registry import Lakes

ARCHIVE = Lake("archive", ("http://store:1",), "archive", "environment")
OTHER = Lake("other", ("http://store:2",), "other", "environment")
KEYS = Credentials("access", "secret")


class Store:
    def __init__(self, *keys: str, away: bool = False) -> None:
        self.keys = list(keys)
        self.away = away

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if self.away:
            raise LakeError("The store does not answer")
        old = datetime.now(timezone.utc) - timedelta(days=30)
        return (ObjectInfo(key, 1, old, "") for key in self.keys if key.startswith(prefix))

    def delete(self, *keys: str) -> None:
        self.keys = [key for key in self.keys if key not in keys]


class FakeEngine:
    uploads = uploads.prefix_of("ours")

    def __init__(self, home: Home) -> None:
        self.home = home
        self.pruner = self
        self.upload_copies = UploadCopies(home, self.uploads)
        self.named: set[str] = set()
        self.used: set[str] = set()
        self.ever: set[str] = set()
        self.kept: dict[str, Any] = {}
        self.stores: dict[str, Store] = {}

    def referenced_uploads(self, pattern: str) -> set[str]:
        assert pattern == uploads.upload_pattern(self.uploads)
        return self.named

    def lakes_in_use(self, since: datetime) -> set[str]:
        return self.used if since.year > 1 else self.used | self.ever

    def attributes(self) -> list[dict[str, Any]]:
        return [self.kept]

    def store(self, lake: str) -> Store:
        return self.stores[lake]


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    home = Home(tmp_path)
    home.create()
    for lake in (ARCHIVE, OTHER):
        Lakes(home).add(lake)
    return FakeEngine(home)


def housekeeping(engine: FakeEngine) -> Housekeeping:
    return Housekeeping(cast(Engine, engine), Retention())


def test_uploads_no_application_names_are_removed_from_every_lake_that_answers(engine: FakeEngine) -> None:
    used, unused = (uploads.upload_key(engine.uploads, "0" * 64, name) for name in ("used.py", "unused.py"))
    of_others = uploads.upload_key(uploads.prefix_of("theirs"), "0" * 64, "a.py")
    engine.named = {used}
    engine.stores = {"archive": Store(away=True), "other": Store(used, unused, of_others)}
    assert housekeeping(engine).sweep_uploads() == [unused]
    assert engine.stores["other"].keys == [used, of_others]


def test_a_lake_for_keys_is_forgotten_with_them_when_two_looks_found_nobody_who_uses_it(engine: FakeEngine) -> None:
    lakes = Lakes(engine.home)
    made = lakes.add(registry.credential_scoped(ARCHIVE, KEYS, "a"), KEYS)
    keeping = housekeeping(engine)
    engine.used = {made.name}
    assert [keeping.sweep_lakes() for _ in range(3)] == [[], [], []]
    engine.used, engine.kept = set(), {"home": {"lake": made.name}}
    assert [keeping.sweep_lakes() for _ in range(3)] == [[], [], []]
    engine.kept = {}
    assert [keeping.sweep_lakes() for _ in range(3)] == [[], [made.name], []]
    assert [lake.name for lake in lakes.all()] == ["archive", "other"]
    with pytest.raises(NotFound):
        lakes.credentials_of(made)


def test_a_lake_that_is_used_between_the_look_and_the_removal_is_kept(engine: FakeEngine) -> None:
    lakes = Lakes(engine.home)
    made = lakes.add(registry.credential_scoped(ARCHIVE, KEYS, "a"), KEYS)
    keeping = housekeeping(engine)
    keeping.sweep_lakes()
    looks = iter([set[str](), {made.name}, {made.name}])
    engine.lakes_in_use = lambda _: next(looks)  # type: ignore[method-assign]
    assert keeping.sweep_lakes() == []
    assert lakes.credentials_of(made) == KEYS


def test_what_its_applications_left_is_found_in_the_original_as_long_as_the_records_name_it(engine: FakeEngine) -> None:
    lakes = Lakes(engine.home)
    made = lakes.add(registry.credential_scoped(ARCHIVE, KEYS, "a"), KEYS)
    assert lakes.artifact_lake(made.name) == made.name
    keeping = housekeeping(engine)
    engine.ever = {made.name}
    assert [keeping.sweep_lakes() for _ in range(2)] == [[], [made.name]]
    assert lakes.artifact_lake(made.name) == "archive"
    with pytest.raises(NotFound, match="no longer exists"):
        lakes.get(made.name)
    engine.ever = set()
    keeping.sweep_lakes()
    assert lakes.artifact_lake(made.name) == made.name


def test_a_users_own_lake_is_not_forgotten_for_its_name(engine: FakeEngine) -> None:
    lakes = Lakes(engine.home)
    own = lakes.add(Lake("x.0123456789abcdef", ARCHIVE.endpoints, "archive", ""), KEYS)
    keeping = housekeeping(engine)
    assert [keeping.sweep_lakes() for _ in range(3)] == [[], [], []]
    assert lakes.credentials_of(own) == KEYS


def test_work_that_fails_does_not_keep_the_rest_from_being_done(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class FirstSixMinutes:
        seconds = 0.0

        def wait(self, seconds: float) -> bool:
            self.seconds += seconds
            return self.seconds > 360

    def fails(name: str) -> Callable[[], Any]:
        def work() -> Any:
            done.append(name)
            raise ValueError

        return work

    keeping = housekeeping(engine)
    for name in ("prune", "sweep_lakes", "upload_pending"):
        monkeypatch.setattr(keeping, name, fails(name))
    monkeypatch.setattr(keeping, "sweep_uploads", lambda: done.append("sweep_uploads"))
    keeping.run(cast(Any, FirstSixMinutes()))
    looks = ["upload_pending"] * 5
    assert done == [*looks, "prune", "sweep_uploads", "sweep_lakes", "upload_pending"], "logs need not wait an hour"
