"""Keys in a request: the lake's own, others that open it, and wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, LakeError, NotFound
from penstock.home import Home
from penstock.lake.model import Credentials, CredentialScope, Lake, Sts
from penstock.lake.registry import Lakes
from penstock.service.ibm import stores

OWN = Credentials("OWN", "own-secret")
GIVEN = Credentials("GIVEN", "given-secret")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create()
    return home


@pytest.fixture
def lake(home: Home) -> Lake:
    return Lakes(home).add(Lake("sales", ("https://s3.example.com",), "sales", "file:sales"), OWN)


def opened_by(*accepted: Credentials) -> object:
    def check(lake: Lake, credentials: Credentials) -> None:
        if credentials not in accepted:
            raise LakeError("The lake refuses the credentials", why="the signature does not match")

    return check


def test_the_lakes_own_keys_and_none_mean_the_lake(home: Home, lake: Lake) -> None:
    assert stores.resolve_credentials(home, lake, None, queue="team") == lake
    assert stores.resolve_credentials(home, lake, OWN, queue="team") == lake


def test_other_keys_that_open_it_are_kept_once_in_the_private_file_only(
    home: Home, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "require_reachable", opened_by(OWN, GIVEN))
    found = [stores.resolve_credentials(home, lake, GIVEN, queue="team") for _ in range(2)]
    assert found[0] == found[1]
    assert (found[0].endpoints, found[0].bucket) == (lake.endpoints, lake.bucket)
    assert Lakes(home).credentials_of(found[0]) == GIVEN
    assert Lakes(home).credentials_of(lake) == OWN
    holding = [path for path in home.root.rglob("*") if path.is_file() and GIVEN.secret_key in path.read_text("utf-8")]
    assert [(path.name, path.stat().st_mode & 0o777) for path in holding] == [("credentials", 0o600)]
    assert GIVEN.secret_key not in found[0].name


def test_the_keys_of_one_queue_open_nothing_for_another(
    home: Home, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "require_reachable", opened_by(OWN, GIVEN))
    mine, theirs = (stores.resolve_credentials(home, lake, GIVEN, queue=queue) for queue in ("mine", "theirs"))
    assert mine.name != theirs.name
    assert [found.scope and found.scope.queue for found in (mine, theirs)] == ["mine", "theirs"]
    lakes = Lakes(home)
    lakes.require_usable(mine.name, lambda queue: queue == "mine")
    with pytest.raises(NotFound) as refused:
        lakes.require_usable(theirs.name, lambda queue: queue == "mine")
    with pytest.raises(NotFound) as unknown:
        lakes.get("nobodys")
    assert (refused.value.why, unknown.value.why) == ("known lakes: sales", "known lakes: sales")


def test_new_keys_of_a_home_that_was_made_from_keys_open_the_original_place(
    home: Home, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Credentials("NEWER", "newer-secret")
    monkeypatch.setattr(stores, "require_reachable", opened_by(OWN, GIVEN, newer))
    first = stores.resolve_credentials(home, lake, GIVEN, queue="team")
    second = stores.resolve_credentials(home, first, newer, queue="team")
    assert second.scope == first.scope == CredentialScope("sales", "team")
    assert stores.resolve_credentials(home, first, GIVEN, queue="team") == first


def test_who_brings_keys_is_given_no_others(home: Home, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "require_reachable", opened_by(OWN, GIVEN))
    leasing = Lakes(home).add(replace(lake, sts=Sts(lake.endpoints[0], "arn:aws:iam:::role/penstock")), OWN)
    assert stores.resolve_credentials(home, leasing, OWN, queue="team").sts is not None
    assert stores.resolve_credentials(home, leasing, GIVEN, queue="team").sts is None


def test_keys_that_do_not_open_it_are_refused_and_not_kept(
    home: Home, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "require_reachable", opened_by(OWN))
    with pytest.raises(InvalidInput, match="do not open"):
        stores.resolve_credentials(home, lake, GIVEN, queue="team")
    assert Lakes(home).all() == [lake]


def test_a_store_that_is_away_is_not_the_keys_fault(home: Home, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "require_reachable", opened_by())
    with pytest.raises(LakeError):
        stores.resolve_credentials(home, lake, GIVEN, queue="team")


def test_the_embedded_lake_has_one_pair(home: Home) -> None:
    embedded = Lakes(home).add(Lake("embedded", ("http://127.0.0.1:8333",), "penstock", "", kind="embedded"), OWN)
    assert stores.resolve_credentials(home, embedded, OWN, queue="team") == embedded
    with pytest.raises(InvalidInput, match="not those of the lake"):
        stores.resolve_credentials(home, embedded, GIVEN, queue="team")


def test_before_its_first_start_no_keys_are_the_embedded_lakes(home: Home) -> None:
    unmade = Lake("embedded", (), "penstock", "file:embedded", kind="embedded")
    with pytest.raises(InvalidInput, match="not those of the lake"):
        stores.resolve_credentials(home, unmade, GIVEN, queue="team")
