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
REPORT = "/v1/lab/reports/20261121-1"


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


def test_a_grant_opens_its_page() -> None:
    world = World()
    assert world.opens(REPORT, world.grants.grant(ADA, REPORT))


@pytest.mark.parametrize("path", [REPORT + "2", REPORT[:-1], REPORT + "/x", "/v1/lab/reports", "/v1/tokens", "/"])
def test_a_grant_opens_nothing_else(path: str) -> None:
    world = World()
    assert not world.opens(path, world.grants.grant(ADA, REPORT))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1/",
        "/v1/tokens",
        "/v1/applications/",
        "/v1/applications/a/ui/",
        "/v1/lab/reports/",
        REPORT + "/x",
        "https://evil/",
    ],
)
def test_only_pages_can_be_granted(path: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be granted"):
        World().grants.grant(ADA, path)


def test_a_wrong_secret_opens_nothing() -> None:
    world = World()
    granted = world.grants.grant(ADA, REPORT)
    assert not world.opens(REPORT, replace(granted, secret=granted.secret[:-1]))
    assert world.grants.caller(REPORT, {"session": granted.secret}) is None


def test_a_grant_ends_by_itself() -> None:
    world = World()
    granted = world.grants.grant(ADA, REPORT)
    world.now = START + LASTS
    assert not world.opens(REPORT, granted)


@pytest.mark.parametrize("what", ["revoked", "rotated", "expired"])
def test_a_grant_ends_with_its_token(what: str) -> None:
    world = World()
    granted = world.grants.grant(ADA, REPORT)
    assert world.token is not None
    world.now = START + timedelta(minutes=1)
    world.token = {
        "revoked": None,
        "rotated": replace(world.token, secret_hash="another"),
        "expired": replace(world.token, expires_at=START),
    }[what]
    assert not world.opens(REPORT, granted)


def test_rights_are_those_the_token_has_now() -> None:
    world = World()
    granted = world.grants.grant(ADA, REPORT)
    assert world.token is not None
    world.token = replace(world.token, grants={"science": Scope.READ})
    found = world.grants.caller(REPORT, {granted.cookie: granted.secret})
    assert found is not None
    assert not found.sees("default")
