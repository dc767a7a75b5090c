"""Credential-scoped lakes: one name per queue and pair of keys, and the names of earlier releases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.secrets import Secret
from penstock.errors import NotFound
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.model import Credentials, CredentialScope, Lake
from penstock.lake.registry import Lakes

KEYS = Credentials("access", "secret")


def lake(name: str) -> Lake:
    return Lake(name, ("https://s3.example.com",), "bucket", f"file:{name}")


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    home = Home(tmp_path)
    home.create()
    return Lakes(home)


@pytest.mark.parametrize("name", ["archive", "a.b", "x" * 46, "x" * 63])
def test_the_name_is_a_lakes_and_tells_nothing_of_the_keys(name: str) -> None:
    made = registry.credential_scoped(lake(name), KEYS, "team")
    assert len(made.name) <= 63
    assert made.scope == CredentialScope(name, "team")
    assert "access" not in made.name


def test_each_queue_and_each_pair_of_keys_has_its_own() -> None:
    def named(secret: str, queue: str) -> str:
        return registry.credential_scoped(lake("a"), Credentials("k", secret), queue).name

    assert len({named("one", "q"), named("two", "q"), named("one", "r"), named("one", "q")}) == 3


def test_its_record_says_what_it_is_across_a_restart(lakes: Lakes) -> None:
    lakes.add(lake("archive"), KEYS)
    made = lakes.add(registry.credential_scoped(lake("archive"), Credentials("theirs", "secret"), "team"), KEYS)
    assert lakes.get(made.name).scope == CredentialScope("archive", "team")
    assert [shared.name for shared in lakes.shared()] == ["archive"]


def of_an_earlier_release(keys: Credentials) -> Lake:
    digest = hashlib.sha256(f"{keys.access_key}\0{keys.secret_key}\0".encode()).hexdigest()[:16]
    return lake(f"archive.{digest}")


@pytest.mark.parametrize(
    ("queues", "scope"),
    [(set(), CredentialScope("archive", None)), ({"a"}, CredentialScope("archive", "a")), ({"a", "b"}, None)],
    ids=["no queue's home", "one queue's home", "the home of two"],
)
def test_what_an_earlier_release_made_is_known_by_its_keys(
    lakes: Lakes, queues: set[str], scope: CredentialScope | None
) -> None:
    old = lakes.add(of_an_earlier_release(KEYS), KEYS)
    assert registry.adopt_unmarked(lakes, {old.name: queues}) == ([old.name] if scope else [])
    assert lakes.get(old.name) == replace(old, scope=scope)
    assert lakes.credentials_of(old) == KEYS
    assert registry.adopt_unmarked(lakes, {old.name: queues}) == []


def test_a_users_lake_that_has_such_a_name_stays_the_users(lakes: Lakes) -> None:
    own = lakes.add(lake("x.0123456789abcdef"), KEYS)
    assert registry.adopt_unmarked(lakes, {}) == []
    assert lakes.shared() == [own]


class SharedSecrets:
    """A store in memory, as the services of one database share it."""

    def __init__(self) -> None:
        self.secrets: dict[str, Secret] = {}

    def get(self, name: str) -> Secret | None:
        return self.secrets.get(name)

    def put(self, name: str, metadata: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        self.secrets[name] = Secret(metadata, content)

    def put_if_absent(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError

    def forget(self, name: str) -> None:
        self.secrets[name] = replace(self.secrets[name], content=None)

    def remove(self, *names: str) -> None:
        for name in names:
            del self.secrets[name]

    def names(self, prefix: str, *, forgotten: bool = False) -> list[str]:
        return [
            name
            for name, secret in self.secrets.items()
            if name.startswith(prefix) and (secret.content is None) == forgotten
        ]


def test_a_lake_that_both_replicas_forgot_is_found_by_both_after_one_adds_it_again(tmp_path: Path) -> None:
    store = SharedSecrets()
    one, other = (Lakes(Home(tmp_path / name), store) for name in ("one", "other"))
    made = one.add(registry.credential_scoped(lake("archive"), KEYS, "team"), KEYS)
    assert other.get(made.name) == made
    for replica in (one, other):
        replica.remove(made.name)
        with pytest.raises(NotFound, match="no longer exists"):
            replica.get(made.name)
    assert other.artifact_lake(made.name) == "archive"
    one.add(made, KEYS)
    assert other.get(made.name) == made
    assert other.credentials_of(made) == KEYS
    assert other.artifact_lake(made.name) == made.name
