"""Requests for temporary credentials to a store, and the handling of its answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from penstock.errors import InvalidInput, LakeError
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.settings import parse_lease, private_credentials_file
from penstock.lake.sts import Lease, issue, sts_from_options
from tests.support.tiny_sts import Asked, Refused, TinySts, serving

OWN = Credentials("AKOWN", "own-secret")
ROLE = "arn:aws:iam:::role/penstock"


@pytest.fixture
def sts() -> Iterator[TinySts]:
    with serving(TinySts()) as running:
        yield running


def asked_for(sts: TinySts, *, role: str | None = ROLE, seconds: int = 900) -> Lease:
    lake = Lake("sales", (sts.url,), "data", "file:sales", sts=Sts(sts.url, role, seconds))
    assert lake.sts is not None
    return issue(lake, lake.sts, OWN, "app-20261122-0001", attempts=1)


def test_a_role_is_asked_for_in_the_applications_name_and_for_the_lakes_bucket_alone(sts: TinySts) -> None:
    given = asked_for(sts)
    assert given.credentials == Credentials("AKTEMP", "s3cret/temp", "token+temp")
    assert given.seconds == pytest.approx(900, abs=3)
    (asked,) = sts.asked
    assert (asked["Action"], asked["RoleArn"], asked["DurationSeconds"]) == ("AssumeRole", ROLE, "900")
    assert asked["RoleSessionName"] == "app-20261122-0001"
    assert "arn:aws:s3:::data/*" in json.dumps(json.loads(asked["Policy"]))
    assert len(asked["Policy"]) < 2048  # the most that stores accept
    assert " " not in asked["Policy"]
    assert "AKOWN" in asked["signed by"]


def test_how_short_a_lease_may_be_is_the_stores_to_say(sts: TinySts) -> None:
    assert asked_for(sts, seconds=16).seconds == pytest.approx(16, abs=3)


def test_without_a_role_a_session_of_the_lakes_user_is_asked_for(sts: TinySts) -> None:
    asked_for(sts, role=None)
    assert sts.asked[0]["Action"] == "GetSessionToken"
    assert "Policy" not in sts.asked[0]


def test_a_store_whose_clock_is_an_hour_off_gives_no_less_time(sts: TinySts) -> None:
    sts.clock_offset_seconds = -3600
    assert asked_for(sts).expires_at == pytest.approx(time.time() + 900, abs=3)


@pytest.mark.parametrize(
    ("status", "code", "problem", "fix"),
    [
        (403, "AccessDenied", "issues no credentials for the role", "let the role trust"),
        (404, "NoSuchEntity", "issues no credentials for the role", "let the role trust"),
        (400, "ValidationError", "issues no credentials for the role", "allow that duration"),
        (501, "NotImplemented", "issues no credentials for the role", "without --role-arn"),
        (405, "MethodNotAllowed", "issues no credentials for the role", "without --role-arn"),
        (403, "InvalidClientTokenId", "are wrong", "penstock lake add sales"),
        (403, "SignatureDoesNotMatch", "are wrong", "penstock lake add sales"),
        (503, "SlowDown", "is overloaded", "try again"),
        (500, "InternalFailure", "refused a request", "penstock lake check"),
    ],
)
def test_a_refusal_says_what_to_do_about_it(sts: TinySts, status: int, code: str, problem: str, fix: str) -> None:
    def refuse(_: Asked) -> tuple[str, str, str]:
        raise Refused(status, code, "because of it")

    sts.answer = refuse
    with pytest.raises(LakeError) as caught:
        asked_for(sts)
    assert problem in caught.value.problem
    assert fix in caught.value.fix
    assert code in caught.value.why
    assert OWN.secret_key not in str(caught.value)


def test_where_one_gateway_is_away_the_next_is_asked_and_another_store_never(sts: TinySts) -> None:
    away = "http://127.0.0.1:1"
    lake = Lake("sales", (away, sts.url), "data", "file:sales", sts=Sts(away, ROLE, 900))
    assert lake.sts is not None
    assert issue(lake, lake.sts, OWN, "app-1", attempts=1).seconds == pytest.approx(900, abs=3)
    with pytest.raises(LakeError, match="cannot be reached"):
        issue(Lake("sales", (sts.url,), "data", "file:sales"), Sts(away, ROLE, 900), OWN, "app-1", attempts=1)
    assert len(sts.asked) == 1


def test_a_service_that_is_not_there_is_said_to_be_out_of_reach() -> None:
    sts = TinySts(url="http://127.0.0.1:1")
    with pytest.raises(LakeError, match="cannot be reached"):
        asked_for(sts)


def test_keys_that_would_break_a_header_are_not_taken(sts: TinySts) -> None:
    sts.answer = lambda _: ("AK", "with a space", "token")
    with pytest.raises(InvalidInput, match="secret key"):
        asked_for(sts)


def test_a_lease_survives_the_private_file_and_the_lakes_own_keys_are_none(sts: TinySts) -> None:
    given = asked_for(sts)
    found = parse_lease(private_credentials_file(given))
    assert found is not None
    assert found.credentials == given.credentials
    assert found.expires_at == pytest.approx(given.expires_at, abs=0.001)
    assert parse_lease(private_credentials_file(OWN)) is None
    assert parse_lease("garbage") is None


def test_the_service_is_the_stores_own_but_at_aws() -> None:
    def endpoint(first: str, named: str | None = None, role: str | None = ROLE) -> str | None:
        sts = sts_from_options(role, named, first_endpoint=first, region="eu-1", seconds=900)
        return sts and sts.endpoint

    assert endpoint("https://rgw:8443") == "https://rgw:8443"
    assert endpoint("https://s3.eu-1.amazonaws.com") == "https://sts.eu-1.amazonaws.com"
    assert endpoint("https://rgw:8443", "https://sts:1") == "https://sts:1"
    assert endpoint("https://rgw:8443", "https://sts:1", None) == "https://sts:1"
    assert endpoint("https://rgw:8443", role=None) is None
