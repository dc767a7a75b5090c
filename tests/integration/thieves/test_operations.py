"""Two tenants and a stranger against a real service: no attempt of one reaches another's data.

Every documented operation is tried with another tenant's identifiers in place of one's own, followed by requests
spelled as no client would spell them. An attempt succeeds where the answer shows something of the victim's that the
request did not, where it is a success, or where anything of the victim's has changed afterwards.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
from typing import Any

import pytest

from penstock.service.guards import ConcurrencyLimits
from tests.integration.thieves.scene import (
    CANARY,
    LAKE_AWAY,
    LEAST_ATTEMPTS,
    OPERATIONS,
    READER,
    STRANGER,
    TENANT,
    THIEF,
    VICTIM,
    Scene,
    body_of,
    filled,
    to_the_victims,
)
from tests.support.waiting import within

OPEN = {"/health/live", "/health/ready"}
ELSEWHERE = {"/v1/changes"}
"""Operations that are not tried as a tenant.

The stream does not end (`tests/unit/service/test_streaming_feed.py` tests who receives which events).
"""


def _names_a_victim(path: str, names: list[str]) -> bool:
    named = ("/instances/{name}", "/tables/{name}")
    ids = {"application_id", "session_id", "instance_id", "token_id"}
    return not ids.isdisjoint(names) or any(part in path for part in named)


def test_there_are_more_attempts_than_promised() -> None:
    assert len(OPERATIONS) >= LEAST_ATTEMPTS
    assert len([path for _, path, names, _ in OPERATIONS if _names_a_victim(path, names)]) >= LEAST_ATTEMPTS
    assert min(len(STRANGERS), len(SPELLINGS), len(QUESTIONS)) >= LEAST_ATTEMPTS


@pytest.mark.parametrize("who", [TENANT, READER, STRANGER])
def test_no_operation_gives_away_or_changes_what_is_another_tenants(
    scene: Scene, subtests: pytest.Subtests, who: str
) -> None:
    for method, path, names, takes_body in OPERATIONS:
        if path in OPEN or (path in ELSEWHERE and who != STRANGER):
            continue
        asked, body = to_the_victims(path, scene), body_of(path, scene) if takes_body else None
        with subtests.test(f"{method} {path}"):
            before = scene.state()
            status, text = scene.asks(method, asked, headers=scene.as_(who), body=body)
            assert status < 500 or LAKE_AWAY in text, text
            assert not scene.shown(text, asked=f"{asked} {(body or b'').decode()}"), text
            assert scene.state() == before
            if who == STRANGER:
                assert status in (401, 403), text
            elif _names_a_victim(path, names) or VICTIM.encode() in (body or b""):
                assert 400 <= status < 500, text


def _zen(text: str) -> str:
    return "ZenApiKey " + base64.b64encode(text.encode()).decode()


STRANGERS: tuple[dict[str, str], ...] = tuple(
    [
        {"Authorization": value}
        for value in (
            "",
            "Bearer",
            "Bearer ",
            "Bearer null",
            "Bearer undefined",
            "Bearer admin",
            "Bearer {id}",
            "Bearer {hash}",
            "Bearer {id}.{hash}",
            "Bearer pst_{id}_{hash}",
            "Bearer penstock_{id}_{hash}",
            "Bearer {cut}",
            "Bearer {longer}",
            "Bearer {upper}",
            "Bearer {swapped}",
            "Bearer {own_secret_for_victims_id}",
            "Bearer %00",
            "Bearer ' OR '1'='1",
            "Bearer " + "A" * 8000,
            "Bearer {id}.",
            "Basic YWRtaW46YWRtaW4=",
            "Basic {basic}",
            "Digest username=admin",
            "Negotiate YII=",
            "Token {hash}",
            "ApiKey {hash}",
            _zen("admin:"),
            _zen("admin:admin"),
            _zen(":"),
            "ZenApiKey {hash}",
            "ZenApiKey !",
            "AWS4-HMAC-SHA256 Credential=x",
        )
    ]
    + [
        {name: value}
        for name, value in (
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Forwarded-User", "admin"),
            ("X-Remote-User", "admin"),
            ("X-Real-IP", "127.0.0.1"),
            ("Forwarded", "for=127.0.0.1"),
            ("X-Original-URL", "/health/live"),
            ("X-Rewrite-URL", "/health/live"),
            ("X-HTTP-Method-Override", "OPTIONS"),
            ("X-Api-Key", "{hash}"),
            ("Cookie", "token={hash}; session={hash}; penstock={hash}"),
            ("Cookie", "penstock-page={hash}"),
            ("Origin", "http://127.0.0.1"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Host", "localhost"),
        )
    ]
)
"""Headers of a stranger who knows the public or stored parts of a token, but not its secret."""


@pytest.mark.parametrize("number", range(len(STRANGERS)))
def test_nothing_a_stranger_says_of_himself_is_believed(scene: Scene, number: int) -> None:
    token_id, secret_hash = list(scene.hashes.items())[-1]
    whole, own = scene.tokens["administrator"], scene.tokens[TENANT]
    victims_id = whole[: whole.index(token_id) + len(token_id)]
    own_secret = own.replace(own[: len(victims_id)], "")
    said = {
        "id": token_id,
        "hash": secret_hash,
        "cut": whole[:-1],
        "longer": whole + "A",
        "upper": whole.swapcase(),
        "swapped": whole[:-2] + whole[-1] + whole[-2] if whole[-1] != whole[-2] else whole[:-1],
        "own_secret_for_victims_id": victims_id + own_secret,
        "basic": base64.b64encode(f"{token_id}:{secret_hash}".encode()).decode(),
    }
    headers = {name: filled(value, said) for name, value in STRANGERS[number].items()}
    before = scene.state()
    for method, path in (
        ("GET", f"/v1/applications/{scene.application}"),
        ("GET", "/v1/tokens"),
        ("POST", f"/v1/applications/{scene.application}/rerun"),
    ):
        status, text = scene.asks(method, path, headers=headers)
        assert status in (400, 401, 403, 431), text
        assert not scene.shown(text, asked=f"{path} {headers}"), text
    assert scene.state() == before


SPELLINGS = (
    "/v1/applications/{id}",
    "/v1/applications/{id}/",
    "/v1/applications/{id}?instance=thieves",
    "/v1/applications/{id}%00",
    "/v1/applications/{id}%20",
    "/v1/applications/{id}.json",
    "/v1/applications/{id};instance=thieves",
    "/v1/applications/{upper}",
    "/v1/applications/{cut}",
    "/v1/applications/last",
    "/v1/applications/%25",
    "/v1/applications/_",
    "/v1//applications/{id}",
    "//v1/applications/{id}",
    "/v1/./applications/{id}",
    "/v1/../v1/applications/{id}",
    "/v1/%2e%2e/v1/applications/{id}",
    "/V1/applications/{id}",
    "/health/../v1/applications/{id}",
    "/health/live/..%2f..%2fv1%2fapplications%2f{id}",
    "/v1/applications/x/../{id}",
    "/v1/applications%2f{id}",
    "/v1/applications/{id}/logs",
    "/v1/applications/{id}/logs/driver.log",
    "/v1/applications/{id}/logs/driver.log?attempt=1",
    "/v1/applications/{id}/logs/driver.log?follow=true",
    "/v1/applications/{id}/logs/driver.log?tail=10",
    "/v1/applications/{id}/logs/.%2fdriver.log",
    "/v1/applications/{id}/logs/attempts/1/driver.log",
    "/v1/applications/{id}/logs/..%2f..%2f..%2flake%2fcredentials",
    "/v1/applications/{id}/logs/%2fetc%2fpasswd",
    "/v1/applications/{id}/results",
    "/v1/applications/{id}/statements",
    "/v1/applications/{id}/ui/environment/",
    "/v1/applications/{id}/ui/..%2f..%2f..%2ftokens",
    "/v1/applications/{id}/wait?timeout=0",
    "/v1/sessions/{id}/address",
    "/v4/analytics_engines/thieves/spark_applications/{id}",
    "/v3/analytics_engines/thieves/spark_applications/{id}/state",
    "/ae/spark/v2/thieves/jobs/{id}",
    "/ae/spark/v2/thieves/v2/jobs/{id}",
    "/v4/analytics_engines/thieves%2f..%2fvictims/spark_applications",
    "/v4/analytics_engines/thieves/../victims/spark_applications",
    "/v1/instances/victims",
    "/v1/instances/victims/queue",
    "/v1/instances/victims/webhook-key",
    "/v1/instances/%76ictims/webhook-key",
    "/v1/instances/victims%00/webhook-key",
    "/v1/instances/thieves%2f..%2fvictims/webhook-key",
    "/v1/tables/victims.gold",
    "/v1/tables/victims.GOLD/preview",
    "/v1/tables/*.gold",
    "/iceberg/v1/thieves/namespaces/victims",
    "/iceberg/v1/thieves/namespaces?parent=victims",
    "/iceberg/v1/thieves/namespaces/loot/%2e%2e/victims",
    "/iceberg/v1/thieves/namespaces/loot/%2e%2E/victims/properties",
    "/iceberg/v1/thieves/namespaces/loot/%2e%2e/victims/tables/gold?purgeRequested=true",
    "/iceberg/v1/thieves/namespaces/loot/tables/%2e%2e/.%2e/victims/tables/gold",
    "/iceberg/v1/thieves/namespaces/loot/../victims/tables/gold",
    "/iceberg/v1/thieves/namespaces/%2e/victims",
    "/v1/spark-history/{lake}/",
    "/v1/spark-history/sales/history/{id}/jobs/",
    "/v1/spark-history/..%2f..%2ftokens/x",
)
"""Paths to another's data: by its own address, through one's own queue, and around the checks."""


@pytest.mark.parametrize("who", [TENANT, READER])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_an_address_leads_to_what_is_another_tenants(scene: Scene, spelling: str, who: str) -> None:
    said = {
        "id": scene.application,
        "upper": scene.application.upper(),
        "cut": scene.application[:-2],
        "lake": scene.lake,
    }
    path = filled(spelling, said)
    before = scene.state()
    for method in ("GET", "HEAD", "POST", "DELETE"):
        status, text = scene.asks(method, path, headers=scene.as_(who), body=b"{}" if method == "POST" else None)
        assert 300 <= status < 500, (method, text)
        assert not scene.shown(text, asked=path), text
    assert scene.state() == before


QUESTIONS = (
    "/v1/applications",
    "/v1/applications?instance=victims",
    "/v1/applications?instance=thieves&instance=victims",
    "/v1/applications?instance=%76ictims",
    "/v1/applications?instance=*",
    "/v1/applications?instance=%25",
    "/v1/applications?instance=victims%00",
    "/v1/applications?search=canary",
    "/v1/applications?search=%25",
    "/v1/applications?search=_",
    "/v1/applications?search=load",
    "/v1/applications?name=load-1",
    "/v1/applications?tag={canary}",
    "/v1/applications?state=stopped",
    "/v1/applications?sort=name",
    "/v1/applications?sort=engine",
    "/v1/applications?sort=name;drop%20table%20tokens",
    "/v1/applications?sort=-(select%201)",
    "/v1/applications?limit=1000",
    "/v1/applications?limit=-1",
    "/v1/applications?page={page}",
    "/v1/applications?page={page}&instance=victims",
    "/v1/applications?submitted_after=1970-01-01T00:00:00Z",
    "/v1/applications?ended_before=2999-01-01T00:00:00Z",
    "/v1/sessions",
    "/v1/sessions?ended=true",
    "/v1/sessions?ended=true&limit=1",
    "/v1/instances",
    "/v1/queue",
    "/v1/lakes",
    "/v1/cache",
    "/v1/tables",
    "/v1/tables?pattern=victims.*",
    "/v1/tables?pattern=*old",
    "/v1/history",
    "/v1/history?lake={lake}",
    "/v1/audit",
    "/v1/audit?limit=1000",
    "/v1/audit?page=1",
    "/v1/tokens",
    "/v1/self",
    "/metrics",
    "/v1/files/{digest}/x.py?lake={lake}",
    "/v1/files/{digest}/..%2f..%2fcredentials?lake=sales",
    "/v4/analytics_engines/thieves/spark_applications",
    "/v4/analytics_engines/thieves/spark_applications?state=stopped",
    "/v4/analytics_engines/thieves/spark_applications?limit=100&start=x",
    "/ae/spark/v2/thieves/jobs",
)
"""Queries that a tenant may send, of which some are refused: none returns another's data."""


@pytest.mark.parametrize("who", [TENANT, READER])
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_is_answered_with_what_is_another_tenants(scene: Scene, question: str, who: str) -> None:
    of_victim = scene.asks("GET", "/v1/applications?limit=1", headers=scene.as_(VICTIM))[1]
    page = json.loads(of_victim[of_victim.index("{") :])["next"] or base64.urlsafe_b64encode(b"x").decode()
    said = {"canary": CANARY, "page": page, "lake": scene.lake, "digest": "0" * 64}
    path = filled(question, said)
    status, text = scene.asks("GET", path, headers=scene.as_(who))
    assert status < 500 or LAKE_AWAY in text, text
    assert not scene.shown(text, asked=path), text


def test_what_thieves_look_for_is_there_for_the_victim(scene: Scene) -> None:
    """Without this the attempts above would prove nothing."""
    for path in (
        "/v1/applications",
        f"/v1/applications/{scene.application}",
        f"/v1/applications/{scene.application}/logs/driver.log",
        f"/v4/analytics_engines/{VICTIM}/spark_applications/{scene.application}",
        "/v1/instances",
        "/v1/cache",
        "/v1/tables",
        "/v1/tables/victims.gold",
    ):
        status, text = scene.asks("GET", path, headers=scene.as_(VICTIM))
        assert status == 200, text
        assert scene.shown(text, asked=path), path


BORROWED = (
    {"lake": "{lake}"},
    {"instance": VICTIM},
    {"instance": VICTIM, "lake": "{lake}"},
    {"instance": f"{VICTIM} "},
    {"instance": "default"},
    {"instance": THIEF, "idempotency_key": "victims-key"},
    {"instance": THIEF, "engine": "other"},
    {"instance": THIEF, "dispatched": False},
    {"lake": "{lake}", "settings": {"spark.app.note": "x"}},
)


@pytest.mark.parametrize("number", range(len(BORROWED)))
@pytest.mark.parametrize("path", ["/v1/applications", "/v1/sessions"])
def test_nobody_submits_in_anothers_name_or_with_anothers_keys(scene: Scene, path: str, number: int) -> None:
    asked: dict[str, Any] = {"instance": THIEF, **BORROWED[number]}
    if asked.get("lake"):
        asked["lake"] = scene.lake
    if path == "/v1/applications":
        asked["application"] = "s3a://sales/x.py"
    before = scene.state()
    status, text = scene.asks("POST", path, headers=scene.as_(TENANT), body=json.dumps(asked).encode())
    assert 400 <= status < 500, text
    assert not scene.shown(text, asked=json.dumps(asked)), text
    assert scene.state() == before


def test_a_stranger_takes_no_connection_that_others_need(scene: Scene) -> None:
    """A stranger keeps the service waiting for bodies, with invented tokens; a known token is still answered."""
    status, _ = scene.asks("GET", "/v1/self", headers=scene.as_(TENANT))
    assert status == 200
    with contextlib.ExitStack() as held:
        for number in range(ConcurrencyLimits().per_address):
            waits = held.enter_context(socket.create_connection((scene.address, scene.port), timeout=20))
            head = f"POST /v1/applications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer penstock_{number}_x\r\n"
            waits.sendall(f"{head}Content-Length: 10\r\nContent-Type: application/json\r\n\r\n".encode())
        within(lambda: scene.asks("GET", "/health/live")[0] == 429)
        status, text = scene.asks("GET", "/health/live", headers={"Authorization": "Bearer penstock_65_x"})
        assert (status, "from your address" in text, "retry-after: " in text.lower()) == (429, True, True)
        assert scene.asks("GET", "/v1/self", headers=scene.as_(TENANT))[0] == 200
    within(lambda: scene.asks("GET", "/health/live")[0] == 200)
