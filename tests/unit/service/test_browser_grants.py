"""A browser opens the one page it was granted, for a while, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from penstock.errors import InvalidInput, NotFound
from penstock.service.access import Caller, Scope
from penstock.service.browsergrants import LASTS, BrowserGrants, Grant
from penstock.service.tokens import Token

START = datetime(2026, 11, 21, tzinfo=timezone.utc)
ADA = Caller("a1", "ada", {"*": Scope.READ})
UI = "/v1/applications/20261121-1/ui/"


class World:
    def __init__(self) -> None:
        self.now = START
        self.token: Token | None = Token("a1", "ada", {"*": Scope.READ}, "hash", START)
        self.grants = BrowserGrants(self._find, lambda: self.now)

    def _find(self, token_id: str) -> Token:
        if self.token is None or token_id != self.token.id:
            raise NotFound("There is no such token")
        return self.token

    def opens(self, path: str, granted: Grant) -> bool:
        return self.grants.caller(path, {"other": "x", granted.cookie: granted.secret}) == ADA


def test_a_grant_opens_its_page_and_all_below_it() -> None:
    world = World()
    granted = world.grants.grant(ADA, UI)
    assert world.opens(UI, granted)
    assert world.opens(UI + "static/spark.css", granted)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/applications/20261121-1",
        "/v1/applications/20261121-1/ui",
        "/v1/applications/20261121-12/ui/",
        "/v1/tokens",
        "/",
    ],
)
def test_a_grant_opens_nothing_else(path: str) -> None:
    world = World()
    assert not world.opens(path, world.grants.grant(ADA, UI))


def test_a_report_is_one_page_and_not_the_beginning_of_others() -> None:
    world = World()
    granted = world.grants.grant(ADA, "/v1/lab/reports/run-1")
    assert world.opens("/v1/lab/reports/run-1", granted)
    assert not world.opens("/v1/lab/reports/run-12", granted)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1/",
        "/v1/tokens",
        "/v1/applications/",
        "/v1/applications/a/ui/../../b",
        "/v1/lab/reports/",
        UI + "x",
        "https://evil/",
    ],
)
def test_only_pages_can_be_granted(path: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be granted"):
        World().grants.grant(ADA, path)


def test_the_history_server_is_granted_with_all_applications_in_it() -> None:
    world = World()
    granted = world.grants.grant(ADA, "/v1/spark-history/embedded/")
    assert world.opens("/v1/spark-history/embedded/history/app-1/", granted)
    assert not world.opens("/v1/spark-history/other/", granted)


def test_a_wrong_secret_opens_nothing() -> None:
    world = World()
    granted = world.grants.grant(ADA, UI)
    assert not world.opens(UI, replace(granted, secret=granted.secret[:-1]))
    assert world.grants.caller(UI, {"session": granted.secret}) is None


def test_a_grant_ends_by_itself() -> None:
    world = World()
    granted = world.grants.grant(ADA, UI)
    world.now = START + LASTS
    assert not world.opens(UI, granted)


@pytest.mark.parametrize("what", ["revoked", "rotated", "expired"])
def test_a_grant_ends_with_its_token(what: str) -> None:
    world = World()
    granted = world.grants.grant(ADA, UI)
    assert world.token is not None
    world.now = START + timedelta(minutes=1)
    world.token = {
        "revoked": None,
        "rotated": replace(world.token, secret_hash="another"),
        "expired": replace(world.token, expires_at=START),
    }[what]
    assert not world.opens(UI, granted)


def test_rights_are_those_the_token_has_now() -> None:
    world = World()
    granted = world.grants.grant(ADA, UI)
    assert world.token is not None
    world.token = replace(world.token, grants={"science": Scope.READ})
    found = world.grants.caller(UI, {granted.cookie: granted.secret})
    assert found is not None
    assert not found.sees("default")
