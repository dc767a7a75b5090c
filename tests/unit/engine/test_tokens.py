"""A token is valid with its secret, until it expires; the stored values cannot be used as one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from penstock.engine import tokens
from penstock.engine.tokens import Scope, Token
from penstock.errors import Unauthenticated

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
SECRET = tokens.new_secret()


def token(expires_in: timedelta | None = None) -> Token:
    expires_at = None if expires_in is None else NOW + expires_in
    return Token("0a1b", "ci", {"*": Scope.SUBMIT}, tokens.hash_secret(SECRET), NOW, expires_at)


def test_what_is_written_is_parsed() -> None:
    assert tokens.parse_token(tokens.format_token("0a1b", SECRET)) == ("0a1b", SECRET)


@pytest.mark.parametrize("text", ["", "penstock", "penstock_", "penstock__x", "other_0a_x", "penstock_0a_" + "x" * 500])
def test_what_is_no_token_of_ours_is_not_looked_up(text: str) -> None:
    assert tokens.parse_token(text) is None


def test_the_secret_opens() -> None:
    assert tokens.verify_token(token(), SECRET, at=NOW).grants == {"*": Scope.SUBMIT}


@pytest.mark.parametrize(
    "secret",
    ["", SECRET[:-1], SECRET + "x", tokens.hash_secret(SECRET)],
    ids=["empty", "shortened", "lengthened", "hashed"],
)
def test_no_other_secret_does_nor_what_is_kept_of_it(secret: str) -> None:
    with pytest.raises(Unauthenticated, match="not valid"):
        tokens.verify_token(token(), secret, at=NOW)


def test_an_unknown_token_is_refused_in_the_words_of_a_wrong_secret() -> None:
    with pytest.raises(Unauthenticated) as unknown:
        tokens.verify_token(None, "", at=NOW)
    with pytest.raises(Unauthenticated) as wrong:
        tokens.verify_token(token(), "x", at=NOW)
    assert str(unknown.value) == str(wrong.value)


def test_it_is_valid_until_it_expires_and_not_at_that_moment() -> None:
    tokens.verify_token(token(timedelta(seconds=1)), SECRET, at=NOW)
    with pytest.raises(Unauthenticated, match="has expired"):
        tokens.verify_token(token(timedelta(0)), SECRET, at=NOW)


def test_expiry_is_not_disclosed_without_the_secret() -> None:
    with pytest.raises(Unauthenticated, match="not valid"):
        tokens.verify_token(token(timedelta(0)), "x", at=NOW)


def test_its_public_form_holds_nothing_of_the_secret() -> None:
    assert tokens.hash_secret(SECRET) not in str(token().to_json())
