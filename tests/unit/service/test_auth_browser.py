"""Page grants over HTTP: the cookie opens one page and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookies import Morsel, SimpleCookie
from pathlib import Path

import pytest

from penstock.engine.tokens import Scope
from tests.unit.service.fakes import Stage

REPORT = "/v1/lab/reports/20261121-101500-tpcds-penstock-4f2a"


def cookie(header: str) -> Morsel[str]:
    (found,) = SimpleCookie(header).values()
    return found


def test_the_cookie_is_for_one_path_and_out_of_reach_of_scripts(tmp_path: Path) -> None:
    answer = Stage(tmp_path).client(Scope.READ).post("/v1/browser-access", json={"path": REPORT})
    assert (answer.status_code, answer.content) == (204, b"")
    found = cookie(answer.headers["set-cookie"])
    assert found["path"] == REPORT
    assert found["httponly"] is True
    assert found["samesite"] == "strict"
    assert 0 < int(found["max-age"]) <= 3600


def test_the_cookie_is_sent_by_tls_alone_where_there_is_tls(tmp_path: Path) -> None:
    client = Stage(tmp_path).client(Scope.READ)
    client.base_url = client.base_url.copy_with(scheme="https")
    assert cookie(client.post("/v1/browser-access", json={"path": REPORT}).headers["set-cookie"])["secure"] is True


@pytest.mark.parametrize(
    ("method", "address", "opens"),
    [
        ("GET", REPORT, True),
        ("GET", "/v1/self", False),
        ("GET", "/v1/applications", False),
        ("POST", "/v1/applications", False),
    ],
)
def test_the_cookie_opens_its_page_and_no_other(tmp_path: Path, method: str, address: str, opens: bool) -> None:
    stage = Stage(tmp_path)
    found = cookie(
        stage.client(Scope.ADMINISTER).post("/v1/browser-access", json={"path": REPORT}).headers["set-cookie"]
    )
    answer = stage.client(None).request(method, address, headers={"Cookie": f"{found.key}={found.value}"})
    # Past the guard: no such run exists.
    assert answer.status_code == (404 if opens else 401)


@pytest.mark.parametrize(
    ("site", "opens"), [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)]
)
def test_no_other_page_can_make_the_browser_use_the_cookie(tmp_path: Path, site: str, opens: bool) -> None:
    stage = Stage(tmp_path)
    granted = stage.client(Scope.READ).post("/v1/browser-access", json={"path": REPORT})
    found = cookie(granted.headers["set-cookie"])
    sent = {"Cookie": f"{found.key}={found.value}", "Sec-Fetch-Site": site}
    assert stage.client(None).get(REPORT, headers=sent).status_code == (404 if opens else 401)


def test_a_body_that_arrives_after_the_rotation_of_the_token_opens_no_page(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    client = stage.client(Scope.READ)

    def late() -> Iterator[bytes]:
        stage.tokens.rotate(stage.tokens.list()[0].id)
        yield json.dumps({"path": REPORT}).encode()

    granted = client.post("/v1/browser-access", content=late(), headers={"Content-Type": "application/json"})
    assert granted.status_code == 204
    found = cookie(granted.headers["set-cookie"])
    answer = stage.client(None).get(REPORT, headers={"Cookie": f"{found.key}={found.value}"})
    assert answer.status_code == 401


def test_nobody_is_granted_anything_without_a_token(tmp_path: Path) -> None:
    assert Stage(tmp_path).client(None).post("/v1/browser-access", json={"path": REPORT}).status_code == 401


def test_the_api_itself_cannot_be_granted(tmp_path: Path) -> None:
    answer = Stage(tmp_path).client(Scope.ADMINISTER).post("/v1/browser-access", json={"path": "/v1/"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
