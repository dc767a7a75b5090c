"""Scopes include one another, hold per instance, and are told from text."""

from __future__ import annotations

import pytest

from penstock.errors import Forbidden, InvalidInput
from penstock.service.access import Caller, Scope, parse_grants


def caller(*grants: str) -> Caller:
    return Caller("t", "somebody", parse_grants(grants))


def test_a_scope_includes_those_before_it() -> None:
    assert caller("administer").may(Scope.READ)
    assert caller("submit").may(Scope.SUBMIT)
    assert not caller("submit").may(Scope.ADMINISTER)


def test_a_grant_on_one_instance_says_nothing_about_another() -> None:
    of_a = caller("submit@a")
    of_a.require(Scope.SUBMIT, "a")
    assert not of_a.sees("b")
    with pytest.raises(Forbidden, match="does not permit"):
        of_a.require(Scope.READ, "b")
    with pytest.raises(Forbidden):
        of_a.require(Scope.READ)


def test_a_grant_on_all_instances_holds_beside_a_narrower_one() -> None:
    mixed = caller("read", "administer@a")
    assert mixed.may(Scope.ADMINISTER, "a")
    assert mixed.may(Scope.READ, "b")
    assert not mixed.may(Scope.SUBMIT, "b")
    assert mixed.instances is None


def test_of_two_grants_on_one_instance_the_larger_counts_in_any_order() -> None:
    assert parse_grants(["read@a", "submit@a"]) == parse_grants(["submit@a", "read@a"]) == {"a": Scope.SUBMIT}


@pytest.mark.parametrize("text", ["", "root", "read@", "READ"])
def test_what_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_grants([text])
