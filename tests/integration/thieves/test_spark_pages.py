"""Spark's pages of another tenant: no ticket, cookie or spelling of a thief opens them."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from penstock.engine.repository.applications import now
from penstock.engine.tokens import Scope, TokenStore
from penstock.errors import Unauthenticated
from penstock.service.spark_ui.access import SparkCookie, SparkUi
from tests.integration.thieves.scene import (
    LEAST_ATTEMPTS,
    OPERATIONS,
    TENANT,
    VICTIM,
    Scene,
    body_of,
    filled,
    to_the_victims,
)


def test_a_ticket_opens_the_pages_of_one_application_once(scene: Scene) -> None:
    """The access that the following tests deny to thieves."""
    ticket = scene.ticket(VICTIM, scene.application)
    cookie = scene.enter(ticket)
    status, text = scene.looks(f"/applications/{scene.application}/", **cookie)
    assert (status, f"/applications/{scene.application}/past/" in text) == (307, True)
    assert scene.enter(ticket) == {}
    assert scene.looks(f"/applications/{scene.application}/")[0] == 401


def test_a_ticket_is_good_once_whichever_replica_of_the_service_is_asked(scene: Scene) -> None:
    ticket = scene.ticket(VICTIM, scene.application)
    replicas = [SparkUi(TokenStore(scene.database), now) for _ in range(8)]

    def cookie(replica: SparkUi) -> SparkCookie | None:
        try:
            return replica.cookie(ticket)
        except Unauthenticated:
            return None

    with ThreadPoolExecutor(len(replicas)) as at_once:
        (given,) = filter(None, at_once.map(cookie, replicas))
    assert scene.enter(ticket) == {}
    # Each replica of the service knows the cookies of the others.
    assert scene.looks(given.root, Cookie=f"{given.name}={given.secret}")[0] == 307


LEADS_TO_PAGES = (
    "/applications/{id}/",
    "/applications/{id}/ui/",
    "/applications/{id}/ui/jobs/",
    "/applications/{id}/past/",
    "/applications/{id}/past/history/{id}/jobs/",
    "/applications/{id}",
    "/applications/{cut}/",
    "/applications/{own}/../{id}/",
    "/applications/{own}/ui/../../{id}/ui/",
    "/applications/{own}/ui/..%2f..%2f{id}/ui/",
    "/applications/{own}%2f..%2f{id}/ui/",
    "/applications/{own}/past/history/{id}/",
    "/applications/{own}/past/history/..%2f{id}/",
    "/applications/{own}/past/..;x/..;x/{id}/past/",
    "/applications/{own}/past/api/v1/applications",
    "/applications/{own}/past//history/{id}/",
    "//applications/{id}/ui/",
    "/Applications/{id}/ui/",
    "/applications/{upper}/ui/",
    "/lakes/sales/",
    "/lakes/sales/history/{id}/jobs/",
    "/lakes/{lake}/",
    "/lakes/..%2fapplications%2f{id}/",
)
"""Paths to another's data at the origin of Spark's pages."""


def _passes_of_thieves(scene: Scene) -> dict[str, dict[str, str]]:
    """Return the headers that a thief may send, by the kind of pass they carry."""

    def ends(ticket_or_cookie: str) -> None:
        digests = [hashlib.sha256(f"{kind} {ticket_or_cookie}".encode()).hexdigest() for kind in ("ticket", "cookie")]
        with scene.database.begin() as connection:
            ended = "UPDATE passes SET ends_at = now() - interval '1 second' WHERE digest = ANY(:digests)"
            assert connection.execute(sa.text(ended), {"digests": digests}).rowcount == 1

    def victims() -> str:
        return scene.ticket(VICTIM, scene.application)

    tokens = TokenStore(scene.database)
    own = scene.enter(scene.ticket(TENANT, scene.thiefs_application))
    assert own
    value = own["Cookie"].partition("=")[2]
    cookie = scene.enter(victims())
    name = cookie["Cookie"].partition("=")[0]
    replayed, late, aside = victims(), victims(), victims()
    scene.enter(replayed)
    ends(late)
    expired = scene.enter(victims())
    ends(expired["Cookie"].partition("=")[2])
    gone, text = tokens.create("leaves", {VICTIM: Scope.READ})
    _, link = scene.asks("POST", f"/v1/applications/{scene.application}/ui", headers=scene.with_token(text))
    revoked = scene.enter(re.search(r"ticket=([\w-]+)", link)[1])  # type: ignore[index]
    _, link = scene.asks("POST", f"/v1/applications/{scene.application}/ui", headers=scene.with_token(text))
    void = re.search(r"ticket=([\w-]+)", link)[1]  # type: ignore[index]
    tokens.revoke(gone.id)
    digest = hashlib.sha256(f"cookie {cookie['Cookie'].partition('=')[2]}".encode()).hexdigest()
    return {
        "nothing": {},
        "his own cookie": own,
        "his own cookie by the victim's name": {"Cookie": f"{name}={value}"},
        "a ticket that was used": scene.enter(replayed),
        "a ticket that is too old": scene.enter(late),
        "a ticket of a token that was revoked": scene.enter(void),
        "a ticket as a cookie": {"Cookie": f"{name}={aside}"},
        "a cookie that has expired": expired,
        "a cookie of a token that was revoked": revoked,
        "the victim's cookie, from a page of another server": {**cookie, "Sec-Fetch-Site": "same-site"},
        "the victim's cookie, cut": {"Cookie": cookie["Cookie"][:-1]},
        "what the database keeps": {"Cookie": f"{name}={digest}"},
        "his own token": scene.as_(TENANT),
        "an administrator's token": scene.as_("administrator"),
    }


def test_nobody_gets_to_sparks_pages_of_another_tenant(scene: Scene, subtests: pytest.Subtests) -> None:
    said = {
        "id": scene.application,
        "cut": scene.application[:-2],
        "upper": scene.application.upper(),
        "own": scene.thiefs_application,
        "lake": scene.lake,
    }
    passes = _passes_of_thieves(scene)
    assert len(passes) * len(LEADS_TO_PAGES) >= LEAST_ATTEMPTS
    before = scene.state()
    for what, headers in passes.items():
        for spelling in LEADS_TO_PAGES:
            path = filled(spelling, said)
            with subtests.test(f"{what}: {spelling}"):
                status, text = scene.looks(path, **headers)
                # The thief may see his own application's pages, also with a trailing slash.
                harmless = (scene.thiefs_application in text, spelling == "/applications/{id}")
                assert 400 <= status < 500 or (status == 307 and any(harmless)), text
                assert not scene.shown(text, asked=path), text
    assert scene.state() == before


def test_sparks_origin_has_no_operation_of_the_service(scene: Scene, subtests: pytest.Subtests) -> None:
    cookie = scene.enter(scene.ticket(VICTIM, scene.application))
    before = scene.state()
    others = [("GET", path, [], False) for path in ("/", "/docs", "/openapi.json", "/console/shell.js", "/metrics")]
    for method, path, _, takes_body in [*OPERATIONS, *others]:
        asked, body = to_the_victims(path, scene), body_of(path, scene) if takes_body else None
        with subtests.test(f"{method} {path}"):
            headers = {**scene.as_("administrator"), **cookie}
            status, text = scene.asks(method, asked, headers=headers, body=body, port=scene.spark_ui_port)
            assert status in (404, 405), text
    assert scene.state() == before


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
def test_nothing_is_ended_from_sparks_pages(scene: Scene, method: str) -> None:
    cookie = scene.enter(scene.ticket(VICTIM, scene.application))
    for end in ("jobs/job/kill/?id=0", "stages/stage/%6bill/?id=0", "jobs/job/kill;x/?id=0", "jobs//job/KILL/?id=0"):
        status, text = scene.looks(f"/applications/{scene.application}/ui/{end}", method=method, **cookie)
        assert status == (403 if method == "GET" else 405), text
