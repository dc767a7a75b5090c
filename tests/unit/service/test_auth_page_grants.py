"""Page grants: a browser opens the one page, for an hour, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from penstock.engine.tokens import Caller, Scope
from penstock.errors import InvalidInput, Unauthenticated
from penstock.service.auth import GRANT_LIFETIME, BrowserGrant, BrowserGrants, cookie_name
from penstock.service.spark_ui.access import SparkUi
from tests.unit.service.fakes import FakeTokens

START = datetime(2026, 11, 21, tzinfo=timezone.utc)
REPORT = "/v1/lab/reports/20261121-1"


class World:
    def __init__(self) -> None:
        self.now = START
        self.tokens = FakeTokens()
        made, _ = self.tokens.create("ada", {"*": Scope.READ})
        self.ada = Caller(made.id, made.name, made.grants, made.secret_hash)
        self.grants = self.service()

    def service(self) -> BrowserGrants:
        """Return the grants of one of the services on the same store."""
        return BrowserGrants(self.tokens, lambda: self.now)

    def granted(self) -> BrowserGrant:
        return self.grants.grant(self.ada, REPORT)

    def opens(self, path: str, granted: BrowserGrant) -> bool:
        return self.grants.caller(path, {"other": "x", granted.cookie: granted.secret}) == self.ada


def test_a_grant_opens_its_page() -> None:
    world = World()
    assert world.opens(REPORT, world.granted())


@pytest.mark.parametrize("path", [REPORT + "2", REPORT[:-1], REPORT + "/x", "/v1/lab/reports", "/v1/tokens", "/"])
def test_a_grant_opens_nothing_else(path: str) -> None:
    world = World()
    granted = world.granted()
    assert not world.opens(path, granted)
    assert not world.opens(path, replace(granted, cookie=cookie_name(path)))


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
    world = World()
    with pytest.raises(InvalidInput, match="cannot be granted"):
        world.grants.grant(world.ada, path)


def test_a_wrong_secret_opens_nothing() -> None:
    world = World()
    granted = world.granted()
    assert not world.opens(REPORT, replace(granted, secret=granted.secret[:-1]))
    assert world.grants.caller(REPORT, {"session": granted.secret}) is None


def test_a_grant_ends_by_itself() -> None:
    world = World()
    granted = world.granted()
    world.now = START + GRANT_LIFETIME
    assert not world.opens(REPORT, granted)


@pytest.mark.parametrize("what", ["revoked", "rotated", "expired"])
def test_a_grant_ends_with_its_token(what: str) -> None:
    world = World()
    granted = world.granted()
    world.tokens.invalidate(world.ada.token_id, what, at=START)
    world.now = START + timedelta(minutes=1)
    assert not world.opens(REPORT, granted)


def test_a_request_that_was_open_while_its_token_was_rotated_gets_no_grant_of_the_new_secret() -> None:
    world = World()
    world.tokens.rotate(world.ada.token_id)
    granted = world.granted()
    assert world.grants.caller(REPORT, {granted.cookie: granted.secret}) is None


def test_rights_are_those_the_token_has_now() -> None:
    world = World()
    granted = world.granted()
    world.tokens.change(world.ada.token_id, grants={"science": Scope.READ})
    found = world.grants.caller(REPORT, {granted.cookie: granted.secret})
    assert found is not None
    assert not found.sees("default")


def test_each_service_on_the_store_knows_what_another_has_granted() -> None:
    world = World()
    granted = world.granted()
    assert world.service().caller(REPORT, {granted.cookie: granted.secret}) == world.ada


def test_what_is_kept_opens_nothing() -> None:
    world = World()
    granted = world.granted()
    assert granted.secret not in repr(world.tokens.passes)
    for kept in world.tokens.passes:
        assert not world.opens(REPORT, replace(granted, secret=kept))


def test_a_grant_is_no_ticket_to_sparks_pages() -> None:
    world = World()
    with pytest.raises(Unauthenticated):
        SparkUi(world.tokens, lambda: world.now).cookie(world.granted().secret)
