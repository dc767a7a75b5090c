"""Scopes include one another and are granted per instance; tokens are found in all forms that clients send."""

from __future__ import annotations

import pytest

from penstock.engine.tokens import EVERY_INSTANCE, Caller, Scope, grants
from penstock.errors import Forbidden
from penstock.service.auth import presented_token


def caller(scope: str, *instances: str) -> Caller:
    return Caller("t", "ada", grants(Scope(scope), instances or None))


def test_a_scope_includes_those_before_it() -> None:
    assert caller("administer").may(Scope.READ)
    assert caller("submit").may(Scope.SUBMIT)
    assert not caller("submit").may(Scope.ADMINISTER)


def test_a_grant_on_one_instance_says_nothing_about_another() -> None:
    of_a = caller("submit", "a")
    of_a.require(Scope.SUBMIT, "a")
    assert not of_a.sees("b")
    with pytest.raises(Forbidden, match="does not permit"):
        of_a.require(Scope.READ, "b")
    with pytest.raises(Forbidden):
        of_a.require(Scope.READ)


def test_a_grant_on_all_instances_holds_beside_a_narrower_one() -> None:
    mixed = Caller("t", "ada", {EVERY_INSTANCE: Scope.READ, "a": Scope.ADMINISTER})
    assert mixed.may(Scope.ADMINISTER, "a")
    assert mixed.may(Scope.READ, "b")
    assert not mixed.may(Scope.SUBMIT, "b")
    assert mixed.instances is None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("ZenApiKey dXNlcjpwZW5zdG9ja18xX3g6eQ==", "penstock_1_x:y"),
        ("", None),
        ("Bearer ", None),
        ("Basic dXNlcjpwYXNz", None),
        ("ZenApiKey dXNlcg==", None),
        ("ZenApiKey not base64", None),
        ("ZenApiKey /////w==", None),
    ],
)
def test_a_token_is_read_as_existing_clients_send_it(header: str, token: str | None) -> None:
    assert presented_token(header) == token
