"""Access to Spark's pages of one application: once by a ticket, then by a cookie, while the token is valid."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from penstock.engine.tokens import Caller, Scope, Token
from penstock.errors import InvalidInput, ServiceError, Unauthenticated
from penstock.service.spark_ui.access import (
    COOKIE_LIFETIME,
    TICKET_LIFETIME,
    SparkCookie,
    SparkOrigin,
    SparkUi,
    application_root,
    cookie_name,
    lake_root,
    validate_url,
)
from tests.unit.service.fakes import FakeTokens

START = datetime(2026, 11, 21, tzinfo=timezone.utc)
ROOT, NEIGHBOUR = application_root("app-1"), application_root("app-2")


class World:
    def __init__(self) -> None:
        self.now = START
        self.tokens = FakeTokens()
        made, _ = self.tokens.create("ada", {"*": Scope.READ})
        self.ada = Caller(made.id, made.name, made.grants, made.secret_hash)
        self.spark_ui = SparkUi(self.tokens, lambda: self.now)

    def cookie(self, root: str = ROOT) -> SparkCookie:
        return self.spark_ui.cookie(self.spark_ui.ticket(self.ada, root).secret)

    def looks(self, root: str, cookie: SparkCookie) -> Caller:
        return self.spark_ui.caller(root, {"other": "x", cookie.name: cookie.secret})

    def token(self) -> Token:
        return self.tokens.get(self.ada.token_id)


def test_a_ticket_becomes_a_cookie_for_one_applications_pages() -> None:
    world = World()
    cookie = world.cookie()
    assert cookie.root == ROOT
    assert world.looks(ROOT, cookie) == world.ada


def test_a_ticket_is_good_once() -> None:
    world = World()
    ticket = world.spark_ui.ticket(world.ada, ROOT)
    world.spark_ui.cookie(ticket.secret)
    with pytest.raises(Unauthenticated, match="no longer valid"):
        world.spark_ui.cookie(ticket.secret)


def test_a_ticket_that_is_older_than_a_minute_is_void() -> None:
    world = World()
    ticket = world.spark_ui.ticket(world.ada, ROOT)
    assert ticket.ends_at == START + TICKET_LIFETIME
    world.now += TICKET_LIFETIME
    with pytest.raises(Unauthenticated):
        world.spark_ui.cookie(ticket.secret)


def test_a_cookie_opens_nothing_but_its_application() -> None:
    world = World()
    cookie = world.cookie()
    for root in (NEIGHBOUR, application_root("app-12"), application_root("app"), lake_root("app-1"), "/"):
        for name in (cookie.name, cookie_name(root)):
            with pytest.raises(Unauthenticated):
                world.looks(root, replace(cookie, name=name))


def test_a_cookie_ends_by_itself() -> None:
    world = World()
    cookie = world.cookie()
    world.now += COOKIE_LIFETIME
    with pytest.raises(Unauthenticated):
        world.looks(ROOT, cookie)


@pytest.mark.parametrize("what", ["revoked", "rotated", "expired"])
def test_tickets_and_cookies_end_with_the_token(what: str) -> None:
    world = World()
    cookie, ticket = world.cookie(), world.spark_ui.ticket(world.ada, ROOT)
    world.tokens.invalidate(world.ada.token_id, what, at=START)
    world.now += timedelta(seconds=1)
    with pytest.raises(Unauthenticated):
        world.looks(ROOT, cookie)
    with pytest.raises(Unauthenticated):
        world.spark_ui.cookie(ticket.secret)


def test_a_request_that_was_open_while_its_token_was_rotated_gets_no_ticket_of_the_new_secret() -> None:
    world = World()
    world.tokens.rotate(world.ada.token_id)
    with pytest.raises(Unauthenticated):
        world.cookie()


def test_rights_are_those_the_token_has_now() -> None:
    world = World()
    cookie = world.cookie()
    world.tokens.change(world.ada.token_id, grants={"science": Scope.READ})
    assert not world.looks(ROOT, cookie).sees("default")


def test_a_ticket_is_no_cookie_and_a_cookie_no_ticket() -> None:
    world = World()
    ticket, cookie = world.spark_ui.ticket(world.ada, ROOT), world.cookie()
    with pytest.raises(Unauthenticated):
        world.looks(ROOT, replace(cookie, secret=ticket.secret))
    with pytest.raises(Unauthenticated):
        world.spark_ui.cookie(cookie.secret)


def test_what_is_kept_opens_nothing() -> None:
    world = World()
    ticket, cookie = world.spark_ui.ticket(world.ada, ROOT), world.cookie()
    kept = world.tokens.passes
    assert ticket.secret not in repr(kept) and cookie.secret not in repr(kept)
    for digest in list(kept):
        with pytest.raises(Unauthenticated):
            world.looks(ROOT, replace(cookie, secret=digest))
        with pytest.raises(Unauthenticated):
            world.spark_ui.cookie(digest)


def test_the_pages_are_on_another_port_of_the_host_by_which_the_console_was_reached() -> None:
    origin = SparkOrigin(8441)
    assert origin.for_console("http", "127.0.0.1:8440") == "http://127.0.0.1:8441"
    assert origin.for_console("https", "penstock.example.com") == "https://penstock.example.com:8441"
    assert origin.for_console("http", "[::1]:8440") == "http://[::1]:8441"
    assert origin.for_console("http", "[::1]") == "http://[::1]:8441"
    assert SparkOrigin(8441, "https://spark.example.com").for_console("http", "x:1") == "https://spark.example.com"


@pytest.mark.parametrize(
    ("origin", "scheme", "host"),
    [
        (SparkOrigin(8441, "https://penstock.example.com"), "https", "penstock.example.com"),
        (SparkOrigin(8441, "https://Penstock.example.com:443"), "https", "penstock.example.com"),
        (SparkOrigin(8440), "http", "127.0.0.1:8440"),
        (SparkOrigin(443), "https", "penstock.example.com"),
    ],
)
def test_pages_are_never_shown_on_the_consoles_own_origin(origin: SparkOrigin, scheme: str, host: str) -> None:
    with pytest.raises(ServiceError, match="are not available"):
        origin.for_console(scheme, host)


@pytest.mark.parametrize("text", ["https://spark.example.com", "https://spark.example.com/", "http://127.0.0.1:9000"])
def test_an_origin_is_a_scheme_a_host_and_a_port(text: str) -> None:
    assert validate_url(text) == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spark.example.com",
        "ftp://x",
        "https://",
        "https://x/path",
        "https://x?q",
        "https://u@x",
        "https://x;",
        "//x",
    ],
)
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not an origin"):
        validate_url(text)
